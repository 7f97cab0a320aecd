import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from bench.evaluation import aggregate, metrics
from bench.evaluation.conventions import CONVENTIONS
from bench.evaluation.loader import GROUP_COLUMNS, POSE_COLUMNS
from bench.storage.csv_writer import csv_text
from common.errors import InputError
from tests.bench.report.one_group import one_group
from tests.bench.synthetic_run import as_loaded, synthetic_run

CRITERION = CONVENTIONS["deepgmr"]


@pytest.fixture(scope="module")
def synthetic():
    return synthetic_run(n=24, sizes=(256, 4096), methods=("deepgmr", "icp", "ransac10m", "identity", "oracle"))


@pytest.fixture(scope="module")
def frames(synthetic):
    return aggregate.tables(as_loaded(*synthetic), CRITERION)


def test_columns_have_the_documented_order(frames):
    cell, angles, counts = (
        "method dataset condition points",
        "angle_low angle_high",
        "problems answered rmse_mean_answered",
    )
    promised = {
        "poses": f"{cell} problem repeat seed status {' '.join(POSE_COLUMNS)} time_ms peak_mb device threads message",
        "trials": f"{cell} problem repeat seed object category angle_deg translation overlap status rmse rre_deg rte",
        "summary": f"{cell} {counts} rmse_median recall recall_low recall_high "
        "rre_deg_median rte_median time_ms_median time_ms_p95",
        "per_category": f"{cell} category {counts} recall",
        "by_overlap": f"{cell} overlap_low overlap_high {counts} recall",
        "by_angle": f"{cell} {angles} {counts} recall time_ms_median",
        "cdf": f"{cell} rmse fraction",
        "stages": "method points stage time_ms_median",
        "timing": f"method points {angles} device threads status time_ms_median time_ms_p95 throughput_per_s peak_mb",
    }
    assert set(frames) == set(promised)
    for name, columns in promised.items():
        assert list(frames[name].columns)[: len(columns.split())] == columns.split(), name
        assert len(frames[name]), name


def test_trials_equal_the_metrics_row_by_row(synthetic, frames):
    problems, outcomes, _ = synthetic
    by_id = problems.set_index("problem")
    given = outcomes[outcomes["phase"] == "accuracy"].set_index(["method", "problem"])
    for _, row in frames["trials"].sample(60, random_state=1).iterrows():
        if row["status"] == "ok":
            problem, pose = by_id.loc[row["problem"]], given.loc[(row["method"], row["problem"])]["pose"]
            assert row["rmse"] == pytest.approx(float(metrics.rmse(pose, problem["truth"], problem["eval_points"])))
            assert row["rre_deg"] == pytest.approx(float(metrics.rre_deg(pose, problem["truth"])), abs=1e-9)
            assert row["category"] == problem["category"]
            if isinstance(problem["symmetry"], str):
                args = (pose, problem["truth"], problem["source_pose"], problem["eval_points"], problem["symmetry"])
                assert row["rmse_symmetric"] == pytest.approx(float(metrics.rmse_symmetric(*args)), abs=1e-12)
            else:
                assert np.isnan(row["rmse_symmetric"])
        else:
            assert np.isnan(row["rmse"]) if row["status"] == "skipped" else np.isinf(row["rmse"])


def test_every_outcome_is_a_row(synthetic, frames):
    outcomes = synthetic[1]
    assert len(frames["poses"]) == len(outcomes)
    assert len(frames["trials"]) == (outcomes["phase"] == "accuracy").sum()


def test_failures_count_and_skipped_do_not(synthetic, frames):
    trials, summary = frames["trials"], frames["summary"].set_index(GROUP_COLUMNS)
    for key, row in summary.iterrows():
        trials_of_group = trials[
            (trials[GROUP_COLUMNS] == pd.Series(dict(zip(GROUP_COLUMNS, key, strict=True)))).all(axis=1)
        ]
        evaluated = trials_of_group[trials_of_group["status"] != "skipped"]
        hits = int((evaluated["rmse"] < 0.2).sum())
        assert row["problems"] == len(evaluated)
        assert row["answered"] == (evaluated["status"] == "ok").sum()
        assert row["skipped"] == len(trials_of_group) - len(evaluated)
        assert row["answered"] + sum(row[status] for status in aggregate.FAILURES) == row["problems"]
        assert row["recall"] == pytest.approx(hits / len(evaluated))
        interval = binomtest(hits, len(evaluated)).proportion_ci(method="wilson")
        assert (row["recall_low"], row["recall_high"]) == pytest.approx((interval.low, interval.high))
        assert row["rmse_mean_low"] <= row["rmse_mean_answered"] <= row["rmse_mean_high"]
    assert (summary["skipped"] > 0).any() and (summary["answered"] < summary["problems"]).any()


