"""Qualitative grid: aligned clouds by problem and method, with the error; clouds are regenerated, poses are those stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.evaluation.conventions import Convention
from bench.evaluation.loader import RunData
from bench.report import style
from bench.report.jobs import FigureJob
from bench.report.panels import is_narrow, methods_shown, put_title
from bench.report.ranking import GroupKey, group_title, select_group
from bench.report.recommendation import Recommendation
from bench.report.replay import ProblemReplay, label_of, poses_of, subsample, upright
from bench.report.selection import best_of_each_kind
from bench.report.tables import group_records
from datasets.poses import move

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS = 5
"""Problems in a grid."""
SHOWN = 700
"""Points of a cloud that are drawn."""
SMALLEST = 0.65
"""Smallest width of a panel of a single problem in inches."""
LARGEST = 0.8
"""Largest width of a panel in inches where a row is a method, so that the figure fits on a page."""

MARKS = (
    "Grey: target. Colour: source, before (input) and after it was moved by the pose of the method. The number is the error; "
    "×: no pose. All seen from the same direction, objects upright."
)
CAPTION = (
    "The problems on which methods disagree most, of different categories if possible, and the best methods of each kind. "
    f"{MARKS} Controls are left out."
)


class Panel(NamedTuple):
    """Points (n, 3) of the moved source and of the target, and the label below."""

    source: NDArray[np.float64] | None
    target: NDArray[np.float64]
    text: str


class GridRow(NamedTuple):
    """A problem: category and number in two lines, its panels with the input first, and the source (n, 3) at the true pose."""

    name: str
    panels: list[Panel]
    aligned: NDArray[np.float64]

    @property
    def short_name(self) -> str:
        """Name in one line."""
        return self.name.replace("\n", " ")


def grids_of(
    loaded: RunData,
    frames: Mapping[str, pd.DataFrame],
    groups: list[GroupKey],
    recommended: Mapping[GroupKey, Recommendation],
    criterion: Convention,
    replay: ProblemReplay,
    folder: Path,
) -> Iterator[FigureJob]:
    """Yield the grid of each group whose problems can be regenerated."""
    for group in groups:
        here = select_group(frames["trials"], group)
        here = here[
            (here["kind"] != "control") & (here["status"] != "skipped") & (here["repeat"] == here["repeat"].min())
        ]
        rows = group_records(frames["summary"], group)
        names = best_of_each_kind(rows, recommended[group])
        here = here[here["method"].isin(names)]
        chosen = (here[here["problem"] == p] for p in choose(here, criterion, ROWS))
        if shown := list(filter(None, (row_of(loaded, own, names, criterion, replay) for own in chosen))):
            count = sum(bool(r["problems"]) and r["kind"] != "control" for r in rows)
            yield _grid_job(shown, names, methods_shown(len(names), count), group, replay.licence(group[0]), folder)


def _grid_job(
    shown: list[GridRow], names: list[str], note: str, group: GroupKey, licence: str, folder: Path
) -> FigureJob:
    where, caption = group_title(group), f"{CAPTION} Data: {licence}."
    errors = "; ".join(
        f"{row.short_name}: " + ", ".join(f"{m} {p.text}" for m, p in zip(names, row.panels[1:], strict=True))
        for row in shown
    )
    stem = folder / f"grid_{style.slug(*group)}"
    title = f"Aligned clouds · {where}"
    return FigureJob(
        draw_grid, (shown, names, where, note), "grid", title, caption, stem, f"Errors by problem: {errors}."
    )


def choose(trials: pd.DataFrame, criterion: Convention, most: int) -> list[str]:
    """Return the problems of a group on which methods disagree most, of different categories if possible."""
    if trials.empty:
        return []
    known = trials.assign(bounded=np.minimum(trials[criterion.metric].fillna(np.inf), np.float64(2)))
    by_problem = known.groupby("problem", observed=True, sort=True)
    scatter = by_problem["bounded"].std(ddof=0).fillna(0)
    category = by_problem["category"].first().astype(object).fillna("")
    order = scatter.sort_values(ascending=False, kind="stable").index
    turn = category.loc[order].groupby(category.loc[order]).cumcount()  # the first of each category come first
    return [str(p) for p in turn.sort_values(kind="stable").index[:most]]


def row_of(
    loaded: RunData, trials: pd.DataFrame, methods: list[str], criterion: Convention, replay: ProblemReplay
) -> GridRow | None:
    """Return the panels of a problem: the input, then one per method; None without clouds."""
    name = str(trials["problem"].iloc[0])
    problem = replay.problem(name)
    if problem is None:
        return None
    source, target = (subsample(c, SHOWN).astype(np.float64) for c in (problem.source, problem.target))
    up = upright(problem)
    poses = dict(zip(map(str, trials["method"]), poses_of(loaded, trials), strict=True))
    errors = dict(zip(map(str, trials["method"]), trials[criterion.metric], strict=True))
    panels = [Panel(move(up, source), move(up, target), "")]
    for method in methods:
        T = poses.get(method)
        moved = move(up @ T, source) if T is not None and np.isfinite(T).all() else None
        text = "not run" if method not in poses else style.number(float(errors[method])).replace("∞", "×")
        panels.append(Panel(moved, panels[0].target, text))
    return GridRow(label_of(name, problem), panels, move(up @ problem.T_target_source, source))


def draw_grid(rows: list[GridRow], methods: list[str], where: str, note: str) -> Figure:
    """Draw panels by problem and method, the input first.

    A row is a problem, or a method where figures are narrow and there are more methods than problems. The panels of a single
    problem take as many rows as they need.
    """
    from matplotlib.figure import Figure

    width, heads, single = style.figure_width(), ["input", *methods], len(rows) == 1
    turned = is_narrow() and 1 < len(rows) < len(heads)
    down = -(-len(heads) // int(width // SMALLEST)) if single else len(heads) if turned else len(rows)
    across = -(-len(heads) * len(rows) // down)
    side = min((width - 0.4) / across, LARGEST if turned else width)
    gaps = 0.25 * (down - 1) if single else 0.0  # the heads of further rows
    figure = Figure(figsize=(width, (0.9 * side + 0.12) * down + 0.75 + gaps), layout="constrained")
    cells = figure.subplots(down, across, squeeze=False, gridspec_kw={"hspace": 0.12 if single else 0.02})
    used = cells.ravel()[: len(rows) * len(heads)]
    for line, row in zip([used] if single else cells.T if turned else cells, rows, strict=True):
        _draw_row(line, row)
    for axes in cells.ravel()[len(used) :]:
        axes.set_axis_off()
    beside, above = (heads, [row.name for row in rows]) if turned else ([row.name for row in rows], heads)
    for axes, text in zip(cells[:, 0], beside, strict=not single):
        axes.set_ylabel(_in_two_lines(text, int(18 * side)), fontsize=6)
    for axes, text in zip(used if single else cells[0], above, strict=True):
        axes.set_title(_in_two_lines(text, int(16 * side)), fontsize=6.5, loc="center")
    put_title(figure, "Aligned clouds", where, note)
    return figure


def _draw_row(line: NDArray[Any], row: GridRow) -> None:
    """Draw the panels of a problem to the same scale; that of the input is smaller if its source is far away."""
    middle = row.panels[0].target.mean(axis=0)
    target, aligned, given = (
        float(np.abs(project(cloud - middle)).max()) if cloud is not None else 0.0
        for cloud in (row.panels[0].target, row.aligned, row.panels[0].source)
    )
    reach = max(1.25 * target, 1.05 * aligned, 1e-9)
    for axes, panel in zip(line, row.panels, strict=True):
        _draw_panel(axes, panel, middle, reach)
    limits = (-max(1.05 * given, reach), max(1.05 * given, reach))
    line[0].set(xlim=limits, ylim=limits)


def _in_two_lines(name: str, most: int) -> str:
    """Break a name of more than `most` characters at its line break, or else at a separator, and shorten both lines."""
    if "\n" in name:
        return "\n".join(style.label(line, most) for line in name.split("\n"))
    if len(name) <= most:
        return style.label(name, most)
    breaks = [i for i, letter in enumerate(name[: most + 1]) if letter in "_+[ "]
    cut = breaks[-1] if breaks and breaks[-1] else most
    return style.label(name[:cut], most) + "\n" + style.label(name[cut:], most)


def project(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Project points (n, 3) to the image plane (n, 2): from the front, slightly from the right and above."""
    a, b = np.radians(30), np.radians(20)
    right = np.array([np.cos(a), 0, -np.sin(a)])
    up = np.array([-np.sin(a) * np.sin(b), np.cos(b), -np.cos(a) * np.sin(b)])
    return points @ np.stack([right, up], axis=1)


def _draw_panel(axes: Axes, panel: Panel, middle: NDArray[np.float64], reach: float) -> None:
    """Draw a pair of clouds; rasterised, since tens of thousands of circles would make an SVG large."""
    dots: dict[str, Any] = {"s": 0.9, "linewidths": 0, "rasterized": True}
    axes.scatter(*project(panel.target - middle).T, color=style.TARGET, **dots)
    if panel.source is not None:
        axes.scatter(*project(panel.source - middle).T, color=style.SOURCE, **dots)
    style.frame_picture(axes, reach)
    axes.set_xlabel(panel.text, fontsize=6.5, labelpad=1)
