"""Regenerated problems and the Chamfer distance to them."""

import dataclasses

import numpy as np
import pytest
import trimesh
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from bench.evaluation import aggregate
from bench.evaluation.conventions import CONVENTIONS
from bench.evaluation.loader import POSE_COLUMNS, RunData, in_order, scenes_of
from bench.planning.catalog import Catalog
from bench.report.replay import (
    CLEAN_POINTS,
    ProblemReplay,
    chamfer,
    correspondence_rmse,
    label_of,
    poses_of,
    subsample,
    upright,
)
from common.keys import rng
from datasets.problems import ProblemKey, make_problem
from tests.bench.report.real_run import real_run
from tests.bench.synthetic_run import as_loaded, synthetic_run
from tests.catalog import open_data


@pytest.fixture(scope="module")
def loaded():
    return as_loaded(*synthetic_run(n=24, sizes=(256,), methods=("icp", "fgr", "oracle"), conditions=("noisy",)))


@pytest.fixture(scope="module")
def trials(loaded):
    return aggregate.add_success(loaded, CONVENTIONS["deepgmr"])


@pytest.mark.parametrize("condition", ["noisy", "unseen", "partial"])
def test_chamfer_sees_noise_alone_where_the_answer_is_exact(condition, tmp_path):
    run = real_run(condition)
    table = aggregate.trials(run)
    distances = chamfer(run, ProblemReplay(run, Catalog.of(tmp_path)), table)
    exact = distances[(table["method"] == "exact").to_numpy()]
    turned = distances[(table["method"] == "turned").to_numpy()]
    assert (exact < 2 * (0.02**2 + 0.05**2)).all()  # noise, and the gaps of a sampled surface
    assert turned.max() > 10 * exact.max()


def test_chamfer_is_its_formula(tmp_path):
    run = real_run("noisy")
    table = aggregate.trials(run)
    distances = chamfer(run, ProblemReplay(run, Catalog.of(tmp_path)), table)
    for trial, pose, ours in zip(table.to_dict("records"), poses_of(run, table), distances, strict=True):
        key = ProblemReplay(run, Catalog.of(tmp_path)).key(trial["problem"])
        noisy = make_problem(open_data("shapes40"), key)
        clean = make_problem(open_data("shapes40"), dataclasses.replace(key, condition="clean", points=CLEAN_POINTS))
        R, t = pose[:3, :3], pose[:3, 3]
        forward = cdist(noisy.source @ R.T + t, clean.target).min(axis=1)
        backward = cdist(noisy.target @ R - t @ R, clean.source).min(axis=1)
        assert ours == pytest.approx((forward**2).mean() + (backward**2).mean(), rel=1e-5)
    failed = table.assign(status=["skipped", *["timeout"] * (len(table) - 1)])
    assert np.isnan(chamfer(run, ProblemReplay(run, Catalog.of(tmp_path)), failed)[0])
    assert np.isinf(chamfer(run, ProblemReplay(run, Catalog.of(tmp_path)), failed)[1:]).all()


@pytest.mark.parametrize(("n", "most"), [(7, 7), (7, 9), (10, 4), (1000, 300), (5, 1)])
def test_a_subsample_is_even_and_has_both_ends(n, most):
    cloud = np.arange(n)
    kept = subsample(cloud, most)
    assert len(kept) == min(n, most) and kept[0] == 0 and kept[-1] == (n - 1 if most > 1 else 0)
    assert most == 1 or np.ptp(np.diff(kept)) <= 1


def test_objects_are_upright_and_scans_stay():
    """The object's frame has z up, the picture y up; x stays x."""
    problem = make_problem(open_data("shapes40"), ProblemKey("shapes40", "clean", 64, 2))
    up = upright(problem)
    of_object = np.linalg.inv(problem.T_target_source @ problem.source_pose)
    expected = Rotation.from_rotvec([-np.pi / 2, 0, 0]).as_matrix()
    np.testing.assert_allclose((up @ np.linalg.inv(of_object))[:3], np.c_[expected, np.zeros(3)], atol=1e-9)


