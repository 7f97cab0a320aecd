"""Every column of every CSV, recomputed from the stored poses and problems by plain definitions."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from bench.evaluation import aggregate
from bench.evaluation.conventions import CONVENTIONS
from bench.evaluation.loader import POSE_COLUMNS
from tests.bench import plain_tables as plain
from tests.bench.plain_tables import GROUP, assert_row, by_key
from tests.bench.synthetic_run import METHODS, as_loaded, outcomes_of, synthetic_run

CRITERION = CONVENTIONS["deepgmr"]
CHOSEN = ("deepgmr", "icp", "ransac10m", "identity", "oracle")
INTERVALS = {"rmse_mean_low", "rmse_mean_high", "rmse_median_low", "rmse_median_high"}
"""Columns with a test of their own below: intervals of a mean and of a median have several valid definitions."""
ERRORS = ["rmse", "rre_deg", "rte", "rmse_paper", "mean_distance", "rmse_coordinate", "mae_euler_deg", "rmse_symmetric"]
TAGS = ["object", "category", "angle_deg", "translation", "overlap", "symmetry"]


def run_with_everything():
    """A run with two repeats, several overlaps, small clouds, batches, failures, and a skipped problem in each group."""
    draw = np.random.default_rng(1)
    problems, outcomes, run = synthetic_run(17, (256, 4096), CHOSEN, ("clean", "resampled"))
    accuracy = problems[~problems["problem"].str.contains("0-180")]
    problems["overlap"] = np.where(np.arange(len(problems)) % 4, draw.uniform(0.05, 1, len(problems)), 1.0)
    problems["angle_deg"] = np.where(np.arange(len(problems)) % 7 == 3, 90.0, problems["angle_deg"])
    problems.at[3, "angle_deg"] = 180.0
    problems.at[0, "eval_points"] = problems.at[0, "eval_points"][:60]
    again = [outcomes_of(accuracy, m, "accuracy", draw).assign(repeat=1) for m in CHOSEN]
    timed = outcomes[(outcomes["phase"] == "timing") & (outcomes["method"] == "deepgmr")]
    batches = [timed.iloc[:12].assign(phase="batch", batch=size, repeat=size) for size in (4, 32)]
    outcomes = pd.concat([outcomes[~outcomes["problem"].str.startswith("none/")], *again, *batches], ignore_index=True)
    first = outcomes["problem"].str.endswith("00001") & (outcomes["repeat"] == 1)
    outcomes.loc[first, "status"] = "skipped"
    outcomes.loc[first, "pose"] = None
    outcomes["time_ms"] = np.where(
        outcomes["phase"] == "batch", draw.lognormal(1, 0.4, len(outcomes)), outcomes["time_ms"]
    )
    outcomes["gpu_memory_mb"] = draw.uniform(1, 9, len(outcomes))
    outcomes.loc[(outcomes["method"] == "icp") & (outcomes["phase"] == "accuracy"), "batch"] = 8
    return problems, outcomes, run


@pytest.fixture(scope="module")
def given():
    return run_with_everything()


@pytest.fixture(scope="module")
def frames(given):
    return aggregate.tables(as_loaded(*given), CRITERION)


@pytest.fixture(scope="module")
def trials(given):
    """The trials in plain code."""
    problems, outcomes, _ = given
    known, rows = problems.set_index("problem"), []
    for outcome in outcomes[outcomes["phase"] == "accuracy"].to_dict("records"):
        problem = known.loc[outcome["problem"]]
        row = {name: outcome[name] for name in (*GROUP, "problem", "repeat", "seed", "status", "kind", "batch")}
        row |= {name: outcome[name] for name in ("time_ms", "peak_mb", "gpu_memory_mb", "machine", "device")}
        row |= {name: problem[name] for name in TAGS}
        if row["status"] == "ok":
            truth = problem["truth"], problem["source_pose"], problem["eval_points"], problem["symmetry"]
            row |= plain.errors_of(outcome["pose"], *truth)
        else:
            row |= dict.fromkeys(ERRORS, np.nan if row["status"] == "skipped" else np.inf)
            row["rmse_symmetric"] = (
                np.inf if row["status"] != "skipped" and isinstance(row["symmetry"], str) else np.nan
            )
        row["success"] = np.nan if row["status"] == "skipped" else float(row["rmse"] < 0.2)
        row |= aggregate.FROM_CLOUDS
        rows.append(row)
    return pd.DataFrame(rows)


def assert_table(frame, keys, expected, name):
    """Every row and every column of a table has a reference."""
    rows = by_key(frame, keys)
    assert set(rows) == set(expected), name
    for key, row in expected.items():
        assert set(frame.columns) == {*keys, *row}, f"{name}: a column without a reference; add it to plain_tables"
        assert_row(rows[key], row, f"{name} {key}")


def test_trials(frames, trials):
    keys = [*GROUP, "problem", "repeat"]
    texts = {name: lambda v: "None" if v is None else str(v) for name in ("status", "object", "category", "kind")}
    expected = by_key(trials, keys)
    symmetry = frames["trials"]["symmetry"].astype(object)
    shown = frames["trials"].assign(symmetry=symmetry.where(symmetry.notna(), "None"))
    for row in expected.values():
        row |= {name: text(row[name]) for name, text in texts.items()}
        row["symmetry"] = row["symmetry"] if isinstance(row["symmetry"], str) else "None"
        for name in keys:
            del row[name]
    assert_table(shown, keys, expected, "trials")


def test_poses(given, frames):
    keys = [*GROUP, "phase", "problem", "repeat"]
    expected = by_key(given[1], keys)
    for row in expected.values():
        pose = np.full(16, np.nan) if row["pose"] is None else np.ravel(row["pose"])
        row |= dict(zip(POSE_COLUMNS, pose, strict=True)) | {"notes": json.dumps(row["notes"])}
        for name in (*keys, "pose", "stages"):
            del row[name]
    assert_table(frames["poses"], keys, expected, "poses")


def test_summary(frames, trials):
    expected = {key: plain.summary_row(rows) for key, rows in trials.groupby(GROUP)}
    assert any(row["skipped"] for row in expected.values()) and any(row["timeout"] for row in expected.values())
    assert_table(frames["summary"].drop(columns=[*INTERVALS]), GROUP, expected, "summary")


def test_intervals_of_errors_contain_their_number_and_have_the_width_of_the_data(frames, trials):
    summary = by_key(frames["summary"], GROUP)
    for key, rows in trials.groupby(GROUP):
        run, row = rows[rows["status"] != "skipped"], summary[key]
        assert row["rmse_median_low"] <= row["rmse_median"] <= row["rmse_median_high"]
        values = np.sort(run.groupby("problem")["rmse"].median())
        assert values[1] <= row["rmse_median_low"] <= values[6] and values[10] <= row["rmse_median_high"] <= values[-2]
        means = run[run["status"] == "ok"].groupby("problem")["rmse"].mean()
        ends = student.interval(0.95, len(means) - 1, means.mean(), means.sem()) if means.std() else (means.mean(),) * 2
        assert row["rmse_mean_low"] <= row["rmse_mean_answered"] <= row["rmse_mean_high"]
        slack = 0.35 * (ends[1] - ends[0]) + 1e-12
        assert abs(row["rmse_mean_low"] - ends[0]) < slack and abs(row["rmse_mean_high"] - ends[1]) < 2 * slack


@pytest.mark.parametrize(
    ("table", "value", "name", "edges"),
    [
        ("by_angle", "angle_deg", "angle", [0, 30, 60, 90, 120, 150, 180]),
        ("by_overlap", "overlap", "overlap", [round(0.1 * k, 1) for k in range(11)]),
    ],
)
def test_bins(frames, trials, table, value, name, edges):
    low, high = f"{name}_low", f"{name}_high"
    expected = plain.per_bin(plain.binned(trials, value, name, edges), low, high)
    if table == "by_overlap":
        expected = {
            key: {n: v for n, v in row.items() if n not in ("time_ms_median", "device")}
            for key, row in expected.items()
        }
    assert_table(frames[table], [*GROUP, low, high], expected, table)


def test_categories(frames, trials):
    expected = {
        key[:-1]: {n: v for n, v in row.items() if n not in ("time_ms_median", "device")}
        for key, row in plain.per_bin(trials.assign(one=0), "category", "one").items()
    }
    assert_table(frames["per_category"], [*GROUP, "category"], expected, "per_category")


def test_curves(frames, trials):
    curves = dict(list(frames["cdf"].groupby(GROUP, observed=True)))
    for key, rows in trials.groupby(GROUP):
        assert np.allclose(curves[key][["rmse", "fraction"]], plain.cdf(rows), rtol=1e-9, atol=1e-12), key
    assert set(frames["cdf"].columns) == {*GROUP, "rmse", "fraction"}


def test_timing(given, frames):
    problems, outcomes, run = given
    angle = outcomes["problem"].map(problems.set_index("problem")["angle_deg"])
    timed = outcomes.assign(angle_deg=angle)[
        outcomes["phase"].isin(("timing", "batch")) & (outcomes["status"] != "skipped")
    ]
    single = plain.binned(timed[timed["batch"] == 1], "angle_deg", "angle", run["config"]["angle_bins"])
    keys = ["method", "points", "angle_low", "angle_high", "device", "threads"]
    expected = {
        key: plain.timing_row(rows)
        for frame in (single, timed.assign(angle_low=0, angle_high=180))
        for key, rows in frame.groupby(keys)
    }
    assert any(row["batch"] == 32 for row in expected.values()) and any(
        row["status"] == "timeout" for row in expected.values()
    )
    assert_table(frames["timing"], keys, expected, "timing")


def test_stages(given, frames):
    """A stage's median is over the timed calls of one pair; the synthetic stages are 70 and 30 % of a fixed time."""
    counts = given[1].query("phase == 'timing'").groupby(["method", "points"]).size()
    expected = {
        (method, points, stage): {
            "time_ms_median": METHODS[method][3] * share,
            "calls": calls,
            "machine": "",
            "device": "cpu",
        }
        for (method, points), calls in counts.items()
        for stage, share in (("features", 0.7), ("solve", 0.3))
    }
    assert_table(frames["stages"], ["method", "points", "stage"], expected, "stages")
