"""ICP for partial scans that start near each other: point-to-plane distances, a robust kernel, and limits from coarse to fine.

A large part of each scan has no counterpart in the other, so pairs are limited by distance instead of trimmed by share.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from methods.core.base import Pose
from methods.geometry.features import Points, normals
from methods.geometry.icp import directions, step, weighted

NORMAL_CELLS = 2.0
"""Neighbourhood of the normals in cells."""
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


LEVELS = (Level(4.0, 1000, 12, 1e-3), Level(2.0, 1000, 12, 3e-4), Level(1.0, 3000, 12, 5e-5))
"""Passes from coarse to fine."""


class Refinement(NamedTuple):
    """Refined pose (4, 4), number of iterations, last step's size, and share of source points that are inliers."""

    pose: Pose
    iterations: int
    last: float
    inliers: float


def refine_partial(source: Points, target: Points, start: Pose, cell: float) -> Refinement:
    """Refine a pose (4, 4) of source (N, 3) to target (M, 3), both centred and at unit scale.

    The start is returned if fewer points are inliers after the refinement than before it.

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
    shares = [_inlier_share(points, pose, tree, n, cell) for pose in (start, T)]
    return (
        Refinement(T, count, last, shares[1]) if shares[1] >= shares[0] else Refinement(start, count, last, shares[0])
    )


def evenly(length: int, most: int) -> NDArray[np.intp]:
    """Return at most `most` rows of a cloud, evenly spaced."""
    return np.linspace(0, length - 1, min(length, most)).astype(np.intp)


def _partners(points: Points, T: Pose, tree: object, limit: float) -> tuple[Points, NDArray[np.intp], NDArray[np.intp]]:
    """Return the moved points (K, 3), the rows of those with a target point within the limit, and the rows of these."""
    moved = points @ T[:3, :3].T + T[:3, 3]
    distance, partner = tree.query(moved, distance_upper_bound=limit)  # type: ignore[attr-defined]
    near = np.flatnonzero(np.isfinite(distance))
    return moved, near, partner[near]


def _inlier_share(points: Points, T: Pose, tree: object, n: Points, cell: float) -> float:
    """Return the share of points (K, 3) within a cell of a target point and near its plane."""
    moved, near, partners = _partners(points, T, tree, cell)
    heights = np.einsum("ij,ij->i", n[partners], moved[near] - np.asarray(tree.data)[partners])  # type: ignore[attr-defined]
    return float(np.count_nonzero(np.abs(heights) < INLIER_CELLS * cell) / len(points))
