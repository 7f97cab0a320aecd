"""An estimate of an object's proper rotational symmetry from points of its surface, where nobody has declared it.

A rotation g is taken for a symmetry if the turned points lie as near to the points as another sample of the same surface would.
How near that is the points tell themselves: from each to its nearest other one. Axes are tried where symmetry can have them:
an axis of symmetry is a principal axis of the points; an axis of order above two leaves the other two principal moments
equal; and where moments are nearly equal, so that the principal axes are arbitrary, their plane or the sphere is searched.

What it cannot see: a feature with few points, or one smaller than the distance between points.
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
"""Finite orders above two that are tried."""
CONTINUOUS = 2 * np.pi * np.array([0.0955, 0.2123, 0.3820])
"""Angles that no finite order tried has, nor comes near: an axis where all of them pass is continuous."""
NEAR = 0.3
"""Principal moments this near, relative to the greater, are treated as equal: their axes are searched for."""
STEP = np.radians(6.0)
STEPS = 20
"""Steps of a fit at most."""
COARSE = 150
"""Points that are turned in the search; all in the decision."""
FAR_QUANTILE = 0.99
"""Points are far that are farther than this quantile of the distances between the points themselves."""
MEAN_LIMIT, FAR_LIMIT, LOST_LIMIT = 1.075, 0.03, 0.0045
"""A symmetry's mean distance is at most this many times that of the points themselves, this share of them is far at most,
and this share half as far again. The limits lie between what true and false symmetries of `shapes40` give."""
HOPELESS = 1.8
"""A fit that has this many times the mean distance after two steps is given up."""
SAMPLE = 2048
LEAST = 200
"""Fewer points tell too little: the symmetry stays unknown."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """A group by its name in `datasets.symmetry`, about z with the secondary axis x, and that frame's pose (4, 4) in the
    points' frame: frame @ g @ frame⁻¹ maps the points onto themselves for each g of the group.
    """

    name: str
    frame: Array


class _Turn(NamedTuple):
    """A fitted turn: unit axis (3,), a point on it (3,), how badly it maps the points onto themselves (1 is the limit)."""

    axis: Array
    centre: Array
    badness: float


def estimate(points: NDArray[np.floating]) -> Estimate:
    """The symmetry of points (P, 3) on a surface, P ≥ 200 and not all on a line; deterministic."""
    cloud = _Cloud(np.asarray(points, dtype=np.float64))
    found = [(order, best) for axis in cloud.candidates() for order, best in [cloud.order(axis)] if order > 1]
    if not found:
        return Estimate("C1", _frame(np.eye(3)[2], np.eye(3)[0], cloud.centre))
    order, main = min(found, key=lambda f: (-f[0], f[1].badness))
    fourfold = [t for n, t in found if n == 4 and abs(t.axis @ main.axis) < np.sin(2 * STEP)]
    if order == 4 and fourfold:
        return Estimate("O", _frame(main.axis, fourfold[0].axis, main.centre))
    second = cloud.flip(main.axis)
    number = "inf" if order == np.inf else f"{order:.0f}"
    if second is None:
        return Estimate(f"C{number}", _frame(main.axis, _across(main.axis), main.centre))
    return Estimate(f"D{number}", _frame(main.axis, second.axis, (main.centre + second.centre) / 2))


class _Cloud:
    """Points, with what is asked of them often."""

    def __init__(self, points: Array) -> None:
        from scipy.spatial import cKDTree

        self.centre = points.mean(axis=0)
        self.points = points
        self.tree = cKDTree(points)
        own = np.asarray(self.tree.query(points, k=2)[0])[:, 1]
        self.spacing = max(float(own.mean()), np.finfo(float).tiny)  # all points may be the same
        self.far = float(np.quantile(own, FAR_QUANTILE))
        self.some = points[np.random.default_rng(0).permutation(len(points))[:COARSE]]

    def candidates(self) -> list[Array]:
        """Axes (3,) that may be axes of symmetry: few, the principal ones among them."""
        moments, axes = np.linalg.eigh(np.cov(self.points.T))
        near = [moments[i] > (1 - NEAR) * moments[j] for i, j in ((0, 1), (1, 2), (0, 2))]
        if near[2]:
            return self._best(_hemisphere(STEP), (1 / 2, 1 / 3, 1 / 5), 16)
        found = list(axes.T)
        if near[0] or near[1]:
            u, v = axes.T[:2] if near[0] else axes.T[1:]
            found += self._best(_circle(u, v, STEP), (1 / 2,), 4)
        return found

    def _best(self, axes: Array, turns: Iterable[float], most: int) -> list[Array]:
        """The axes (n, 3) about which one of the turns, in parts of the circle, maps some points best; none near another."""
        rough = np.min([[self._rough(a, 2 * np.pi * t) for a in axes] for t in turns], axis=0)
        kept: list[Array] = []
        for row in np.argsort(rough):
            if all(abs(axes[row] @ k) < np.cos(2.5 * STEP) for k in kept):
                kept.append(axes[row])
            if len(kept) == most:
                break
        return kept

    def _rough(self, axis: Array, angle: float) -> float:
        moved = (self.some - self.centre) @ turn(axis, angle).T + self.centre
        return float(np.minimum(self.tree.query(moved)[0], 4 * self.spacing).mean())

    def order(self, axis: Array) -> tuple[float, _Turn]:
        """The greatest order of the axis, infinite if continuous, 1 if none; with its best fitted turn."""
        half = self.fit(axis, np.pi)
        fits = {2: half}
        if half.badness < 1:
            turns = [self.fit(axis, angle) for angle in CONTINUOUS]
            if max(t.badness for t in turns) < 1:
                return np.inf, min(turns, key=lambda t: t.badness)
        # without a half turn there is no even order
        fits |= {n: self.fit(axis, 2 * np.pi / n) for n in ORDERS if n % 2 or half.badness < 1}
        passed = {n: t for n, t in fits.items() if t.badness < 1}
        if not passed:
            return 1, half
        best = min(passed, key=lambda n: passed[n].badness)
        # orders that pass are orders of one group together: of no finite one if their least common multiple is none of them
        whole = math.lcm(*passed)
        return (whole if whole <= max(ORDERS) else np.inf), passed[best]

    def flip(self, main: Array) -> _Turn | None:
        """A half turn about an axis perpendicular to the main one, None if there is none."""
        u = _across(main)
        tried = self._best(_circle(u, np.cross(main, u), STEP), (1 / 2,), 4)
        fits = [self.fit(axis, np.pi) for axis in tried]
        best = min(fits, key=lambda t: t.badness)
        return best if best.badness < 1 else None

    def fit(self, axis: Array, angle: float) -> _Turn:
        """The turn by an angle about an axis near the given one that maps the points best onto themselves.

        The turned points are registered to the points (trimmed ICP); the whole motion's axis is the new axis.
        """
        centre, last = self.centre, np.inf
        for step in range(STEPS):
            R = turn(axis, angle)
            moved = (self.points - centre) @ R.T + centre
            away, match = (np.asarray(found) for found in self.tree.query(moved))
            mean = float(np.minimum(away, 4 * self.spacing).mean()) / self.spacing
            if mean > last - 0.002 or (step >= 2 and mean > HOPELESS):
                break
            last = mean
            keep = away <= np.quantile(away, 0.9)
            extra, shift = _rigid(moved[keep], self.points[match[keep]])
            whole = extra @ R
            axis, centre = _axis_of(whole, extra @ (centre - R @ centre) + shift, axis, centre)
        return _Turn(axis, centre, self._badness(away))

    def _badness(self, away: Array) -> float:
        """The worst of the three measures by its limit, of distances (P,)."""
        far, lost = (float((away > times * self.far).mean()) for times in (1, 1.5))
        mean = float(away.mean()) / self.spacing
        return max((mean - 1) / (MEAN_LIMIT - 1), far / FAR_LIMIT, lost / LOST_LIMIT)


def _rigid(source: Array, target: Array) -> tuple[Array, Array]:
    """The rotation and shift that bring source (n, 3) to target (n, 3) in the least mean square (Kabsch)."""
    a, b = source.mean(axis=0), target.mean(axis=0)
    u, _, vt = np.linalg.svd((target - b).T @ (source - a))
    R = u @ np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))]) @ vt
    return R, b - R @ a


def _axis_of(R: Array, t: Array, near: Array, centre: Array) -> tuple[Array, Array]:
    """Axis of a motion, signed like `near`, and the point of its axis nearest to `centre` (its slide along it left out)."""
    from scipy.spatial.transform import Rotation

    vector = Rotation.from_matrix(R).as_rotvec()
    axis = vector / np.linalg.norm(vector) if np.linalg.norm(vector) > 1e-9 else near
    axis = axis if axis @ near >= 0 else -axis
    offset = np.linalg.lstsq(np.eye(3) - R, t - (centre - R @ centre), rcond=1e-6)[0]
    return axis, centre + offset - axis * (axis @ offset)


def _across(axis: Array) -> Array:
    """A unit vector perpendicular to an axis."""
    found = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
    return found / np.linalg.norm(found)


def _circle(u: Array, v: Array, step: float) -> Array:
    """Axes (n, 3) in the plane of two perpendicular unit vectors, a step in radians apart."""
    angles = np.arange(0, np.pi, step)[:, None]
    return np.cos(angles) * u + np.sin(angles) * v


def _hemisphere(step: float) -> Array:
    """Axes (n, 3) about a step in radians apart (a Fibonacci lattice)."""
    n = int(2 * np.pi / step**2)
    z = (np.arange(n) + 0.5) / n
    angle = np.pi * (3 - np.sqrt(5)) * np.arange(n)
    flat = np.sqrt(1 - z**2)
    return np.stack([flat * np.cos(angle), flat * np.sin(angle), z], axis=1)


def _frame(main: Array, second: Array, origin: Array) -> Array:
    """The pose (4, 4) of the frame with z along main and x as near to second as can be."""
    x = second - main * (main @ second)
    x /= np.linalg.norm(x)
    found = np.eye(4)
    found[:3, :3] = np.stack([x, np.cross(main, x), main], axis=1)
    found[:3, 3] = origin
    return found


class Estimated(Shape):
    """A shape with its symmetry estimated when first asked for, None if it has too few points; else as it was."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.name, self.category = shape, shape.name, shape.category

    @property
    def symmetry(self) -> str | None:  # type: ignore[override]
        """The estimated group's name, in `symmetry_frame`."""
        return None if self._estimate is None else self._estimate.name

    @property
    def symmetry_frame(self) -> Array:
        """The pose (4, 4) of the group's frame in the object's."""
        return np.eye(4) if self._estimate is None else self._estimate.frame

    def samples(self, points: int, count: int, rng: np.random.Generator) -> list[Points]:
        """As of the shape itself."""
        return self.shape.samples(points, count, rng)

    @cached_property
    def _estimate(self) -> Estimate | None:
        fixed = len(self.shape.cloud) if isinstance(self.shape, PointShape) else SAMPLE
        if fixed < LEAST:
            return None
        return estimate(self.shape.samples(min(fixed, SAMPLE), 1, rng_of("symmetry estimate", self.name))[0])


CHOICES = ("unknown", "estimate")
"""Values of the parameter `symmetry` of data sets whose objects do not declare it."""


def check_choice(choice: str) -> None:
    """Raise ValueError if it is none of `CHOICES`."""
    if choice not in CHOICES:
        raise ValueError(f"symmetry must be {' or '.join(CHOICES)}")


def with_symmetry(shape: Shape, choice: str, known: dict[str, Estimated]) -> Shape:
    """The shape as the choice has it. `known` keeps by name what was estimated, so that each shape is looked at once."""
    return shape if choice == "unknown" else known.setdefault(shape.name, Estimated(shape))
