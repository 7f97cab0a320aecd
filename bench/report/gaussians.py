"""Clouds as a method's Gaussian mixtures see them: points by component, and the components, source beside target."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.evaluation.conventions import Convention
from bench.evaluation.loader import RunData
from bench.isolation.process import Limits, MethodProcess, MethodSetup
from bench.planning.tasks import domain_of
from bench.report import style
from bench.report.figures import FigureJob
from bench.report.qualitative import choose, seen
from bench.report.ranking import GroupKey, select_group
from bench.report.replay import ProblemReplay
from common.errors import InputError
from methods.base import Gaussians
from methods.core import registry

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from datasets.problems import Problem

CAPTION = (
    "Each row is a problem. Left: the source where the true pose puts it, then the target, each point in the colour of the "
    "Gaussian that has its greatest share. Right: the Gaussians, a circle of one standard deviation about the mean, as opaque "
    "as its weight. The same Gaussian has the same colour in both: where colours lie alike, the method matches what belongs "
    "together."
)
HEADS = ("source", "target", "source's Gaussians", "target's Gaussians")
_SHOWN_WEIGHT = 0.01
_ROWS = 3
_LIMITS = Limits(timeout=120, memory_gb=8)


class Row(NamedTuple):
    """One problem: its name, and source and target as points (n, 3) in the target's frame with their mixtures."""

    name: str
    clouds: tuple[NDArray[np.float64], NDArray[np.float64]]
    mixtures: tuple[Gaussians, Gaussians]


def first_method(loaded: RunData, plugins: Path | None) -> str:
    """The first method of a run, controls last, that matches mixtures.

    Raises:
        InputError: none does.
    """
    asked = loaded.outcomes[["method", "kind"]].drop_duplicates().itertuples(index=False)
    for name, _ in sorted(((str(m), str(k)) for m, k in asked), key=lambda row: style.order(*row)):
        if name in registry.available(plugins) and registry.build(name, plugins).has_gaussians:
            return name
    raise InputError("no method of this run matches Gaussians; name one by --method")


def drawn_job(loaded: RunData, replay: ProblemReplay, method: str, problems: list[str], stem: Path) -> FigureJob:
    """The picture of one method's mixtures on problems of a run.

    Raises:
        InputError: no such problem in the run, its clouds can't be had here, or the method has no mixtures.
    """
    known = set(map(str, loaded.outcomes.loc[loaded.outcomes["phase"] == "accuracy", "problem"].unique()))
    found: dict[str, Problem] = {}
    for name in problems:
        if name not in known:
            raise InputError(f"{name}: not a problem of this run; its trials.csv lists them, such as {min(known)}")
        problem = replay.problem(name)
        if problem is None:
            raise InputError(
                f"{name}: {replay.missing.get(replay.key(name).dataset, 'its clouds can not be drawn again')}"
            )
        found[name] = problem
    rows = [
        _row(name, found[name], mixtures)
        for name, mixtures in zip(problems, _mixtures(replay, method, [found[n] for n in problems]), strict=True)
    ]
    return FigureJob(_picture, (rows,), "gaussians", f"{method}: latent Gaussians", CAPTION, stem)


def _mixtures(replay: ProblemReplay, method: str, problems: list[Problem]) -> Iterator[tuple[Gaussians, Gaussians]]:
    """The method's mixtures of source and target, from a process of its own as in a run: what it does stays there."""
    child: MethodProcess | None = None
    try:
        for problem in problems:
            key = problem.key
            domain = domain_of(replay.opened(key.dataset), key.condition)
            setting = MethodSetup(method, domain, seed=key.seed, plugins=replay.plugins)
            if child is None:
                child = MethodProcess(setting, _LIMITS)
            elif child.setting != setting:
                child.set_up(setting)
            reply = child.gaussians(problem.source, problem.target)
            if reply["status"] != "ok":
                raise InputError(f"{method}: {reply['message']}")
            if reply["gaussians"] is None:
                raise InputError(
                    f"{method}: it matches no Gaussians; take a method that does, such as one whose `gaussians` gives them"
                )
            yield reply["gaussians"]
    finally:
        if child is not None:
            child.close()


def _row(name: str, problem: Problem, mixtures: tuple[Gaussians, Gaussians]) -> Row:
    T = problem.T_target_source
    source = mixtures[0]._replace(means=_moved(mixtures[0].means, T))
    clouds = _moved(problem.source.astype(np.float64), T), problem.target.astype(np.float64)
    return Row(f"{problem.tags['category']}\n{name.rsplit('/', 1)[-1]}", clouds, (source, mixtures[1]))


def _moved(points: NDArray[np.float64], T: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(points @ T[:3, :3].T + T[:3, 3])


def _picture(rows: list[Row]) -> Figure:
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.3 * len(HEADS) + 0.5, 2.3 * len(rows) + 0.3), layout="constrained")
    cells = figure.subplots(len(rows), len(HEADS), squeeze=False)
    for line, row in zip(cells, rows, strict=True):
        count = len(row.mixtures[0].weights)
        colours = colormaps["turbo"](np.linspace(0.03, 0.97, count))
        middle = row.clouds[1].mean(axis=0)
        reach = max(float(np.abs(seen(np.concatenate(row.clouds) - middle)).max()), 1e-9) * 1.1
        for axes, cloud, mixture in zip(line[:2], row.clouds, row.mixtures, strict=True):
            flat = seen(cloud - middle)
            axes.scatter(*flat.T, c=colours[mixture.shares.argmax(axis=1)], s=3, linewidths=0, rasterized=True)
        for axes, mixture in zip(line[2:], row.mixtures, strict=True):
            _circles(axes, mixture, middle, colours)
        for axes in line:
            axes.set(xlim=(-reach, reach), ylim=(-reach, reach), xticks=[], yticks=[], aspect="equal")
            axes.grid(False)
            axes.spines[:].set_visible(False)
        line[0].set_ylabel(style.label(row.name.split("\n")[0], 16) + "\n" + row.name.split("\n")[-1], fontsize=8)
    for axes, head in zip(cells[0], HEADS, strict=True):
        axes.set_title(head, fontsize=9)
    return figure


def _circles(axes: Axes, mixture: Gaussians, middle: NDArray[np.float64], colours: NDArray[np.float64]) -> None:
    """The Gaussians, the widest first so that none hides another, and a dot at each mean."""
    from matplotlib.patches import Circle

    flat = seen(mixture.means - middle)
    for j in np.argsort(-mixture.radii):
        if mixture.weights[j] >= _SHOWN_WEIGHT:
            opacity = min(0.9, 0.15 + 3 * mixture.weights[j])
            axes.add_patch(
                Circle(tuple(flat[j]), mixture.radii[j], color=colours[j], alpha=0.35 * opacity, linewidth=0)
            )
            axes.plot(*flat[j], "o", color=colours[j], markersize=4, alpha=opacity)


def of_report(
    loaded: RunData,
    trials: pd.DataFrame,
    groups: list[GroupKey],
    criterion: Convention,
    replay: ProblemReplay,
    folder: Path,
) -> Iterator[FigureJob]:
    """The picture for a report: the problems of the first group's grid, by the first method that matches mixtures.

    Nothing where no method does, or where its weights or the clouds aren't here.
    """
    for group in groups[:1]:
        chosen = choose(select_group(trials, group), criterion, _ROWS)
        with contextlib.suppress(InputError):
            stem = folder / f"gaussians_{style.slug(*group)}"
            yield drawn_job(loaded, replay, first_method(loaded, replay.plugins), chosen, stem)
