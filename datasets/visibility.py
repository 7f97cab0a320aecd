"""Visibility of points for a camera: an orthographic depth grid, hidden-point removal, and the overlap of two views."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import portable

GRID, HALF_WIDTH = 200, 1.0
"""Number of grid cells along each side, and half the length of the side, as in the DeepGMR supplement (200 x 200, 2 x 2)."""

NEAR = 4 * (2 * HALF_WIDTH / GRID)
"""Distance within which two views show the same point of the surface: four cells, since steep faces show few points."""


def visible_on_grid(cloud: NDArray[Any]) -> NDArray[np.intp]:
    """Return the rows of the points (P, 3) that an orthographic depth camera looking along +z sees: the smallest z per cell.

    Points outside the grid on the xy-plane are invisible.
    """
    cell = np.floor((cloud[:, :2] + HALF_WIDTH) * (GRID / (2 * HALF_WIDTH))).astype(np.int64)
    inside = np.flatnonzero(((cell >= 0) & (cell < GRID)).all(axis=1))
    number = cell[inside, 0] * GRID + cell[inside, 1]
    far_to_near = np.argsort(cloud[inside, 2], kind="stable")[::-1]
    nearest = np.full(GRID * GRID, -1)
    nearest[number[far_to_near]] = inside[far_to_near]  # the last point written to a cell is the nearest
    return np.sort(nearest[nearest >= 0])


def visible_points(cloud: NDArray[Any], distance: float = 100.0, radius: float = 1e4) -> NDArray[np.intp]:
    """Return the rows of the points (P, 3) visible from far away at -z, by hidden-point removal (Katz et al. 2007).

    Points are flipped about a sphere of `radius` times the largest distance to the camera; those on the convex hull
    of the flipped points and the camera are visible. A camera 100 units away approximates an orthographic one.
    """
    from scipy.spatial import ConvexHull, QhullError

    relative = cloud + np.array([0.0, 0.0, distance])
    norms = portable.norm(relative)[:, None]
    flipped = relative + 2 * (norms.max() * radius - norms) * relative / norms
    try:
        hull = ConvexHull(np.vstack([flipped, np.zeros(3)])).vertices
    except QhullError:  # flat or nearly empty: every point is visible
        return np.arange(len(cloud))
    return hull[hull < len(cloud)].astype(np.intp)  # in the order of the cloud: Qhull sorts them in 3D


def overlap(source: NDArray[Any], target: NDArray[Any], near: float = NEAR) -> float:
    """Compute the share of the source's points (N, 3) with a target point (M, 3) within `near`, both in one frame."""
    from scipy.spatial import cKDTree

    distance, _ = cKDTree(target).query(source, distance_upper_bound=near)
    return np.count_nonzero(np.isfinite(distance)) / len(source)
