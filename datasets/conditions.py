"""Conditions: how the two clouds of a problem are generated. Each is a frozen dataclass; its fields are its parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common import portable, specs
from common.errors import InputError, unknown
from datasets.base import NotEnoughPoints, Shape
from datasets.poses import Matrix, direction, move, rotate
from datasets.visibility import overlap, visible_on_grid, visible_points

Cloud = NDArray[np.float64]
DENSE = 100_000
"""Points sampled on a surface for a depth camera: with only a thousand, the grid would hide almost none."""


class Clouds(NamedTuple):
    """Source (N, 3), target (M, 3) and the share of the source's surface that the target also shows."""

    source: Cloud
    target: Cloud
    overlap: float = 1.0


@dataclass(frozen=True)
class Clean:
    """Same N points in both clouds; the target's order is shuffled."""

    independent: ClassVar[int] = 1
    """Number of independent samples of the object that a problem needs."""
    unseen_half: ClassVar[bool] = False
    """Whether only objects of half of the categories are used (see `labels_allowed`)."""
    real: ClassVar[bool] = False
    """Whether it uses real pairs at their own poses instead of posing an object."""

    def make(
        self, shape: Shape, points: int, source_pose: Matrix, target_pose: Matrix, rng: np.random.Generator
    ) -> Clouds:
        """Generate the two clouds of an object at its two poses (4, 4), with `points` points each."""
        samples = shape.samples(points, self.independent, rng)
        source, target = move(source_pose, samples[0]), move(target_pose, rng.permutation(samples[-1]))
        return Clouds(self.disturb(source, rng), self.disturb(target, rng))

    def disturb(self, cloud: Cloud, rng: np.random.Generator) -> Cloud:
        """Return the cloud with sensor noise: here unchanged."""
        return cloud

    def needed(self, points: int) -> int:
        """Return how many points of an object a problem with `points` points per cloud takes."""
        return self.independent * points

    def points_available(self, requested: int, fixed: int | None) -> int:
        """Return the number of points per cloud that a data set can provide.

        Args:
            requested: the number of points that the run requests.
            fixed: the number of points that every object has; None for surfaces.

        Raises:
            NotEnoughPoints: an object has fewer than the requested points.
        """
        if fixed is None or requested * self.independent <= fixed:
            return requested
        if requested > fixed:
            raise NotEnoughPoints(
                f"objects have {fixed} fixed points, {requested} are requested; points are never repeated"
            )
        return fixed // self.independent


@dataclass(frozen=True)
class Noisy(Clean):
    """As clean, with independent clipped Gaussian noise on each cloud."""

    may_be_infinite: ClassVar[tuple[str, ...]] = ("clip",)
    """Parameters that may be infinite: without a limit, noise is not clipped."""
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
    """As noisy, on objects of the second half of the categories, which weights for this condition were not trained on."""

    unseen_half: ClassVar[bool] = True


@dataclass(frozen=True)
class Resampled(Noisy):
    """Independent samples of the surface for source and target, plus noise: no shared point.

    Of fixed points the clouds are disjoint subsets, with at most half of the points each.
    """

    independent: ClassVar[int] = 2


@dataclass(frozen=True)
class Outliers(Noisy):
    """As noisy, with a share of each cloud's points replaced by uniform ones in the cube around the object."""

    fraction: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.fraction < 1:
            raise ValueError("fraction must be at least 0 and below 1")

    def disturb(self, cloud: Cloud, rng: np.random.Generator) -> Cloud:
        """Add noise, then replace random rows by outliers, uniform in the cube [-1, 1]³ about the cloud's centroid."""
        noisy = super().disturb(cloud, rng)
        rows = rng.permutation(len(cloud))[: round(self.fraction * len(cloud))]
        noisy[rows] = portable.mean(cloud) + rng.uniform(-1, 1, (len(rows), 3))
        return noisy


