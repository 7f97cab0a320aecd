"""Tables of a run, computed from the poses that `bench.evaluation.loader` reads from the results database.

An outcome with status `skipped` was not run: it is listed, but is in no denominator. Every other outcome was run, and counts
as answered only if its status is `ok` and its pose is a rigid matrix; otherwise its errors are infinite.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.evaluation import metrics, protocols, statistics
from bench.evaluation.clusters import clusters_of
from bench.evaluation.conventions import DEFAULT, Convention, add_information_rmse
from bench.evaluation.fit import COMPARED, TOLERANCE
from bench.evaluation.loader import GROUP_COLUMNS, KEY_COLUMNS, POSE_COLUMNS, RunData
from bench.storage.csv_writer import csv_blocks
from common.errors import InputError
from common.files import make_folder, write_atomically
from common.parallel import begin
from common.rigid import is_rigid

if TYPE_CHECKING:
    import pandas as pd

FAILURES = ("no_solution", "invalid", "error", "timeout", "crash", "out_of_memory")
"""Statuses of problems that were run but not answered."""

ENDED = ("ok", "no_solution", "invalid")
"""Statuses of calls that returned by themselves, so that their duration is meaningful."""

LARGE = 200_000
"""Number of outcomes of a run above which worker processes take part in its report while its tables are computed."""

OVERLAPS = tuple(np.round(np.linspace(0, 1, 11), 1).tolist())
"""Bin edges of overlap."""

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
    "machine",
    "device",
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
POSES += ["batch", "gpu_memory_mb", "machine"]


FROM_CLOUDS: dict[str, Any] = {
    "as_good": np.nan,
    "rival_ratio": np.nan,
    "symmetry_estimated": "",
    "rmse_symmetric_estimated": np.nan,
}
"""Columns of trials that a report adds where it has the clouds, with the value for unknown."""


def trials(loaded: RunData) -> pd.DataFrame:
    """Return the outcomes of the accuracy phase with their errors, sorted by key; columns `TRIALS`.

    A pose that is not a rigid matrix gets status `invalid`, whatever the database says. Errors of a failure are infinite,
    those of a skipped outcome NaN. `rmse_symmetric` is NaN where the object's symmetry is unknown.

    Raises:
        ValueError: an outcome that was run has no problem.
    """
    accuracy = np.flatnonzero(loaded.outcomes["phase"] == "accuracy")
    names = ["kind", *KEY_COLUMNS, "status", "time_ms", "peak_mb", "batch", "gpu_memory_mb"]
    names += ["machine", "device"]
    frame = loaded.outcomes[names].take(accuracy).reset_index(drop=True)
    row = _rows_of(loaded.problems, frame)
    poses = loaded.outcomes[POSE_COLUMNS].to_numpy()[accuracy].reshape(-1, 4, 4)
    claimed = (frame["status"] == "ok").to_numpy()
    answered = claimed & np.concatenate([is_rigid(poses[chunk]) for chunk in metrics.chunks(len(poses))])
    frame["status"] = _with_invalid(frame["status"], claimed & ~answered)
    for name in ("object", "category", "angle_deg", "translation", "overlap", "symmetry"):
        frame[name] = _take_column(loaded.problems[name], row)
    skipped, known = (frame["status"] == "skipped").to_numpy(), frame["symmetry"].notna().to_numpy()
    for name, values in _errors(loaded, poses, answered, row).items():
        unknown = ~known & ~answered if name == "rmse_symmetric" else False
        frame[name] = np.where(skipped | unknown, np.nan, values)
    return frame[TRIALS]


def _rows_of(problems: pd.DataFrame, outcomes: pd.DataFrame) -> NDArray[np.intp]:
    """Return the row of each outcome's problem; -1 for a skipped outcome without a problem."""
    import pandas as pd

    ids = outcomes["problem"].cat
    row = pd.Index(problems["problem"]).get_indexer(ids.categories)[ids.codes]
    missing = (row < 0) & (outcomes["status"] != "skipped").to_numpy()
    if missing.any():
        raise ValueError(f"outcomes without a problem: {sorted(set(outcomes['problem'][missing]))[:3]}")
    return np.asarray(row, dtype=np.intp)


