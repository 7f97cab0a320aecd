"""From poses to tables: everything a person reads is computed here, from the record's outcomes and problems.

Two frames come in. `problems`, a row a problem: problem, dataset, condition, points, object, category, angle_deg,
translation, overlap, symmetry, truth (4, 4), source_pose (4, 4), eval_points (n, 3). `outcomes`, a row an outcome: method,
kind, problem, repeat, seed, status, pose (4, 4) or None, time_ms, peak_mb, device, threads, message, stages, notes, phase,
dataset, condition, points.

What counts: an outcome that is `skipped` was never asked; it is listed but in no denominator. Every other outcome was asked,
and is answered only if its status is `ok` and its pose is a rigid matrix; if not, its errors are infinite.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench import metrics, stats

if TYPE_CHECKING:
    import pandas as pd

FAILURES = ("no_solution", "invalid", "error", "timeout", "crash", "out_of_memory")
"""The ways of being asked and not answering."""

ENDED = ("ok", "no_solution", "invalid")
"""Statuses of calls that came to their own end, so that their time is a time."""

CELL = ["method", "dataset", "condition", "points"]
KEY = [*CELL, "problem", "repeat", "seed"]

TRIALS = [
    *KEY,
    "object",
    "category",
    "angle_deg",
    "translation",
    "overlap",
    "status",
    *metrics.COLUMNS,
    "time_ms",
    "peak_mb",
]
POSE = [f"t{row}{column}" for row in range(4) for column in range(4)]
POSES = [*KEY, "status", *POSE, "time_ms", "peak_mb", "device", "threads", "message", "phase", "kind", "notes"]


def trials(problems: pd.DataFrame, outcomes: pd.DataFrame) -> pd.DataFrame:
    """The outcomes of the accuracy phase with their errors, sorted by key; columns `TRIALS`, then kind and symmetry.

    An answer that is no rigid matrix has status `invalid` here, whatever the record says. Errors of a failure are infinite,
    those of a skipped outcome NaN. `rmse_symmetric` is NaN where the object's symmetry is not known.

    Raises:
        ValueError: an outcome that was asked has no problem.
    """
    problems = problems.reset_index(drop=True)
    kept = _sorted(outcomes[outcomes["phase"] == "accuracy"], KEY)
    row = _rows_of(problems, kept)
    poses, answered = _answers(kept)
    frame = kept[["kind", *KEY, "time_ms", "peak_mb"]].copy()
    frame["status"] = kept["status"].where(answered | (kept["status"] != "ok"), "invalid")
    known = problems.iloc[np.maximum(row, 0)] if len(problems) else problems.reindex(range(len(row)))
    for name in ("object", "category", "angle_deg", "translation", "overlap", "symmetry"):
        frame[name] = known[name].where(row >= 0, None).array
    for name in ("angle_deg", "translation", "overlap", "time_ms", "peak_mb"):
        frame[name] = frame[name].astype("float64")
    for name, values in _errors(problems, poses, answered, row).items():
        unknown = frame["symmetry"].isna() if name == "rmse_symmetric" else False
        frame[name] = np.where((frame["status"] == "skipped") | (unknown & ~answered), np.nan, values)
    return frame[[*TRIALS, "kind", "symmetry"]]


def _sorted(frame: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    return frame.sort_values(key, kind="stable", ignore_index=True)


def _rows_of(problems: pd.DataFrame, outcomes: pd.DataFrame) -> NDArray[np.intp]:
    """For each outcome the row of its problem, -1 for a skipped one without."""
    import pandas as pd

    row = pd.Index(problems["problem"]).get_indexer(pd.Index(outcomes["problem"]))
    lost = (row < 0) & (outcomes["status"] != "skipped").to_numpy()
    if lost.any():
        raise ValueError(f"outcomes without a problem: {sorted(set(outcomes['problem'][lost]))[:3]}")
    return np.asarray(row, dtype=np.intp)


def _answers(outcomes: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Poses (B, 4, 4), NaN where there is none, and which of them are answers (B,)."""
    has = outcomes["pose"].notna().to_numpy()
    poses = np.full((len(outcomes), 4, 4), np.nan)
    if has.any():
        poses[has] = np.stack(outcomes["pose"][has].to_list())
    return poses, has & (outcomes["status"] == "ok").to_numpy() & metrics.is_rigid(poses)


