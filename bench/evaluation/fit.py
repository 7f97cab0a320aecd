"""How well a pose fits two clouds, compared with the ground truth: `as_good` for one pose, `another_fits` by a search.

A pose is refined by a few steps of trimmed ICP before its fit is measured, and so is the ground truth. Neither needs labels.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from common.keys import rng as rng_of
from common.rigid import inverse
from datasets.poses import haar
from datasets.problems import Problem

Array = NDArray[np.float64]

TOLERANCE = 0.07
"""Relative excess of the two-way trimmed distance up to which a pose fits as well; chosen on training shapes of shapes40 with
declared symmetries by `python -m performance.fit_tolerance`, see docs/metrics.md."""
FAR = 0.2
"""RMSE from which a pose is another pose than the ground truth: the limit of recall."""
STEPS = 20
"""Maximum number of steps of the local refinement."""
KEEP = (0.3, 0.9)
"""Bounds of the share of points that is not trimmed; between them it is the overlap of the clouds."""
MAX_POINTS = 2048
"""Number of points of a cloud above which it is thinned evenly."""
ROTATIONS, CANDIDATES, SEPARATION = 2304, 24, 20.0
"""Rotations of the search, number of the best that are refined, and the angle in degrees between them."""
CELLS, HALF_WIDTH = 48, 1.1
"""Cells along each side of the distance fields of the search, and half the side of their cube in radii of the pair."""
SEARCH_POINTS = 128
"""Number of points by which the search scores rotations."""


class Fit:
    """Clouds of a problem, and how well poses fit them relative to the refined ground truth."""

    def __init__(self, problem: Problem) -> None:
        from scipy.spatial import cKDTree

        self.source, self.target = (_thinned(cloud) for cloud in (problem.source, problem.target))
        self.trees = cKDTree(self.source), cKDTree(self.target)
        overlap = float(problem.tags["overlap"] if problem.tags["overlap"] is not None else np.nan)
        self.keep = float(np.clip(KEEP[1] if np.isnan(overlap) else overlap, *KEEP))
        self.truth, self.points = problem.T_target_source, problem.evaluation_points.astype(np.float64)
        self.radius = float(np.linalg.norm(self.target - self.target.mean(axis=0), axis=1).max())
        self.limit = self.distance(self.refine(self.truth)) + 1e-6 * self.radius

    def distance(self, T: Array) -> float:
        """Compute the two-way trimmed distance of a pose (4, 4).

        It is the root of the mean of the squared distances to the nearest point of the other cloud, in both directions,
        without the largest 1 - keep of each direction.
        """
        (forward, _), (backward, _) = self._matches(T)
        return float(np.sqrt((_trimmed_mean(forward**2, self.keep) + _trimmed_mean(backward**2, self.keep)) / 2))

    def refine(self, T: Array) -> Array:
        """Refine a pose (4, 4) by trimmed point-to-point ICP with the matches of both directions."""
        last = np.inf
        for _ in range(STEPS):
            (there, i), (back, j) = self._matches(T)
            rows, columns = (_nearest(d, self.keep) for d in (there, back))
            T = _kabsch(
                np.concatenate([self.source[rows], self.source[j[columns]]]),
                np.concatenate([self.target[i[rows]], self.target[columns]]),
            )
            mean = float(there[rows].mean() + back[columns].mean())
            if last - mean < 1e-4 * mean:
                break
            last = mean
        return T

    def _matches(self, T: Array) -> list[tuple[Array, NDArray[np.intp]]]:
        """Return distances and rows of the nearest points, from source to target and back."""
        there = self.trees[1].query(_moved(self.source, T))
        back = self.trees[0].query(_moved(self.target, inverse(T)))
        return [(np.asarray(d, dtype=np.float64), np.asarray(i, dtype=np.intp)) for d, i in (there, back)]

    def ratio(self, T: Array, far: float) -> float:
        """Return the distance of a refined pose (4, 4) over that of the refined truth; infinite if refined by `far` or more."""
        refined = self.refine(T)
        if self.rmse(T, refined) >= far:
            return np.inf
        return self.distance(refined) / self.limit

    def rmse(self, A: Array, B: Array) -> float:
        """Compute the RMSE between two poses (4, 4) on the problem's evaluation points."""
        return float(np.sqrt(((_moved(self.points, A) - _moved(self.points, B)) ** 2).sum(axis=1).mean()))


def as_good(fit: Fit, T: Array, far: float = FAR) -> bool:
    """Return whether a pose (4, 4) is within RMSE `far` of a pose that fits as well as the refined ground truth."""
    return fit.ratio(T, far) <= 1 + TOLERANCE


