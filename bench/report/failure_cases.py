"""The worst pairs of each method, with their clouds, for the turnable criteria of the page."""

from __future__ import annotations

import base64
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.evaluation.conventions import Convention
from bench.evaluation.loader import RunData
from bench.report import style
from bench.report.ranking import GROUP_KEY_COLUMNS, group_title
from bench.report.replay import ProblemReplay, poses_of, subsample

if TYPE_CHECKING:
    import pandas as pd

    from datasets.problems import Problem, ProblemKey

PAIRS = 3
"""Worst pairs a method is shown with."""
METHODS = 24
SHOWN = 500
"""Points of a cloud that are shown."""


def worst_pairs(loaded: RunData, trials: pd.DataFrame, criterion: Convention, replay: ProblemReplay) -> dict[str, Any]:
    """What the page's viewer needs, as JSON: methods with their pairs, and the clouds of each problem once.

    A pair is one that was answered, since nothing can be shown of a failure; failures are in tables of their own.
    """
    methods = []
    clouds: dict[str, dict[str, Any]] = {}
    for method, rows in _worst(trials, criterion):
        pairs = [
            _pair(row, pose, criterion, replay, clouds)
            for row, pose in zip(_records(rows), poses_of(loaded, rows), strict=True)
        ]
        methods.append({"name": method, "pairs": [p for p in pairs if p]})
    data = sorted({str(d) for d in trials["dataset"].unique() if any(c["dataset"] == d for c in clouds.values())})
    licences = [f"{name}: {replay.licence(name)}" for name in data]
    return {
        "methods": [m for m in methods if m["pairs"]],
        "clouds": clouds,
        "licences": licences,
        "missing": replay.missing,
    }


def _records(rows: pd.DataFrame) -> list[dict[Any, Any]]:
    return rows.to_dict("records")


def _worst(trials: pd.DataFrame, criterion: Convention) -> list[tuple[str, pd.DataFrame]]:
    """The answered trials of largest error of each method that is no control; of several groups, if there are."""
    error = trials[criterion.metric].to_numpy()
    shown = (trials["status"] == "ok") & (trials["kind"] != "control") & np.isfinite(error)
    rows = np.flatnonzero(shown)
    rows = rows[np.argsort(-error[rows], kind="stable")]
    order = trials[["method", "kind", *GROUP_KEY_COLUMNS]].take(rows)
    kinds = {str(m): str(k) for m, k in order[["method", "kind"]].drop_duplicates().itertuples(index=False)}
    names = sorted(kinds, key=lambda m: style.order(m, kinds[m]))[:METHODS]
    found = []
    for name in names:
        mine = np.flatnonzero(order["method"] == name)
        turn = order.take(mine).groupby(GROUP_KEY_COLUMNS, observed=True).cumcount()
        found.append((name, trials.take(rows[mine[np.argsort(turn.to_numpy(), kind="stable")[:PAIRS]]])))
    return found


def _pair(
    row: dict[Any, Any],
    pose: NDArray[np.float64],
    criterion: Convention,
    replay: ProblemReplay,
    clouds: dict[str, dict[str, Any]],
) -> dict[str, Any] | None:
    name = str(row["problem"])
    problem = replay.problem(name)
    if problem is None:
        return None
    clouds.setdefault(name, _packed(problem) | {"dataset": str(row["dataset"])})
    size = f"{criterion.label} {style.number(float(row[criterion.metric]))}"
    turned = f"RRE {style.number(float(row['rre_deg']), 2)}°, RTE {style.number(float(row['rte']))}"
    return {
        "problem": name,
        "group": group_title(tuple(row[n] for n in GROUP_KEY_COLUMNS)),
        "object": f"{row['category']} · {row['object']}",
        "error": f"{size}, {turned}",
        "T": _numbers(pose),
        "command": command(str(row["method"]), replay.key(name)),
    }


def _packed(problem: Problem) -> dict[str, Any]:
    """Clouds as 16-bit numbers in base 64, and what a unit of them is."""
    source, target = subsample(problem.source, SHOWN), subsample(problem.target, SHOWN)
    unit = float(max(np.abs(source).max(), np.abs(target).max(), 1e-9)) / 32767
    packed = [base64.b64encode(np.round(c / unit).astype("<i2").tobytes()).decode() for c in (source, target)]
    return {"source": packed[0], "target": packed[1], "unit": unit, "T": _numbers(problem.T_target_source)}


def _numbers(T: NDArray[np.float64]) -> list[float]:
    return [float(f"{v:.7g}") for v in T[:3].ravel()]


def command(method: str, key: ProblemKey) -> str:
    """A command that asks the method this problem again: the last of a small run."""
    where = [
        "--datasets",
        key.dataset,
        "--conditions",
        key.condition,
        "--points",
        str(key.points),
        "--seed",
        str(key.seed),
    ]
    posed = [] if key.sampler == "none" else ["--sampler", key.sampler, "--angles", *(f"{a:g}" for a in key.angles)]
    few = ["--problems", str(key.index + 1), "--preset", "full", "--timing-rounds", "0", "--out", "again"]
    return shlex.join(["python", "bench.py", "--methods", method, *where, *posed, *few])
