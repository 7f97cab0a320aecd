"""From poses to tables: everything a person reads is computed here, from what `bench.evaluation.loader` read of the record.

What counts: an outcome that is `skipped` was never asked; it is listed but in no denominator. Every other outcome was asked,
and is answered only if its status is `ok` and its pose is a rigid matrix; if not, its errors are infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.evaluation import metrics, statistics
from bench.evaluation.conventions import DEFAULT, Convention, add_information_rmse
from bench.evaluation.loader import GROUP_COLUMNS, KEY_COLUMNS, POSE_COLUMNS, RunData
from bench.storage.csv_writer import csv_blocks
from common.files import write_atomically

if TYPE_CHECKING:
    import pandas as pd

FAILURES = ("no_solution", "invalid", "error", "timeout", "crash", "out_of_memory")
"""The ways of being asked and not answering."""

ENDED = ("ok", "no_solution", "invalid")
"""Statuses of calls that came to their own end, so that their time is a time."""

OVERLAPS = tuple(np.round(np.linspace(0, 1, 11), 1).tolist())
"""Edges of the bins of overlap."""

TRIALS = [
    *KEY_COLUMNS,
    "object",
    "category",
    "angle_deg",
    "translation",
    "overlap",
    "status",
    *metrics.COLUMNS,
    "time_ms",
    "peak_mb",
    "kind",
    "symmetry",
    "batch",
    "gpu_memory_mb",
]
POSES = [
    *KEY_COLUMNS,
    "status",
    *POSE_COLUMNS,
    "time_ms",
    "peak_mb",
    "device",
    "threads",
    "message",
    "phase",
    "kind",
    "notes",
]
POSES += ["batch", "gpu_memory_mb"]


def trials(loaded: RunData) -> pd.DataFrame:
    """The outcomes of the accuracy phase with their errors, sorted by key; columns `TRIALS`.

    An answer that is no rigid matrix has status `invalid` here, whatever the record says. Errors of a failure are infinite,
    those of a skipped outcome NaN. `rmse_symmetric` is NaN where the object's symmetry is not known.

    Raises:
        ValueError: an outcome that was asked has no problem.
    """
    accuracy = np.flatnonzero(loaded.outcomes["phase"] == "accuracy")
    frame = loaded.outcomes[["kind", *KEY_COLUMNS, "status", "time_ms", "peak_mb", "batch", "gpu_memory_mb"]].take(
        accuracy
    )
    frame = frame.reset_index(drop=True)
    row = _rows_of(loaded.problems, frame)
    poses = loaded.outcomes[POSE_COLUMNS].to_numpy()[accuracy].reshape(-1, 4, 4)
    claimed = (frame["status"] == "ok").to_numpy()
    answered = claimed & np.concatenate([metrics.is_rigid(poses[part]) for part in metrics.pieces(len(poses))])
    frame["status"] = _renamed(frame["status"], claimed & ~answered)
    for name in ("object", "category", "angle_deg", "translation", "overlap", "symmetry"):
        frame[name] = _looked_up(loaded.problems[name], row)
    skipped, known = (frame["status"] == "skipped").to_numpy(), frame["symmetry"].notna().to_numpy()
    for name, values in _errors(loaded, poses, answered, row).items():
        unknown = ~known & ~answered if name == "rmse_symmetric" else False
        frame[name] = np.where(skipped | unknown, np.nan, values)
    return frame[TRIALS]


def _rows_of(problems: pd.DataFrame, outcomes: pd.DataFrame) -> NDArray[np.intp]:
    """For each outcome the row of its problem, -1 for a skipped one without."""
    import pandas as pd

    ids = outcomes["problem"].cat
    row = pd.Index(problems["problem"]).get_indexer(ids.categories)[ids.codes]
    lost = (row < 0) & (outcomes["status"] != "skipped").to_numpy()
    if lost.any():
        raise ValueError(f"outcomes without a problem: {sorted(set(outcomes['problem'][lost]))[:3]}")
    return np.asarray(row, dtype=np.intp)


def _renamed(status: pd.Series[Any], broken: NDArray[np.bool_]) -> pd.Series[Any]:
    """Statuses with `invalid` where an answer is none, as categories in alphabetical order."""
    import pandas as pd

    names = sorted({*status.cat.categories, "invalid"})
    codes = np.asarray(pd.Index(names).get_indexer(status.cat.categories))[status.cat.codes]
    return pd.Series(pd.Categorical.from_codes(np.where(broken, names.index("invalid"), codes), pd.Index(names)))


def _looked_up(column: pd.Series[Any], row: NDArray[np.intp]) -> Any:
    """The values (rows,) of a problem's column, missing where row is -1; texts as categories in alphabetical order."""
    import pandas as pd

    if column.dtype.kind == "f":
        return np.append(column.to_numpy(), np.nan)[row]
    codes, words = pd.factorize(column, sort=True)
    return pd.Categorical.from_codes(np.append(codes, -1)[row], words)


