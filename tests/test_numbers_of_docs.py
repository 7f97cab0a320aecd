"""Numbers of the README and of `docs/` that follow from the code, its defaults or the reference run."""

import json
import re

import numpy as np
import pytest

from bench.cli import main
from bench.evaluation import fit, statistics
from bench.evaluation.conventions import CONVENTIONS
from bench.evaluation.metrics import MEAN_DISTANCE_POINTS
from bench.execution.timing import BATCH_SIZE
from bench.isolation.guard import ROOT
from bench.report import ranking
from datasets import conditions, poses, problems, visibility
from methods.icp import NEAR_START

RUN = json.loads((ROOT / "results" / "reference" / "run.json").read_text(encoding="utf-8"))["config"]
NOISY = conditions.Noisy()


def value(text):
    """A number as a page writes it, such as `2 304`, perhaps at the end of a sentence."""
    return float("".join(text.split()).rstrip("."))


STATED = [
    ("README.md", r"independent noise, σ = ([\d.]+)", NOISY.sigma),
    ("README.md", r"success\s+below an RMSE of ([\d.]+)", CONVENTIONS["deepgmr"].limits[0][1]),
    ("README.md", r"ModelNet40 test shapes, (\d+) points", RUN["points"][0]),
    ("README.md", r"(\d+) problems per condition, rotations", RUN["problems"]),
    ("docs/protocol.md", r"Gaussian noise, σ = ([\d.]+)", NOISY.sigma),
    ("docs/protocol.md", r"clipped at ±([\d.]+)", NOISY.clip),
    ("docs/protocol.md", r"length U\[0, ([\d.]+)\], and", poses.MAX_TRANSLATION),
    ("docs/protocol.md", r"divided by their length, times U\[0, ([\d.]+)\]", poses.MAX_TRANSLATION),
    ("docs/protocol.md", r"2 samples of ([\d ]+) points, one per cloud", conditions.DENSE),
    ("docs/protocol.md", r"within 0 to (\d+) the point", visibility.GRID - 1),
    ("docs/protocol.md", r"`choice\(n, (\d+), replace", problems.EVALUATION_POINTS),
    ("docs/metrics.md", r"\*p\* are (\d+) points of the source", problems.EVALUATION_POINTS),
    ("docs/metrics.md", r"mean ‖T p − T\\\* p‖, first (\d+) points", MEAN_DISTANCE_POINTS),
    ("docs/metrics.md", r"by default rmse < ([\d.]+)", CONVENTIONS["deepgmr"].limits[0][1]),
    ("docs/metrics.md", r"within RMSE ([\d.]+) \(or", fit.FAR),
    ("docs/metrics.md", r"at most (\d+)\s+steps of trimmed", fit.STEPS),
    ("docs/metrics.md", r"Both are of the first ([\d ]+) problems of a group", fit.COMPARED),
    ("docs/metrics.md", r"without the largest (\d+) % of each direction", 100 * (1 - fit.KEEP[1])),
    ("docs/metrics.md", r"and lower, at most (\d+) %\)", 100 * (1 - fit.KEEP[0])),
    ("docs/metrics.md", r'"No worse" is at most (\d+) % more', 100 * fit.TOLERANCE),
    ("docs/metrics.md", r"from the ground truth: ([\d\s]+)\s+rotations", fit.ROTATIONS),
    ("docs/metrics.md", r"the (\d+) best at least \d+° apart", fit.CANDIDATES),
    ("docs/metrics.md", r"best at least (\d+)° apart", fit.SEPARATION),
    ("docs/metrics.md", r"best pose with RMSE ([\d.]+) or more", fit.FAR),
    ("docs/metrics.md", r"A method on fewer than (\d+) problems is not ranked", ranking.MIN_PROBLEMS),
    ("docs/metrics.md", r"differs? from all others with p < ([\d.]+)", statistics.ALPHA),
    ("docs/metrics.md", r"loses a paired test to any ranked method at p < ([\d.]+)", statistics.ALPHA),
    ("docs/metrics.md", r"have a nominal coverage of (\d+) %", 100 * statistics.CONFIDENCE),
    ("docs/metrics.md", r"BCa bootstrap, ([\d ]+) resamples", statistics.RESAMPLES),
    ("docs/choosing.md", r"pairs farther apart than ([\d.]+) of the pair's scale", NEAR_START),
    ("docs/performance.md", r"(\d+) pairs", BATCH_SIZE),
]


@pytest.mark.parametrize(("page", "pattern", "expected"), STATED, ids=[f"{page}: {p[:40]}" for page, p, _ in STATED])
def test_a_stated_number_is_that_of_the_code(page, pattern, expected):
    stated = re.findall(pattern, (ROOT / page).read_text(encoding="utf-8"))
    assert stated, "the sentence has changed; adapt the pattern"
    assert expected in [pytest.approx(value(text)) for text in stated]
    assert len(stated) == 1 or page == "docs/performance.md"


def test_the_help_names_all_samplers():
    (text,) = [
        action.help for action in main._parser(train=False)[1]["run"].actions if "--sampler" in action.option_strings
    ]
    assert text.split(": ")[1].split(", ") == list(poses.SAMPLERS)


def test_the_table_of_samplers_is_that_of_the_samplers():
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)`(?: \(default\))? \| ([\d.]+)° \| ([\d.]+) % \|$", page, re.MULTILINE)
    assert {name for name, _, _ in rows} == set(poses.SAMPLERS)
    angle = np.radians(np.linspace(0, 180, 200_001))
    law = {"axis_angle": np.ones_like(angle), "haar": 1 - np.cos(angle)}
    for name, mean, below in rows:
        if name.startswith("euler"):
            draw = np.random.default_rng(0)
            sample = poses.euler180 if name == "euler180_box" else poses.euler45
            drawn = np.array([poses.angle_deg(sample(draw)) for _ in range(3000)])
            slack = 3.5 * drawn.std() / np.sqrt(len(drawn)), 2.5
            expected, share = drawn.mean(), 100 * (drawn < 30).mean()
        else:
            weight = law[name] / law[name].sum()
            expected, share, slack = np.degrees(angle @ weight), 100 * weight[angle < np.radians(30)].sum(), (0.06, 0.5)
        assert float(mean) == pytest.approx(expected, abs=slack[0]) and float(below) == pytest.approx(
            share, abs=slack[1]
        )


def test_the_four_numbers_of_one_pose_belong_together():
    """For a rotation of a unit object by 20 degrees: rmse / √3 and rmse / √500, and a mean below the root mean square."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    sentence = re.search(
        r"by (\d+)° has rmse ([\d.]+), mean_distance ([\d.]+), rmse_coordinate ([\d.]+), and rmse_paper ([\d.]+)\.",
        page,
    )
    angle, rmse, mean, coordinate, paper = map(float, sentence.groups())
    assert coordinate == pytest.approx(rmse / np.sqrt(3), abs=0.001) and paper == pytest.approx(
        rmse / np.sqrt(500), abs=5e-5
    )
    assert 0.9 * rmse < mean < rmse
    radius = rmse / (2 * np.sin(np.radians(angle / 2)))  # root mean square distance from the axis
    assert 0.35 < radius < 0.6 and angle == 20
