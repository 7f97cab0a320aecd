"""Parts that figures share: panels by kind of method, labels at the ends of lines and beside points, titles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.report import style
from bench.report.ranking import MIN_PROBLEMS, Ranking, below_floor, display_name
from bench.report.selection import by_rank

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

CURVES = 9
"""Most methods in a panel."""
PANEL_WIDTH = 2.9
"""Smallest width of a panel with labels, in inches."""
LABEL = 6.5
"""Size of labels in points."""

Row = Mapping[Any, Any]

CONTROLS_LEFT_OUT = (
    f"Controls are left out, as are methods on fewer than {MIN_PROBLEMS} problems, which are named below the panels, or drawn "
    "faint if no method has more; tables contain all."
)


class KindPanel(NamedTuple):
    """Methods of one kind, best first, and the number of those that are not drawn."""

    kind: str
    rows: list[Row]
    hidden: int

    @property
    def title(self) -> str:
        """Name of the kind, and how many of its methods are drawn."""
        shown = len(self.rows)
        return f"{self.kind}, best {shown} of {shown + self.hidden}" if self.hidden else self.kind


def kind_panels(rows: Iterable[Row], ranking: Ranking | None, most: int = CURVES) -> list[KindPanel]:
    """Return a panel per kind with its best methods, featured ones included; controls only if there is nothing else."""
    ranked = by_rank(drawn(rows), ranking)
    others = [r for r in ranked if r["kind"] != "control"] or ranked
    panels = []
    for kind in style.KINDS:
        own = [r for r in others if r["kind"] == kind]
        first = {str(r["method"]) for r in sorted(own, key=lambda r: not style.featured(str(r["method"])))[:most]}
        shown = [r for r in own if r["method"] in first]
        if shown:
            panels.append(KindPanel(kind, shown, len(own) - len(shown)))
    return panels


def drawn(rows: Iterable[Row]) -> list[Row]:
    """Return the rows to draw: those with enough problems to be ranked, or all that were run if there are none."""
    run = [r for r in rows if r["problems"]]
    return [r for r in run if not below_floor(r)] or run


def left_out(rows: Sequence[Row]) -> str:
    """Name the methods that are not drawn because they have too few problems, or say that all have; empty if none has."""
    if any(map(below_floor, drawn(rows))):
        return f"Faint: fewer than {MIN_PROBLEMS} problems."
    few = [display_name(r) for r in rows if below_floor(r) and r["kind"] != "control"]
    return f"Not drawn, too few problems: {'; '.join(few)}." if few else ""


def methods_shown(shown: int, count: int, which: str = "the best of each kind") -> str:
    """Say how many methods of several are shown, and which; empty if all are."""
    return f"{shown} of {count} methods shown: {which}." if shown < count else ""


def columns_of(panels: int) -> int:
    """Return how many panels are side by side in the width of a figure."""
    return max(1, min(panels, int(style.figure_width() // PANEL_WIDTH)))


def new_figure(rows: int, columns: int, height: float, **settings: Any) -> tuple[Figure, NDArray[Any]]:
    """Create a figure of the set width with axes (rows, columns), each row `height` inches high."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(style.figure_width(), height * rows + 0.55), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **settings)


TITLE, NOTE = 8.5, 6.5
"""Sizes of a figure's title and of its note in points."""


def put_title(figure: Figure, what: str, where: str, note: str = "") -> None:
    """Write what is shown above the panels, of which problems below it, and a note at the bottom.

    A figure with a layout becomes higher if these have more lines than usual, so that its panels keep their height.
    """
    width = figure.get_figwidth()
    if figure.get_layout_engine():
        figure.set_figheight(figure.get_figheight() + sum(more_lines(where, note, width)))
    figure.suptitle(what + "\n" + wrapped(where, width, TITLE), x=0.005, ha="left", fontsize=TITLE)
    if note:
        figure.supxlabel(wrapped(note, width, NOTE), x=0.005, ha="left", fontsize=NOTE, color=style.SOFT)