def _errors(
    loaded: RunData, poses: NDArray[np.float64], answered: NDArray[np.bool_], row: NDArray[np.intp]
) -> dict[str, NDArray[np.float64]]:
    """Each column of `metrics.COLUMNS` (B,), infinite where not answered; taken per symmetry."""
    table = {name: np.full(len(row), np.inf) for name in metrics.COLUMNS}
    groups = loaded.problems["symmetry"].fillna("").astype(str).to_numpy()
    for symmetry in np.unique(groups):
        member = np.append(groups == symmetry, False)  # the last place serves row -1
        mine = np.flatnonzero(answered & member[row])
        found = metrics.evaluate(poses[mine], row[mine], loaded.scenes, str(symmetry) or None)
        for name, values in found.items():
            table[name][mine] = values
    return table


def summary(trials: pd.DataFrame, view: Convention) -> pd.DataFrame:
    """One row a method, data set, condition and number of points, columns `summary_columns`; recall as the convention has it.

    Repeats of one problem are no new evidence: recall and the mean over answered are means over problems of the mean over
    repeats, medians are over problems of the median over repeats, and their intervals are over problems: Wilson's for
    recall, else bootstraps. Medians are over all asked, so they are infinite where half or more failed. The spread over
    seeds stands apart. Times of batches are those of the batch over its pairs; `batch` is the largest.
    """
    cells = trials.groupby(GROUP_COLUMNS, sort=True, observed=True)
    rows = [dict(zip(GROUP_COLUMNS, cell, strict=True)) | _cell(group, view, cell) for cell, group in cells]
    return _frame(rows, summary_columns(view))


def summary_columns(view: Convention) -> list[str]:
    """Columns of `summary`; a convention of another error has that error's name where `rmse` stands here."""
    m = view.metric
    names = [
        *GROUP_COLUMNS,
        "problems",
        "answered",
        f"{m}_mean_answered",
        f"{m}_median",
        "recall",
        "recall_low",
        "recall_high",
    ]
    names += [
        "rre_deg_median",
        "rte_median",
        "time_ms_median",
        "time_ms_p95",
        "kind",
        "answer_rate",
        "distinct_problems",
    ]
    names += [f"{m}_mean_low", f"{m}_mean_high", "recall_seed_sd", "mean_distance_answered"]
    names += ["rmse_symmetric_mean_answered", "recall_symmetric", "recall_symmetric_low", "recall_symmetric_high"]
    names += [*FAILURES, "skipped", "peak_mb_max", f"{m}_median_low", f"{m}_median_high"]
    names += [f"{m}_seed_sd", f"{m}_problem_sd", "time_ms_mean", "batch", "gpu_memory_mb_max"]
    return list(dict.fromkeys(names))


