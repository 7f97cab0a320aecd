"""Symmetries that a report estimates for objects without a declared one."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bench.evaluation import aggregate, metrics
from bench.evaluation.conventions import CONVENTIONS
from bench.evaluation.loader import POSE_COLUMNS, RunData, in_order, scenes_of
from bench.planning.catalog import Catalog
from bench.report import estimated_symmetry
from bench.report.estimated_symmetry import add_estimated_symmetry
from bench.report.replay import ProblemReplay
from datasets.problems import ProblemKey, make_problem
from datasets.symmetry import turn
from datasets.symmetry_estimate import MIN_POINTS, Estimate
from tests.catalog import open_data
from tests.own_cache import use_cache

CRITERION = CONVENTIONS["deepgmr"]


@pytest.fixture(scope="module")
def shapes():
    """Problems of embedded objects of two declared groups."""
    data, chosen = open_data("shapes40"), {}
    for index in range(200):
        problem = make_problem(data, ProblemKey("shapes40", "noisy", 128, index, 3))
        chosen.setdefault(problem.tags["symmetry"].rstrip("xyz"), problem)
        if {"Cinf", "C1"} <= chosen.keys():
            break
    return [chosen["Cinf"], chosen["C1"]]


def run_of(problems, declared):
    """A run of a method that turns each source by 50 degrees about the frame's main axis, and fails on the rest."""
    g = np.eye(4)
    g[:3, :3] = turn(np.eye(3)[2], np.radians(50))
    turned = [p.T_target_source @ p.source_pose @ g @ np.linalg.inv(p.source_pose) for p in problems]
    rows = [
        {"method": m, "problem": p.key.id, "pose": T, "status": status}
        for m, status in (("turned", "ok"), ("lost", "timeout"), ("left", "skipped"))
        for p, T in zip(problems, turned, strict=True)
    ]
    same = {"kind": "global", "repeat": 0, "seed": 3, "time_ms": 1.0, "peak_mb": 1.0, "device": "cpu", "threads": 1}
    same |= {"message": "", "notes": "{}", "phase": "accuracy", "dataset": "shapes40", "condition": "noisy"}
    outcomes = pd.DataFrame(rows).assign(**same, points=128, batch=1, gpu_memory_mb=np.nan, machine="")
    outcomes[POSE_COLUMNS] = np.stack(outcomes.pop("pose").to_list()).reshape(-1, 16)
    outcomes.loc[outcomes["status"] != "ok", POSE_COLUMNS] = np.nan
    tags = [
        {"problem": p.key.id, "dataset": "shapes40", "condition": "noisy", "points": 128, "digest": p.sha256()}
        | {"seed": 3, "sampler": "axis_angle"}
        | p.tags
        | ({} if declared else {"symmetry": None})
        for p in problems
    ]
    truth, pose = (np.stack([getattr(p, n) for p in problems]) for n in ("T_target_source", "source_pose"))
    scenes = scenes_of(truth, pose, [p.evaluation_points for p in problems])
    return RunData(pd.DataFrame(tags), scenes, {}, in_order(outcomes), pd.DataFrame(), {"config": {}})


def filled(run, folder):
    trials = aggregate.add_success(run, CRITERION)
    return add_estimated_symmetry(run, ProblemReplay(run, Catalog.of(folder)), trials)


@pytest.fixture
def run(shapes, tmp_path, monkeypatch):
    use_cache(monkeypatch, tmp_path / "cache")
    return run_of(shapes, declared=False)


