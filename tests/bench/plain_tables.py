"""Tables of a run in plain NumPy, pandas and SciPy, without the code under test: the reference of tests of every column."""

import itertools

import numpy as np
import pandas as pd
from scipy.optimize import brentq, minimize_scalar
from scipy.spatial.transform import Rotation
from scipy.stats import norm

GROUP = ["method", "dataset", "condition", "points"]
RETURNED = ("ok", "no_solution", "invalid")
FAILED = ("no_solution", "invalid", "error", "timeout", "crash", "out_of_memory")
LIMIT = 0.2


def errors_of(T, truth, source_pose, points, symmetry):
    """Every error of one pose, by definition."""
    p = np.asarray(points, dtype=np.float64)
    gap = moved(T, p) - moved(truth, p)
    far = np.sqrt((gap**2).sum(axis=1))
    angles, true_angles = (Rotation.from_matrix(x[:3, :3]).as_euler("zyx", degrees=True) for x in (T, truth))
    turned = np.abs(angles - true_angles)
    relative = Rotation.from_matrix(truth[:3, :3]).inv() * Rotation.from_matrix(T[:3, :3])
    return {
        "rmse": np.sqrt((far**2).mean()),
        "rre_deg": np.degrees(relative.magnitude()),
        "rte": np.linalg.norm(T[:3, 3] - truth[:3, 3]),
        "rmse_paper": np.sqrt((far**2).sum()) / len(p),
        "mean_distance": far[:100].mean(),
        "rmse_coordinate": np.sqrt((gap**2).mean()),
        "mae_euler_deg": np.minimum(turned, 360 - turned).mean(),
        "rmse_symmetric": symmetric_rmse(T, truth, source_pose, p, symmetry),
    }


def moved(T, points):
    return points @ T[:3, :3].T + T[:3, 3]


def symmetric_rmse(T, truth, source_pose, points, symmetry):
    """The smallest RMSE to a true pose followed by a motion of the object onto itself; symmetries about z, flips about x."""
    if not isinstance(symmetry, str):
        return np.nan
    flips = [Rotation.identity()] + ([Rotation.from_euler("x", 180, degrees=True)] if symmetry[0] == "D" else [])

    def rmse(degrees, flip):
        g = np.eye(4)
        g[:3, :3] = (Rotation.from_euler("z", degrees, degrees=True) * flip).as_matrix()
        gap = moved(T, points) - moved(truth @ source_pose @ g @ np.linalg.inv(source_pose), points)
        return np.sqrt((gap**2).sum(axis=1).mean())

    if symmetry[1:] != "inf":
        return min(rmse(360 * k / int(symmetry[1:]), flip) for k in range(int(symmetry[1:])) for flip in flips)
    best = [min(range(0, 360, 20), key=lambda a, f=f: rmse(a, f)) for f in flips]
    refined = [
        minimize_scalar(rmse, (a - 20, a, a + 20), args=(f,), tol=1e-9).fun for a, f in zip(best, flips, strict=True)
    ]
    return min(refined)


def wilson(share, n):
    """The shares from which `share` of n differs by 1.96 standard errors, found by root finding."""
    z = norm.ppf(0.975)

    def excess(p):
        return abs(share - p) - z * np.sqrt(p * (1 - p) / n)

    low = 0.0 if share == 0 else brentq(excess, 1e-15, share, xtol=1e-14) if share < 1 else n / (n + z**2)
    high = 1.0 if share == 1 else brentq(excess, share, 1 - 1e-15, xtol=1e-14) if share > 0 else z**2 / (n + z**2)
    return low, high


def interval(rows, column):
    """Wilson's interval of the recall by an error, where each problem of another object counts once, whatever its repeats."""
    hits = (rows[column] < LIMIT).groupby(rows["problem"].astype(str)).mean()
    return wilson(hits.mean(), len(hits))


def standard_deviations(rows):
    """Standard deviation within and between problems, by the analysis of variance with one random effect."""
    values = [group.to_numpy() for _, group in rows.groupby("problem", observed=True)["rmse"]]
    n, k = sum(map(len, values)), len(values)
    if n == k:
        return np.nan, np.nan
    within = sum(((v - v.mean()) ** 2).sum() for v in values) / (n - k)
    if k < 2:
        return np.sqrt(within), np.nan
    grand = np.concatenate(values).mean()
    between = sum(len(v) * (v.mean() - grand) ** 2 for v in values) / (k - 1)
    typical = (n - sum(len(v) ** 2 for v in values) / n) / (k - 1)
    return np.sqrt(within), np.sqrt(max(between - within, 0) / typical)


