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
from bench.report.panels import put_title
from bench.report.ranking import GroupKey, group_title, select_group
from bench.report.recommendation import Recommendation
from bench.report.replay import ProblemReplay, poses_of, subsample, upright
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

CAPTION = (
    "Rows: the problems on which methods disagree most, of different categories if possible. Columns: the best methods of each "
    "kind. Grey: target. Colour: source, before (input) and after it was moved by the pose of the column's method. The number "
    "is the error; ×: no pose. All seen from the same direction, objects upright. Controls are left out."
)


class Panel(NamedTuple):
    """Points (n, 3) of the moved source and of the target, and the label below."""

    source: NDArray[np.float64] | None
    target: NDArray[np.float64]
    text: str


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
        lines = [
            panels_of(loaded, here[here["problem"] == p], names, criterion, replay)
            for p in choose(here, criterion, ROWS)
        ]
        shown = [(name, panels) for name, panels in lines if panels]
        if shown:
            count = sum(bool(r["problems"]) and r["kind"] != "control" for r in rows)
            note = f"{len(names)} of {count} methods shown: the best of each kind" if len(names) < count else ""
            yield _grid_job(shown, names, note, group, replay.licence(group[0]), folder)


def _grid_job(
    shown: list[tuple[str, list[Panel]]], names: list[str], note: str, group: GroupKey, licence: str, folder: Path
) -> FigureJob:
    where, caption = group_title(group), f"{CAPTION} Data: {licence}."
    errors = "; ".join(
        f"{name.replace(chr(10), ' ')}: " + ", ".join(f"{m} {p.text}" for m, p in zip(names, panels[1:], strict=True))
        for name, panels in shown
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


def panels_of(
    loaded: RunData, trials: pd.DataFrame, methods: list[str], criterion: Convention, replay: ProblemReplay
) -> tuple[str, list[Panel]]:
    """Return the name of a problem and its panels: the input, then one per method; no panels without clouds."""
    name = str(trials["problem"].iloc[0])
    problem = replay.problem(name)
    if problem is None:
        return name, []
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
    return f"{problem.tags['category']}\n{name.rsplit('/', 1)[-1]}", panels


def draw_grid(rows: list[tuple[str, list[Panel]]], methods: list[str], where: str, note: str) -> Figure:
    """Draw panels by problem and method; the first of each row is the input."""
    from matplotlib.figure import Figure

    columns, width = 1 + len(methods), style.figure_width()
    side = (width - 0.4) / columns
    figure = Figure(figsize=(width, (0.9 * side + 0.12) * len(rows) + 0.75), layout="constrained")
    cells = figure.subplots(len(rows), columns, squeeze=False, gridspec_kw={"hspace": 0.02})
    for line, (name, panels) in zip(cells, rows, strict=True):
        whole = np.concatenate(
            [p.source if p.source is not None else p.target for p in panels[:1]] + [panels[0].target]
        )
        middle = panels[0].target.mean(axis=0)
        reach = max(float(np.abs(project(panels[0].target - middle)).max()), 1e-9) * 1.25
        for axes, panel in zip(line, panels, strict=True):
            _draw_panel(axes, panel, middle, reach)
        radius = float(np.abs(project(whole - middle)).max()) * 1.05
        limits = (-max(radius, reach), max(radius, reach))
        line[0].set(xlim=limits, ylim=limits)
        line[0].set_ylabel(style.label(name.split("\n")[0], 14) + "\n" + name.split("\n")[-1], fontsize=6)
    for axes, head in zip(cells[0], ["input", *methods], strict=True):
        axes.set_title(_in_two_lines(head, int(side * 72 / 3.4)), fontsize=6.5, loc="center")
    put_title(figure, "Aligned clouds", where, note)
    return figure


def _in_two_lines(name: str, most: int) -> str:
    """Break a name of more than `most` characters at a separator."""
    if len(name) <= most:
        return style.label(name)
    breaks = [i for i, letter in enumerate(name[: most + 1]) if letter in "_+[ "]
    cut = breaks[-1] if breaks and breaks[-1] else most
    return style.label(name[:cut]) + "\n" + style.label(name[cut:], most)


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
