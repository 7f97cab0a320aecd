"""How two clouds are made of one object: `clean`, `noisy`, `unseen`, `resampled`. A condition is a small frozen dataclass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from common import specs
from common.errors import unknown
from datasets.base import NotEnoughPoints, Shape
from datasets.poses import Matrix, move

Cloud = NDArray[np.float64]


@dataclass(frozen=True)
class Clean:
    """The same N points in both clouds; the target's order is shuffled."""

    independent: ClassVar[int] = 1
    """How many independent samples of the object a problem needs."""
    unseen_half: ClassVar[bool] = False

    def make(
        self, shape: Shape, points: int, source_pose: Matrix, target_pose: Matrix, rng: np.random.Generator
    ) -> tuple[Cloud, Cloud]:
        """Source and target (points, 3) of an object seen at two poses (4, 4)."""
        samples = shape.samples(points, self.independent, rng)
        source, target = move(source_pose, samples[0]), move(target_pose, rng.permutation(samples[-1]))
        return self.disturb(source, rng), self.disturb(target, rng)

    def disturb(self, cloud: Cloud, rng: np.random.Generator) -> Cloud:
        """What the sensor does to a cloud: here nothing."""
        return cloud

    def points_given(self, asked: int, fixed: int | None) -> int:
        """The N a data set with `fixed` points an object gives when `asked` points are asked for.

        Raises:
            NotEnoughPoints: an object has fewer than `asked` points.
        """
        if fixed is None or asked * self.independent <= fixed:
            return asked
        if asked > fixed:
            raise NotEnoughPoints(f"objects have {fixed} fixed points, {asked} were asked; points are never repeated")
        return fixed // self.independent


@dataclass(frozen=True)
class Noisy(Clean):
    """As clean, then independent Gaussian noise on each cloud, clipped."""

    sigma: float = 0.01
    clip: float = 0.05

    def __post_init__(self) -> None:
        if self.sigma < 0 or self.clip < 0:
            raise ValueError("sigma and clip must not be negative")

    def disturb(self, cloud: Cloud, rng: np.random.Generator) -> Cloud:
        """Add noise N(0, sigma) to each coordinate, clipped at ±clip."""
        return cloud + np.clip(rng.normal(0, self.sigma, cloud.shape), -self.clip, self.clip)


@dataclass(frozen=True)
class Unseen(Noisy):
    """As noisy; objects of the second half of the categories, which methods for this condition were not trained on."""

    unseen_half: ClassVar[bool] = True


@dataclass(frozen=True)
class Resampled(Noisy):
    """Independent samples of the surface for source and target, plus noise: no shared points at all.

    A data set of fixed points gives disjoint subsets, so at most half its points to each cloud.
    """

    independent: ClassVar[int] = 2


CONDITIONS: dict[str, type[Clean]] = {c.__name__.lower(): c for c in (Clean, Noisy, Unseen, Resampled)}


def condition(text: str) -> Clean:
    """The condition written as `noisy` or `noisy[sigma=0.02]`."""
    spec = specs.parse(text)
    if spec.name not in CONDITIONS:
        raise unknown("condition", spec.name, CONDITIONS)
    return specs.build(CONDITIONS[spec.name], spec, {}, "condition")


def labels_allowed(made: Clean, split: str, categories: int) -> tuple[int, ...] | None:
    """Labels whose objects a condition takes from a split: all, or for `unseen` the first half (train) or second (test)."""
    if not made.unseen_half:
        return None
    half = categories // 2
    return tuple(range(half)) if split == "train" else tuple(range(half, categories))
