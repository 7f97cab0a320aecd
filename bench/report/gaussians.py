"""Figure of the Gaussian mixtures of a method: points coloured by component, and the components, of source and target."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.evaluation.conventions import Convention
from bench.evaluation.loader import RunData
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup
from bench.planning.tasks import domain_of
from bench.report import style
from bench.report.jobs import FigureJob
from bench.report.panels import is_narrow, put_title
from bench.report.qualitative import choose, project
from bench.report.ranking import GroupKey, select_group
from bench.report.replay import ProblemReplay, label_of, upright
from bench.storage.outcome import Status
from common.errors import InputError
from datasets.conditions import condition
from datasets.poses import move
from methods.base import Gaussians
from methods.core.registry import MethodRegistry

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from datasets.problems import Problem

CAPTION = (
    "Each row is a problem. Left: the source moved by the true pose, then the target; the colour of a point is that of its most "
    "probable Gaussian. Right: the heaviest Gaussians as outlines of one standard deviation around a dot at the mean, with a "
    "width by weight. Corresponding Gaussians have the same colour: where the colours of source and target agree, the method "
    "matches corresponding parts. All seen from the same direction, objects upright."
)
HEADS = ("source", "target", "source's Gaussians", "target's Gaussians")
_HEAVIEST = 12
"""Number of Gaussians that are outlined: those of most weight in source and target together."""
_ROWS = 3
"""Problems in the figure of a report."""
_LIMITS = Limits(timeout=120, memory_gb=8)


class MixtureRow(NamedTuple):
    """A problem: name, points (n, 3) of source and target in the upright frame of the object, and their mixtures."""

    name: str
    clouds: tuple[NDArray[np.float64], NDArray[np.float64]]
    mixtures: tuple[Gaussians, Gaussians]


def first_method(loaded: RunData, registry: MethodRegistry) -> str:
    """Return the first method of a run that matches Gaussian mixtures, controls last.

    Raises:
        InputError: no method does.
    """
    for name, _ in style.ordered_methods(loaded.outcomes):
        if name in registry.entries and registry.spec(name).has_gaussians:
            return name
    raise InputError("no method of this run matches Gaussians; name one by --method")


def drawn_job(loaded: RunData, replay: ProblemReplay, method: str, problems: list[str], stem: Path) -> FigureJob:
    """Build the figure of a method's mixtures on problems of a run.

    Raises:
        InputError: unknown problem, unavailable clouds, or a method without mixtures.
    """
    known = set(map(str, loaded.outcomes.loc[loaded.outcomes["phase"] == "accuracy", "problem"].unique()))
    selected: dict[str, Problem] = {}
    for name in problems:
        if name not in known:
            raise InputError(f"{name}: not a problem of this run; its trials.csv lists them, such as {min(known)}")
        problem = replay.problem(name)
        if problem is None:
            raise InputError(
                f"{name}: {replay.missing.get(replay.key(name).dataset, 'its clouds cannot be generated')}"
            )
        selected[name] = problem
    rows = [
        _mixture_row(name, selected[name], mixtures)
        for name, mixtures in zip(problems, _mixtures(replay, method, [selected[n] for n in problems]), strict=True)
    ]
    alt = f"{len(rows)} problems; {len(rows[0].mixtures[0].weights)} Gaussians per cloud: {', '.join(problems)}."
    return FigureJob(_draw_mixtures, (rows, method), "gaussians", f"Latent Gaussians · {method}", CAPTION, stem, alt)


def _mixtures(replay: ProblemReplay, method: str, problems: list[Problem]) -> Iterator[tuple[Gaussians, Gaussians]]:
    """Yield the method's mixtures of source and target of each problem, computed in a method process as in a run."""
    process: MethodProcess | None = None
    try:
        for problem in problems:
            key = problem.key
            dataset = replay.opened(key.dataset)
            domain = domain_of(dataset, condition(key.condition))
            setup = MethodSetup(replay.catalog.methods.spec(method), domain, seed=key.seed, kind=dataset.kind)
            if process is None:
                process = MethodProcess(setup, _LIMITS)
            elif process.setup != setup:
                process.set_up(setup)
            reply = process.gaussians(problem.source, problem.target)
            if reply.status != Status.OK:
                raise InputError(f"{method}: {reply.message}")
            if reply.extra is None:
                raise InputError(f"{method}: it matches no Gaussians; choose a method that implements `gaussians`")
            yield reply.extra
    finally:
        if process is not None:
            process.close()


