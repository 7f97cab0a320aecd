"""Conventions against their formulas."""

import numpy as np
import pandas as pd
import pytest

from bench.evaluation import aggregate
from bench.evaluation.conventions import CONVENTIONS, by_convention, convention
from bench.evaluation.loader import RunData
from common.errors import InputError
from tests.bench.synthetic_run import as_loaded, synthetic_run


@pytest.fixture(scope="module")
def loaded():
    return as_loaded(*synthetic_run(n=24, sizes=(256,), methods=("icp", "fgr", "oracle"), conditions=("noisy",)))


@pytest.fixture(scope="module")
def trials(loaded):
    return aggregate.add_success(loaded, CONVENTIONS["deepgmr"])


def test_every_convention_is_its_formula(trials):
    evaluated = trials[trials["status"] != "skipped"]
    rules = {
        "deepgmr": evaluated["rmse"] < 0.2,
        "deepgmr_code": evaluated["mean_distance"] < 0.2,
        "kitti": (evaluated["rre_deg"] < 5) & (evaluated["rte"] < 2),
    }
    table = by_convention(trials, list(CONVENTIONS.values())).set_index(["convention", "method"])
    for name, rule in rules.items():
        recall = rule.groupby(evaluated["method"], observed=True).mean()
        for method, share in recall.items():
            assert table.loc[(name, method), "recall"] == pytest.approx(share)
    ok = evaluated[evaluated["status"] == "ok"].groupby("method", observed=True)
    for method, mean in ok["rmse"].mean().items():
        assert table.loc[("dcp", method), "error"] == pytest.approx(mean / np.sqrt(3))
    assert table.loc["dcp"]["recall"].isna().all()
    assert table.loc[["rpmnet", "3dmatch"]][["error", "recall"]].isna().all(axis=None)
    assert (table.xs("oracle", level="method").loc[["deepgmr", "deepgmr_code", "kitti"], "recall"] == 1).all()


def test_failures_count_under_every_convention(trials):
    failed = ~trials["status"].isin(["ok", "skipped"])
    assert failed.any()
    for name in ("deepgmr", "deepgmr_code", "kitti"):
        success = CONVENTIONS[name].success(trials)
        assert (success[failed] == 0).all()
        assert np.isnan(success[trials["status"] == "skipped"]).all()


def test_labels_limits_and_columns_follow_from_the_limits():
    kitti, dcp = CONVENTIONS["kitti"], CONVENTIONS["dcp"]
    assert kitti.columns == ("rte", "rre_deg") and CONVENTIONS["deepgmr"].columns == ("rmse",)
    assert kitti.recall_label == "recall (RRE < 5, RTE < 2)" and dcp.recall_label == "recall"
    assert (kitti.threshold, dcp.threshold, CONVENTIONS["deepgmr"].threshold) == (2.0, None, 0.2)
    frame = pd.DataFrame({"rre_deg": [4.9, 5.0, 4.9, 4.9, np.nan, 0.0], "rte": [1.9, 1.9, 2.0, np.inf, 0.0, np.nan]})
    np.testing.assert_array_equal(kitti.success(frame), [1, 0, 0, 0, np.nan, np.nan])
    for wrong in ([0.0, 1.0], [1.0, 0.0], [np.inf, 1.0]):
        with pytest.raises(InputError, match="kitti takes 2 positive values"):
            kitti.with_limits(wrong)
    assert kitti.with_limits([1e-9, 1]).limits == (("rre_deg", 1e-9), ("rte", 1.0))


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


PUBLISHED = {
    "deepgmr": {"rmse": 0.2},  # Yuan et al. 2020, Sec. 5
    "deepgmr_code": {"mean_distance": 0.2},
    "3dmatch": {"rmse_information": 0.2},  # Zeng et al. 2017
    "3dmatch_pose": {"rre_deg": 15.0, "rte": 0.3},  # Bai et al. 2021, Chen et al. 2022
    "kitti": {"rre_deg": 5.0, "rte": 2.0},  # Choy et al. 2019
}
"""Limits of the publications; the other conventions define no success."""


@pytest.mark.parametrize("name", CONVENTIONS)
def test_limits_are_those_of_the_publication(name):
    assert dict(CONVENTIONS[name].limits) == PUBLISHED.get(name, {})
    for word, (column, limit) in zip(CONVENTIONS[name].about.split(" < ")[1:], CONVENTIONS[name].limits, strict=False):
        assert float(word.split()[0].strip("°,.")) == limit, f"the text on {name} states another limit of {column}"
