"""ICP for partial scans that start near each other: point-to-plane distances, a robust kernel, and limits from coarse to fine.

A large part of each scan has no counterpart in the other, so pairs are limited by distance instead of trimmed by share.
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
INLIER_CELLS = 0.5
"""Distance from the plane of its partner within which a point counts as an inlier, and has a weight, in cells."""
LEAST_PAIRS = 20
"""Minimum number of pairs of a step; with fewer the pose is kept."""


class Level(NamedTuple):
    """Pass with a limit of distances in cells, a maximum number of source points, of iterations, and the last step's size."""

    cells: float
    points: int
    iterations: int
    tolerance: float


LEVELS = (Level(4.0, 1000, 12, 1e-3), Level(2.0, 1000, 12, 3e-4), Level(1.0, 3000, 12, 5e-5))
"""Passes from coarse to fine."""


class Fit(NamedTuple):
    """Mean weight of the source points by their distances from the other surface, and share of them that are inliers."""

    weight: float
    inliers: float


class Refinement(NamedTuple):
    """Refined pose (4, 4), number of iterations, last step's size, and how the source fits under the pose."""

    pose: Pose
    iterations: int
    last: float
    fit: Fit


def refine_partial(source: Points, target: Points, start: Pose, cell: float) -> Refinement:
    """Refine a pose (4, 4) of source (N, 3) to target (M, 3), both centred and at unit scale.

    The start is returned if it fits better. Weights decide that, as the number of inliers hardly changes near the solution.

    Args:
        source: source points.
        target: target points.
        start: pose near the solution.
        cell: edge of the cells of partial scans (`methods.geometry.settings`), the unit of all limits.
    """
    from scipy.spatial import cKDTree

    tree, n = cKDTree(target), normals(target, NORMAL_CELLS * cell, "none")
    T, count, last = start, 0, np.inf
    for level in LEVELS:
        points, limit, last = source[evenly(len(source), level.points)], level.cells * cell, np.inf
        for _ in range(level.iterations):
            moved, near, partners = _partners(points, T, tree, limit)
            if len(near) < LEAST_PAIRS:
                break
            p, q, d = moved[near], target[partners], directions("plane", n[partners], n[partners])
            delta, last = step(p, q, weighted(d, q - p, "tukey", limit))
            T, count = delta @ T, count + 1
            if last < level.tolerance:
                break
    points = source[evenly(len(source), LEVELS[-1].points)]
    before, after = (_fit(points, pose, tree, n, cell) for pose in (start, T))
    return (
        Refinement(T, count, last, after) if after.weight >= before.weight else Refinement(start, count, last, before)
    )


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
    return Fit(*(float(values.sum() / len(points)) for values in (KERNELS["tukey"](relative), relative < 1)))