def test_the_oracle_is_exact_and_the_identity_answers_badly(frames):
    summary = frames["summary"].groupby("method")
    assert summary["rmse_mean_answered"].max()["oracle"] == 0
    assert summary["recall"].min()["oracle"] == 1
    assert summary["recall"].max()["identity"] < 0.4


def test_a_reflection_called_ok_is_invalid(synthetic):
    problems, outcomes, _ = synthetic
    broken = outcomes.copy()
    reflected = broken.index[(broken["status"] == "ok") & (broken["phase"] == "accuracy")][0]
    broken.at[reflected, "pose"] = np.diag([1.0, 1.0, -1.0, 1.0])
    missing = broken.index[(broken["status"] == "ok") & (broken["phase"] == "accuracy")][1]
    broken.at[missing, "pose"] = None
    table = aggregate.trials(as_loaded(problems, broken, synthetic[2])).set_index(["method", "problem"])
    for row in (reflected, missing):
        trial = table.loc[(broken["method"][row], broken["problem"][row])]
        assert trial["status"] == "invalid" and np.isinf(trial["rmse"])


def test_an_outcome_without_a_problem_is_refused(synthetic):
    problems, outcomes, run = synthetic
    with pytest.raises(ValueError, match="without a problem"):
        aggregate.trials(as_loaded(problems.iloc[1:], outcomes, run))


def test_repeats_share_their_evidence(synthetic):
    problems, outcomes, run = synthetic
    again = pd.concat([outcomes, outcomes.assign(repeat=1)], ignore_index=True)
    once, twice = (
        aggregate.summary(aggregate.add_success(as_loaded(problems, rows, run), CRITERION), CRITERION).set_index(
            GROUP_COLUMNS
        )
        for rows in (outcomes, again)
    )
    assert (twice["problems"] == 2 * once["problems"]).all()
    pd.testing.assert_series_equal(twice["recall_low"], once["recall_low"])
    assert (twice["recall_seed_sd"] == 0).all() and once["recall_seed_sd"].isna().all()
    for name in ("rmse_mean_low", "rmse_mean_high"):
        pd.testing.assert_series_equal(twice[name], once[name])
    assert (twice["rmse_seed_sd"] < 1e-9).all() and once["rmse_seed_sd"].isna().all()


def test_bins_hold_every_problem(frames):
    summary, by_angle = frames["summary"].set_index(GROUP_COLUMNS), frames["by_angle"]
    assert (by_angle.groupby(GROUP_COLUMNS)["problems"].sum() == summary["problems"]).all()
    assert (by_angle.groupby(GROUP_COLUMNS)["answered"].sum() == summary["answered"]).all()
    assert (frames["per_category"].groupby(GROUP_COLUMNS)["problems"].sum() == summary["problems"]).all()
    assert sorted(by_angle["angle_low"].unique()) == [0, 30, 60, 90, 120, 150]


def test_bins_are_half_open_and_always_reach_180(frames):
    trials = frames["trials"].head(4).assign(angle_deg=[0.0, 30.0, 29.999, 180.0], method="m")
    bins = aggregate.by_angle(trials, [10, 30, 60], CRITERION)
    assert set(zip(bins["angle_low"], bins["angle_high"], strict=True)) == {(0, 10), (10, 30), (30, 60), (60, 180)}


def test_curves_end_at_the_answer_rate(frames):
    curves, summary = frames["cdf"].groupby(GROUP_COLUMNS), frames["summary"].set_index(GROUP_COLUMNS)
    assert curves["fraction"].max().to_dict() == pytest.approx(summary["answer_rate"].to_dict())
    for _, curve in curves:
        assert curve["rmse"].is_monotonic_increasing and curve["rmse"].is_unique
        assert curve["fraction"].is_monotonic_increasing
    assert len(frames["cdf"].query("method == 'oracle' and condition == 'clean'")) == 1


