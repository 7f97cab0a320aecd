import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bench.evaluation import aggregate
from bench.evaluation.conventions import CONVENTIONS, by_convention, convention
from bench.evaluation.loader import POSE_COLUMNS, RunData, in_order, scenes_of
from bench.report.replay import ProblemReplay, chamfer
from common.errors import InputError
from datasets.problems import ProblemKey, make_problem
from datasets.registry import open_data
from tests.bench.synthetic_run import as_loaded, synthetic_run


@pytest.fixture(scope="module")
def loaded():
    return as_loaded(*synthetic_run(n=24, sizes=(256,), methods=("icp", "fgr", "oracle"), conditions=("noisy",)))


@pytest.fixture(scope="module")
def trials(loaded):
    return aggregate.add_success(loaded, CONVENTIONS["deepgmr"])


def test_every_convention_is_its_formula(trials):
    asked = trials[trials["status"] != "skipped"]
    rules = {
        "deepgmr": asked["rmse"] < 0.2,
        "deepgmr_code": asked["mean_distance"] < 0.2,
        "kitti": (asked["rre_deg"] < 5) & (asked["rte"] < 2),
    }
    found = by_convention(trials, list(CONVENTIONS.values())).set_index(["convention", "method"])
    for name, rule in rules.items():
        recall = rule.groupby(asked["method"], observed=True).mean()
        for method, share in recall.items():
            assert found.loc[(name, method), "recall"] == pytest.approx(share)
    ok = asked[asked["status"] == "ok"].groupby("method", observed=True)
    for method, mean in ok["rmse"].mean().items():
        assert found.loc[("dcp", method), "error"] == pytest.approx(mean / np.sqrt(3))
    assert found.loc["dcp"]["recall"].isna().all()
    assert found.loc[["rpmnet", "3dmatch"]][["error", "recall"]].isna().all(axis=None)
    assert (found.xs("oracle", level="method").loc[["deepgmr", "deepgmr_code", "kitti"], "recall"] == 1).all()


def test_failures_count_under_every_convention(trials):
    failed = ~trials["status"].isin(["ok", "skipped"])
    assert failed.any()
    for name in ("deepgmr", "deepgmr_code", "kitti"):
        success = CONVENTIONS[name].success(trials)
        assert (success[failed] == 0).all()
        assert np.isnan(success[trials["status"] == "skipped"]).all()


def test_thresholds_from_outside():
    assert convention("deepgmr", [0.1]).recall_label == "recall@0.1"
    assert convention("kitti", [15, 0.3]).limits == (("rre_deg", 15.0), ("rte", 0.3))
    assert convention("dcp", [0.1]).limits == (("rmse_coordinate", 0.1),)
    for name, limits in (("kitti", [5]), ("deepgmr", [1, 2]), ("deepgmr", [-1]), ("deepgmr", [np.nan])):
        with pytest.raises(InputError, match="--threshold"):
            convention(name, limits)
    with pytest.raises(InputError, match="did you mean kitti"):
        convention("kiti")


def test_a_convention_carries_through_all_tables(loaded):
    criterion = CONVENTIONS["kitti"]
    frames = aggregate.tables(loaded, criterion)
    assert {"rte_mean_answered", "rte_median", "recall"} <= set(frames["summary"].columns)
    assert list(frames["cdf"].columns)[-2:] == ["rte", "fraction"]
    assert "rmse_median" not in frames["summary"].columns
    recall = by_convention(frames["trials"], [criterion]).set_index("method")["recall"]
    assert frames["summary"].set_index("method")["recall"].to_dict() == pytest.approx(recall.to_dict())


def test_the_error_by_information_is_taken_where_there_is_one(loaded):
    half = {row: np.diag([7.0, 7, 7, 1, 1, 1]) for row in range(0, len(loaded.problems), 2)}
    some = RunData(loaded.problems, loaded.scenes, half, loaded.outcomes, loaded.stages, loaded.run)
    table = aggregate.add_success(some, CONVENTIONS["3dmatch"])
    has = table["problem"].isin(loaded.problems["problem"][list(half)])
    assert table.loc[~has, "rmse_information"].isna().all() and table.loc[~has, "success"].isna().all()
    ok = has & (table["status"] == "ok")
    turn = np.radians(table.loc[ok, "rre_deg"]) / 2
    expected = np.sqrt(table.loc[ok, "rte"] ** 2 + np.sin(turn) ** 2 / 7)  # T*⁻¹T has a translation as long as t - t*
    assert np.allclose(table.loc[ok, "rmse_information"], expected, atol=1e-7)
    assert np.isinf(table.loc[has & ~table["status"].isin(["ok", "skipped"]), "rmse_information"]).all()


def _drawn_run(condition):
    """A run of two methods, the truth and a quarter turn, on four real problems of the embedded set."""
    import pandas as pd

    data = open_data("shapes40")
    problems = [make_problem(data, ProblemKey("shapes40", condition, 128, i, 3)) for i in range(4)]
    turn = np.eye(4)
    turn[:3, :3] = Rotation.from_rotvec([0, 0, np.pi / 2]).as_matrix()
    rows = [
        {"method": m, "problem": p.key.id, "pose": p.T_target_source @ (turn if m == "turned" else np.eye(4))}
        for m in ("exact", "turned")
        for p in problems
    ]
    outcomes = pd.DataFrame(rows).assign(
        kind="global",
        repeat=0,
        seed=3,
        status="ok",
        time_ms=1.0,
        peak_mb=1.0,
        device="cpu",
        threads=1,
        message="",
        notes="{}",
        phase="accuracy",
        dataset="shapes40",
        condition=condition,
        points=128,
        batch=1,
        gpu_memory_mb=np.nan,
    )
    outcomes[POSE_COLUMNS] = np.stack(outcomes.pop("pose").to_list()).reshape(-1, 16)
    keys = ["problem", "dataset", "condition", "points", "digest", "seed", "sampler"]
    tags = [
        dict(zip(keys, (p.key.id, "shapes40", condition, 128, p.sha256(), 3, "axis_angle"), strict=True)) | p.tags
        for p in problems
    ]
    truth, pose = (np.stack([getattr(p, n) for p in problems]) for n in ("T_target_source", "source_pose"))
    scenes = scenes_of(truth, pose, [p.evaluation_points for p in problems])
    return RunData(pd.DataFrame(tags), scenes, {}, in_order(outcomes), pd.DataFrame(), {"config": {}})


@pytest.mark.parametrize("condition", ["noisy", "unseen", "partial"])
def test_chamfer_sees_noise_alone_where_the_answer_is_exact(condition, tmp_path):
    run = _drawn_run(condition)
    table = aggregate.trials(run)
    found = chamfer(run, ProblemReplay(run, tmp_path), table)
    exact = found[(table["method"] == "exact").to_numpy()]
    turned = found[(table["method"] == "turned").to_numpy()]
    assert (exact < 2 * (0.02**2 + 0.05**2)).all()  # noise, and the gaps of a sampled surface
    assert turned.max() > 10 * exact.max()


def test_chamfer_is_not_made_up_where_the_clouds_cannot_be_had(loaded, tmp_path):
    table = aggregate.trials(loaded)
    replay = ProblemReplay(loaded, tmp_path)
    assert np.isnan(chamfer(loaded, replay, table)).all()
    assert "modelnet40" in replay.missing


def test_clouds_of_other_data_are_refused(tmp_path):
    run = _drawn_run("noisy")
    run.problems["digest"] = b"other"
    replay = ProblemReplay(run, tmp_path)
    assert replay.problem(run.problems["problem"][0]) is None
    assert "other clouds" in replay.missing["shapes40"]