def test_a_turn_of_a_round_object_is_no_error_and_that_of_another_is(run, shapes, tmp_path):
    trials = filled(run, tmp_path)
    turned = trials[trials["method"] == "turned"].set_index("problem")
    round_one, other = (turned.loc[p.key.id] for p in shapes)
    assert round_one["symmetry_estimated"].startswith("Cinf") and other["symmetry_estimated"] == "C1"
    assert round_one["rmse_symmetric_estimated"] < 0.02 < 0.2 < round_one["rmse"]
    expected = float(
        metrics.rmse(
            run.outcomes.loc[run.outcomes["problem"] == shapes[1].key.id, POSE_COLUMNS]
            .dropna()
            .to_numpy()
            .reshape(4, 4),
            shapes[1].T_target_source,
            shapes[1].evaluation_points,
        )
    )
    assert other["rmse_symmetric_estimated"] == pytest.approx(expected)
    assert np.isinf(trials.loc[trials["method"] == "lost", "rmse_symmetric_estimated"]).all()
    assert trials.loc[trials["method"] == "left", "rmse_symmetric_estimated"].isna().all()
    summary = aggregate.summary(trials, CRITERION).set_index("method")["recall_symmetric_estimated"]
    hits = [round_one["rmse_symmetric_estimated"] < 0.2, other["rmse_symmetric_estimated"] < 0.2]
    assert (summary["turned"], summary["lost"]) == (np.mean(hits), 0) and np.isnan(summary["left"])


def test_nothing_is_estimated_where_the_symmetry_is_declared_or_the_clouds_are_missing(run, shapes, tmp_path):
    run.problems["digest"] = b"other"
    for unknown in (run, run_of(shapes, declared=True)):
        trials = filled(unknown, tmp_path)
        assert trials["rmse_symmetric_estimated"].isna().all() and (trials["symmetry_estimated"] == "").all()


def test_a_second_report_reads_the_estimates_and_only_the_first_objects_are_estimated(run, tmp_path, monkeypatch):
    sizes = []
    monkeypatch.setattr(estimated_symmetry, "estimate", lambda c: sizes.append(len(c)) or Estimate("C2", np.eye(4)))
    first = filled(run, tmp_path)
    pd.testing.assert_frame_equal(filled(run, tmp_path), first)
    assert sizes == [2048] * 2 and set(first["symmetry_estimated"]) == {"C2", ""}
    monkeypatch.setattr(estimated_symmetry, "MOST_OBJECTS", 1)
    assert filled(run, tmp_path).groupby("problem", observed=True)["symmetry_estimated"].max().tolist() == ["C2", ""]


def test_objects_of_other_data_sets_and_with_a_declared_symmetry_are_no_hindrance(run, shapes, tmp_path, monkeypatch):
    """Their names remain categories of the trials, without rows to estimate from."""
    monkeypatch.setattr(estimated_symmetry, "estimate", lambda cloud: Estimate("C2", np.eye(4)))
    run.problems.loc[0, "symmetry"] = "Cinf"
    trials = aggregate.add_success(run, CRITERION)
    trials["dataset"] = trials["dataset"].astype("category").cat.add_categories(["a scan", "zebra"])
    trials["object"] = trials["object"].astype("category")
    filled = add_estimated_symmetry(run, ProblemReplay(run, Catalog.of(tmp_path)), trials)
    estimated = filled[filled["symmetry_estimated"] != ""]
    assert set(estimated["problem"]) == {shapes[1].key.id} and set(estimated["method"]) == {"turned", "lost"}


@pytest.mark.parametrize("points", [MIN_POINTS - 1, MIN_POINTS])
def test_an_object_of_few_points_has_no_estimate(monkeypatch, points):
    """The cloud of an estimate is in the object's frame, whatever the pose of the source."""
    cloud, T = np.random.default_rng(0).random((points, 3)), np.diag([-1.0, -1, 1, 1])
    T[:3, 3] = 1, 2, 3
    given = []
    monkeypatch.setattr(estimated_symmetry, "estimate", lambda c: given.append(c) or Estimate("C2", 2 * np.eye(4)))
    clean = SimpleNamespace(source=cloud @ T[:3, :3].T + T[:3, 3], source_pose=T)
    replay = SimpleNamespace(clean=lambda problem: clean if problem == "p" else None)
    name, frame = estimated_symmetry._estimate(replay, "p")
    known = points == MIN_POINTS
    assert (name, frame[0, 0]) == (("C2", 2) if known else ("", 1)) and len(given) == known
    for found in given:
        np.testing.assert_allclose(found, cloud, atol=1e-12)
    assert estimated_symmetry._estimate(replay, "unknown")[0] == ""