def test_timing_is_of_the_timed_phase_and_names_what_did_not_end(frames):
    timing = frames["timing"]
    assert (timing["phase"] == "timing").all()
    whole = timing[(timing["angle_low"] == 0) & (timing["angle_high"] == 180)]
    assert len(whole) == 5 * 2
    slow = whole[(whole["method"] == "ransac10m") & (whole["points"] == 4096)].iloc[0]
    assert slow["status"] == "timeout" and np.isnan(slow["time_ms_median"]) and np.isnan(slow["throughput_per_s"])
    fine = whole[whole["method"] == "deepgmr"]
    assert np.allclose(fine["throughput_per_s"], 1000 / fine["time_ms_median"])
    parts = timing.drop(whole.index).groupby(["method", "points"])["problems"].sum()
    assert (parts == 18).all()


def test_without_a_timed_phase_times_are_of_the_accuracy_phase(synthetic):
    problems, outcomes, _ = synthetic
    only = as_loaded(problems, outcomes[outcomes["phase"] == "accuracy"], {})
    assert (aggregate.timing(aggregate.timed(only), [0, 90, 180])["phase"] == "accuracy").all()
    assert len(aggregate.stages(only.stages))


def test_csvs_are_the_same_bytes_whatever_the_order(synthetic, tmp_path):
    problems, outcomes, run = synthetic
    one = aggregate.write_csvs(aggregate.tables(as_loaded(problems, outcomes, run), CRITERION), tmp_path / "a")
    shuffled = outcomes.sample(frac=1, random_state=5)
    two = aggregate.write_csvs(
        aggregate.tables(as_loaded(problems.sample(frac=1, random_state=6), shuffled, run), CRITERION), tmp_path / "b"
    )
    assert [p.name for p in one] == [p.name for p in two]
    for a, b in zip(one, two, strict=True):
        assert a.read_bytes() == b.read_bytes(), a.name
        assert b"\r" not in a.read_bytes()
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == sorted(p.name for p in one)


def test_csvs_of_worker_processes_have_the_same_bytes(frames, tmp_path):
    long = {name: frames[name] for name in ("poses", "trials")}
    here = aggregate.write_csvs(long, tmp_path / "a")
    there = aggregate.begin_csvs(long, tmp_path / "b", rows=aggregate.LARGE + 1)()
    assert there == [tmp_path / "b" / path.name for path in here]
    assert [a.read_bytes() for a in here] == [b.read_bytes() for b in there]


def test_floats_read_back_exactly(frames):
    text = csv_text(frames["trials"])
    back = pd.read_csv(io.BytesIO(text))
    for name in ("rmse", "rre_deg", "time_ms", "rmse_symmetric"):
        assert np.array_equal(back[name].to_numpy(), frames["trials"][name].to_numpy(), equal_nan=True)


def test_poses_hold_the_matrix(synthetic, frames):
    row = frames["poses"].query("status == 'ok' and phase == 'accuracy'").iloc[0]
    outcomes = synthetic[1]
    given = outcomes[(outcomes["method"] == row["method"]) & (outcomes["problem"] == row["problem"])].iloc[0]["pose"]
    assert np.array_equal(row[POSE_COLUMNS].to_numpy(dtype=float).reshape(4, 4), given)


def test_a_run_of_nothing_but_skips(synthetic):
    problems, outcomes, run = synthetic
    skipped = outcomes[outcomes["status"] == "skipped"]
    for given in (problems, problems.head(0)):
        frames = aggregate.tables(as_loaded(given, skipped, run), CRITERION)
        assert (frames["summary"]["problems"] == 0).all() and (frames["summary"]["skipped"] == 5).all()
        assert frames["summary"]["recall"].isna().all()
        assert len(frames["trials"]) == 5 and len(frames["cdf"]) == 0 and len(frames["timing"]) == 0