def _cell(group: pd.DataFrame, view: Convention, key: tuple[Any, ...]) -> dict[str, Any]:
    """What one row of `summary` says of its trials, besides their key."""
    m = view.metric
    asked = group[group["status"] != "skipped"]
    answered = asked[asked["status"] == "ok"]
    errors, counts = answered[m].to_numpy(), group["status"].value_counts()
    distinct = asked["problem"].nunique()
    each, middle = _over_repeats(answered, m, "mean"), _over_repeats(asked, m, "median")
    low, high = statistics.bootstrap_mean(each.to_numpy(), *map(str, key))
    median = statistics.bootstrap_median(middle.to_numpy())
    times = asked.loc[asked["status"].isin(ENDED), "time_ms"].dropna()
    seed, problem = statistics.spread(answered["problem"].cat.codes.to_numpy(), errors)
    return (
        {"problems": len(asked), "answered": len(answered), f"{m}_mean_answered": each.mean()}
        | {f"{m}_median": middle.median(), f"{m}_median_low": median[0], f"{m}_median_high": median[1]}
        | _recall(asked["success"], distinct, "recall")
        | {"rre_deg_median": asked["rre_deg"].median(), "rte_median": asked["rte"].median()}
        | {"time_ms_median": times.median(), "time_ms_p95": times.quantile(0.95), "time_ms_mean": times.mean()}
        | {"kind": group["kind"].iloc[0], "answer_rate": len(answered) / len(asked) if len(asked) else np.nan}
        | {"distinct_problems": distinct, f"{m}_mean_low": low, f"{m}_mean_high": high}
        | {f"{m}_seed_sd": seed, f"{m}_problem_sd": problem, "recall_seed_sd": _seed_sd(asked)}
        | {"mean_distance_answered": answered["mean_distance"].mean()}
        | _symmetric(asked, answered)
        | {status: int(counts.get(status, 0)) for status in (*FAILURES, "skipped")}
        | {"peak_mb_max": asked["peak_mb"].max(), "gpu_memory_mb_max": asked["gpu_memory_mb"].max()}
        | {"batch": group["batch"].max()}
    )


def _over_repeats(rows: pd.DataFrame, column: str, how: str) -> pd.Series[float]:
    """A value a problem: the mean or median of its repeats; the rows themselves where each problem was asked once."""
    if not (rows["repeat"] > 0).any():
        return rows[column]
    return rows.groupby("problem", observed=True, sort=True)[column].agg(how)


def _recall(success: pd.Series[float], distinct: int, name: str) -> dict[str, float]:
    """The share of successes and its Wilson interval over distinct problems; NaN where success is not known."""
    share = float(success.mean(skipna=False)) if len(success) else np.nan
    low, high = statistics.wilson(np.nan_to_num(share) * distinct, distinct)
    known = {f"{name}_low": float(low), f"{name}_high": float(high)}
    return {name: share} | (known if not np.isnan(share) else dict.fromkeys(known, np.nan))


def _seed_sd(asked: pd.DataFrame) -> float:
    """Standard deviation of recall over repeats; NaN where each problem was asked once."""
    shares = asked["success"].groupby(asked["repeat"]).mean()
    return float(shares.std(ddof=1)) if len(shares) > 1 else np.nan


def _symmetric(asked: pd.DataFrame, answered: pd.DataFrame) -> dict[str, float]:
    """Mean and recall@0.2 of `rmse_symmetric` over the objects whose symmetry is known."""
    known = asked[asked["symmetry"].notna()]
    limit = DEFAULT.limits[0][1]
    hits = (known["rmse_symmetric"] < limit).astype(float)
    mean = {"rmse_symmetric_mean_answered": answered["rmse_symmetric"].mean()}
    return mean | _recall(hits, known["problem"].nunique(), "recall_symmetric")


def per_category(trials: pd.DataFrame, view: Convention) -> pd.DataFrame:
    """One row a cell and category; recall over all asked, the mean over answered."""
    return _grouped(trials, ["category"], view)


def by_angle(trials: pd.DataFrame, edges: Sequence[float], view: Convention) -> pd.DataFrame:
    """One row a cell and bin [angle_low, angle_high) of rotation magnitude in degrees that has problems.

    The bins are made to cover 0 to 180, so that no problem is outside all of them; the last one holds 180.
    """
    return _grouped(_binned(trials, edges), ["angle_low", "angle_high"], view, times=True)


def by_overlap(trials: pd.DataFrame, view: Convention) -> pd.DataFrame:
    """One row a cell and bin [overlap_low, overlap_high) of the share of the source that the target shows; the last holds 1."""
    binned = _binned(trials, OVERLAPS, "overlap", 1.0)
    return _grouped(binned, ["overlap_low", "overlap_high"], view)


