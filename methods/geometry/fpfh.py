"""Fast Point Feature Histograms (Rusu et al. 2009), and matches of these and other features.

A compiled kernel computes the features, and Open3D where the kernel is unavailable: to rounding, both return the same numbers.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from methods.geometry.open3d_bridge import open3d, point_cloud
from methods.native import fpfh as native

Points = NDArray[np.float64]
Features = NDArray[np.floating]
ROWS = 128
"""Features whose distances to all others are computed at once, so that they stay in the cache."""


def implementation() -> str:
    """Return what computes the features: "native" or "open3d"."""
    return "open3d" if native.library() is None else "native"


def describe(points: Points, normals: Points, radius: float, neighbours: int) -> Features:
    """Return the features (N, 33) of a cloud: three histograms of 11 bins of angles between normals and lines to neighbours.

    Args:
        points: (N, 3).
        normals: (N, 3), unit.
        radius: neighbourhood of a point, in the unit of the points.
        neighbours: maximum number of points in it, the nearest; the point itself is one of them.
    """
    kernel = native.library()
    if kernel is not None:
        threads = max(1, int(os.environ.get("BENCH_THREADS", "1")))
        return native.fpfh_features(kernel, points, normals, radius, neighbours, threads)
    o3d = open3d()
    search = o3d.geometry.KDTreeSearchParamHybrid(radius, neighbours)
    return np.asarray(o3d.pipelines.registration.compute_fpfh_feature(point_cloud(points, normals), search).data).T


def nearest_features(queries: Features, features: Features) -> NDArray[np.intp]:
    """Return the rows (Q,) of the features (N, D) nearest to queries (Q, D), by a product of matrices in float32.

    In 32 dimensions and more a tree visits most of its leaves, and the product is faster.
    """
    centre = features.mean(axis=0)
    columns = (features - centre).astype(np.float32)
    halves = np.einsum("ij,ij->i", columns, columns)[:, None] / -2
    columns = np.ascontiguousarray(np.hstack([columns, halves]).T)
    rows = np.hstack([(queries - centre).astype(np.float32), np.ones((len(queries), 1), dtype=np.float32)])
    best = np.empty(len(queries), dtype=np.intp)
    for start in range(0, len(rows), ROWS):
        (rows[start : start + ROWS] @ columns).argmax(axis=1, out=best[start : start + ROWS])
    return best


def matches(source: Features, target: Features, mutual: bool) -> NDArray[np.intp]:
    """Return index pairs (K, 2) of source features (N, D) and their nearest target features (M, D).

    Args:
        source: features of the source.
        target: features of the target.
        mutual: whether to keep only pairs of which each is the nearest of the other.
    """
    forward = nearest_features(source, target)
    rows = np.arange(len(source))
    if mutual:
        candidates, which = np.unique(forward, return_inverse=True)
        rows = np.flatnonzero(nearest_features(target[candidates], source)[which] == rows)
    return np.stack([rows, forward[rows]], axis=1)