def _with_invalid(status: pd.Series[Any], invalid: NDArray[np.bool_]) -> pd.Series[Any]:
    """Set the status to `invalid` in the given rows; categories in alphabetical order."""
    import pandas as pd

    names = sorted({*status.cat.categories, "invalid"})
    codes = np.asarray(pd.Index(names).get_indexer(status.cat.categories))[status.cat.codes]
    return pd.Series(pd.Categorical.from_codes(np.where(invalid, names.index("invalid"), codes), pd.Index(names)))


def _take_column(column: pd.Series[Any], row: NDArray[np.intp]) -> Any:
    """Return the values (rows,) of a column of the problems, missing where row is -1; text as sorted categories."""
    import pandas as pd

    if column.dtype.kind == "f":
        return np.append(column.to_numpy(), np.nan)[row]
    codes, words = pd.factorize(column, sort=True)
    return pd.Categorical.from_codes(np.append(codes, -1)[row], words)


def _errors(
    loaded: RunData, poses: NDArray[np.float64], answered: NDArray[np.bool_], row: NDArray[np.intp]
) -> dict[str, NDArray[np.float64]]:
    """Return each column of `metrics.COLUMNS` (B,), infinite where not answered; evaluated per symmetry group."""
    table = {name: np.full(len(row), np.inf) for name in metrics.COLUMNS}
    symmetries = loaded.problems["symmetry"].fillna("").astype(str).to_numpy()
    for symmetry in np.unique(symmetries):
        member = np.append(symmetries == symmetry, False)  # the last entry serves row -1
        rows = np.flatnonzero(answered & member[row])
        errors = metrics.evaluate(poses[rows], row[rows], loaded.scenes, str(symmetry) or None)
        for name, values in errors.items():
            table[name][rows] = values
    return table


def summary(trials: pd.DataFrame, criterion: Convention) -> pd.DataFrame:
    """Return one row per method, data set, condition and number of points; columns `summary_columns`.

    Repeats of a problem are not independent: recall is the mean over all outcomes, the mean over answered is over problems of
    the mean over repeats, medians are over problems of the median over repeats, and intervals are over problems (Wilson's
    for recall, bootstraps otherwise), or over objects if an object has several problems; see `statistics`. The mean has no
    interval below ten objects. Medians are over all problems that were run, so they are infinite where half or more failed.
    The spread over seeds has separate columns. The time of a batch is divided by its pairs; `batch` is the largest size.
    Times are empty where several machines or devices measured them; `device` names all of these.
    """
    import pandas as pd

    columns = _columns(trials, criterion)
    rows = [
        dict(zip(GROUP_COLUMNS, key, strict=True)) | _summarize(_take(columns, group), criterion, key)
        for key, group in _groups(trials)
    ]
    return pd.DataFrame(rows, columns=pd.Index(summary_columns(criterion)))


Columns = dict[str, NDArray[Any]]
"""Columns (n,) of some outcomes: `summary` takes arrays, because one operation on a frame takes as long as ten on arrays."""


def _columns(trials: pd.DataFrame, criterion: Convention) -> Columns:
    """Return the columns that `summary` needs, with the numbers of problems and of their objects (`cluster`)."""
    numbers = [criterion.metric, "success", "as_good", "rival_ratio", "rre_deg", "rte", "mean_distance", "time_ms"]
    numbers += ["rmse_symmetric", "rmse_symmetric_estimated", "peak_mb", "gpu_memory_mb"]
    columns = {name: trials[name].to_numpy(dtype=np.float64) for name in numbers}
    columns |= {name: trials[name].to_numpy() for name in ("status", "repeat", "kind", "batch", "machine", "device")}
    codes = trials["problem"].cat.codes.to_numpy()
    return columns | {
        "problem": codes,
        "cluster": clusters_of(trials),
        "symmetric": trials["symmetry"].notna().to_numpy(),
    }


def _groups(trials: pd.DataFrame) -> Iterator[tuple[tuple[Any, ...], NDArray[np.intp]]]:
    """Yield the key of each group, sorted, and the numbers of its rows."""
    number = trials.groupby(GROUP_COLUMNS, sort=True, observed=True).ngroup().to_numpy()
    order = np.argsort(number, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(number[order])) + 1) if len(order) else []
    keys = trials[GROUP_COLUMNS].iloc[[group[0] for group in groups]].itertuples(index=False, name=None)
    yield from zip(keys, groups, strict=True)