def _binned(frame: pd.DataFrame, edges: Sequence[float], by: str = "angle_deg", top: float = 180.0) -> pd.DataFrame:
    """The rows with a value, and the columns <name>_low and <name>_high of its bin between 0 and top."""
    cuts = np.unique([0.0, *(float(e) for e in edges if 0 < e < top), top])
    kept = frame[frame[by].notna()]
    bins = np.clip(np.searchsorted(cuts, kept[by], side="right") - 1, 0, len(cuts) - 2)
    name = by.removesuffix("_deg")
    return kept.assign(**{f"{name}_low": cuts[bins], f"{name}_high": cuts[bins + 1]})


def _grouped(trials: pd.DataFrame, by: list[str], view: Convention, times: bool = False) -> pd.DataFrame:
    """Counts, means and recall per cell and `by`."""
    ok, m = trials["status"] == "ok", view.metric
    work = trials[[*GROUP_COLUMNS, *by, m, "success"]].assign(
        ok=ok, answered_error=trials[m].where(ok), time_ms=trials["time_ms"].where(trials["status"].isin(ENDED))
    )
    groups = work[trials["status"] != "skipped"].groupby([*GROUP_COLUMNS, *by], sort=True, observed=True)
    columns = {
        "problems": ("ok", "size"),
        "answered": ("ok", "sum"),
        f"{m}_mean_answered": ("answered_error", "mean"),
        "recall": ("success", "mean"),
        **({"time_ms_median": ("time_ms", "median")} if times else {}),
        f"{m}_median": (m, "median"),
    }
    return groups.agg(**columns).reset_index()


def cdf(trials: pd.DataFrame, view: Convention) -> pd.DataFrame:
    """The share of all asked problems with an error up to each value that occurs: the curve ends at the answer rate."""
    m = view.metric
    asked = trials.loc[trials["status"] != "skipped", [*GROUP_COLUMNS, m]]
    order = np.lexsort([asked[m], asked["points"], *(asked[n].cat.codes for n in ("condition", "dataset", "method"))])
    asked = asked.take(order)
    cells = asked.groupby(GROUP_COLUMNS, sort=False, observed=True)[m]
    asked["fraction"] = (cells.cumcount() + 1) / cells.transform("size")
    steps = asked[np.isfinite(asked[m])]
    same = np.all([steps[n].to_numpy()[:-1] == steps[n].to_numpy()[1:] for n in [*GROUP_COLUMNS, m]], axis=0)
    return steps[np.append(~same, True)[: len(steps)]].reset_index(drop=True)


def timed(loaded: RunData) -> pd.DataFrame:
    """The asked outcomes that times are taken from: those timed alone if the run has any, else those of the accuracy phase."""
    outcomes = loaded.outcomes[loaded.outcomes["status"] != "skipped"]
    phase = "timing" if (outcomes["phase"] == "timing").any() else "accuracy"
    asked = outcomes["phase"].isin((phase, "batch"))
    kept = outcomes.loc[asked.to_numpy(), [*KEY_COLUMNS, "status", *TIMED]]
    return kept.assign(angle_deg=_looked_up(loaded.problems["angle_deg"], _rows_of(loaded.problems, kept)))


TIMED = ["time_ms", "peak_mb", "device", "threads", "phase", "kind", "batch", "gpu_memory_mb"]