def summary_row(rows):
    """One row of summary.csv without its intervals of errors, from the trials of one group."""
    run = rows[rows["status"] != "skipped"]
    ok, known = run[run["status"] == "ok"], run[run["symmetry"].notna()]
    by_problem = run.groupby("problem", observed=True)
    times = run.loc[run["status"].isin(RETURNED), "time_ms"].dropna().to_numpy()
    seed_sd, problem_sd = standard_deviations(ok)
    by_repeat = [(part["rmse"] < LIMIT).mean() for _, part in run.groupby("repeat")]
    recall, distinct = (run["rmse"] < LIMIT).mean(), run["problem"].astype(str).nunique()
    row = {
        "problems": len(run),
        "answered": len(ok),
        "rmse_mean_answered": np.mean([part.mean() for _, part in ok.groupby("problem", observed=True)["rmse"]]),
        "rmse_median": np.median([np.median(part) for _, part in by_problem["rmse"]]),
        "recall": recall,
        "rre_deg_median": np.median(run["rre_deg"]),
        "rte_median": np.median(run["rte"]),
        "time_ms_median": np.median(times) if len(times) else np.nan,
        "time_ms_p95": np.quantile(times, 0.95) if len(times) else np.nan,
        "time_ms_mean": times.sum() / len(times) if len(times) else np.nan,
        "kind": rows["kind"].iloc[0],
        "answer_rate": len(ok) / len(run),
        "distinct_problems": distinct,
        "recall_seed_sd": np.std(by_repeat, ddof=1) if len(by_repeat) > 1 else np.nan,
        "mean_distance_answered": ok["mean_distance"].sum() / len(ok) if len(ok) else np.nan,
        "rre_deg_mean_answered": ok["rre_deg"].sum() / len(ok) if len(ok) else np.nan,
        "rte_mean_answered": ok["rte"].sum() / len(ok) if len(ok) else np.nan,
        "rmse_symmetric_mean_answered": ok["rmse_symmetric"].mean(),
        "rmse_seed_sd": seed_sd,
        "rmse_problem_sd": problem_sd,
        "skipped": len(rows) - len(run),
        "peak_mb_max": run["peak_mb"].max(),
        "gpu_memory_mb_max": run["gpu_memory_mb"].max(),
        "batch": rows["batch"].max(),
        "device": ", ".join(sorted(set(run.loc[run["status"].isin(RETURNED), "device"]))),
    }
    row |= {status: (run["status"] == status).sum() for status in FAILED}
    both = "recall_as_good", "recall_symmetric_estimated"
    row |= dict.fromkeys((f"{name}{end}" for name in both for end in ("", "_low", "_high")), np.nan)
    row |= {
        "ceiling": np.nan,
        "unambiguous": np.nan,
        "ceiling_problems": 0,
    }  # from clouds: tests/bench/report/test_as_good.py and test_estimated_symmetry.py
    row |= dict(zip(("recall_low", "recall_high"), interval(run, "rmse"), strict=True))
    share = (known["rmse_symmetric"] < LIMIT).mean() if len(known) else np.nan
    ends = interval(known, "rmse_symmetric") if len(known) else (np.nan, np.nan)
    return row | dict(zip(("recall_symmetric", "recall_symmetric_low", "recall_symmetric_high"), (share, *ends)))  # noqa: B905


def per_bin(trials, low, high):
    """Counts, error, recall and time of the trials with low <= value < high, by group; high is included if it is the last."""
    rows = {}
    for key, part in trials[trials["status"] != "skipped"].groupby([*GROUP, low, high], observed=True):
        ok, times = part[part["status"] == "ok"], part.loc[part["status"].isin(RETURNED), "time_ms"]
        rows[key] = {
            "problems": len(part),
            "answered": len(ok),
            "rmse_mean_answered": ok["rmse"].mean(),
            "recall": (part["rmse"] < LIMIT).mean(),
            "rmse_median": np.median(part["rmse"]),
            "time_ms_median": times.median(),
            "device": ", ".join(sorted(set(part["device"]))),
        }
    return rows


def binned(trials, value, name, edges):
    """The trials with the bin of a value, found by comparing with one bin after the other."""
    parts = [
        next((a, b) for a, b in itertools.pairwise(edges) if a <= v < b or (v == b == edges[-1])) for v in trials[value]
    ]
    return trials.assign(**{f"{name}_low": [a for a, _ in parts], f"{name}_high": [b for _, b in parts]})


def cdf(rows):
    """Pairs (error, share of problems with at most that error) of one group."""
    errors = rows.loc[rows["status"] != "skipped", "rmse"].to_numpy()
    return [(e, (errors <= e).mean()) for e in np.unique(errors[np.isfinite(errors)])]


def timing_row(rows):
    """One row of timing.csv from the timed calls of a method at a size, in one bin of angles."""
    alone, batched = rows[rows["batch"] == 1], rows[rows["batch"] > 1]
    times = alone.loc[alone["status"].isin(RETURNED), "time_ms"]
    failed = alone.loc[~alone["status"].isin(RETURNED), "status"].astype(str)
    largest = batched[(batched["batch"] == batched["batch"].max()) & batched["status"].isin(RETURNED)]["time_ms"]
    median = times.median()
    return {
        "status": failed.value_counts().index[0] if len(failed) else "ok",
        "time_ms_median": median,
        "time_ms_p95": np.quantile(times, 0.95) if len(times) else np.nan,
        "time_ms_mean": times.mean(),
        "throughput_per_s": 1000 / median,
        "peak_mb": alone["peak_mb"].max(),
        "gpu_memory_mb": alone["gpu_memory_mb"].max(),
        "problems": len(alone),
        "ended": len(times),
        "batch": batched["batch"].max() if len(batched) else np.nan,
        "pairs_per_s": 1000 / largest.median() if len(largest) else np.nan,
        "phase": rows["phase"].astype(str).max(),  # "timing", if any call was timed alone
        "kind": rows["kind"].iloc[0],
        "machine": rows["machine"].iloc[0],
    }


def assert_row(row, expected, what):
    """Compare a row with its reference: numbers to 1e-9, texts exactly."""
    for name, value in expected.items():
        ours = row[name]
        if isinstance(value, str):
            assert str(ours) == value, f"{what}: {name}"
        else:
            assert np.isclose(float(ours), float(value), rtol=1e-7, atol=1e-9, equal_nan=True), (
                f"{what}: {name} is {ours}, not {value}"
            )


def by_key(frame, keys):
    """Rows of a frame as dicts by key, keys as plain values."""
    plain = frame.astype({name: object for name in keys if isinstance(frame[name].dtype, pd.CategoricalDtype)})
    return {tuple(row[name] for name in keys): row for row in plain.to_dict("records")}
