"""ICP for partial scans that start near each other: symmetric distances, a robust kernel, and limits from coarse to fine.

A large part of each scan has no counterpart in the other, so pairs are limited by distance instead of trimmed by share. Points
beyond the edge of the other scan still have partners on the edge within the limit, which turn the pose unless the kernel is
narrow; how narrow it can be depends on the noise, so the last pass measures the residuals first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from methods.core.base import Pose
from methods.geometry.features import Normals, Points, normals
from methods.geometry.icp import KERNELS, directions, step, weighted

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

NORMAL_CELLS = 2.0
"""Neighbourhood of the normals in cells."""
KERNEL_WIDTH = 0.5
"""Maximum width of the robust kernel relative to the limit of distances."""
KERNEL_SPREADS = 4.0
"""Width of the kernel of the last pass in standard deviations of the residuals."""
INLIER_CELLS = 0.5
"""Distance from the plane of its partner within which a point counts as an inlier, in cells."""
LEAST_PAIRS = 20
"""Minimum number of pairs of a step; with fewer the pose is kept."""


class Level(NamedTuple):
    """Pass with a limit of distances in cells, a maximum number of source points, of iterations, and the last step's size."""

    cells: float
    points: int
    iterations: int
    tolerance: float


LEVELS = (Level(4.0, 1000, 20, 1e-3), Level(2.0, 1000, 20, 3e-4), Level(1.0, 1500, 20, 2e-4))
"""Passes from coarse to fine."""
LAST = Level(1.0, 4096, 12, 5e-5)
"""Pass whose kernel is as wide as the residuals after `LEVELS` require."""


class Fit(NamedTuple):
    """Mean weight of the source points by their distance from the other surface, and share of them that are inliers."""

    weight: float
    inliers: float


class Refinement(NamedTuple):
    """Refined pose (4, 4), number of iterations, last step's size, and how the source fits under the pose."""

    pose: Pose
    iterations: int
    last: float
    fit: Fit


class Pairs(NamedTuple):
    """Moved source points (K, 3), their target points (K, 3), and the directions (K, 1, 3) of their residuals."""

    moved: Points
    partners: Points
    directions: NDArray[np.float64]

    def residuals(self) -> NDArray[np.float64]:
        """Return the distances (K,) along the directions."""
        return np.asarray(np.einsum("kj,kj->k", self.directions[:, 0], self.partners - self.moved))


class Scan(NamedTuple):
    """Points (N, 3) of a scan and their normals (N, 3) of either sign."""

    points: Points
    normals: Normals


def refine_partial(source: Points, target: Points, start: Pose, cell: float) -> Refinement:
    """Refine a pose (4, 4) of source (N, 3) to target (M, 3), both centred and at unit scale.

    The start is returned if it fits better. Weights decide it, since the number of inliers hardly changes near the solution.

    Args:
        source: source points.
        target: target points.
        start: pose near the solution.
        cell: edge of the cells of partial scans (`methods.geometry.settings`), the unit of all limits.
    """
    from scipy.spatial import cKDTree

    a, b = (Scan(cloud, normals(cloud, NORMAL_CELLS * cell, "none")) for cloud in (source, target))
    tree = cKDTree(target)
    T, count, last = start, 0, np.inf
    for level in (*LEVELS, LAST):
        rows, limit = evenly(len(source), level.points), level.cells * cell
        some, width = Scan(source[rows], a.normals[rows]), KERNEL_WIDTH * limit
        if level is LAST:
            width = min(width, KERNEL_SPREADS * _spread(_pairs(some, b, T, tree, width)))
        for _ in range(level.iterations):
            pairs = _pairs(some, b, T, tree, limit)
            if len(pairs.moved) < LEAST_PAIRS:
                break
            d = weighted(pairs.directions, pairs.partners - pairs.moved, "tukey", width)
            delta, last = step(pairs.moved, pairs.partners, d)
            T, count = delta @ T, count + 1
            if last < level.tolerance:
                break
    points = source[evenly(len(source), LAST.points)]
    before, after = (_fit(points, pose, tree, b.normals, cell) for pose in (start, T))
    return (
        Refinement(T, count, last, after) if after.weight >= before.weight else Refinement(start, count, last, before)
    )


def _pairs(source: Scan, target: Scan, T: Pose, tree: cKDTree, limit: float) -> Pairs:
    """Return the source points with a target point within the limit, under a pose (4, 4), and these."""
    moved, near, partners = _partners(source.points, T, tree, limit)
    d = directions("symmetric", target.normals[partners], source.normals[near] @ T[:3, :3].T)
    return Pairs(moved[near], target.points[partners], d)


def _spread(pairs: Pairs) -> float:
    """Estimate the standard deviation of residuals from their median, as few are of no true pair; infinite without pairs."""
    return 1.4826 * float(np.median(np.abs(pairs.residuals()))) if len(pairs.moved) else np.inf


def evenly(length: int, most: int) -> NDArray[np.intp]:
    """Return at most `most` rows of a cloud, evenly spaced."""
    return np.linspace(0, length - 1, min(length, most)).astype(np.intp)


def _partners(
    points: Points, T: Pose, tree: cKDTree, limit: float
) -> tuple[Points, NDArray[np.intp], NDArray[np.intp]]:
    """Return the moved points (K, 3), the rows of those with a target point within the limit, and the rows of these."""
    moved = points @ T[:3, :3].T + T[:3, 3]
    distance, partner = map(np.asarray, tree.query(moved, distance_upper_bound=limit))
    near = np.flatnonzero(np.isfinite(distance))
    return moved, near, partner[near]


def _fit(points: Points, T: Pose, tree: cKDTree, n: Normals, cell: float) -> Fit:
    """Return how points (K, 3) fit; those within a cell of a target point and `INLIER_CELLS` of its plane are inliers."""
    moved, near, partners = _partners(points, T, tree, cell)
    heights = np.einsum("ij,ij->i", n[partners], moved[near] - np.asarray(tree.data)[partners])
    relative = np.abs(heights) / (INLIER_CELLS * cell)
    total = len(points)
    return Fit(float(KERNELS["tukey"](relative).sum() / total), float(np.count_nonzero(relative < 1) / total))
