"""Worst pairs of each method with their clouds, for the rotatable 3D views of the page."""

from __future__ import annotations

import base64
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.evaluation.conventions import Convention
from bench.evaluation.loader import RunData
from bench.report import style
from bench.report.ranking import GROUP_KEY_COLUMNS, display_name, group_title, named_rows
from bench.report.replay import ProblemReplay, poses_of, subsample, upright

if TYPE_CHECKING:
    import pandas as pd

    from datasets.problems import Problem, ProblemKey

PAIRS = 3
"""Number of worst pairs per method."""
METHODS = 24
"""Most methods shown."""
SHOWN = 500
"""Points of a cloud that are shown."""


def worst_pairs(
    loaded: RunData, trials: pd.DataFrame, criterion: Convention, replay: ProblemReplay, run: str
) -> dict[str, Any]:
    """Return the data of the page's viewer: methods with their pairs, and the clouds of each problem once.

    Only answered pairs are included, since failures have no pose to show. `run` is the name of the run, for commands.
    """
    methods, names = [], named_rows(trials)
    clouds: dict[str, dict[str, Any]] = {}
    for method, rows in _worst(trials, criterion):
        pairs = []
        for row, pose in zip(rows.to_dict("records"), poses_of(loaded, rows), strict=True):
            problem = replay.problem(str(row["problem"]))
            if problem is not None:
                clouds[str(row["problem"])] = encode_clouds(problem) | {"dataset": str(row["dataset"])}
                pairs.append(describe_pair(row, pose, criterion, replay, run))
        methods.append({"name": display_name(names[method]), "method": method, "pairs": pairs})
    data = sorted({str(d) for d in trials["dataset"].unique() if any(c["dataset"] == d for c in clouds.values())})
    licences = [f"{name}: {replay.licence(name)}" for name in data]
    return {
        "methods": [m for m in methods if m["pairs"]],
        "clouds": clouds,
        "licences": licences,
        "missing": replay.missing,
    }


def _worst(trials: pd.DataFrame, criterion: Convention) -> list[tuple[str, pd.DataFrame]]:
    """Return the answered trials with the largest errors of each method except controls, from different groups if possible."""
    error = trials[criterion.metric].to_numpy()
    shown = (trials["status"] == "ok") & (trials["kind"] != "control") & np.isfinite(error)
    rows = np.flatnonzero(shown)
    rows = rows[np.argsort(-error[rows], kind="stable")]
    order = trials[["method", "kind", *GROUP_KEY_COLUMNS]].take(rows)
    worst = []
    for name in [name for name in named_rows(trials) if (order["method"] == name).any()][:METHODS]:
        own = np.flatnonzero(order["method"] == name)
        turn = order.take(own).groupby(GROUP_KEY_COLUMNS, observed=True).cumcount()
        worst.append((name, trials.take(rows[own[np.argsort(turn.to_numpy(), kind="stable")[:PAIRS]]])))
    return worst


def describe_pair(
    row: dict[Any, Any],
    pose: NDArray[np.float64],
    criterion: Convention,
    replay: ProblemReplay,
    run: str = "RUN",
) -> dict[str, Any]:
    """Return the data of a view: problem, object, error, pose, and the commands that show and repeat it."""
    name = str(row["problem"])
    error = f"{criterion.label} {style.number(float(row[criterion.metric]))}"
    angle = f"RRE {style.number(float(row['rre_deg']), 2)}°, RTE {style.number(float(row['rte']))}"
    return {
        "problem": name,
        "group": group_title(tuple(row[n] for n in GROUP_KEY_COLUMNS)),
        "object": f"{row['category']} · {row['object']}",
        "error": f"{error}, {angle}",
        "id": "/".join(str(row[n]) for n in GROUP_KEY_COLUMNS),
        "T": _elements(pose),
        "show": shlex.join(["python", "bench.py", "show", run, name]),
        "command": command(str(row["method"]), replay.key(name)),
    }


def encode_clouds(problem: Problem) -> dict[str, Any]:
    """Encode the clouds as 16-bit integers in base 64, with their unit, the true pose and the motion to the upright frame."""
    source, target = subsample(problem.source, SHOWN), subsample(problem.target, SHOWN)
    unit = float(max(np.abs(source).max(), np.abs(target).max(), 1e-9)) / 32767
    packed = [base64.b64encode(np.round(c / unit).astype("<i2").tobytes()).decode() for c in (source, target)]
    motions = {"T": _elements(problem.T_target_source), "up": _elements(upright(problem))}
    return {"source": packed[0], "target": packed[1], "unit": unit} | motions


def _elements(T: NDArray[np.float64]) -> list[float]:
    return [float(f"{v:.7g}") for v in T[:3].ravel()]


def command(method: str, key: ProblemKey) -> str:
    """Return a command that runs the method on this problem again, as the last problem of a small run."""
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
    poses = [] if key.sampler == "none" else ["--sampler", key.sampler, "--angles", *(f"{a:g}" for a in key.angles)]
    size = ["--problems", str(key.index + 1), "--preset", "full", "--timing-rounds", "0", "--out", "again"]
    return shlex.join(["python", "bench.py", "--methods", method, *where, *poses, *size])