def another_fits(fit: Fit, seed: int = 0) -> bool:
    """Return whether a search over all rotations finds a pose with RMSE ≥ `FAR` that fits as well as the refined truth.

    Rotations of a grid, turned at random by the seed, are scored by distance fields in both directions. The best that are
    far from the truth and from each other are refined, best first, until one fits.
    """
    centre = (_moved(fit.source, fit.truth).mean(axis=0) + fit.target.mean(axis=0)) / 2
    source, target = _moved(fit.source, fit.truth) - centre, fit.target - centre
    grid = _grid(ROTATIONS) @ haar(rng_of("search", seed))
    scale = max(np.linalg.norm(cloud, axis=1).max() for cloud in (source, target))
    score = _scores(_field(target / scale), _even(source / scale, SEARCH_POINTS), grid)
    score += _scores(_field(source / scale), _even(target / scale, SEARCH_POINTS), grid.transpose(0, 2, 1))
    for R in _separate(grid[np.argsort(score, kind="stable")]):
        turned = np.eye(4)
        turned[:3, :3], turned[:3, 3] = R, centre - R @ centre
        T = fit.refine(turned @ fit.truth)
        if fit.rmse(T, fit.truth) >= FAR and fit.distance(T) <= (1 + TOLERANCE) * fit.limit:
            return True
    return False


def _thinned(cloud: NDArray[np.float32]) -> Array:
    return _even(np.asarray(cloud, dtype=np.float64), MAX_POINTS)


def _even(cloud: Array, most: int) -> Array:
    return cloud[np.unique(np.linspace(0, len(cloud) - 1, min(most, len(cloud))).astype(int))]


def _moved(points: Array, T: Array) -> Array:
    return np.asarray(points @ T[:3, :3].T + T[:3, 3])


def _nearest(distances: Array, keep: float) -> NDArray[np.intp]:
    """Return the rows of the smallest share `keep` of distances (n,), at least three."""
    count = min(len(distances), max(3, round(keep * len(distances))))
    return np.argpartition(distances, count - 1)[:count]


def _trimmed_mean(values: Array, keep: float) -> float:
    return float(values[_nearest(values, keep)].mean())


def _kabsch(source: Array, target: Array) -> Array:
    """Return the rigid motion (4, 4) of least squares between matched points (n, 3)."""
    a, b = source.mean(axis=0), target.mean(axis=0)
    U, _, Vt = np.linalg.svd((source - a).T @ (target - b))
    sign = np.array([1, 1, np.sign(np.linalg.det(U @ Vt))])
    T = np.eye(4)
    T[:3, :3] = (Vt.T * sign) @ U.T
    T[:3, 3] = b - T[:3, :3] @ a
    return T


@cache
def _grid(count: int) -> Array:
    """Return rotations (count, 3, 3) spread evenly by super-Fibonacci sampling (Alexa 2022)."""
    from scipy.spatial.transform import Rotation

    s = np.arange(count) + 0.5
    inner, outer = np.sqrt(s / count), np.sqrt(1 - s / count)
    a, b = 2 * np.pi * s / np.sqrt(2), 2 * np.pi * s / 1.533751168755204288118041
    quaternions = np.stack([inner * np.sin(a), inner * np.cos(a), outer * np.sin(b), outer * np.cos(b)], axis=1)
    return np.asarray(Rotation.from_quat(quaternions).as_matrix())


def _field(cloud: Array) -> NDArray[np.float32]:
    """Return squared distances (CELLS, CELLS, CELLS) to the nearest cell with a point."""
    from scipy.ndimage import distance_transform_edt

    empty = np.ones((CELLS,) * 3, dtype=bool)
    empty[tuple(_cells(cloud).T)] = False
    return np.asarray((distance_transform_edt(empty) * (2 * HALF_WIDTH / (CELLS - 1))) ** 2, dtype=np.float32)


def _cells(points: NDArray[np.floating]) -> NDArray[np.int32]:
    cells = np.rint((points + HALF_WIDTH) * ((CELLS - 1) / (2 * HALF_WIDTH))).astype(np.int32)
    return np.clip(cells, 0, CELLS - 1)


def _scores(field: NDArray[np.float32], points: Array, rotations: Array) -> Array:
    """Return the mean (n,) of the field at the points (k, 3) moved by each rotation (n, 3, 3)."""
    cells = _cells(points.astype(np.float32) @ rotations.astype(np.float32).transpose(0, 2, 1))
    flat = (cells[..., 0] * CELLS + cells[..., 1]) * CELLS + cells[..., 2]
    return np.asarray(field.ravel()[flat].mean(axis=1), dtype=np.float64)


def _separate(rotations: Array) -> Array:
    """Return the first `CANDIDATES` rotations that are `SEPARATION` from each other and from the identity."""
    limit = 1 + 2 * np.cos(np.radians(SEPARATION))
    free, chosen = np.trace(rotations, axis1=1, axis2=2) < limit, []
    for i, R in enumerate(rotations):
        if free[i]:
            chosen.append(R)
            free &= np.einsum("nij,ij->n", rotations, R) < limit
        if len(chosen) == CANDIDATES:
            break
    return np.array(chosen).reshape(-1, 3, 3)