def test_parquet_has_the_tables_with_their_types(loaded_for_parquet, tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install -r requirements-dev.txt")
    frames = aggregate.tables(loaded_for_parquet, CONVENTIONS["deepgmr"])
    files = aggregate.write_parquet(frames, tmp_path)
    assert [file.stem for file in files] == list(frames)
    for file in files:
        pd.testing.assert_frame_equal(
            pd.read_parquet(file), frames[file.stem], check_dtype=False, check_categorical=False
        )


def test_texts_of_trials_are_categories_and_the_rest_are_numbers(loaded_for_parquet):
    trials = aggregate.trials(loaded_for_parquet)
    for name in ("object", "category", "status", "symmetry", "method"):
        assert isinstance(trials[name].dtype, pd.CategoricalDtype), name
    for name in ("angle_deg", "translation", "overlap", "time_ms", *metrics.COLUMNS):
        assert trials[name].dtype.kind == "f", name


@pytest.mark.parametrize("call", [aggregate.require_parquet, lambda: aggregate.write_parquet({}, Path())])
def test_parquet_without_pyarrow_is_one_line(monkeypatch, call):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(InputError, match="--parquet: package pyarrow is missing; pip install pyarrow"):
        call()


@pytest.fixture
def loaded_for_parquet():
    return as_loaded(*synthetic_run(n=6, sizes=(256,), methods=("icp",), conditions=("noisy",)))


def test_the_ceiling_is_the_share_of_problems_without_a_pose_that_fits_better_or_as_well():
    """Each problem counts once, however often it was repeated; those without a search do not count."""
    ratios = np.array([0.5, 0.99, 1.01, 1.06, 1.08, 2.0, np.inf, np.nan, np.nan])
    trials = one_group({"a": ("local", np.full(9, 0.1))}, {"a": 1.0})["trials"].assign(rival_ratio=ratios)
    repeated = pd.concat([trials, trials.iloc[:4].assign(repeat=1), trials.iloc[:2].assign(repeat=2)])
    (row,) = aggregate.summary(repeated, CRITERION).to_dict("records")
    assert (row["ceiling"], row["unambiguous"], row["ceiling_problems"]) == (5 / 7, 3 / 7, 7)
    (unknown,) = aggregate.summary(trials.assign(rival_ratio=np.nan), CRITERION).to_dict("records")
    assert np.isnan([unknown["ceiling"], unknown["unambiguous"]]).all() and unknown["ceiling_problems"] == 0


def test_the_time_of_a_stage_is_the_median_over_the_calls_that_reached_it():
    draw = np.random.default_rng(0)
    rows = [("a", 64, "solve", t) for t in (1.0, 9.0, 2.0)] + [("a", 64, "load", 4.0)]
    rows += [("a", 128, "solve", t) for t in (5.0, 7.0)] + [("b", 64, "solve", 3.0)]
    given = pd.DataFrame(rows, columns=["method", "points", "stage", "time_ms"])
    given = given.assign(machine="m", device="cpu").iloc[draw.permutation(len(rows))]
    table = aggregate.stages(given).set_index(["method", "points", "stage"])
    assert table["time_ms_median"].to_dict() == {
        ("a", 64, "load"): 4.0,
        ("a", 64, "solve"): 2.0,
        ("a", 128, "solve"): 6.0,
        ("b", 64, "solve"): 3.0,
    }
    assert table["calls"].to_dict() == {
        ("a", 64, "load"): 1,
        ("a", 64, "solve"): 3,
        ("a", 128, "solve"): 2,
        ("b", 64, "solve"): 1,
    }


@pytest.mark.parametrize(
    ("counts", "status"),
    [({}, "ok"), ({"crash": 1}, "crash"), ({"crash": 3, "timeout": 5}, "timeout"), ({"crash": 5, "error": 1}, "crash")],
)
def test_the_status_of_a_time_is_its_most_frequent_failure(synthetic, counts, status):
    timed = aggregate.timed(as_loaded(*synthetic))
    mine = timed[(timed["method"] == "icp") & (timed["points"] == 256)]
    names = [name for name, count in counts.items() for _ in range(count)]
    names += ["ok"] * (len(mine) - len(names))
    table = aggregate.timing(mine.assign(status=pd.Categorical(names)), [0.0, 180.0])
    assert table["status"].tolist() == [status] and table["ended"].tolist() == [names.count("ok")]


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_a_time_is_of_the_timing_phase_whether_batches_come_first_or_last(synthetic, order):
    timed = aggregate.timed(as_loaded(*synthetic))
    alone = timed[(timed["method"] == "deepgmr") & (timed["points"] == 256)]
    batches = alone.assign(phase="batch", batch=8)
    table = aggregate.timing(pd.concat([alone, batches])[order], [0.0, 180.0])
    assert table["phase"].tolist() == ["timing"] and table["batch"].tolist() == [8]
    assert aggregate.timing(batches, [0.0, 180.0])["phase"].tolist() == ["batch"]


def test_times_of_several_devices_are_not_averaged_and_all_devices_are_named():
    trials = one_group({"a": ("local", np.full(4, 0.1))}, {"a": 2.0})["trials"]
    devices = trials.assign(device=["cpu", "cuda:0", "cpu", "cpu"])
    times = ["time_ms_median", "time_ms_p95", "time_ms_mean"]
    (one,), (several,) = (aggregate.summary(rows, CRITERION).to_dict("records") for rows in (trials, devices))
    assert [one[name] for name in times] == [2.0] * 3 and one["device"] == "cpu"
    assert np.isnan([several[name] for name in times]).all() and several["device"] == "cpu, cuda:0"
    bins = aggregate.by_angle(devices.assign(angle_deg=[5.0, 5.0, 60.0, 60.0]), [30.0], CRITERION)
    assert bins["time_ms_median"].isna().all() and bins["device"].tolist() == ["cpu, cuda:0", "cpu"]


def test_problems_that_were_skipped_count_only_as_skipped():
    trials = one_group({"a": ("local", np.r_[np.full(6, 0.1), np.full(3, np.inf)])}, {"a": 1.0})["trials"]
    skipped = trials.iloc[:4].assign(
        problem=pd.Categorical([f"d/noisy/64/{i:05d}" for i in range(20, 24)]), status="skipped", success=np.nan
    )
    (row,) = aggregate.summary(pd.concat([trials, skipped]).astype({"problem": "category"}), CRITERION).to_dict(
        "records"
    )
    assert (row["problems"], row["distinct_problems"], row["answered"], row["skipped"]) == (9, 9, 6, 4)
    assert (row["timeout"], row["recall"], row["answer_rate"]) == (3, 6 / 9, 6 / 9)


def test_times_are_those_of_the_machine_that_timed_most_methods():
    """Whichever is first, and however many rows it has; tables without machines, or without rows, stay as they are."""
    rows = [("a", "old", 64), ("a", "old", 128), ("a", "old", 256), ("a", "new", 64), ("b", "new", 64)]
    timing = pd.DataFrame(rows, columns=["method", "machine", "points"])
    for order in (timing, timing[::-1]):
        chosen = aggregate.of_one_machine(order)
        assert set(chosen["machine"]) == {"new"} and sorted(chosen["method"]) == ["a", "b"]
    for same in (timing[:3], timing[:0], timing.drop(columns="machine")):
        pd.testing.assert_frame_equal(aggregate.of_one_machine(same), same)


def test_rows_over_all_angles_are_those_from_0_to_180():
    ends = pd.DataFrame({"angle_low": [0, 0, 90, 30], "angle_high": [180, 90, 180, 60]})
    assert aggregate.all_angles(ends).tolist() == [True, False, False, False]


@pytest.mark.parametrize("most", [1, 5, 12, 30])
def test_poses_of_the_first_problems_are_judged_as_good_or_not(monkeypatch, most):
    """Their share has its interval, and the ceiling the share of problems whose rivals fit worse."""
    good, ratio = np.arange(12) % 3 == 0, np.linspace(0.9, 1.2, 12)
    trials = one_group({"m": ("global", np.full(12, 0.1))}, {"m": 1.0})["trials"]
    trials = trials.assign(as_good=good.astype(float), rival_ratio=ratio)
    monkeypatch.setattr(aggregate, "COMPARED", most)
    row = aggregate.summary(trials, CRITERION).iloc[0]
    count = min(most, 12)
    interval = binomtest(int(good[:count].sum()), count).proportion_ci(method="wilson")
    assert row["recall_as_good"] == pytest.approx(good[:count].mean())
    assert (row["recall_as_good_low"], row["recall_as_good_high"]) == pytest.approx((interval.low, interval.high))
    assert (row["ceiling"], row["ceiling_problems"]) == (pytest.approx((ratio > 1).mean()), 12)