def _take(columns: Columns, rows: NDArray[Any]) -> Columns:
    """Return some rows, as numbers or as a mask; without a copy if the mask has all."""
    everything = rows.dtype == np.bool_ and rows.all()
    return columns if everything else {name: values[rows] for name, values in columns.items()}


def summary_columns(criterion: Convention) -> list[str]:
    """Return the columns of `summary`; the error columns carry the name of the convention's error."""
    m = criterion.metric
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
    names += ["recall_as_good", "recall_as_good_low", "recall_as_good_high", "ceiling", "unambiguous"]
    names += ["ceiling_problems", "rre_deg_mean_answered", "rte_mean_answered", "device"]
    names += [f"recall_symmetric_estimated{end}" for end in ("", "_low", "_high")]
    return list(dict.fromkeys(names))


def _summarize(group: Columns, criterion: Convention, key: tuple[Any, ...]) -> dict[str, Any]:
    """Compute one row of `summary` without its key."""
    m = criterion.metric
    evaluated = _take(group, group["status"] != "skipped")
    answered = _take(evaluated, evaluated["status"] == "ok")
    distinct = np.unique(evaluated["problem"])
    compared = _take(evaluated, evaluated["problem"] <= distinct[:COMPARED].max(initial=-1))
    means, objects = _over_repeats(answered, answered[m])
    medians, all_objects = _over_repeats(evaluated, evaluated[m], "median")
    low, high = statistics.bootstrap_mean(means, *map(str, key), cluster=objects)
    median = statistics.bootstrap_median(medians, all_objects)
    ended = _take(evaluated, np.isin(evaluated["status"], ENDED))
    times = _known(ended["time_ms"])[: None if _is_one_place(ended) else 0]
    seed, problem = statistics.spread(answered["problem"], answered[m])
    count = len(evaluated["status"])
    return (
        {"problems": count, "answered": len(answered["status"]), f"{m}_mean_answered": _mean(means)}
        | {f"{m}_median": _median(medians), f"{m}_median_low": median[0], f"{m}_median_high": median[1]}
        | _recall(evaluated["success"], evaluated, "recall")
        | {"rre_deg_median": _median(evaluated["rre_deg"]), "rte_median": _median(evaluated["rte"])}
        | {"time_ms_median": _median(times), "time_ms_mean": _mean(times)}
        | {"time_ms_p95": np.percentile(times, 95) if len(times) else np.nan}
        | {"kind": group["kind"][0], "answer_rate": len(answered["status"]) / count if count else np.nan}
        | {"distinct_problems": len(distinct), f"{m}_mean_low": low, f"{m}_mean_high": high}
        | {f"{m}_seed_sd": seed, f"{m}_problem_sd": problem, "recall_seed_sd": _seed_sd(evaluated)}
        | {"mean_distance_answered": _mean(answered["mean_distance"])}
        | {"rre_deg_mean_answered": _mean(answered["rre_deg"]), "rte_mean_answered": _mean(answered["rte"])}
        | _symmetric(evaluated, answered)
        | {status: int((group["status"] == status).sum()) for status in (*FAILURES, "skipped")}
        | {f"{name}_max": _largest(evaluated[name]) for name in ("peak_mb", "gpu_memory_mb")}
        | {"batch": group["batch"].max(), "device": _devices(ended["device"])}
        | _recall(compared["as_good"], compared, "recall_as_good")
        | _ceiling(evaluated)
    )