def more_lines(where: str, note: str, width: float) -> tuple[float, float]:
    """Return the heights in inches of the lines of a title beyond two and of those of a note beyond one; see `put_title`."""
    above, below = (wrapped(text, width, size).count("\n") * size for text, size in ((where, TITLE), (note, NOTE)))
    return 1.2 * above / 72, 1.2 * below / 72


def wrapped(text: str, width: float, size: float) -> str:
    """Wrap a text to a width in inches, by the mean width of a character of a size in points."""
    import textwrap

    lines = textwrap.wrap(text, max(20, int(width * 72 / (0.58 * size))))
    return "\n".join(style.label(line, len(line)) for line in lines)


def is_narrow() -> bool:
    """Return whether a figure is too narrow for two panels with labels side by side."""
    return columns_of(2) < 2


def lines_of_row(row: Row) -> dict[str, Any]:
    """Return keyword arguments of `Axes.plot` for a row of the summary; faint with too few problems."""
    return lines_of(str(row["method"]), str(row["kind"])) | ({"alpha": style.FAINT} if below_floor(row) else {})


def lines_of(method: str, kind: str) -> dict[str, Any]:
    """Return keyword arguments of `Axes.plot` for a method."""
    look = style.look(method, kind)
    marks = {"marker": look.marker, "markersize": 4, "fillstyle": "left" if look.refined else "full"}
    lines = {"color": look.colour, "linestyle": look.line, "linewidth": look.width, "markeredgewidth": 0.6}
    return lines | {"markerfacecoloralt": style.PAPER} | marks


class LineEnd(NamedTuple):
    """Label at the right end of a line: the height of the end in the units of the axis, the text, and the line's look."""

    y: float
    text: str
    lines: Mapping[str, Any]


def label_ends(axes: Axes, ends: Sequence[LineEnd], height: float) -> None:
    """Write labels right of the axes, each connected to the end of its line unless all lines end in one place, without overlap.

    Args:
        axes: axes with their final limits.
        ends: labels, the highest first among ends of equal height.
        height: approximate height of the axes in inches.
    """
    ends = [end for end in ends if np.isfinite(end.y)]
    if not ends:
        return
    to_share = axes.transData + axes.transAxes.inverted()
    right = axes.get_xlim()[1]
    wanted = np.clip([float(to_share.transform((right, end.y))[1]) for end in ends], 0, 1)
    size = min(LABEL, 0.92 * height * 72 / len(ends))
    order = np.lexsort((-np.arange(len(ends)), wanted))
    placed, gap = np.empty(len(ends)), 1.12 * size / (height * 72)
    placed[order] = spread(wanted[order], gap)
    connected = len(ends) == 1 or np.ptp(wanted) >= gap
    for end, start, y in zip(ends, wanted, placed, strict=True):
        line = {name: end.lines[name] for name in ("color", "linestyle", "linewidth")}
        outside: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False, "in_layout": False}
        if connected:
            axes.plot([1, 1.03], [start, y], color=style.SOFT, linewidth=0.4, alpha=0.7, **outside)
        axes.plot([1.03, 1.1], [y, y], **(line | outside))
        axes.text(1.115, y, end.text, transform=axes.transAxes, va="center", fontsize=size, color=style.INK)


def set_log_ticks(axis: Axis) -> None:
    """Mark the decades of a logarithmic axis, and 2 and 5 times them if it spans less than two; labels are decimal numbers.

    The limits of the axis must be final.
    """
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0,) if high >= 100 * low else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_locator(NullLocator())


def ceiling_of(rows: Iterable[Row]) -> float:
    """Return the ceiling of a group, if it is known, of the method with most problems; else NaN."""
    known = [row for row in rows if row["ceiling_problems"]]
    return float(max(known, key=lambda row: row["ceiling_problems"])["ceiling"]) if known else float("nan")


def draw_ceiling(axes: Axes, ceiling: float) -> None:
    """Draw the ceiling of recall (`metrics.md`) as a dashed line with its value; nothing if it is unknown."""
    if np.isfinite(ceiling):
        axes.axhline(ceiling, color=style.INK, linewidth=0.8, linestyle="--", alpha=0.6)
        place: dict[str, Any] = {"xytext": (2, 2), "textcoords": "offset points", "xycoords": ("axes fraction", "data")}
        axes.annotate(f"ceiling {ceiling:.2f}", (0, ceiling), fontsize=6, in_layout=False, **place)


