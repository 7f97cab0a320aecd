"""Qualitative grid: aligned clouds by problem and method, with the error; clouds are regenerated, poses are those stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.evaluation.conventions import Convention
from bench.evaluation.loader import RunData
from bench.report import style
from bench.report.figures import FigureJob
from bench.report.ranking import GroupKey, display_name, group_title, named_rows, select_group
from bench.report.replay import ProblemReplay, poses_of, subsample
from datasets.poses import move

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS = 5
"""Problems in a grid."""
MAX_METHODS = 12
"""Most methods in a grid."""
SHOWN = 700
"""Points of a cloud that are drawn."""

CAPTION = (
    "The problems on which methods disagree most, of different categories if possible. Grey: target. Colour: source, moved by "
    "the pose of the column's method. The number is the error; ×: no pose. All seen from the same direction."
)


class Panel(NamedTuple):
    """Points (n, 3) of the moved source and of the target, and the label below."""

    source: NDArray[np.float64] | None
    target: NDArray[np.float64]
    text: str


def grids_of(
    loaded: RunData,
    trials: pd.DataFrame,
    groups: list[GroupKey],
    criterion: Convention,
    replay: ProblemReplay,
    folder: Path,
) -> Iterator[FigureJob]:
    """Yield the grid of each group whose problems can be regenerated."""
    for group in groups:
        here = select_group(trials, group)
        here = here[
            (here["kind"] != "control") & (here["status"] != "skipped") & (here["repeat"] == here["repeat"].min())
        ]
        names = {m: display_name(row) for m, row in list(named_rows(here).items())[:MAX_METHODS]}
        rows = [
            _panels(loaded, here[here["problem"] == p], list(names), criterion, replay)
            for p in choose(here, criterion, ROWS)
        ]
        shown = [(name, panels) for name, panels in rows if panels]
        if shown:
            caption, title = f"{CAPTION} Data: {replay.licence(group[0])}.", group_title(group)
            yield FigureJob(
                _grid,
                (shown, list(names.values()), title),
                "grid",
                title,
                caption,
                folder / f"grid_{style.slug(*group)}",
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


def _panels(
    loaded: RunData, trials: pd.DataFrame, methods: list[str], criterion: Convention, replay: ProblemReplay
) -> tuple[str, list[Panel]]:
    """Return the name of a problem and its panels: the input, then one per method; no panels without clouds."""
    name = str(trials["problem"].iloc[0])
    problem = replay.problem(name)
    if problem is None:
        return name, []
    source, target = (
        subsample(problem.source, SHOWN).astype(np.float64),
        subsample(problem.target, SHOWN).astype(np.float64),
    )
    poses = dict(zip(map(str, trials["method"]), poses_of(loaded, trials), strict=True))
    errors = dict(zip(map(str, trials["method"]), trials[criterion.metric], strict=True))
    panels = [Panel(source, target, "")]
    for method in methods:
        T = poses.get(method)
        moved = move(T, source) if T is not None and np.isfinite(T).all() else None
        text = "not run" if method not in poses else style.number(float(errors[method])).replace("∞", "×")
        panels.append(Panel(moved, target, text))
    return f"{problem.tags['category']}\n{name.rsplit('/', 1)[-1]}", panels


def _grid(rows: list[tuple[str, list[Panel]]], methods: list[str], title: str) -> Figure:
    from matplotlib.figure import Figure

    width = 1 + len(methods)
    figure = Figure(figsize=(1.25 * width + 0.9, 1.38 * len(rows) + 0.9), layout="constrained")
    cells = figure.subplots(len(rows), width, squeeze=False)
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
        line[0].set_ylabel(style.label(name.split("\n")[0], 16) + "\n" + name.split("\n")[-1], fontsize=8)
    for axes, head in zip(cells[0], ["input", *methods], strict=True):
        axes.set_title(style.label(head, 15), fontsize=8)
    figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    return figure


def project(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Project points (n, 3) to the image plane (n, 2): from the front, slightly from the right and above."""
    a, b = np.radians(30), np.radians(20)
    right = np.array([np.cos(a), 0, -np.sin(a)])
    up = np.array([-np.sin(a) * np.sin(b), np.cos(b), -np.cos(a) * np.sin(b)])
    return points @ np.stack([right, up], axis=1)


def _draw_panel(axes: Axes, panel: Panel, middle: NDArray[np.float64], reach: float) -> None:
    """Draw a pair of clouds; rasterised, since tens of thousands of circles would make an SVG large."""
    dots: dict[str, Any] = {"s": 1.6, "linewidths": 0, "rasterized": True}
    axes.scatter(*project(panel.target - middle).T, color=style.TARGET, **dots)
    if panel.source is not None:
        axes.scatter(*project(panel.source - middle).T, color=style.SOURCE, **dots)
    style.frame_picture(axes, reach)
    axes.set_xlabel(panel.text, fontsize=8)