def _known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values that are not missing."""
    return values[~np.isnan(values)]


def _mean(values: NDArray[np.float64]) -> float:
    """Return the mean of the known values; NaN if there are none."""
    known = ~np.isnan(values)
    return float(np.where(known, values, 0.0).sum() / known.sum()) if known.any() else np.nan


def _median(values: NDArray[np.float64]) -> float:
    """Return the median of the known values; NaN if there are none."""
    known = _known(values)
    return float(np.median(known)) if len(known) else np.nan


def _largest(values: NDArray[np.float64]) -> float:
    """Return the largest of the known values; NaN if there are none."""
    known = _known(values)
    return float(known.max()) if len(known) else np.nan


def _is_one_place(rows: Columns) -> bool:
    """Return whether times come from one device of one machine, as far as is known: earlier versions stored no machine."""
    return len(set(rows["machine"]) - {""}) <= 1 and len(set(rows["device"])) <= 1


def _devices(devices: Iterable[Any]) -> str:
    """Return the name of the device of some times, or of all their devices."""
    return ", ".join(sorted(map(str, set(devices))))


def _over_repeats(
    rows: Columns, values: NDArray[np.float64], how: str = "mean"
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the mean or median of the values (n,) over the repeats of each problem, and the number of its object."""
    if not (rows["repeat"] > 0).any():
        return values, rows["cluster"]
    import pandas as pd

    table = pd.DataFrame({"problem": rows["problem"], "cluster": rows["cluster"], "value": values})
    by_problem = table.groupby("problem", sort=True)
    return by_problem["value"].agg(how).to_numpy(), by_problem["cluster"].first().to_numpy()


def _recall(success: NDArray[np.float64], rows: Columns, name: str) -> dict[str, float]:
    """Return the share of successes (n,) of the outcomes `rows` (n,) and its interval; NaN where success is undefined."""
    share = float(success.mean()) if len(success) else np.nan
    if np.isnan(share):
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"), np.nan)
    low, high = statistics.share_interval(*_over_repeats(rows, success))
    return {name: share, f"{name}_low": low, f"{name}_high": high}


def _seed_sd(evaluated: Columns) -> float:
    """Return the standard deviation of recall over repeats; NaN without repeats."""
    repeats = np.unique(evaluated["repeat"])
    shares = [evaluated["success"][evaluated["repeat"] == repeat].mean() for repeat in repeats]
    return float(np.std(shares, ddof=1)) if len(shares) > 1 else np.nan


def _symmetric(evaluated: Columns, answered: Columns) -> dict[str, float]:
    """Return mean and recall@0.2 of `rmse_symmetric` where the symmetry is known, and recall where it is estimated."""
    mean = {"rmse_symmetric_mean_answered": _mean(answered["rmse_symmetric"])}
    estimated = "rmse_symmetric_estimated"
    parts = {
        "recall_symmetric": (evaluated["symmetric"], "rmse_symmetric"),
        "recall_symmetric_estimated": (~np.isnan(evaluated[estimated]), estimated),
    }
    for name, (is_known, column) in parts.items():
        known = _take(evaluated, is_known)
        mean |= _recall((known[column] < DEFAULT.limits[0][1]).astype(float), known, name)
    return mean


def _ceiling(evaluated: Columns) -> dict[str, float]:
    """Return the shares of problems where no pose far from the truth fits better, and none as well, and their number."""
    _, first = np.unique(evaluated["problem"], return_index=True)
    ratios = _known(evaluated["rival_ratio"][first])
    limits = {"ceiling": 1, "unambiguous": 1 + TOLERANCE}
    shares = {name: float((ratios > limit).mean()) if len(ratios) else np.nan for name, limit in limits.items()}
    return shares | {"ceiling_problems": len(ratios)}


def per_category(trials: pd.DataFrame, criterion: Convention) -> pd.DataFrame:
    """Return one row per group and category: recall over problems run, mean error over answered."""
    return _aggregate(trials, ["category"], criterion)


def by_angle(trials: pd.DataFrame, edges: Sequence[float], criterion: Convention) -> pd.DataFrame:
    """Return one row per group and non-empty bin [angle_low, angle_high) of the rotation angle in degrees.

    Edges 0 and 180 are added, so that every problem is in a bin; the last bin includes 180.
    """
    return _aggregate(_binned(trials, edges), ["angle_low", "angle_high"], criterion, times=True)


def by_overlap(trials: pd.DataFrame, criterion: Convention) -> pd.DataFrame:
    """Return one row per group and non-empty bin [overlap_low, overlap_high) of the overlap; the last bin includes 1."""
    binned = _binned(trials, OVERLAPS, "overlap", 1.0)
    return _aggregate(binned, ["overlap_low", "overlap_high"], criterion)