@dataclass(frozen=True)
class Density(Resampled):
    """As resampled, with another number of points in the target than in the source."""

    target: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target < 1:
            raise ValueError("target must be at least 1 point")

    def make(
        self, shape: Shape, points: int, source_pose: Matrix, target_pose: Matrix, rng: np.random.Generator
    ) -> Clouds:
        """Generate a source of `points` and a target of `target` points from one sample, so that they share none."""
        sample = shape.samples(points + self.target, 1, rng)[0]
        source, target = move(source_pose, sample[:points]), move(target_pose, sample[points:])
        return Clouds(self.disturb(source, rng), self.disturb(target, rng))

    def needed(self, points: int) -> int:
        """Return the points of both clouds."""
        return points + self.target

    def points_available(self, requested: int, fixed: int | None) -> int:
        """Return the number of points of the source that remain beside those of the target."""
        if fixed is not None and fixed <= self.target:
            raise NotEnoughPoints(
                f"objects have {fixed} fixed points, and the target alone needs {self.target}; lower target"
            )
        if fixed is not None and requested > fixed:
            return super().points_available(requested, fixed)
        return requested if fixed is None else min(requested, fixed - self.target)


@dataclass(frozen=True)
class Partial(Noisy):
    """Each cloud as its own orthographic depth camera sees it, on a 200 x 200 grid (DeepGMR's supplement).

    `visibility` "grid" needs a surface to sample densely; "hpr" (hidden-point removal) replaces it for fixed points.
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
        """Generate both views, each in the frame of its pose; the overlap is measured on all points that each view shows."""
        dense = shape.samples(DENSE, 2, rng) if self.visibility == "grid" else shape.samples(2 * points, 1, rng) * 2
        visible_rows = visible_on_grid if self.visibility == "grid" else visible_points
        views = [
            cloud[visible_rows(rotate(pose[:3, :3], cloud))]
            for cloud, pose in zip(dense, (source_pose, target_pose), strict=True)
        ]
        source, target = (rng.permutation(view)[:points] for view in views)
        moved = move(source_pose, source), move(target_pose, target)
        return Clouds(self.disturb(moved[0], rng), self.disturb(moved[1], rng), overlap(views[0], views[1]))

    def needed(self, points: int) -> int:
        """Return twice the points, of which half are visible on average."""
        return 2 * points

    def points_available(self, requested: int, fixed: int | None) -> int:
        """Return the number of points per cloud; half of the fixed points are visible on average.

        Raises:
            NotEnoughPoints: the grid needs a surface, and the data set has fixed points; or an object has fewer than the
                requested points.
        """
        if self.visibility == "grid" and fixed is not None:
            raise NotEnoughPoints(
                "a depth camera needs a surface to sample; for fixed points, use partial[visibility=hpr]"
            )
        available = super().points_available(requested, fixed)
        return available if fixed is None else min(available, fixed // 2)


@dataclass(frozen=True)
class Crop(Noisy):
    """Each cloud without the points beyond a random plane, with the share `keep` of the others (RPMNet, Predator).

    Both clouds start from the same 2N points. Each loses those on one side of a plane with a uniformly random normal, so that
    the share `keep` remains; at 0.5 the plane passes through the centroid. Of the rest keep x N random points are taken,
    rounded up: 717 of 1 024 at 0.7. With `unseen`, objects are those of `unseen`.
    """

    keep: float = 0.7
    unseen: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.keep <= 1:
            raise ValueError("keep must be above 0 and at most 1")

    @property
    def unseen_half(self) -> bool:  # type: ignore[override]
        """Whether only objects of the second half of the categories are used."""
        return self.unseen

    def make(
        self, shape: Shape, points: int, source_pose: Matrix, target_pose: Matrix, rng: np.random.Generator
    ) -> Clouds:
        """Generate the two cropped clouds; the overlap is measured on the points before the last subsampling."""
        (cloud,) = shape.samples(self.oversampling * points, 1, rng)
        poses = source_pose, target_pose
        kept = self.kept_rows([move(pose, cloud) for pose in poses], rng)
        size = -int(np.floor(-self.keep * points))  # rounded up
        rows = [rng.permutation(r)[:size] for r in kept]
        source, target = (move(pose, cloud[r]) for pose, r in zip(poses, rows, strict=True))
        shared = np.count_nonzero(np.isin(kept[0], kept[1])) / len(kept[0])
        return Clouds(self.disturb(source, rng), self.disturb(target, rng), shared)

    oversampling: ClassVar[int] = 2
    """Points from which both clouds are taken, as a multiple of N."""

    def needed(self, points: int) -> int:
        """Return how many points of an object both clouds are taken from."""
        return self.oversampling * points

    def kept_rows(self, clouds: list[Cloud], rng: np.random.Generator) -> list[NDArray[np.intp]]:
        """Return the rows of each posed cloud (n, 3) that remain."""
        return [half_space(cloud, direction(rng), self.keep) for cloud in clouds]

    def points_available(self, requested: int, fixed: int | None) -> int:
        """Return the N whose multiple a data set can provide.

        Raises:
            NotEnoughPoints: an object has fewer than the requested points.
        """
        available = super().points_available(requested, fixed)
        return available if fixed is None else min(available, fixed // self.oversampling)


def half_space(cloud: Cloud, normal: NDArray[np.float64], keep: float) -> NDArray[np.intp]:
    """Return the rows of points (n, 3) on the positive side of the plane that leaves the share `keep` of them, ascending.

    >>> half_space(np.arange(10.0)[:, None] * [1.0, 0.0, 0.0], np.array([1.0, 0.0, 0.0]), 0.7).tolist()
    [3, 4, 5, 6, 7, 8, 9]
    """
    distance = portable.dot(cloud - portable.mean(cloud), normal)
    if keep == 0.5:
        return np.flatnonzero(distance > 0)
    beyond = int(np.floor((len(cloud) - 1) * (1 - keep))) + 1 if keep < 1 else 0
    return np.sort(np.argsort(distance, kind="stable")[beyond:])


@dataclass(frozen=True)
class Nearest(Crop):
    """The share `keep` of N common points that is nearest to a random far point (PRNet: 768 of 1 024).

    The point has the same coordinates in the frames of both clouds, so that the crops differ the more the larger the motion is.
    """

    keep: float = 0.75
    oversampling: ClassVar[int] = 1

    def kept_rows(self, clouds: list[Cloud], rng: np.random.Generator) -> list[NDArray[np.intp]]:
        """Return the rows of each cloud (n, 3) that are nearest to the far point."""
        viewpoint = FAR * direction(rng)
        size = -int(np.floor(-self.keep * len(clouds[0])))
        order = [np.argsort(portable.norm(cloud - viewpoint), kind="stable") for cloud in clouds]
        return [np.sort(rows[:size]) for rows in order]


FAR = 500.0
"""Distance of the point of `Nearest` from the origin."""


@dataclass(frozen=True)
class Real(Clean):
    """Real pairs at their own poses, subsampled to N points where they have more; for data sets of pairs only."""

    real: ClassVar[bool] = True

    def make(
        self, shape: Shape, points: int, source_pose: Matrix, target_pose: Matrix, rng: np.random.Generator
    ) -> Clouds:
        """Raise an InputError, since one object is not a pair."""
        raise InputError(f"condition real: {shape.name} is one object, not a pair of scans; use another condition")


CONDITIONS: dict[str, type[Clean]] = {
    c.__name__.lower(): c for c in (Clean, Noisy, Unseen, Resampled, Outliers, Density, Partial, Crop, Nearest, Real)
}
"""Classes of the conditions by name."""

REAL = Real.__name__.lower()
"""Name of the only condition of real pairs."""


@lru_cache(maxsize=256)
def condition(text: str) -> Clean:
    """Parse a condition written as `noisy` or `noisy[sigma=0.02]`.

    Raises:
        InputError: the condition or a parameter does not exist, or a value is out of range.

    >>> condition("noisy[sigma=0.02]")
    Noisy(sigma=0.02, clip=0.05)
    >>> condition("nosy")
    Traceback (most recent call last):
        ...
    common.errors.UnknownName: unknown condition 'nosy'; did you mean noisy or density?
    """
    spec = specs.parse(text)
    if spec.name not in CONDITIONS:
        raise unknown("condition", spec.name, CONDITIONS)
    return specs.instantiate(CONDITIONS[spec.name], spec, {}, "condition")


@dataclass(frozen=True)
class ConditionSpec:
    """A condition as the user wrote it, resolved.

    Attributes:
        text: such as `noisy[sigma=0.02]`, as in tables and keys.
        value: the condition.
    """

    text: str
    value: Clean = field(compare=False)

    @classmethod
    def parse(cls, text: str) -> ConditionSpec:
        """Resolve a text.

        Raises:
            InputError: as `condition`.
        """
        return cls(text, condition(text))

    def __str__(self) -> str:
        return self.text


def labels_allowed(condition: Clean, split: str, categories: int) -> tuple[int, ...] | None:
    """Return the labels of the objects that a condition uses; None for all.

    For `unseen` these are the first half of the categories in the train split, and the second in the test split.
    """
    if not condition.unseen_half:
        return None
    half = categories // 2
    return tuple(range(half)) if split == "train" else tuple(range(half, categories))
