"""What is to be done: cells of problems, and the pieces of work of the methods on them. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.child import Limits, Setting
from bench.config import More, RunConfig
from datasets import registry
from datasets.base import DataSet, NotEnoughPoints, PairSet
from datasets.conditions import condition
from datasets.problems import ProblemKey
from methods import registry as methods

PIECE = 20
"""Problems a piece of work holds at most, or one batch if that is more."""
LOAD = 120
"""Problems a worker takes at a time at most, unless one piece is more."""
LOADS = 8
"""Loads a worker gets at least, where there is so much to do: some take much longer than others."""


@dataclass(frozen=True)
class Cell:
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
class Piece:
    """Problems of one cell for one method, by seeds of one repeat, `batch` in a call."""

    setting: Setting
    cell: Cell
    keys: tuple[ProblemKey, ...]
    limits: Limits
    data: str
    plugins: Path | None = None
    repeat: int = 0
    batch: int = 1


def make_cells(config: RunConfig, data: str, plugins: Path | None = None) -> list[Cell]:
    """The cells of a run: data sets x those conditions that are for them x point counts, then what it has more.

    A fixed point set gives a condition with independent samples at most half its points; equal cells are made once, for the
    methods of all of them.
    """
    cells: dict[str, Cell] = {}
    for part in (More(config.methods, config.datasets, config.conditions, config.points), *config.more):
        for name in part.datasets:
            dataset = registry.open_data(name, data, plugins)
            for text in conditions_for(part.conditions, dataset):
                for points in part.points:
                    cell = make_cell(config, dataset, name, text, points)
                    known = cells[cell.name].methods if cell.name in cells else ()
                    cells[cell.name] = replace(cell, methods=tuple(dict.fromkeys([*known, *part.methods])))
    return list(cells.values())


def conditions_for(conditions: Iterable[str], dataset: DataSet | PairSet) -> list[str]:
    """Those conditions that are for objects, or for real pairs."""
    return [text for text in conditions if condition(text).real == isinstance(dataset, PairSet)]


def make_cell(config: RunConfig, dataset: DataSet | PairSet, name: str, text: str, asked: int) -> Cell:
    """One cell, with the points that the data set can give, and of real pairs no more than there are."""
    if isinstance(dataset, PairSet):
        few = len(dataset) < config.problems
        pairs = range(len(dataset) if few else config.problems)
        real = tuple(ProblemKey(name, text, asked, i, config.seed, sampler="none") for i in pairs)
        remark = (f"{name} has {len(dataset)} pairs, and no pair comes twice",) if few else ()
        return Cell(name, text, asked, asked, dataset.domain, real, remarks=(*dataset.remarks, *remark))
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
    return Cell(name, text, points, asked, domain_of(dataset, text), keys, skip, dataset.remarks)


def domain_of(dataset: DataSet | PairSet, text: str) -> str:
    """What a method is told that a condition's problems are about, such as `modelnet40` or `modelnet40/first20`."""
    if isinstance(dataset, PairSet) or not condition(text).unseen_half:
        return dataset.domain
    return f"{dataset.domain}/first{len(dataset.categories) // 2}"


def setting(config: RunConfig, method: str, cell: Cell, plugins: Path | None) -> Setting:
    """What a method's process is started with for a cell."""
    return Setting(method, cell.domain, config.device, config.threads, config.seed, plugins)


def make_pieces(
    config: RunConfig, cells: Iterable[Cell], done: set[tuple[str, str, int]], data: str, plugins: Path | None
) -> list[Piece]:
    """The work that is left, method by method. Random methods solve each problem in every repeat."""
    pieces: list[Piece] = []
    for method in config.every_method:
        repeats, batch = repeats_and_batch(config, method, plugins)
        size = max(PIECE // batch, 1) * batch
        for cell in (c for c in cells if method in c.methods):
            where = setting(config, method, cell, plugins)
            for repeat in range(repeats):
                left = [k for k in cell.keys[: config.limit(method)] if (method, k.id, repeat) not in done]
                for start in range(0, len(left), size):
                    keys = tuple(left[start : start + size])
                    pieces.append(Piece(where, cell, keys, config.call_limits, data, plugins, repeat, batch))
    return pieces


def make_loads(pieces: Iterable[Piece], workers: int) -> list[list[Piece]]:
    """Pieces as workers take them: those of one process of a method together, since it takes up to two seconds to start."""
    pieces = list(pieces)
    size = min(sum(len(p.keys) for p in pieces) // (LOADS * workers), LOAD)
    loads: list[list[Piece]] = []
    held = 0
    for piece in pieces:
        held += len(piece.keys)
        if loads and loads[-1][0].setting == piece.setting and held <= size:
            loads[-1].append(piece)
        else:
            loads.append([piece])
            held = len(piece.keys)
    return loads


def repeats_and_batch(config: RunConfig, method: str, plugins: Path | None) -> tuple[int, int]:
    """How often a method solves each problem, and how many pairs it gets at once."""
    made = methods.build(method, plugins)
    return (config.repeats if methods.is_random(made) else 1), (config.batch if methods.is_batched(made) else 1)