def _binned(frame: pd.DataFrame, edges: Sequence[float], by: str = "angle_deg", top: float = 180.0) -> pd.DataFrame:
    """Return the rows with a value, with columns <name>_low and <name>_high: the bin of the value between 0 and `top`."""
    cuts = np.unique([0.0, *(float(e) for e in edges if 0 < e < top), top])
    kept = frame[frame[by].notna()]
    bins = np.clip(np.searchsorted(cuts, kept[by], side="right") - 1, 0, len(cuts) - 2)
    name = by.removesuffix("_deg")
    return kept.assign(**{f"{name}_low": cuts[bins], f"{name}_high": cuts[bins + 1]})


def _aggregate(trials: pd.DataFrame, by: list[str], criterion: Convention, times: bool = False) -> pd.DataFrame:
    """Return counts, means and recall per group and `by`; optionally median times and their device.

    Times are empty where several machines or devices measured a group's.
    """
    m = criterion.metric
    names = [*GROUP_COLUMNS, *by, m, "success", "status", *(("time_ms", "device") if times else ())]
    run = (trials["status"] != "skipped").to_numpy()
    work = trials.loc[run, names]
    ok = work["status"] == "ok"
    work["ok"], work["answered_error"] = ok, work[m].where(ok)
    if times:
        work["time_ms"] = work["time_ms"].where(work["status"].isin(ENDED) & _timed_in_one_place(trials)[run])
    groups = work.groupby([*GROUP_COLUMNS, *by], sort=True, observed=True)
    counts, means = groups["ok"].agg(["size", "sum"]), groups[["answered_error", "success"]].mean()
    medians = groups[["time_ms", m] if times else [m]].median()
    columns = {
        "problems": counts["size"],
        "answered": counts["sum"],
        f"{m}_mean_answered": means["answered_error"],
        "recall": means["success"],
        **({"time_ms_median": medians["time_ms"]} if times else {}),
        f"{m}_median": medians[m],
    }
    if times:
        keys = [*GROUP_COLUMNS, *by]
        devices = work[[*keys, "device"]].drop_duplicates().groupby(keys, sort=True, observed=True)["device"]
        columns["device"] = devices.agg(_devices)
    return _by_group(columns, counts.index)


def _by_group(columns: Mapping[str, pd.Series[Any]], groups: pd.Index[Any]) -> pd.DataFrame:
    """Return a table of the keys of groups and of columns with one row per group, all in the same order."""
    import pandas as pd

    rows = pd.RangeIndex(len(groups))
    keys = {name: groups.get_level_values(name) for name in map(str, groups.names)}
    return pd.DataFrame(keys | {name: column.set_axis(rows) for name, column in columns.items()})


def _timed_in_one_place(trials: pd.DataFrame) -> NDArray[np.bool_]:
    """Return for each outcome (n,) whether one device of one machine measured all times of its group, as far as is known."""
    places = trials.assign(machine=trials["machine"].where(trials["machine"] != ""))
    groups = places.groupby(GROUP_COLUMNS, observed=True)
    return np.asarray((groups[["machine", "device"]].transform("nunique") <= 1).all(axis=1))


def cdf(trials: pd.DataFrame, criterion: Convention) -> pd.DataFrame:
    """Return per group the share of problems run with an error up to each value that occurs; it ends at the answer rate."""
    m = criterion.metric
    curves = trials.loc[trials["status"] != "skipped", [*GROUP_COLUMNS, m]]
    order = np.lexsort([curves[m], curves["points"], *(curves[n].cat.codes for n in _TEXT_KEYS)])
    curves = curves.take(order)
    groups = curves.groupby(GROUP_COLUMNS, sort=False, observed=True)[m]
    curves["fraction"] = (groups.cumcount() + 1) / groups.transform("size")
    steps = curves[np.isfinite(curves[m])]
    columns = [steps[m], steps["points"], *(steps[n].cat.codes for n in _TEXT_KEYS)]
    same = np.all([values.to_numpy()[:-1] == values.to_numpy()[1:] for values in columns], axis=0)
    return steps[np.append(~same, True)[: len(steps)]].reset_index(drop=True)


_TEXT_KEYS = ("condition", "dataset", "method")
"""Columns of `GROUP_COLUMNS` that are categories, the last first."""


