"""How two clouds are made of one object. Each condition is a small frozen dataclass; its fields are its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common import portable, specs
from common.errors import InputError, unknown
from datasets.base import NotEnoughPoints, Shape
from datasets.poses import Matrix, move, rotate
from datasets.visibility import overlap, visible_on_grid, visible_points

Cloud = NDArray[np.float64]
DENSE = 100_000
"""Points sampled of a surface before a depth camera looks at it: the grid hides next to nothing of a thousand."""


class Clouds(NamedTuple):
    """Source (N, 3), target (M, 3) and the share of the source's surface that the target shows too."""

    source: Cloud
    target: Cloud
    overlap: float = 1.0


@dataclass(frozen=True)
class Clean:
    """The same N points in both clouds; the target's order is shuffled."""

    independent: ClassVar[int] = 1
    """How many independent samples of the object a problem needs."""
    unseen_half: ClassVar[bool] = False
    real: ClassVar[bool] = False
    """Whether it takes real pairs as they are, rather than posing an object."""

    def make(
        self, shape: Shape, points: int, source_pose: Matrix, target_pose: Matrix, rng: np.random.Generator
    ) -> Clouds:
        """The two clouds of an object at its two poses (4, 4), with `points` points each."""
        samples = shape.samples(points, self.independent, rng)
        source, target = move(source_pose, samples[0]), move(target_pose, rng.permutation(samples[-1]))
        return Clouds(self.disturb(source, rng), self.disturb(target, rng))

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


@dataclass(frozen=True)
class Outliers(Noisy):
    """As noisy; a share of each cloud's points is replaced by uniform ones in the cube around the object."""

    fraction: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.fraction < 1:
            raise ValueError("fraction must be at least 0 and below 1")

    def disturb(self, cloud: Cloud, rng: np.random.Generator) -> Cloud:
        """Noise, then outliers uniform in the cube [-1, 1]³ about the cloud's centroid, at random places in the order."""
        noisy = super().disturb(cloud, rng)
        rows = rng.permutation(len(cloud))[: round(self.fraction * len(cloud))]
        noisy[rows] = portable.mean(cloud) + rng.uniform(-1, 1, (len(rows), 3))
        return noisy


@dataclass(frozen=True)
class Density(Resampled):
    """As resampled; the target has another number of points than the source."""

    target: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target < 1:
            raise ValueError("target must be at least 1 point")

    def make(
        self, shape: Shape, points: int, source_pose: Matrix, target_pose: Matrix, rng: np.random.Generator
    ) -> Clouds:
        """Source of `points` and target of `target` points, from one draw that is cut, so that they share none."""
        sample = shape.samples(points + self.target, 1, rng)[0]
        source, target = move(source_pose, sample[:points]), move(target_pose, sample[points:])
        return Clouds(self.disturb(source, rng), self.disturb(target, rng))

    def points_given(self, asked: int, fixed: int | None) -> int:
        """The N of the source that a data set with `fixed` points an object gives beside the target's."""
        if fixed is not None and fixed <= self.target:
            raise NotEnoughPoints(f"objects have {fixed} fixed points, and the target alone takes {self.target}")
        if fixed is not None and asked > fixed:
            return super().points_given(asked, fixed)
        return asked if fixed is None else min(asked, fixed - self.target)


@dataclass(frozen=True)
class Partial(Noisy):
    """Each cloud is what its own orthographic depth camera sees: the paper's supplement, on a 200 x 200 grid.

    `visibility` "grid" needs a surface to sample densely; "hpr" (hidden-point removal) is its substitute for fixed points.
    A cloud has at most N points: a thin object seen edge-on shows fewer, and none is repeated.
    """

    visibility: str = "grid"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.visibility not in ("grid", "hpr"):
            raise ValueError("visibility must be grid or hpr")

    def make(
        self, shape: Shape, points: int, source_pose: Matrix, target_pose: Matrix, rng: np.random.Generator
    ) -> Clouds:
        """Both views, in the frames of their poses; the overlap is measured on all that each view shows."""
        dense = shape.samples(DENSE, 2, rng) if self.visibility == "grid" else shape.samples(2 * points, 1, rng) * 2
        see = visible_on_grid if self.visibility == "grid" else visible_points
        seen = [
            cloud[see(rotate(pose[:3, :3], cloud))]
            for cloud, pose in zip(dense, (source_pose, target_pose), strict=True)
        ]
        source, target = (rng.permutation(s)[:points] for s in seen)
        moved = move(source_pose, source), move(target_pose, target)
        return Clouds(self.disturb(moved[0], rng), self.disturb(moved[1], rng), overlap(seen[0], seen[1]))

    def points_given(self, asked: int, fixed: int | None) -> int:
        """As others; a fixed point set is refused where only a densely sampled surface will do."""
        if self.visibility == "grid" and fixed is not None:
            raise NotEnoughPoints("a depth camera needs a surface to sample; for fixed points: partial[visibility=hpr]")
        return asked if fixed is None or asked > fixed else min(asked, fixed // 2)


@dataclass(frozen=True)
class Real(Clean):
    """Real pairs as they are, at their own poses, thinned to N points where they have more; for sets of pairs alone."""

    real: ClassVar[bool] = True

    def make(
        self, shape: Shape, points: int, source_pose: Matrix, target_pose: Matrix, rng: np.random.Generator
    ) -> Clouds:
        """Always an InputError: one object is no pair."""
        raise InputError(f"condition real: {shape.name} is one object, not a pair of scans; use another condition")


CONDITIONS: dict[str, type[Clean]] = {
    c.__name__.lower(): c for c in (Clean, Noisy, Unseen, Resampled, Outliers, Density, Partial, Real)
}


REAL = Real.__name__.lower()
"""The one condition of real pairs."""


@lru_cache(maxsize=256)
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
