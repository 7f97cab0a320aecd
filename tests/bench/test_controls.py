"""Controls through the whole pipeline: what they score is known beforehand, so they check the harness and not themselves."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bench.cli import main
from datasets.problems import ProblemKey, make_problem
from tests.catalog import open_data

PLUGINS = Path(__file__).parent / "plugins"
PROBLEMS = 300


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("controls"))
        patch.setattr("bench.report.begin_report", lambda *_: list)
        arguments = "--methods oracle identity random_pose index_match --datasets blobs --conditions clean --points 100"
        flags = f"--problems {PROBLEMS} --timing-rounds 0 --jobs 1 --out c --plugins {PLUGINS}"
        assert main.main([*arguments.split(), *flags.split()]) == 0
        frame = pd.read_csv("results/c/trials.csv")
    return {name: group.sort_values("problem") for name, group in frame.groupby("method")}


@pytest.fixture(scope="module")
def spread():
    """Mean squared distance of each problem's source from the origin and from its centroid."""
    dataset = open_data("blobs", None, PLUGINS)
    clouds = [make_problem(dataset, ProblemKey("blobs", "clean", 100, i)).source.astype(float) for i in range(PROBLEMS)]
    return {
        "origin": np.array([(c**2).sum(1).mean() for c in clouds]),
        "centroid": np.array([((c - c.mean(0)) ** 2).sum(1).mean() for c in clouds]),
    }


def agrees(squared, expected):
    """Whether the mean of squared errors is the expected one to within four standard errors."""
    difference = squared - expected
    return abs(difference.mean()) < 4 * difference.std() / len(squared) ** 0.5


def test_the_truth_has_no_error(trials):
    errors = trials["oracle"][["rmse", "rre_deg", "rte", "mean_distance", "rmse_coordinate"]].to_numpy()
    assert len(errors) == PROBLEMS and errors.max() < 1e-12


def test_doing_nothing_scores_what_the_sampler_implies(trials, spread):
    # E R = (1 + 2 E cos θ) I / 3 and E cos θ = 0 for θ in U[0°, 180°], so E |Rp - p|² = 4/3 |p|²; E |t|² = 0.5² / 3.
    assert agrees(trials["identity"]["rmse"].to_numpy() ** 2, 4 / 3 * spread["origin"] + 0.5**2 / 3)


def test_a_random_pose_scores_what_haar_implies(trials, spread):
    # The error's rotation is uniform on SO(3), whose mean is 0, so E |Rp - p|² = 2 |p|² about the centroid.
    assert agrees(trials["random_pose"]["rmse"].to_numpy() ** 2, 2 * spread["centroid"])


def test_matching_by_index_is_no_better_than_random(trials):
    recall = {m: (trials[m]["rmse"] < 0.2).mean() for m in ("index_match", "random_pose")}
    error = (2 * max(recall.values(), default=0) / PROBLEMS) ** 0.5
    assert recall["index_match"] <= recall["random_pose"] + 3 * max(error, 1 / PROBLEMS)
    assert trials["index_match"]["rmse"].mean() > 0.8 * trials["random_pose"]["rmse"].mean()
