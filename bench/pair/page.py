"""One HTML page of a pair that opens offline: the table, the matrix of agreement, and the aligned clouds to turn about."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.pair.clouds import guessed_unit
from bench.pair.figure import GIVEN, SOURCE, TARGET, shown
from bench.pair.result import Result
from bench.report.embed import plotly_script, script_json
from bench.report.style import number

SHOWN = 2500
"""Points of a cloud in the page."""


def render(result: Result) -> str:
    """The page."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = (files("bench.pair") / "page.html").read_text(encoding="utf-8")
    scans = result.scans
    facts = {
        "size": f"{number(scans.size)} ({guessed_unit(scans.size)})",
        "distance between neighbours": number(scans.spacing),
        "counts as overlapping within": number(scans.near),
        "poses count as the same within": number(scans.alike),
    }
    return environment.from_string(template).render(
        source=scans.source.file.name,
        target=scans.target.file.name,
        facts=facts,
        notes=scans.notes,
        verdict=result.verdict(),
        table=table(result),
        names=[a.method for a in result.posed],
        matrix=_matrix(result),
        plotly=plotly_script(),
        data=script_json(_clouds(result)),
    )


def table(result: Result) -> list[list[str]]:
    """Head and rows of the table, as text."""
    rows = [result.row(a) for a in result.answers]
    heads = {"method": "method", "status": "status", "time_ms": "ms", "overlap": "overlap", "residual": "residual"}
    heads |= {"rre_deg": "error °", "shift": "error shift", "rmse": "error rmse"} if result.errors else {}
    heads |= {"consensus": "agrees", "confidence": "says of itself", "message": "message"}
    return [list(heads.values())] + [[_text(name, row[name]) for name in heads] for row in rows]


def _text(name: str, value: Any) -> str:
    if name == "consensus":
        return "yes" if value else ""
    if name == "overlap":
        return "–" if value != value else f"{value:.0%}"
    return number(value) if isinstance(value, float) else str(value)


def _matrix(result: Result) -> list[list[str]]:
    """Angle and shift between every two methods."""
    agree = result.agreement
    return [
        [f"{number(a, 1)}° {number(s)}" for a, s in zip(angles, shifts, strict=True)]
        for angles, shifts in zip(agree.angle_deg, agree.shift, strict=True)
    ]


def _clouds(result: Result) -> dict[str, Any]:
    """Thinned clouds about the target's centroid, in a precision that the eye cannot tell from more."""
    centre = result.scans.target.thin.mean(axis=0)
    source = shown(result.scans.source.thin, SHOWN)
    poses = {a.method: _about(a.pose, centre, source.mean(axis=0)) for a in result.posed if a.pose is not None}
    return {
        "source": _digits(source - source.mean(axis=0), result.scans.size),
        "target": _digits(shown(result.scans.target.thin, SHOWN) - centre, result.scans.size),
        "start": _about(result.scans.restored(np.eye(4)), centre, source.mean(axis=0)),
        "poses": poses,
        "given": GIVEN,
        "best": result.best.method if result.best else None,
        "colours": [SOURCE, TARGET],
    }


def _about(T: NDArray[np.float64], centre: NDArray[np.float64], origin: NDArray[np.float64]) -> list[list[float]]:
    """The first three rows of a pose between clouds that have been moved to their centroids."""
    moved = T[:3].copy()
    moved[:, 3] += T[:3, :3] @ origin - centre
    return [[float(v) for v in row] for row in moved]


def _digits(points: NDArray[np.float64], size: float) -> list[list[float]]:
    """Coordinates (3 lists), rounded to a ten-thousandth of the size."""
    places = int(np.ceil(4 - np.log10(size)))
    return [[float(v) for v in axis] for axis in np.round(points, places).T]
