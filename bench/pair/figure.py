"""Picture of a pair: one panel per method, seen along the direction of the target's smallest extent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.pair.result import PairResult
from bench.pair.text import significant
from bench.report import style
from datasets.poses import move

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = NDArray[np.float64]

SOURCE, TARGET = style.SOURCE, "#6f7782"
COLUMNS = 4
SHOWN = 3000
"""Most points of a cloud in the picture."""
GIVEN = "input of the methods"
"""Title of the panel with the unregistered clouds."""


def draw(result: PairResult, file: Path) -> None:
    """Draw the picture and write it to `file`."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    source, target = strided(result.scans.source.thin, SHOWN), strided(result.scans.target.thin, SHOWN)
    plane = _plane(target)
    panels = [(GIVEN, move(result.scans.restored(np.eye(4)), source))] + [
        (a.method, move(a.pose, source)) for a in result.posed if a.pose is not None
    ]
    rows = -(-len(panels) // COLUMNS)
    with mpl.rc_context(style.RC):
        figure = Figure(figsize=(2.6 * COLUMNS, 2.8 * rows + 0.5), layout="constrained")
        cells = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
        for axes in cells[len(panels) :]:
            axes.set_axis_off()
        for axes, (name, moved) in zip(cells, panels, strict=False):
            _draw_clouds(axes, (moved - target.mean(axis=0)) @ plane, (target - target.mean(axis=0)) @ plane)
            axes.set_title(style.label(name) + _caption(result, name), fontsize=8)
        names = f"{result.scans.source.name} (orange) on {result.scans.target.name} (grey)"
        figure.suptitle(names.replace("$", r"\$"), x=0.01, ha="left", fontsize=10)
        figure.savefig(file, dpi=130)


def strided(points: Points, most: int) -> Points:
    """Return every n-th of the points (N, 3), at most `most`."""
    return points[:: max(1, -(-len(points) // most))]


def _plane(target: Points) -> Points:
    """Return the two directions (3, 2) of the target's largest extent."""
    axes: Points = np.linalg.svd(target - target.mean(axis=0), full_matrices=False)[2]
    return axes[:2].T


def _draw_clouds(axes: Axes, source: Points, target: Points) -> None:
    for points, colour in ((target, TARGET), (source, SOURCE)):
        axes.scatter(points[:, 0], points[:, 1], s=1.5, linewidths=0, color=colour, alpha=0.7)
    reach = 1.3 * np.abs(target).max()  # a distant source does not shrink the target
    style.frame_picture(axes, reach)


def _caption(result: PairResult, method: str) -> str:
    for registration, fit in zip(result.posed, result.fits, strict=True):
        if registration.method == method:
            best = " ★" if registration is result.best else ""
            return f"{best}\noverlap {fit.share:.0%}, residual {significant(fit.residual)}"
    return "\n"