def label_lowest(cells: NDArray[Any], count: int, label: str) -> None:
    """Write ticks and label of the x axis below the lowest of `count` panels of each column."""
    columns = cells.shape[1]
    for i, axes in enumerate(cells.ravel()[:count]):
        if i + columns >= count:
            axes.set_xlabel(label)
            axes.tick_params(labelbottom=True)


def spread(wanted: NDArray[np.float64], gap: float) -> NDArray[np.float64]:
    """Move ascending positions (n,) between 0 and 1 apart to distances of at least `gap`, below 1 if they fit.

    >>> spread(np.array([0.9, 1.0, 1.0]), 0.1).round(2).tolist()
    [0.8, 0.9, 1.0]
    """
    placed = np.array(wanted, dtype=np.float64)
    for i in range(1, len(placed)):
        placed[i] = max(placed[i], placed[i - 1] + gap)
    if len(placed):
        placed[-1] = min(placed[-1], 1.0)
    for i in range(len(placed) - 2, -1, -1):
        placed[i] = min(placed[i], placed[i + 1] - gap)
    return placed


_OFFSETS = [
    (d * np.cos(a), d * np.sin(a))
    for d in (7.0, 14.0, 24.0, 36.0, 50.0, 66.0, 84.0, 104.0)
    for a in np.radians([0, 180, 35, -35, 145, -145, 90, -90, 60, -60, 120, -120])
]
"""Positions of a label around its point in points, the preferred first."""


LEADER = 10.0
"""Distance of a label from its point in points above which a line joins them."""


def label_points(
    axes: Axes, points: Sequence[tuple[float, float]], texts: Sequence[str], colours: Sequence[str]
) -> None:
    """Write a label beside each point (x, y), away from other labels and points; axes must have their final position.

    A label that is nearer to another point, or that is further than `LEADER` from its own, has a line to its point.
    """
    scale = 72 / axes.figure.dpi
    at = axes.transData.transform(points) * scale
    box = axes.get_window_extent()
    low, high = np.array([box.x0, box.y0]) * scale, np.array([box.x1, box.y1]) * scale
    taken = [(p - 3, p + 3) for p in at]
    for p, (x, y), text, colour in zip(at, points, texts, colours, strict=True):
        size = np.array([0.62 * LABEL * len(text), 1.2 * LABEL])
        costs = []
        for offset in _OFFSETS:
            corner = p + offset - size / 2 + np.array([np.sign(round(offset[0], 3)) * size[0] / 2, 0])
            here = corner, corner + size
            overlap = sum(_overlap(here, other) for other in taken)
            outside = float(np.maximum(low - here[0], 0).sum() + np.maximum(here[1] - high, 0).sum())
            distance = float(np.hypot(*offset))
            unclear = bool((_gaps(here, at) < _gaps(here, p[None]) - 1).any()) * (10 if distance > LEADER else 50)
            costs.append((5 * overlap + 50 * outside + 0.6 * distance + unclear, here, offset))
        _, here, offset = min(costs, key=lambda c: c[0])
        taken.append(here)
        arrow = {"arrowstyle": "-", "color": colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
        place: dict[str, Any] = {"xytext": tuple((here[0] + here[1]) / 2 - p), "textcoords": "offset points"}
        far: dict[str, Any] = {"arrowprops": arrow} if np.hypot(*offset) > LEADER else {}
        axes.annotate(text, (x, y), **place, ha="center", va="center", fontsize=LABEL, color=style.INK, **far)


def _gaps(box: Any, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distances (n,) of points (n, 2) to a box (low corner, high corner), 0 inside."""
    return np.asarray(np.hypot(*np.maximum(np.maximum(box[0] - points, points - box[1]), 0).T))


def _overlap(a: Any, b: Any) -> float:
    """Return the common area of two boxes (low corner, high corner)."""
    common = np.minimum(a[1], b[1]) - np.maximum(a[0], b[0])
    return float(np.prod(np.maximum(common, 0)))