def timed(loaded: RunData) -> pd.DataFrame:
    """Return the outcomes that times are taken from: the timing phase if the run has one, else the accuracy phase."""
    outcomes = loaded.outcomes[loaded.outcomes["status"] != "skipped"]
    phase = "timing" if (outcomes["phase"] == "timing").any() else "accuracy"
    timed_rows = outcomes["phase"].isin((phase, "batch"))
    kept = outcomes.loc[timed_rows.to_numpy(), [*KEY_COLUMNS, "status", *TIMED]]
    return kept.assign(angle_deg=_take_column(loaded.problems["angle_deg"], _rows_of(loaded.problems, kept)))


TIMED = ["time_ms", "peak_mb", "device", "threads", "phase", "kind", "batch", "gpu_memory_mb", "machine"]
_TIMING_KEY = ["method", "points", "angle_low", "angle_high", "device", "threads", "machine"]


def timing(timed: pd.DataFrame, edges: Sequence[float]) -> pd.DataFrame:
    """Return one row per method, number of points, device, threads, machine and angle bin, and one over all bins (0 to 180).

    Times and memory are of calls with one pair that returned (`ok`, `no_solution`, `invalid`); `ended` counts them. The
    status is `ok` if all returned, else the most frequent failure. `throughput_per_s` is 1 / median time of one pair.
    `pairs_per_s` is the throughput of calls with `batch` pairs, over all angles; both columns are empty for methods
    without batches.
    """
    import pandas as pd

    binned = _binned(timed[timed["batch"] == 1], edges)
    whole = timed.assign(angle_low=0.0, angle_high=180.0)
    partial = binned[~all_angles(binned)]
    work = _split_batches(pd.concat([partial, whole]) if len(partial) else whole)
    groups = work.groupby(_TIMING_KEY, sort=True, observed=True)
    counts, first = groups[["alone", "ended"]].sum(), groups[["own_phase", "kind"]].first()
    medians, largest = groups[["time", "time_per_pair"]].median(), groups[["memory", "batch", "gpu"]].max()
    columns = {
        "status": _statuses(work, counts.index),
        "time_ms_median": medians["time"],
        "time_ms_p95": groups["time"].quantile(0.95),
        "throughput_per_s": 1000 / medians["time"].where(medians["time"] > 0),
        "peak_mb": largest["memory"],
        "problems": counts["alone"],
        "ended": counts["ended"],
        "phase": first["own_phase"].astype(object).fillna("batch"),
        "kind": first["kind"],
        "time_ms_mean": groups["time"].mean(),
        "batch": largest["batch"],
        "pairs_per_s": 1000 / medians["time_per_pair"].where(medians["time_per_pair"] > 0),
        "gpu_memory_mb": largest["gpu"],
    }
    return _by_group(columns, counts.index)[TIMING]


def _statuses(work: pd.DataFrame, groups: pd.Index[Any]) -> pd.Series[Any]:
    """Return the most frequent failure of each group, given by its values of `_TIMING_KEY`; `ok` for those without one."""
    import pandas as pd

    if work["failure"].isna().all():
        return pd.Series("ok", index=groups, dtype=object)
    failures = work[work["failure"].notna()].groupby([*_TIMING_KEY, "failure"], observed=True).size()
    worst = failures.reset_index(name="n").sort_values("n", ascending=False, kind="stable").drop_duplicates(_TIMING_KEY)
    return worst.set_index(_TIMING_KEY)["failure"].astype(object).reindex(groups).fillna("ok")


def _split_batches(timed: pd.DataFrame) -> pd.DataFrame:
    """Add columns of single-pair calls (alone, own_phase, ended, time, memory, gpu, failure) and of batches."""
    alone, ended = timed["batch"] == 1, timed["status"].isin(ENDED)
    size = timed["batch"].where(~alone)
    largest = timed.assign(size=size).groupby(_TIMING_KEY, observed=True)["size"].transform("max")
    return timed.assign(
        alone=alone,
        own_phase=timed["phase"].where(alone),
        ended=ended & alone,
        time=timed["time_ms"].where(ended & alone),
        memory=timed["peak_mb"].where(alone),
        gpu=timed["gpu_memory_mb"].where(alone),
        failure=timed["status"].where(~ended & alone),
        batch=size,
        time_per_pair=timed["time_ms"].where(ended & (size == largest)),
    )


