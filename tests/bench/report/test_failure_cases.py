"""Worst pairs: which are chosen, and what is shown of each."""

import base64
import dataclasses
import itertools
import shlex

import numpy as np
import pandas as pd
import pytest

from bench.evaluation import aggregate
from bench.evaluation.conventions import CONVENTIONS
from bench.planning.catalog import Catalog
from bench.report import failure_cases
from bench.report.failure_cases import PAIRS, SHOWN, command, describe_pair, encode_clouds, worst_pairs
from bench.report.replay import ProblemReplay, subsample, upright
from datasets.problems import ProblemKey, make_problem
from tests.bench.report.real_run import real_run
from tests.catalog import open_data

CRITERION = CONVENTIONS["deepgmr"]


def test_the_largest_errors_are_shown_of_different_groups_if_possible():
    draw = np.random.default_rng(0)
    rows = [
        {"method": m, "kind": "control" if m == "truth" else "global", "condition": c, "problem": f"{c}/{i}", "rmse": e}
        for m, c in itertools.product(("a", "b", "truth"), ("clean", "noisy"))
        for i, e in enumerate(draw.uniform(0, 1, 6))
    ]
    trials = pd.DataFrame(rows).assign(dataset="d", points=64, status="ok")
    trials.loc[[0, 7], "status"] = "timeout"
    trials.loc[1, "rmse"] = np.inf
    worst = failure_cases._worst(trials, CRITERION)
    assert [name for name, _ in worst] == ["a", "b"]
    for method, shown in worst:
        own = trials[(trials["method"] == method) & (trials["status"] == "ok") & np.isfinite(trials["rmse"])]
        ranked = {
            c: part.sort_values("rmse", ascending=False)["problem"].tolist() for c, part in own.groupby("condition")
        }
        first, second = sorted(ranked, key=lambda c: -own.loc[own["condition"] == c, "rmse"].max())
        third = max(
            (ranked[first][1], ranked[second][1]), key=lambda p: float(own.loc[own["problem"] == p, "rmse"].max())
        )
        assert PAIRS == 3 and shown["problem"].tolist() == [ranked[first][0], ranked[second][0], third]


@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_clouds_are_stored_to_a_32767th_of_their_extent(scale):
    problem = make_problem(open_data("shapes40"), ProblemKey("shapes40", "noisy", 700, 1))
    problem = dataclasses.replace(problem, source=problem.source * np.float32(scale), target=problem.target)
    stored = encode_clouds(problem)
    clouds = [subsample(c, SHOWN) for c in (problem.source, problem.target)]
    assert stored["unit"] == pytest.approx(max(np.abs(c).max() for c in clouds) / 32767)
    for name, cloud in zip(("source", "target"), clouds, strict=True):
        numbers = np.frombuffer(base64.b64decode(stored[name]), "<i2").reshape(-1, 3)
        np.testing.assert_allclose(numbers * stored["unit"], cloud, atol=0.51 * stored["unit"])
        assert len(numbers) == 500
    np.testing.assert_allclose(stored["T"], problem.T_target_source[:3].ravel(), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(stored["up"], upright(problem)[:3].ravel(), rtol=1e-6, atol=1e-12)


def test_a_pair_is_described_by_its_error_its_pose_and_its_commands(tmp_path):
    run = real_run("noisy")
    replay = ProblemReplay(run, Catalog.of(tmp_path))
    name, pose = run.problems["problem"][1], np.arange(16.0).reshape(4, 4) / 3
    row = {"problem": name, "dataset": "shapes40", "condition": "noisy", "points": 128, "category": "chair"}
    row |= {"object": "chair/7", "rmse": 0.25, "rre_deg": 12.345, "rte": 0.0625, "method": "fgr[x=1]"}
    shown = describe_pair(row, pose, CRITERION, replay, "my run")
    assert shown["T"] == [float(f"{v:.7g}") for v in pose[:3].ravel()]
    assert {key: value for key, value in shown.items() if key not in ("T", "command")} == {
        "problem": name,
        "group": "shapes40 · noisy · 128 points",
        "object": "chair · chair/7",
        "error": "RMSE 0.250, RRE 12.3°, RTE 0.062",
        "id": "shapes40/noisy/128",
        "show": f"python bench.py show 'my run' {name}",
    }
    assert shown["command"] == command("fgr[x=1]", replay.key(name))


def test_the_command_names_the_problem_as_the_last_of_a_run():
    key = ProblemKey("d", "noisy", 64, 7, 3, sampler="haar", angles=(10.0, 90.0))
    shown = shlex.split(command("m[x=1]", key))
    expected = "python bench.py --methods m[x=1] --datasets d --conditions noisy --points 64 --seed 3 --sampler haar"
    expected += " --angles 10 90 --problems 8 --preset full --timing-rounds 0 --out again"
    assert shown == expected.split()
    assert "--sampler" not in command("m", ProblemKey("d", "real", 64, 7, sampler="none"))


def test_the_page_has_the_clouds_of_its_pairs_once_and_says_what_is_missing(tmp_path):
    run = real_run("noisy")
    trials = aggregate.add_success(run, CRITERION)
    data = worst_pairs(run, trials, CRITERION, ProblemReplay(run, Catalog.of(tmp_path)), "r")
    assert [m["method"] for m in data["methods"]] == ["exact", "turned"] and data["missing"] == {}
    assert [m["name"] for m in data["methods"]] == ["exact, n = 4", "turned, n = 4"]
    shown = {pair["problem"] for m in data["methods"] for pair in m["pairs"]}
    assert set(data["clouds"]) == shown and all(len(m["pairs"]) == 3 for m in data["methods"])
    assert {c["dataset"] for c in data["clouds"].values()} == {"shapes40"} and len(data["licences"]) == 1
    assert data["licences"][0] == f"shapes40: {open_data('shapes40').licence}"
    turned = trials[trials["method"] == "turned"].sort_values("rmse", ascending=False)["problem"].tolist()[:3]
    assert [pair["problem"] for pair in data["methods"][1]["pairs"]] == turned
    run.problems["digest"] = b"other"
    none = worst_pairs(run, trials, CRITERION, ProblemReplay(run, Catalog.of(tmp_path)), "r")
    assert none["methods"] == [] and none["clouds"] == {} and "shapes40" in none["missing"] and none["licences"] == []
