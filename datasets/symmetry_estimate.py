"""Estimation of an object's proper rotational symmetry from points of its surface, for data sets that do not declare it.

A rotation is accepted as a symmetry if the rotated points are as near to the points as another sample of the same surface would
be; the distance of each point to its nearest neighbour shows how near that is. An axis of symmetry is a principal axis of the
points, and an axis of order above two has two equal principal moments across it. Where moments are nearly equal, principal axes
are arbitrary, and their plane or the whole sphere is searched.

Features with few points, or smaller than the distance between points, are not detected.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.keys import rng as rng_of
from datasets.base import Points, PointShape, Shape
from datasets.symmetry import turn

Array = NDArray[np.float64]

ORDERS = (3, 4, 5, 6, 7, 8, 9, 10, 12)
"""Finite orders above two that are tested."""
CONTINUOUS = 2 * np.pi * np.array([0.0955, 0.2123, 0.3820])
"""Angles in radians far from those of all tested finite orders: an axis for which all of them pass is continuous."""
MOMENT_TOLERANCE = 0.3
"""Principal moments whose relative difference is smaller are treated as equal, and their axes are searched."""
ANGLE_STEP = np.radians(6.0)
"""Angle in radians between neighbouring axes of a search."""
MAX_FIT_STEPS = 20
"""Maximum number of steps of a fit."""
SEARCH_POINTS = 150
"""Number of points that are rotated in the search; the decision uses all."""
FAR_QUANTILE = 0.99
"""Points are far if their distance exceeds this quantile of the distances between neighbouring points."""
MEAN_LIMIT, FAR_LIMIT, OUTLIER_LIMIT = 1.075, 0.03, 0.0045
"""Limits of a symmetry: the mean distance relative to that of neighbouring points, the share of far points, and the share of
points at 1.5 times that distance. They lie between the values of true and false symmetries of `shapes40`."""
ABANDON_LIMIT = 1.8
"""A fit is abandoned if its relative mean distance exceeds this after two steps."""
SAMPLED_POINTS = 2048
"""Number of points sampled on an object."""
MIN_POINTS = 200
"""Minimum number of points; with fewer, the symmetry remains unknown."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """Name of a group in `datasets.symmetry`, with main axis z and secondary axis x, and its frame (4, 4).

    For each g of the group, frame @ g @ frame⁻¹ maps the points onto themselves.
    """

    name: str
    frame: Array


class _FittedRotation(NamedTuple):
    """Fitted rotation: unit axis (3,), a point on it (3,), and its error relative to the limits (a symmetry is below 1)."""

    axis: Array
    centre: Array
    error: float


def estimate(points: NDArray[np.floating]) -> Estimate:
    """Estimate the symmetry of points (P, 3) on a surface, P ≥ 200 and not all on a line; deterministic."""
    cloud = _Cloud(np.asarray(points, dtype=np.float64))
    rotations = [(order, fit) for axis in cloud.candidates() for order, fit in [cloud.order(axis)] if order > 1]
    if not rotations:
        return Estimate("C1", _frame(np.eye(3)[2], np.eye(3)[0], cloud.centre))
    order, main = min(rotations, key=lambda r: (-r[0], r[1].error))
    fourfold = [fit for n, fit in rotations if n == 4 and abs(fit.axis @ main.axis) < np.sin(2 * ANGLE_STEP)]
    if order == 4 and fourfold:
        return Estimate("O", _frame(main.axis, fourfold[0].axis, main.centre))
    second = cloud.flip(main.axis)
    number = "inf" if order == np.inf else f"{order:.0f}"
    if second is None:
        return Estimate(f"C{number}", _frame(main.axis, _perpendicular(main.axis), main.centre))
    return Estimate(f"D{number}", _frame(main.axis, second.axis, (main.centre + second.centre) / 2))


class _Cloud:
    """Points with their nearest-neighbour index and distances."""

    def __init__(self, points: Array) -> None:
        from scipy.spatial import cKDTree

        self.centre = points.mean(axis=0)
        self.points = points
        self.tree = cKDTree(points)
        distances = np.asarray(self.tree.query(points, k=2)[0])[:, 1]
        self.spacing = max(float(distances.mean()), np.finfo(float).tiny)  # all points may be the same
        self.far = float(np.quantile(distances, FAR_QUANTILE))
        self.search_points = points[np.random.default_rng(0).permutation(len(points))[:SEARCH_POINTS]]

    def candidates(self) -> list[Array]:
        """Return the few axes (3,) that may be axes of symmetry, among them the principal axes."""
        moments, axes = np.linalg.eigh(np.cov(self.points.T))
        equal = [moments[i] > (1 - MOMENT_TOLERANCE) * moments[j] for i, j in ((0, 1), (1, 2), (0, 2))]
        if equal[2]:
            return self._best(_hemisphere(ANGLE_STEP), (1 / 2, 1 / 3, 1 / 5), 16)
        candidates = list(axes.T)
        if equal[0] or equal[1]:
            u, v = axes.T[:2] if equal[0] else axes.T[1:]
            candidates += self._best(_circle(u, v, ANGLE_STEP), (1 / 2,), 4)
        return candidates

    def _best(self, axes: Array, turns: Iterable[float], most: int) -> list[Array]:
        """Return at most `most` well separated axes (3,) about which one of the turns, in parts of the circle, fits best."""
        distances = np.min([[self._search_distance(a, 2 * np.pi * t) for a in axes] for t in turns], axis=0)
        best: list[Array] = []
        for row in np.argsort(distances):
            if all(abs(axes[row] @ axis) < np.cos(2.5 * ANGLE_STEP) for axis in best):
                best.append(axes[row])
            if len(best) == most:
                break
        return best

    def _search_distance(self, axis: Array, angle: float) -> float:
        """Compute the clipped mean distance of the rotated search points from the points."""
        moved = (self.search_points - self.centre) @ turn(axis, angle).T + self.centre
        return float(np.minimum(self.tree.query(moved)[0], 4 * self.spacing).mean())

    def order(self, axis: Array) -> tuple[float, _FittedRotation]:
        """Return the highest order of an axis (infinite if continuous, 1 if none) and its best fitted rotation."""
        half = self.fit(axis, np.pi)
        fits = {2: half}
        if half.error < 1:
            turns = [self.fit(axis, angle) for angle in CONTINUOUS]
            if max(fit.error for fit in turns) < 1:
                return np.inf, min(turns, key=lambda fit: fit.error)
        # an axis without a half turn has no even order
        fits |= {n: self.fit(axis, 2 * np.pi / n) for n in ORDERS if n % 2 or half.error < 1}
        passed = {n: fit for n, fit in fits.items() if fit.error < 1}
        if not passed:
            return 1, half
        best = min(passed, key=lambda n: passed[n].error)
        # All orders that pass belong to one group: its order is their least common multiple, or infinite if that is too large.
        order = math.lcm(*passed)
        return (order if order <= max(ORDERS) else np.inf), passed[best]

    def flip(self, main: Array) -> _FittedRotation | None:
        """Return a half turn about an axis perpendicular to the main axis, None if no such axis is a symmetry."""
        u = _perpendicular(main)
        axes = self._best(_circle(u, np.cross(main, u), ANGLE_STEP), (1 / 2,), 4)
        fits = [self.fit(axis, np.pi) for axis in axes]
        best = min(fits, key=lambda fit: fit.error)
        return best if best.error < 1 else None

    def fit(self, axis: Array, angle: float) -> _FittedRotation:
        """Fit the rotation by an angle about an axis near the given one that best maps the points onto themselves.

        The rotated points are registered to the points (trimmed ICP); the axis of the combined motion is the new axis.
        """
        centre, last = self.centre, np.inf
        for step in range(MAX_FIT_STEPS):
            R = turn(axis, angle)
            moved = (self.points - centre) @ R.T + centre
            distances, match = map(np.asarray, self.tree.query(moved))
            mean = float(np.minimum(distances, 4 * self.spacing).mean()) / self.spacing
            if mean > last - 0.002 or (step >= 2 and mean > ABANDON_LIMIT):
                break
            last = mean
            near = distances <= np.quantile(distances, 0.9)
            correction, shift = _rigid(moved[near], self.points[match[near]])
            axis, centre = _axis_of(correction @ R, correction @ (centre - R @ centre) + shift, axis, centre)
        return _FittedRotation(axis, centre, self._error(distances))

    def _error(self, distances: Array) -> float:
        """Return the largest of the three measures of distances (P,), each relative to its limit."""
        far, outliers = (float((distances > factor * self.far).mean()) for factor in (1, 1.5))
        mean = float(distances.mean()) / self.spacing
        return max((mean - 1) / (MEAN_LIMIT - 1), far / FAR_LIMIT, outliers / OUTLIER_LIMIT)


def _rigid(source: Array, target: Array) -> tuple[Array, Array]:
    """Compute the rotation and shift that map source (n, 3) to target (n, 3) with the least mean square error (Kabsch)."""
    a, b = source.mean(axis=0), target.mean(axis=0)
    u, _, vt = np.linalg.svd((target - b).T @ (source - a))
    R = u @ np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))]) @ vt
    return R, b - R @ a


def _axis_of(R: Array, t: Array, near: Array, centre: Array) -> tuple[Array, Array]:
    """Return a motion's axis, with the sign of `near`, and the axis point nearest to `centre`; the slide along it is ignored."""
    from scipy.spatial.transform import Rotation

    vector = Rotation.from_matrix(R).as_rotvec()
    axis = vector / np.linalg.norm(vector) if np.linalg.norm(vector) > 1e-9 else near
    axis = axis if axis @ near >= 0 else -axis
    offset = np.linalg.lstsq(np.eye(3) - R, t - (centre - R @ centre), rcond=1e-6)[0]
    return axis, centre + offset - axis * (axis @ offset)