def stages(stages: pd.DataFrame) -> pd.DataFrame:
    """Return the median ms of each stage per method, number of points, machine and device, over the calls that reached it."""
    keys = ["method", "points", "stage", "machine", "device"]
    medians = stages.groupby(keys, sort=True, observed=True)["time_ms"].agg(["median", "size"]).reset_index()
    return medians.rename(columns={"median": "time_ms_median", "size": "calls"})[
        ["method", "points", "stage", "time_ms_median", "calls", "machine", "device"]
    ]


TIMING = ["method", "points", "angle_low", "angle_high", "device", "threads", "status", "time_ms_median", "time_ms_p95"]
TIMING += ["throughput_per_s", "peak_mb", "problems", "ended", "phase", "kind", "time_ms_mean"]
TIMING += ["batch", "pairs_per_s", "gpu_memory_mb", "machine"]


def of_one_machine(timing: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `timing` of the machine that timed most methods: times of several machines are not comparable.

    Tables written by earlier versions have no machine and are returned as they are.
    """
    if "machine" not in timing or not len(timing):
        return timing
    methods = timing.groupby("machine", observed=True)["method"].nunique()
    return timing[timing["machine"] == methods.index[int(np.argmax(methods.to_numpy()))]]


def all_angles(timing: pd.DataFrame) -> pd.Series[bool]:
    """Return which rows of `timing` cover all rotation angles, 0 to 180 degrees."""
    return (timing["angle_low"] == 0) & (timing["angle_high"] == 180)


def add_success(loaded: RunData, criterion: Convention, table: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return `trials` (or the given table) with the convention's `success`, and `rmse_information` if known or needed.

    The columns `FROM_CLOUDS` are missing: they need the clouds, and a report adds them.
    """
    table = trials(loaded) if table is None else table
    if loaded.information or "rmse_information" in criterion.columns:
        table = add_information_rmse(table, loaded)
    return table.assign(success=criterion.success(table), **FROM_CLOUDS)


def tables(loaded: RunData, criterion: Convention, table: pd.DataFrame | None = None) -> dict[str, pd.DataFrame]:
    """Return every table of a run by the name of its CSV; `table` is the result of `add_success` if already computed.

    `scenes` is only there for runs with real pairs.
    """
    table = add_success(loaded, criterion) if table is None else table
    edges, times = loaded.run["config"]["angle_bins"], timed(loaded)
    scenes = protocols.by_scene(table)
    return {
        "poses": loaded.outcomes[POSES],
        "trials": table,
        "summary": summary(table, criterion),
        "per_category": per_category(table, criterion),
        "by_angle": by_angle(table, edges, criterion),
        "by_overlap": by_overlap(table, criterion),
        "cdf": cdf(table, criterion),
        "stages": stages(loaded.stages),
        "timing": timing(times, edges),
        **({"scenes": scenes} if len(scenes) else {}),
    }


def write_parquet(frames: dict[str, pd.DataFrame], folder: Path) -> list[Path]:
    """Write the tables as `folder/<name>.parquet`, atomically, with the types of their columns.

    Raises:
        InputError: pyarrow is missing.
    """
    require_parquet()
    return [
        write_atomically(folder / f"{name}.parquet", table.to_parquet(index=False)) for name, table in frames.items()
    ]


def require_parquet() -> None:
    """Require the package that writes Parquet.

    Raises:
        InputError: pyarrow is missing.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise InputError("--parquet: package pyarrow is missing; pip install pyarrow")


def write_csvs(frames: dict[str, pd.DataFrame], folder: Path) -> list[Path]:
    """Write the tables as `folder/<name>.csv`, atomically; floats in their shortest exact form."""
    return begin_csvs(frames, folder, rows=0)()


def begin_csvs(frames: dict[str, pd.DataFrame], folder: Path, rows: int) -> Callable[[], list[Path]]:
    """Begin `write_csvs` in another process if a run has many `rows`, and return a function that waits for it; see `begin`."""
    make_folder(folder)
    return begin(partial(_write_csvs, frames, folder), rows > LARGE)


def _write_csvs(frames: dict[str, pd.DataFrame], folder: Path) -> list[Path]:
    return [write_atomically(folder / f"{name}.csv", csv_blocks(table)) for name, table in frames.items()]
