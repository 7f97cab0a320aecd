"""The qualitative grid: rows are problems, columns methods, the error beneath. Clouds are drawn again, poses are not."""

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
from bench.report.ranking import GroupKey, group_title, select_group
from bench.report.replay import ProblemReplay, poses_of, subsample

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS = 5
MOST_COLUMNS = 12
SHOWN = 700
"""Points of a cloud that are drawn."""

CAPTION = (
    "Chosen so that methods disagree, one problem a category where there are enough. Grey: target. Colour: source, where the "
    "method of the column puts it. The number is the error; × says that there is no answer. Seen from one fixed direction."
)

SOURCE, TARGET = "#D55E00", "#8a8f98"


class Panel(NamedTuple):
    """Points (n, 3) of the moved source and of the target, and what stands beneath."""

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
    """The grid of each group whose problems can be drawn again."""
    for group in groups:
        here = select_group(trials, group)
        here = here[
            (here["kind"] != "control") & (here["status"] != "skipped") & (here["repeat"] == here["repeat"].min())
        ]
        methods = _methods(here)
        rows = [
            _row(loaded, here[here["problem"] == p], methods, criterion, replay) for p in choose(here, criterion, ROWS)
        ]
        shown = [(name, panels) for name, panels in rows if panels]
        if shown:
            caption, title = f"{CAPTION} Data: {replay.licence(group[0])}.", group_title(group)
            yield FigureJob(
                _grid, (shown, methods, title), "grid", title, caption, folder / f"grid_{style.slug(*group)}"
            )


def choose(trials: pd.DataFrame, criterion: Convention, most: int) -> list[str]:
    """Problems of one group on which methods disagree most, of different categories as far as there are."""
    if trials.empty:
        return []
    known = trials.assign(bounded=np.minimum(trials[criterion.metric].fillna(np.inf), np.float64(2)))
    by_problem = known.groupby("problem", observed=True, sort=True)
    scatter = by_problem["bounded"].std(ddof=0).fillna(0)
    category = by_problem["category"].first().astype(object).fillna("")
    order = scatter.sort_values(ascending=False, kind="stable").index
    turn = category.loc[order].groupby(category.loc[order]).cumcount()  # the best of each category come first
    return [str(p) for p in turn.sort_values(kind="stable").index[:most]]


def _methods(here: pd.DataFrame) -> list[str]:
    kinds = {str(m): str(k) for m, k in here[["method", "kind"]].drop_duplicates().itertuples(index=False)}
    return sorted(kinds, key=lambda m: style.order(m, kinds[m]))[:MOST_COLUMNS]


def _row(
    loaded: RunData, mine: pd.DataFrame, methods: list[str], criterion: Convention, replay: ProblemReplay
) -> tuple[str, list[Panel]]:
    """The panels of one problem: as given, then one a method; none if its clouds can't be had."""
    name = str(mine["problem"].iloc[0])
    problem = replay.problem(name)
    if problem is None:
        return name, []
    source, target = (
        subsample(problem.source, SHOWN).astype(np.float64),
        subsample(problem.target, SHOWN).astype(np.float64),
    )
    poses = dict(zip(map(str, mine["method"]), poses_of(loaded, mine), strict=True))
    errors = dict(zip(map(str, mine["method"]), mine[criterion.metric], strict=True))
    panels = [Panel(source, target, "")]
    for method in methods:
        T = poses.get(method)
        moved = source @ T[:3, :3].T + T[:3, 3] if T is not None and np.isfinite(T).all() else None
        text = "not asked" if method not in poses else style.number(float(errors[method])).replace("∞", "×")
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
        reach = max(float(np.abs(seen(panels[0].target - middle)).max()), 1e-9) * 1.25
        for axes, panel in zip(line, panels, strict=True):
            _panel(axes, panel, middle, reach)
        far = float(np.abs(seen(whole - middle)).max()) * 1.05
        line[0].set(xlim=(-max(far, reach), max(far, reach)), ylim=(-max(far, reach), max(far, reach)))
        line[0].set_ylabel(style.label(name.split("\n")[0], 16) + "\n" + name.split("\n")[-1], fontsize=8)
    for axes, head in zip(cells[0], ["given", *methods], strict=True):
        axes.set_title(style.label(head, 15), fontsize=8)
    figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    return figure


def seen(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points (n, 3) on the plane of the picture (n, 2): from the front, a little from the right and above."""
    a, b = np.radians(30), np.radians(20)
    right = np.array([np.cos(a), 0, -np.sin(a)])
    up = np.array([-np.sin(a) * np.sin(b), np.cos(b), -np.cos(a) * np.sin(b)])
    return points @ np.stack([right, up], axis=1)


def _panel(axes: Axes, panel: Panel, middle: NDArray[np.float64], reach: float) -> None:
    """One pair; in an SVG the points are a picture, for tens of thousands of circles would take megabytes."""
    dots: dict[str, Any] = {"s": 1.6, "linewidths": 0, "rasterized": True}
    axes.scatter(*seen(panel.target - middle).T, color=TARGET, **dots)
    if panel.source is not None:
        axes.scatter(*seen(panel.source - middle).T, color=SOURCE, **dots)
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), xticks=[], yticks=[], aspect="equal")
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(panel.text, fontsize=8)