def _perpendicular(axis: Array) -> Array:
    """Return a unit vector perpendicular to an axis."""
    vector = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
    return vector / np.linalg.norm(vector)


def _circle(u: Array, v: Array, step: float) -> Array:
    """Return axes (n, 3) in the plane of two perpendicular unit vectors, a step in radians apart."""
    angles = np.arange(0, np.pi, step)[:, None]
    return np.cos(angles) * u + np.sin(angles) * v


def _hemisphere(step: float) -> Array:
    """Return axes (n, 3) about a step in radians apart (a Fibonacci lattice)."""
    n = int(2 * np.pi / step**2)
    z = (np.arange(n) + 0.5) / n
    angle = np.pi * (3 - np.sqrt(5)) * np.arange(n)
    flat = np.sqrt(1 - z**2)
    return np.stack([flat * np.cos(angle), flat * np.sin(angle), z], axis=1)


def _frame(main: Array, second: Array, origin: Array) -> Array:
    """Return the pose (4, 4) of the frame with z along `main` and x as near to `second` as possible."""
    x = second - main * (main @ second)
    x /= np.linalg.norm(x)
    pose = np.eye(4)
    pose[:3, :3] = np.stack([x, np.cross(main, x), main], axis=1)
    pose[:3, 3] = origin
    return pose