def _errors(
    problems: pd.DataFrame, poses: NDArray[np.float64], answered: NDArray[np.bool_], row: NDArray[np.intp]
) -> dict[str, NDArray[np.float64]]:
    """Each column of `metrics.COLUMNS` (B,), infinite where not answered; taken per symmetry and number of points."""
    table = {name: np.full(len(row), np.inf) for name in metrics.COLUMNS}
    sizes = problems["eval_points"].map(len).rename("size")
    for (symmetry, _), group in problems.groupby([problems["symmetry"].fillna(""), sizes], sort=False):
        local = np.full(len(problems) + 1, -1)  # the last place serves row -1
        local[group.index] = np.arange(len(group))
        mine = answered & (local[row] >= 0)
        truth, frame, points = (np.stack(group[name].to_list()) for name in ("truth", "source_pose", "eval_points"))
        found = metrics.evaluate(poses[mine], local[row[mine]], truth, frame, points, str(symmetry) or None)
        for name, values in found.items():
            table[name][mine] = values
    return table


def summary(trials: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """One row a method, data set, condition and number of points, columns `SUMMARY`. τ of recall@τ is the threshold.

    The interval of recall is Wilson's over distinct problems (repeats of one problem are no new evidence); that of the mean
    over answered is a bootstrap. The medians are over all asked, so they are infinite where half or more failed.
    """
    cells = trials.groupby(CELL, sort=True)
    rows = [dict(zip(CELL, cell, strict=True)) | _cell(group, threshold, cell) for cell, group in cells]
    return _frame(rows, SUMMARY)


def _cell(group: pd.DataFrame, threshold: float, key: tuple[Any, ...]) -> dict[str, Any]:
    """What one row of `summary` says of its trials, besides their key."""
    asked = group[group["status"] != "skipped"]
    answered = asked[asked["status"] == "ok"]
    distinct = asked["problem"].nunique()
    counts = group["status"].value_counts()
    low, high = stats.bootstrap(answered["rmse"].to_numpy(), "mean", *map(str, key))
    times = asked.loc[asked["status"].isin(ENDED), "time_ms"].dropna()
    return (
        {"problems": len(asked), "answered": len(answered), "rmse_mean_answered": answered["rmse"].mean()}
        | {"rmse_median": asked["rmse"].median()}
        | _recall(asked["rmse"], distinct, threshold, "recall")
        | {"rre_deg_median": asked["rre_deg"].median(), "rte_median": asked["rte"].median()}
        | {"time_ms_median": times.median(), "time_ms_p95": times.quantile(0.95)}
        | {"kind": group["kind"].iloc[0], "answer_rate": len(answered) / len(asked) if len(asked) else np.nan}
        | {"distinct_problems": distinct, "rmse_mean_low": low, "rmse_mean_high": high}
        | {"recall_seed_sd": _seed_sd(asked, threshold), "mean_distance_answered": answered["mean_distance"].mean()}
        | _symmetric(asked, answered, threshold)
        | {status: int(counts.get(status, 0)) for status in (*FAILURES, "skipped")}
        | {"peak_mb_max": asked["peak_mb"].max()}
    )


def _recall(errors: pd.Series[float], distinct: int, threshold: float, name: str) -> dict[str, float]:
    """The share of errors below the threshold and its Wilson interval over distinct problems."""
    share = float((errors < threshold).mean()) if len(errors) else np.nan
    low, high = stats.wilson(np.nan_to_num(share) * distinct, distinct)
    return {name: share, f"{name}_low": float(low), f"{name}_high": float(high)}


def _seed_sd(asked: pd.DataFrame, threshold: float) -> float:
    """Standard deviation of recall over repeats; NaN where each problem was asked once."""
    shares = (asked["rmse"] < threshold).groupby(asked["repeat"]).mean()
    return float(shares.std(ddof=1)) if len(shares) > 1 else np.nan


def _symmetric(asked: pd.DataFrame, answered: pd.DataFrame, threshold: float) -> dict[str, float]:
    """Mean and recall of `rmse_symmetric` over the objects whose symmetry is known."""
    known = asked[asked["symmetry"].notna()]
    return {"rmse_symmetric_mean_answered": answered["rmse_symmetric"].mean()} | _recall(
        known["rmse_symmetric"], known["problem"].nunique(), threshold, "recall_symmetric"
    )


def per_category(trials: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """One row a cell and category; recall over all asked, the mean over answered."""
    return _grouped(trials, ["category"], threshold)


def by_angle(trials: pd.DataFrame, edges: Sequence[float], threshold: float) -> pd.DataFrame:
    """One row a cell and bin [angle_low, angle_high) of rotation magnitude in degrees that has problems.

    The bins are made to cover 0 to 180, so that no problem is outside all of them; the last one holds 180.
    """
    return _grouped(_binned(trials, edges), ["angle_low", "angle_high"], threshold, times=True)


def _binned(frame: pd.DataFrame, edges: Sequence[float]) -> pd.DataFrame:
    """The rows with an angle, and the columns angle_low and angle_high."""
    cuts = np.unique([0.0, *(float(e) for e in edges if 0 < e < 180), 180.0])
    kept = frame[frame["angle_deg"].notna()]
    bins = np.clip(np.searchsorted(cuts, kept["angle_deg"], side="right") - 1, 0, len(cuts) - 2)
    return kept.assign(angle_low=cuts[bins], angle_high=cuts[bins + 1])


def _grouped(trials: pd.DataFrame, by: list[str], threshold: float, times: bool = False) -> pd.DataFrame:
    """Counts, means and recall per cell and `by`."""
    ok = trials["status"] == "ok"
    work = trials[[*CELL, *by, "rmse"]].assign(
        ok=ok,
        answered_rmse=trials["rmse"].where(ok),
        hit=trials["rmse"] < threshold,
        time_ms=trials["time_ms"].where(trials["status"].isin(ENDED)),
    )
    groups = work[trials["status"] != "skipped"].groupby([*CELL, *by], sort=True)
    found = groups.agg(
        problems=("ok", "size"),
        answered=("ok", "sum"),
        rmse_mean_answered=("answered_rmse", "mean"),
        recall=("hit", "mean"),
        **({"time_ms_median": ("time_ms", "median")} if times else {}),
        rmse_median=("rmse", "median"),
    )
    return found.reset_index()


def cdf(trials: pd.DataFrame) -> pd.DataFrame:
    """The share of all asked problems with an rmse up to each value that occurs: the curve ends at the answer rate."""
    asked = trials.loc[trials["status"] != "skipped", [*CELL, "rmse"]]
    asked = asked.sort_values([*CELL, "rmse"], kind="stable")
    cells = asked.groupby(CELL, sort=False)["rmse"]
    asked["fraction"] = (cells.cumcount() + 1) / cells.transform("size")
    steps = asked[np.isfinite(asked["rmse"])]
    return steps.drop_duplicates([*CELL, "rmse"], keep="last").reset_index(drop=True)


def timed(problems: pd.DataFrame, outcomes: pd.DataFrame) -> pd.DataFrame:
    """The asked outcomes that times are taken from: those timed alone if the run has any, else those of the accuracy phase."""
    phase = "timing" if (outcomes["phase"] == "timing").any() else "accuracy"
    kept = outcomes[(outcomes["phase"] == phase) & (outcomes["status"] != "skipped")]
    angles = problems.drop_duplicates("problem").set_index("problem")["angle_deg"].astype("float64")
    numbers = kept[["time_ms", "peak_mb"]].astype("float64")
    return _sorted(kept.assign(angle_deg=kept["problem"].map(angles), **numbers), KEY)


def timing(timed: pd.DataFrame, edges: Sequence[float]) -> pd.DataFrame:
    """One row a method, number of points, device, threads and bin of magnitude, and one for all bins (first edge to 180).

    Times are of calls that came to their end (`ok`, `no_solution`, `invalid`); `ended` counts them. The status is `ok` if all
    did, else the most frequent way in which they did not. Throughput is 1 / median for one pair at a time, never a batch's.
    """
    import pandas as pd

    binned = _binned(timed, edges)
    whole = timed.assign(angle_low=0.0, angle_high=180.0)
    several = binned[(binned["angle_low"] > 0) | (binned["angle_high"] < 180)]
    both = (pd.concat([several, whole]) if len(several) else whole).fillna({"device": "", "threads": -1})
    ended = both["status"].isin(ENDED)
    work = both.assign(ended=ended, time=both["time_ms"].where(ended), broken=both["status"].where(~ended))
    groups = work.groupby(TIMING[:6], sort=True)
    found = groups.agg(
        time_ms_median=("time", "median"),
        peak_mb=("peak_mb", "max"),
        problems=("ended", "size"),
        ended=("ended", "sum"),
        phase=("phase", "first"),
        kind=("kind", "first"),
    )
    found["time_ms_p95"] = groups["time"].quantile(0.95)
    found["throughput_per_s"] = 1000 / found["time_ms_median"].where(found["time_ms_median"] > 0)
    broken = work.groupby([*TIMING[:6], "broken"]).size().reset_index(name="n")
    worst = broken.sort_values("n", ascending=False, kind="stable").drop_duplicates(TIMING[:6])
    found["status"] = worst.set_index(TIMING[:6])["broken"].reindex(found.index).fillna("ok")
    return found.reset_index()[TIMING]


def stages(timed: pd.DataFrame) -> pd.DataFrame:
    """Median milliseconds of each stage a method names, per number of points, over the calls that reached it."""
    import pandas as pd

    named = [
        (m, p, stage, ms)
        for m, p, s in zip(timed["method"], timed["points"], timed["stages"], strict=True)
        for stage, ms in (s or {}).items()
    ]
    long = pd.DataFrame(named, columns=["method", "points", "stage", "time_ms"])
    found = long.groupby(["method", "points", "stage"], sort=True)["time_ms"].agg(["median", "size"])
    return found.rename(columns={"median": "time_ms_median", "size": "calls"}).reset_index()


def poses(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Every outcome of every phase as the record has it, its pose in 16 columns (row-major, source into target)."""
    import pandas as pd

    kept = _sorted(outcomes, [*KEY, "phase"])
    matrix, _ = _answers(kept)
    notes = kept["notes"].map(lambda n: json.dumps(n or {}, sort_keys=True, default=str))
    flat = pd.DataFrame(matrix.reshape(-1, 16), columns=POSE)
    return pd.concat([kept.drop(columns="notes"), notes, flat], axis=1)[POSES]


SUMMARY = [
    *CELL,
    "problems",
    "answered",
    "rmse_mean_answered",
    "rmse_median",
    "recall",
    "recall_low",
    "recall_high",
    "rre_deg_median",
    "rte_median",
    "time_ms_median",
    "time_ms_p95",
    "kind",
    "answer_rate",
    "distinct_problems",
    "rmse_mean_low",
    "rmse_mean_high",
    "recall_seed_sd",
    "mean_distance_answered",
    "rmse_symmetric_mean_answered",
    "recall_symmetric",
    "recall_symmetric_low",
    "recall_symmetric_high",
    *FAILURES,
    "skipped",
    "peak_mb_max",
]
TIMING = ["method", "points", "angle_low", "angle_high", "device", "threads", "status", "time_ms_median", "time_ms_p95"]
TIMING += ["throughput_per_s", "peak_mb", "problems", "ended", "phase", "kind"]


def _frame(rows: list[dict[str, Any]], columns: list[str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=pd.Index(columns))


def tables(problems: pd.DataFrame, outcomes: pd.DataFrame, run: dict[str, Any]) -> dict[str, pd.DataFrame]:
    """Every table of a run by the name of its CSV. `run["config"]` gives "threshold" and "angle_bins"."""
    threshold, edges = float(run["config"]["threshold"]), run["config"]["angle_bins"]
    table, times = trials(problems, outcomes), timed(problems, outcomes)
    return {
        "poses": poses(outcomes),
        "trials": table,
        "summary": summary(table, threshold),
        "per_category": per_category(table, threshold),
        "by_angle": by_angle(table, edges, threshold),
        "cdf": cdf(table),
        "stages": stages(times),
        "timing": timing(times, edges),
    }


def write_csvs(frames: dict[str, pd.DataFrame], folder: Path) -> list[Path]:
    """Write the tables as `folder/<name>.csv`, each whole or not at all; floats in their shortest exact form."""
    folder.mkdir(parents=True, exist_ok=True)
    return [write_atomically(folder / f"{name}.csv", csv_text(table)) for name, table in frames.items()]


def csv_text(table: pd.DataFrame) -> str:
    """A frame as CSV: `\\n` line ends, floats that read back to the same bits, NaN as an empty field, infinity as inf."""
    return table.to_csv(index=False, lineterminator="\n")


def write_atomically(path: Path, content: str | bytes) -> Path:
    """Write a temporary file beside path and rename it: a reader or a kill never sees half a file."""
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(data)
    temporary.replace(path)
    return path