def timing(timed: pd.DataFrame, edges: Sequence[float]) -> pd.DataFrame:
    """One row a method, number of points, device, threads and bin of magnitude, and one for all bins (first edge to 180).

    Times and memory are of calls with one pair that came to their end (`ok`, `no_solution`, `invalid`); `ended` counts them.
    The status is `ok` if all did, else the most frequent way in which they did not. `throughput_per_s` is 1 / median for one
    pair at a time. What a method does with several pairs at once is another number: `pairs_per_s`, by the median time of calls
    with `batch` pairs, over all magnitudes; both are empty for methods that take no batches.
    """
    import pandas as pd

    binned = _binned(timed[timed["batch"] == 1], edges)
    whole = timed.assign(angle_low=0.0, angle_high=180.0)
    several = binned[(binned["angle_low"] > 0) | (binned["angle_high"] < 180)]
    work = _split_batches(pd.concat([several, whole]) if len(several) else whole)
    groups = work.groupby(TIMING[:6], sort=True, observed=True)
    found = groups.agg(
        time_ms_median=("time", "median"),
        peak_mb=("memory", "max"),
        problems=("alone", "sum"),
        ended=("ended", "sum"),
        phase=("phase", "first"),
        kind=("kind", "first"),
        time_ms_mean=("time", "mean"),
        batch=("batch", "max"),
        share=("share", "median"),
        gpu_memory_mb=("gpu", "max"),
    )
    found["time_ms_p95"] = groups["time"].quantile(0.95)
    found["throughput_per_s"] = 1000 / found["time_ms_median"].where(found["time_ms_median"] > 0)
    found["pairs_per_s"] = 1000 / found["share"].where(found["share"] > 0)
    broken = work.groupby([*TIMING[:6], "broken"], observed=True).size().reset_index(name="n")
    worst = broken.sort_values("n", ascending=False, kind="stable").drop_duplicates(TIMING[:6])
    names = worst.set_index(TIMING[:6])["broken"].astype(object).reindex(found.index)
    return found.assign(status=names.where(names.notna(), "ok")).reset_index()[TIMING]


def _split_batches(timed: pd.DataFrame) -> pd.DataFrame:
    """Columns of calls with one pair (alone, ended, time, memory, gpu, broken) and of the largest batches (batch, share)."""
    alone, ended = timed["batch"] == 1, timed["status"].isin(ENDED)
    size = timed["batch"].where(~alone)
    largest = timed.assign(size=size).groupby(TIMING[:6], observed=True)["size"].transform("max")
    return timed.assign(
        alone=alone,
        ended=ended & alone,
        time=timed["time_ms"].where(ended & alone),
        memory=timed["peak_mb"].where(alone),
        gpu=timed["gpu_memory_mb"].where(alone),
        broken=timed["status"].where(~ended & alone),
        batch=size,
        share=timed["time_ms"].where(ended & (size == largest)),
    )


def stages(stages: pd.DataFrame) -> pd.DataFrame:
    """Median milliseconds of each stage a method names, per number of points, over the calls that reached it."""
    found = stages.groupby(["method", "points", "stage"], sort=True, observed=True)["time_ms"].agg(["median", "size"])
    return found.rename(columns={"median": "time_ms_median", "size": "calls"}).reset_index()


TIMING = ["method", "points", "angle_low", "angle_high", "device", "threads", "status", "time_ms_median", "time_ms_p95"]
TIMING += ["throughput_per_s", "peak_mb", "problems", "ended", "phase", "kind", "time_ms_mean"]
TIMING += ["batch", "pairs_per_s", "gpu_memory_mb"]


def _frame(rows: list[dict[str, Any]], columns: list[str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=pd.Index(columns))


def add_success(loaded: RunData, view: Convention, table: pd.DataFrame | None = None) -> pd.DataFrame:
    """`trials` (or the table given) with `rmse_information`, if it is known or needed, and the convention's `success`."""
    table = trials(loaded) if table is None else table
    if loaded.information or "rmse_information" in view.columns:
        table = add_information_rmse(table, loaded)
    return table.assign(success=view.success(table))


def tables(loaded: RunData, view: Convention, table: pd.DataFrame | None = None) -> dict[str, pd.DataFrame]:
    """Every table of a run by the name of its CSV. `loaded.run["config"]` gives "angle_bins"; `table` is that of `judged`."""
    table = add_success(loaded, view) if table is None else table
    edges, times = loaded.run["config"]["angle_bins"], timed(loaded)
    return {
        "poses": loaded.outcomes[POSES],
        "trials": table,
        "summary": summary(table, view),
        "per_category": per_category(table, view),
        "by_angle": by_angle(table, edges, view),
        "by_overlap": by_overlap(table, view),
        "cdf": cdf(table, view),
        "stages": stages(loaded.stages),
        "timing": timing(times, edges),
    }


def write_csvs(frames: dict[str, pd.DataFrame], folder: Path) -> list[Path]:
    """Write the tables as `folder/<name>.csv`, each whole or not at all; floats in their shortest exact form."""
    folder.mkdir(parents=True, exist_ok=True)
    return [write_atomically(folder / f"{name}.csv", csv_blocks(table)) for name, table in frames.items()]
