"""Training data: a part of a train split, problems as batches of tensors, and a thread that prepares batches ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from common.keys import rng
from datasets.base import DataSet, Pair, PairSet, Shape
from datasets.conditions import condition, labels_allowed
from datasets.problems import Problem, ProblemKey, make_problem
from datasets.registry import AnySet
from datasets.symmetry import members
from methods.learned.base import Network
from methods.learned.training_config import Settings

if TYPE_CHECKING:
    from torch import Tensor

HOLD_EVERY = 20
"""Every 20th object of a finite train split is held out for validation."""
_FIRST_HELD_OUT = 1 << 40
"""Index per category at which validation starts in an infinite split."""
_AXIS_STEPS = 48
"""Rotations that approximate a continuous axis of symmetry: the nearest is at most 4° away."""


class Part(DataSet):
    """A part of a data set's train split: the part that is trained on, or the part held out for validation."""

    def __init__(self, whole: DataSet, held_out: bool) -> None:
        super().__init__(whole.root)
        self.whole, self.held_out = whole, held_out
        self.categories, self.fixed_points = whole.categories, whole.fixed_points
        labels = whole.labels("train")
        self.all_labels = None if labels is None else np.asarray(labels)
        is_held_out = np.arange(0 if labels is None else len(labels)) % HOLD_EVERY == HOLD_EVERY - 1
        self.rows = np.flatnonzero(is_held_out == held_out)

    def has_objects(self, posed: str) -> bool:
        """Tell whether there is an object of the categories that a condition trains on."""
        labels = self.labels("train")
        allowed = labels_allowed(condition(posed), "train", len(self.categories))
        return labels is None or bool(len(labels) if allowed is None else np.isin(labels, allowed).any())

    def labels(self, split: str) -> NDArray[np.integer[Any]] | None:
        """See `DataSet.labels`."""
        return None if self.all_labels is None else self.all_labels[self.rows]

    def point_counts(self, split: str) -> NDArray[np.integer[Any]] | None:
        """See `DataSet.point_counts`."""
        counts = self.whole.point_counts("train")
        return None if counts is None else counts[self.rows]

    def shape(self, split: str, index: int) -> Shape:
        """See `DataSet.shape`."""
        if self.all_labels is not None:
            return self.whole.shape("train", int(self.rows[index]))
        first = _FIRST_HELD_OUT * len(self.categories) if self.held_out else 0
        return self.whole.shape("train", first + index)


class PairPart(PairSet):
    """A part of a set of pairs, without end: the pairs that are trained on, or those held out for validation.

    The held-out pairs are the last ones, so that a scene whose pairs are adjacent is not in both parts, but for one at most.
    """

    def __init__(self, whole: PairSet, held_out: bool) -> None:
        super().__init__(whole.root)
        self.whole = whole
        first_held_out = len(whole) - max(1, len(whole) // HOLD_EVERY)
        self.rows = range(first_held_out, len(whole)) if held_out else range(first_held_out)

    def __len__(self) -> int:
        return len(self.rows)

    def pair(self, row: int) -> Pair:
        """See `PairSet.pair`."""
        return self.whole.pair(self.rows[row])

    def pick(self, number: int, seed: int) -> int:
        """Return the row of problem `number`: seeded permutations of the rows, one after another."""
        turn, place = divmod(number, len(self))
        return int(rng("train pairs", seed, turn).permutation(len(self))[place])


def part_of(whole: AnySet, held_out: bool) -> AnySet:
    """Return the part of a data set that is trained on, or the part held out for validation."""
    return PairPart(whole, held_out) if isinstance(whole, PairSet) else Part(whole, held_out)


@dataclass(frozen=True)
class Batch:
    """Problems of one size as tensors.

    Attributes:
        prepared: the result of `Network.prepare`.
        source: (B, N, 3) float32.
        target: (B, N, 3) float32.
        T_true: T_target_source (B, 4, 4) float64; or (B, G, 4, 4) with every true pose of a symmetric object, the generated one
            first and repeated up to G.
    """

    prepared: Any
    source: Tensor
    target: Tensor
    T_true: Tensor


def points_at(settings: Settings, step: int) -> int:
    """Return the number of points of a step: each of `points` for an equal share of the steps, in turn."""
    return settings.points[step * len(settings.points) // settings.steps]


def generate(part: AnySet, settings: Settings, points: int, first: int, count: int) -> list[Problem]:
    """Generate the problems first … first + count - 1 of a part; a pure function of its arguments."""
    key = ProblemKey(settings.dataset, settings.condition, points, 0, settings.seed, "train", settings.sampler)
    return [make_problem(part, replace(key, index=first + i)) for i in range(count)]


def collate(network: Network, problems: list[Problem], device: str) -> Batch:
    """Stack problems of one size to a batch on the device; a network with a function `collate` makes its own batch.

    Raises:
        InputError: the loss needs symmetries, and those of an object are not known.
    """
    import torch

    if hasattr(network, "collate"):
        return Batch(*network.collate(problems, device))

    source, target = (torch.from_numpy(np.stack([getattr(p, s) for p in problems])) for s in ("source", "target"))
    true_poses = _every_true_pose if getattr(network.config, "symmetric", False) else _generated_pose
    T_true = torch.from_numpy(true_poses(problems))
    source, target, T_true = source.to(device), target.to(device), T_true.to(device)
    with torch.no_grad():
        return Batch(network.prepare(source, target), source, target, T_true)


def _generated_pose(problems: list[Problem]) -> NDArray[np.float64]:
    return np.stack([p.T_target_source for p in problems])


def _every_true_pose(problems: list[Problem]) -> NDArray[np.float64]:
    """Return T* A g A⁻¹ (B, G, 4, 4) for every rotation g that maps the object onto itself.

    A is the pose of the source from the object's frame.

    Raises:
        InputError: the symmetries of an object are not known.
    """
    sets = []
    for problem in problems:
        name = problem.tags.get("symmetry")
        if not name:
            raise InputError(
                f"{problem.key.dataset}: its objects' symmetries are not known; train on shapes40, which knows them"
            )
        g = members(name, _AXIS_STEPS)
        rotations = np.tile(np.eye(4), (len(g), 1, 1))
        rotations[:, :3, :3] = g
        A = problem.source_pose
        sets.append(problem.T_target_source @ A @ rotations @ np.linalg.inv(A))
    most = max(map(len, sets))
    return np.stack([np.concatenate([s, np.repeat(s[:1], most - len(s), axis=0)]) for s in sets])


def prefetch(make: Callable[[int], Batch], first: int, last: int, depth: int = 3) -> Iterator[Batch]:
    """Yield make(first) … make(last - 1) in order, computed in a thread up to `depth` ahead of the consumer.

    The thread keeps denormals, so that problems have the same bits as elsewhere; with denormals flushed to zero, SciPy's k-d tree
    may not terminate.
    """
    import torch

    with ThreadPoolExecutor(1, initializer=torch.set_flush_denormal, initargs=(False,)) as pool:
        pending: deque[Future[Batch]] = deque()
        for step in range(first, last):
            pending.append(pool.submit(make, step))
            if len(pending) > depth:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
