"""What is to be done: cells of problems, and the pieces of work of the methods on them. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.isolation.protocol import Limits, MethodSetup
from bench.planning.config import ExtraGrid, RunConfig
from datasets import registry
from datasets.base import DataSet, NotEnoughPoints, PairSet
from datasets.conditions import condition
from datasets.problems import ProblemKey
from methods.core import registry as methods

PROBLEMS_PER_TASK = 20
"""Problems a piece of work holds at most, or one batch if that is more."""
PROBLEMS_PER_BATCH = 120
"""Problems a worker takes at a time at most, unless one piece is more."""
BATCHES_PER_WORKER = 8
"""Loads a worker gets at least, where there is so much to do: some take much longer than others."""


@dataclass(frozen=True)
class ProblemGroup:
    """Problems of one data set, condition and point count.

    `methods` are asked them. `skip` is the reason why there are none, `remarks` is what the data set has to say.
    """

    dataset: str
    condition: str
    points: int
    asked: int
    domain: str
    keys: tuple[ProblemKey, ...]
    skip: str = ""
    remarks: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """`dataset/condition/points`."""
        return f"{self.dataset}/{self.condition}/{self.points}"

    @property
    def columns(self) -> tuple[str, str, int]:
        """What stands in the tables: data set, condition, points."""
        return self.dataset, self.condition, self.points


@dataclass(frozen=True)
class Task:
    """Problems of one cell for one method, by seeds of one repeat, `batch` in a call."""

    setup: MethodSetup
    cell: ProblemGroup
    keys: tuple[ProblemKey, ...]
    limits: Limits
    data: str
    plugins: Path | None = None
    repeat: int = 0
    batch: int = 1


def make_groups(config: RunConfig, data: str, plugins: Path | None = None) -> list[ProblemGroup]:
    """The cells of a run: data sets x those conditions that are for them x point counts, then what it has more.

    A fixed point set gives a condition with independent samples at most half its points; equal cells are made once, for the
    methods of all of them.
    """
    cells: dict[str, ProblemGroup] = {}
    for part in (ExtraGrid(config.methods, config.datasets, config.conditions, config.points), *config.more):
        for name in part.datasets:
            dataset = registry.open_data(name, data, plugins)
            for text in conditions_for(part.conditions, dataset):
                for points in part.points:
                    cell = make_group(config, dataset, name, text, points)
                    known = cells[cell.name].methods if cell.name in cells else ()
                    cells[cell.name] = replace(cell, methods=tuple(dict.fromkeys([*known, *part.methods])))
    return list(cells.values())


def conditions_for(conditions: Iterable[str], dataset: DataSet | PairSet) -> list[str]:
    """Those conditions that are for objects, or for real pairs."""
    return [text for text in conditions if condition(text).real == isinstance(dataset, PairSet)]


def make_group(config: RunConfig, dataset: DataSet | PairSet, name: str, text: str, asked: int) -> ProblemGroup:
    """One cell, with the points that the data set can give, and of real pairs no more than there are."""
    if isinstance(dataset, PairSet):
        few = len(dataset) < config.problems
        pairs = range(len(dataset) if few else config.problems)
        real = tuple(ProblemKey(name, text, asked, i, config.seed, sampler="none") for i in pairs)
        remark = (f"{name} has {len(dataset)} pairs, and no pair comes twice",) if few else ()
        return ProblemGroup(name, text, asked, asked, dataset.domain, real, remarks=(*dataset.remarks, *remark))
    made, skip, points = condition(text), "", asked
    try:
        points = made.points_given(asked, dataset.fixed_points)
    except NotEnoughPoints as reason:
        skip = str(reason)
    bounds = (config.angles[0], config.angles[-1])
    keys = tuple(
        ProblemKey(name, text, points, i, config.seed, sampler=config.sampler, angles=bounds)
        for i in range(config.problems)
    )
    return ProblemGroup(name, text, points, asked, domain_of(dataset, text), keys, skip, dataset.remarks)


def domain_of(dataset: DataSet | PairSet, text: str) -> str:
    """What a method is told that a condition's problems are about, such as `modelnet40` or `modelnet40/first20`."""
    if isinstance(dataset, PairSet) or not condition(text).unseen_half:
        return dataset.domain
    return f"{dataset.domain}/first{len(dataset.categories) // 2}"


def method_setup(config: RunConfig, method: str, cell: ProblemGroup, plugins: Path | None) -> MethodSetup:
    """What a method's process is started with for a cell."""
    return MethodSetup(method, cell.domain, config.device, config.threads, config.seed, plugins)


def make_tasks(
    config: RunConfig, cells: Iterable[ProblemGroup], done: set[tuple[str, str, int]], data: str, plugins: Path | None
) -> list[Task]:
    """The work that is left, method by method. Random methods solve each problem in every repeat."""
    pieces: list[Task] = []
    for method in config.every_method:
        repeats, batch = repeats_and_batch(config, method, plugins)
        size = max(PROBLEMS_PER_TASK // batch, 1) * batch
        for cell in (c for c in cells if method in c.methods):
            where = method_setup(config, method, cell, plugins)
            for repeat in range(repeats):
                left = [k for k in cell.keys[: config.limit(method)] if (method, k.id, repeat) not in done]
                for start in range(0, len(left), size):
                    keys = tuple(left[start : start + size])
                    pieces.append(Task(where, cell, keys, config.call_limits, data, plugins, repeat, batch))
    return pieces


def batch_tasks(pieces: Iterable[Task], workers: int) -> list[list[Task]]:
    """Pieces as workers take them: those of one process of a method together, since it takes up to two seconds to start."""
    pieces = list(pieces)
    size = min(sum(len(p.keys) for p in pieces) // (BATCHES_PER_WORKER * workers), PROBLEMS_PER_BATCH)
    loads: list[list[Task]] = []
    held = 0
    for piece in pieces:
        held += len(piece.keys)
        if loads and loads[-1][0].setup == piece.setup and held <= size:
            loads[-1].append(piece)
        else:
            loads.append([piece])
            held = len(piece.keys)
    return loads


def repeats_and_batch(config: RunConfig, method: str, plugins: Path | None) -> tuple[int, int]:
    """How often a method solves each problem, and how many pairs it gets at once."""
    made = methods.build(method, plugins)
    return (config.repeats if methods.is_random(made) else 1), (config.batch if methods.is_batched(made) else 1)