def _mixture_row(name: str, problem: Problem, mixtures: tuple[Gaussians, Gaussians]) -> MixtureRow:
    up = upright(problem)
    motions = up @ problem.T_target_source, up
    source, target = (m._replace(means=move(T, m.means)) for T, m in zip(motions, mixtures, strict=True))
    clouds = (problem.source, problem.target)
    first, second = (move(T, c.astype(np.float64)) for T, c in zip(motions, clouds, strict=True))
    return MixtureRow(label_of(name, problem), (first, second), (source, target))


def _draw_mixtures(rows: list[MixtureRow], method: str) -> Figure:
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    width = style.figure_width()
    side, above = (width - 0.4) / len(HEADS), 0.9 if is_narrow() else 0.7  # its heads take two lines
    figure = Figure(figsize=(width, 0.8 * side * len(rows) + above), layout="constrained")
    cells = figure.subplots(len(rows), len(HEADS), squeeze=False)
    for line, row in zip(cells, rows, strict=True):
        colours = colormaps["turbo"](np.linspace(0.03, 0.97, len(row.mixtures[0].weights)))
        heaviest = np.argsort(-(row.mixtures[0].weights + row.mixtures[1].weights))[:_HEAVIEST]
        middle = row.clouds[1].mean(axis=0)
        reach = max(float(np.abs(project(np.concatenate(row.clouds) - middle)).max()), 1e-9) * 1.1
        for axes, cloud, mixture in zip(line[:2], row.clouds, row.mixtures, strict=True):
            flat = project(cloud - middle)
            axes.scatter(*flat.T, c=colours[mixture.shares.argmax(axis=1)], s=2, linewidths=0, rasterized=True)
        for axes, cloud, mixture in zip(line[2:], row.clouds, row.mixtures, strict=True):
            axes.scatter(*project(cloud - middle).T, color="#c8cbd0", s=0.8, linewidths=0, rasterized=True)
            _outlines(axes, mixture, heaviest, middle, colours)
        for axes in line:
            style.frame_picture(axes, reach)
        name, number = row.name.split("\n")
        line[0].set_ylabel(style.label(name, min(16, int(12 * side))) + "\n" + number, fontsize=7)
    for axes, head in zip(cells[0], HEADS, strict=True):
        axes.set_title(head.replace(" ", "\n") if is_narrow() else head, fontsize=8, loc="center")
    put_title(figure, "Latent Gaussians", method)
    return figure


def _outlines(
    axes: Axes,
    mixture: Gaussians,
    heaviest: NDArray[np.intp],
    middle: NDArray[np.float64],
    colours: NDArray[np.float64],
) -> None:
    """Draw the outline of each of the heaviest Gaussians and a dot at its mean; the heavier, the wider the line."""
    from matplotlib.patches import Circle

    flat = project(mixture.means - middle)
    largest = max(float(mixture.weights.max()), 1e-9)
    for j in heaviest:
        width = 0.5 + 1.5 * float(mixture.weights[j]) / largest
        axes.add_patch(
            Circle(tuple(flat[j]), mixture.radii[j], edgecolor=colours[j], facecolor="none", linewidth=width)
        )
        axes.plot(*flat[j], "o", color=colours[j], markersize=3)


def of_report(
    loaded: RunData,
    trials: pd.DataFrame,
    groups: list[GroupKey],
    criterion: Convention,
    replay: ProblemReplay,
    folder: Path,
) -> Iterator[FigureJob]:
    """Yield the figure of a report: problems of the first group, by the first method that matches mixtures.

    Yield nothing if no method does, or if its weights or the clouds are unavailable.
    """
    for group in groups[:1]:
        chosen = choose(select_group(trials, group), criterion, _ROWS)
        with contextlib.suppress(InputError):
            stem = folder / f"gaussians_{style.slug(*group)}"
            yield drawn_job(loaded, replay, first_method(loaded, replay.catalog.methods), chosen, stem)
