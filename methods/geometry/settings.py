"""Settings of features and solvers that follow from the kind of the data and the resolution of its clouds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from common.kinds import DataKind

Points = NDArray[np.float64]

FINEST = 1 / 32
"""Minimum edge of the cells of partial scans, a fraction of the pair's scale: denser points give no better features."""
NEIGHBOUR = 4
"""The resolution of a cloud is the median distance to this neighbour."""
MOST_POINTS = 1000
"""Maximum number of points at which the resolution is measured."""


@dataclass(frozen=True)
class FeatureSettings:
    """Settings of FPFH features; lengths are fractions of the pair's scale.

    Attributes:
        voxel: edge of the cells whose means replace the points; 0 keeps all points.
        normal_radius, feature_radius: neighbourhoods of normals and features.
        feature_neighbours: maximum number of neighbours of a feature.
        orientation: of the normals, see `methods.geometry.features.normals`.
        distance: maximum error of a correct match.
    """

    voxel: float
    normal_radius: float
    feature_radius: float
    feature_neighbours: int
    orientation: str
    distance: float


OBJECTS = FeatureSettings(0.0, 0.2, 0.5, 100, "outward", 0.06)
"""Settings of whole objects, for which the directions away from the centroid orient normals correctly."""
PROPORTIONS = {DataKind.SCANS: (2.0, 5.0, 2.0), DataKind.RANGE_IMAGES: (3.0, 8.0, 1.5)}
"""Kind of partial scans to the radii of normals and features and the distance of inliers in voxels."""
DENSE = 400
"""Maximum number of neighbours of a feature of partial scans, above the number of cells within its radius on a surface."""


def feature_settings(kind: DataKind, source: Points, target: Points, voxel: float | None = None) -> FeatureSettings:
    """Return the settings for two clouds at unit scale (N, 3) and (M, 3).

    Args:
        kind: kind of the data.
        source: the source.
        target: the target.
        voxel: edge of the cells if given; else it follows from the resolution of the clouds.
    """
    if kind == DataKind.OBJECTS:
        return OBJECTS if voxel is None else replace(OBJECTS, voxel=voxel)
    edge = voxel or cell(source, target)
    normal, feature, distance = (factor * edge for factor in PROPORTIONS[kind])
    return FeatureSettings(edge if voxel is None else voxel, normal, feature, DENSE, "viewpoint", distance)


def cell(source: Points, target: Points) -> float:
    """Return the edge of the cells of two partial scans at unit scale: the coarser resolution, but at least `FINEST`."""
    return max(resolution(source), resolution(target), FINEST)


def resolution(cloud: Points) -> float:
    """Return the median distance of points of a cloud (N, 3) to their fourth neighbour."""
    from scipy.spatial import cKDTree

    rows = np.linspace(0, len(cloud) - 1, min(len(cloud), MOST_POINTS)).astype(np.intp)
    distances = np.asarray(cKDTree(cloud).query(cloud[rows], [min(NEIGHBOUR + 1, len(cloud))])[0])
    return float(np.median(distances))


def voxel_means(cloud: Points, edge: float) -> Points:
    """Return the means (K, 3) of the points of a cloud (N, 3) in each occupied cell of a grid.

    The grid is aligned with the principal axes of the cloud, so that a moved cloud gives the moved means.
    """
    centre = cloud.mean(axis=0)
    axes = np.linalg.eigh((cloud - centre).T @ (cloud - centre))[1]
    own = (cloud - centre) @ axes
    axes = axes * np.where((own**3).sum(axis=0) < 0, -1.0, 1.0)
    cells = np.floor((cloud - centre) @ axes / edge).astype(np.int64)
    _, index, counts = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    sums = np.stack([np.bincount(index.ravel(), weights=cloud[:, k]) for k in range(3)], axis=1)
    return np.asarray(sums / counts[:, None])