class Estimated(Shape):
    """Shape whose symmetry is estimated when first used; None if it has too few points."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.name, self.category = shape, shape.name, shape.category

    @property
    def symmetry(self) -> str | None:  # type: ignore[override]
        """Name of the estimated group, in `symmetry_frame`."""
        return None if self._estimate is None else self._estimate.name

    @property
    def symmetry_frame(self) -> Array:
        """Pose (4, 4) of the group's frame in the object's frame."""
        return np.eye(4) if self._estimate is None else self._estimate.frame

    def samples(self, points: int, count: int, rng: np.random.Generator) -> list[Points]:
        """Draw samples of the shape."""
        return self.shape.samples(points, count, rng)

    @cached_property
    def _estimate(self) -> Estimate | None:
        available = len(self.shape.cloud) if isinstance(self.shape, PointShape) else SAMPLED_POINTS
        if available < MIN_POINTS:
            return None
        return estimate(
            self.shape.samples(min(available, SAMPLED_POINTS), 1, rng_of("symmetry estimate", self.name))[0]
        )


CHOICES = ("unknown", "estimate")
"""Values of the parameter `symmetry` of data sets whose objects do not declare it."""


def check_choice(choice: str) -> None:
    """Raise ValueError if a choice is not in `CHOICES`."""
    if choice not in CHOICES:
        raise ValueError(f"symmetry must be {' or '.join(CHOICES)}")


def with_symmetry(shape: Shape, choice: str, known: dict[str, Estimated]) -> Shape:
    """Return the shape, with estimated symmetry if chosen. `known` caches estimates by name, so that each is computed once."""
    return shape if choice == "unknown" else known.setdefault(shape.name, Estimated(shape))
