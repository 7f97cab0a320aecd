"""Self-contained HTML page of a pair: table, matrix of agreement, and aligned clouds in rotatable 3D views."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.pair.clouds import guessed_unit
from bench.pair.figure import GIVEN, SOURCE, TARGET, strided
from bench.pair.result import PairResult
from bench.pair.text import significant
from bench.report.embed import plotly_script, script_json
from bench.report.style import number
from common.devices import is_gpu

LENGTHS = ("residual", "shift", "rmse")
"""Columns in the unit of the target's file."""
SHOWN = 2500
"""Most points of a cloud in the page."""


def render(result: PairResult) -> str:
    """Render the page."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = (files("bench.pair") / "page.html").read_text(encoding="utf-8")
    scans = result.scans
    facts = {
        "size": f"{significant(scans.size)} ({guessed_unit(scans.size)})",
        "distance between neighbours": significant(scans.spacing),
        "points overlap within": significant(scans.near),
    }
    return environment.from_string(template).render(
        source=scans.source.name,
        target=scans.target.name,
        facts=facts,
        notes=scans.notes,
        verdict=result.verdict(),
        tolerance=result.tolerance(),
        pose_title=pose_title(result),
        pose=pose_lines(result),
        table=table_rows(result),
        names=[a.method for a in result.posed],
        matrix=_matrix(result),
        plotly=plotly_script(),
        data=script_json(_clouds(result)),
    )


def table_rows(result: PairResult) -> list[list[str]]:
    """Return head and rows of the table, as text, the best first."""
    rows = [result.row(a) for a in result.ranked()]
    heads = {"method": "method", "status": "status", "time_ms": "ms", "overlap": "overlap", "residual": "residual"}
    heads |= {"device": "device"} if any(is_gpu(a.device) for a in result.registrations) else {}
    heads |= {"rre_deg": "error °", "shift": "error shift", "rmse": "error rmse"} if result.errors else {}
    heads |= {"consensus": "agrees", "candidate_deg": "from first °"}
    heads |= {"confidence": "reported confidence", "message": "message"}
    return [list(heads.values())] + [[_text(name, row[name]) for name in heads] for row in rows]


def _text(name: str, value: Any) -> str:
    if name == "consensus":
        return "yes" if value else ""
    if name == "overlap":
        return "–" if value != value else f"{value:.0%}"
    if name in LENGTHS:
        return significant(value)
    return number(value) if isinstance(value, float) else str(value)


def pose_lines(result: PairResult) -> list[str]:
    """Return the rows of the candidate's matrix T_target_source as text in aligned columns; empty without poses."""
    if result.candidate is None or result.candidate.pose is None:
        return []
    cells = [[f"{value + 0.0:.6f}" for value in row] for row in result.candidate.pose]
    width = max(len(cell) for row in cells for cell in row)
    return ["  ".join(cell.rjust(width) for cell in row) for row in cells]


def pose_title(result: PairResult) -> str:
    """Return the caption of the candidate's matrix; empty without poses."""
    if result.candidate is None:
        return ""
    return f"Pose of {result.candidate.method} (T_target_source, grade {result.grade.name})"


def _matrix(result: PairResult) -> list[list[str]]:
    """Format angle and shift between every two methods."""
    agree = result.agreement
    return [
        [f"{number(a, 1)}° {significant(s)}" for a, s in zip(angles, shifts, strict=True)]
        for angles, shifts in zip(agree.angle_deg, agree.shift, strict=True)
    ]


def _clouds(result: PairResult) -> dict[str, Any]:
    """Return the subsampled clouds relative to the target's centroid, rounded to a precision finer than visible."""
    centre = result.scans.target.thin.mean(axis=0)
    source = strided(result.scans.source.thin, SHOWN)
    poses = {a.method: _centred_pose(a.pose, centre, source.mean(axis=0)) for a in result.posed if a.pose is not None}
    return {
        "source": _round_coordinates(source - source.mean(axis=0), result.scans.size),
        "target": _round_coordinates(strided(result.scans.target.thin, SHOWN) - centre, result.scans.size),
        "start": _centred_pose(result.scans.restored(np.eye(4)), centre, source.mean(axis=0)),
        "poses": poses,
        "given": GIVEN,
        "shown": result.candidate.method if result.candidate else None,
        "colours": [SOURCE, TARGET],
    }


def _centred_pose(
    T: NDArray[np.float64], centre: NDArray[np.float64], origin: NDArray[np.float64]
) -> list[list[float]]:
    """Return the first three rows of a pose between clouds centred at their centroids."""
    moved = T[:3].copy()
    moved[:, 3] += T[:3, :3] @ origin - centre
    return [[float(v) for v in row] for row in moved]


def _round_coordinates(points: NDArray[np.float64], size: float) -> list[list[float]]:
    """Round coordinates to a ten-thousandth of the size, as three lists."""
    places = int(np.ceil(4 - np.log10(size)))
    return [[float(v) for v in axis] for axis in np.round(points, places).T]