def test_the_label_of_a_problem_has_two_lines_whatever_its_category():
    key = ProblemKey("shapes40", "noisy", 64, 3)
    problem = make_problem(open_data("shapes40"), key)
    assert label_of(key.id, problem) == f"{problem.tags['category']}\n00003"
    odd = dataclasses.replace(problem, tags=problem.tags | {"category": "two\nlines\there"})
    assert label_of(key.id, odd) == "two lines here\n00003"


def test_chamfer_is_unknown_without_clouds(loaded, tmp_path):
    table = aggregate.trials(loaded)
    replay = ProblemReplay(loaded, Catalog.of(tmp_path))
    assert np.isnan(chamfer(loaded, replay, table)).all()
    assert "modelnet40" in replay.missing


def test_clouds_of_other_data_are_refused(tmp_path):
    run = real_run("noisy")
    run.problems["digest"] = b"other"
    replay = ProblemReplay(run, Catalog.of(tmp_path))
    assert replay.problem(run.problems["problem"][0]) is None
    assert "other clouds" in replay.missing["shapes40"]


def test_the_error_over_correspondences_is_that_of_the_common_part(tmp_path):
    """Two range images that share a square; the target's other half is elsewhere."""
    import pandas as pd

    draw = rng("correspondences")
    common = np.column_stack([draw.random((300, 2)), np.zeros(300)])
    source, target = (np.vstack([common, common + np.array(shift)]) for shift in ([5, 0, 0], [0, 9, 0]))
    T = np.eye(4)
    T[:3, 3] = 0.1, 0.2, 0.3
    folder = tmp_path / "views"
    folder.mkdir()
    for number, cloud in enumerate((target + T[:3, 3], source)):
        trimesh.PointCloud(cloud).export(folder / f"cloud_bin_{number}.ply")
    (folder / "gt.log").write_text("0 1 2\n" + "\n".join(" ".join(map(repr, row)) for row in T.tolist()))
    name, turn = "fragments[path=views,near=0.001]", np.eye(4)
    turn[:3, :3] = Rotation.from_rotvec([0, 0, 0.1]).as_matrix()
    problem = make_problem(open_data(name, tmp_path), ProblemKey(name, "real", 100, 0, 3, sampler="none"))
    outcome = {"method": "turned", "problem": problem.key.id, "kind": "global", "repeat": 0, "seed": 3, "status": "ok"}
    outcome |= {"time_ms": 1.0, "peak_mb": 1.0, "device": "cpu", "threads": 1, "message": "", "notes": "{}", "batch": 1}
    outcome |= {
        "phase": "accuracy",
        "dataset": name,
        "condition": "real",
        "points": 100,
        "gpu_memory_mb": np.nan,
        "machine": "",
    }
    outcomes = pd.DataFrame([outcome])
    outcomes[POSE_COLUMNS] = (T @ turn).reshape(1, 16)
    keys = {
        "problem": problem.key.id,
        "dataset": name,
        "condition": "real",
        "points": 100,
        "seed": 3,
        "sampler": "none",
    }
    tags = pd.DataFrame([keys | {"digest": problem.sha256()} | problem.tags])
    scenes = scenes_of(T[None], np.eye(4)[None], [problem.evaluation_points])
    run = RunData(tags, scenes, {}, in_order(outcomes), pd.DataFrame(), {"config": {}})
    errors = correspondence_rmse(run, ProblemReplay(run, Catalog.of(tmp_path)), aggregate.trials(run))
    expected = np.sqrt((((common @ turn[:3, :3].T) - common) ** 2).sum(axis=1).mean())
    assert errors == pytest.approx([expected], rel=1e-4)
    missing = ProblemReplay(run, Catalog.of(tmp_path / "elsewhere"))
    assert np.isnan(correspondence_rmse(run, missing, aggregate.trials(run))).all() and missing.missing


def test_objects_have_no_correspondences(tmp_path):
    run = real_run("noisy")
    replay = ProblemReplay(run, Catalog.of(tmp_path))
    assert np.isnan(correspondence_rmse(run, replay, aggregate.trials(run))).all()
    assert "only pairs of scans" in replay.missing["shapes40"]
