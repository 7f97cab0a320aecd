"""Patches of a cloud in local reference frames: the input of learned descriptors, unchanged by rigid motion."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
CELLS = 4.5
"""Cells of the grid per radius that thins a cloud: on a plane, a ball then holds about 64 points."""
LEAF = 32
"""Points of a leaf of the tree: with as many neighbours, larger leaves than SciPy's 10 take a sixth less time."""


def thinned(points: Points, edge: float) -> Points:
    """Return the first point of every cell of a grid with cells of `edge`, in the order of the points (N, 3)."""
    cell = np.floor((points - points.min(axis=0)) / edge).astype(np.int64)
    code = (cell[:, 0] << 42) | (cell[:, 1] << 21) | cell[:, 2]
    _, first = np.unique(code, return_index=True)
    return np.asarray(points[np.sort(first)])


def neighbours(cloud: Points, keys: Points, radius: float, count: int) -> NDArray[np.float32]:
    """Return the offsets (K, count, 3) from keys (K, 3) to their nearest points of a thinned cloud, in radii.

    Points beyond the radius are left out, and the others repeated in their place; a key without any has one point, itself.
    """
    from scipy.spatial import cKDTree

    support = thinned(cloud, radius / CELLS)
    count = min(count, len(support))
    found_at = cKDTree(support, leafsize=LEAF).query(keys, count, distance_upper_bound=radius)
    distance, index = (np.reshape(part, (len(keys), count)) for part in found_at)
    within = np.isfinite(distance).sum(axis=1)
    cyclic = np.arange(count) % np.maximum(within, 1)[:, None]
    rows = np.take_along_axis(index, cyclic, axis=1)
    rows[within == 0] = 0
    offsets = (support / radius).astype(np.float32)[rows]
    offsets -= (keys / radius).astype(np.float32)[:, None]
    offsets[within == 0] = 0
    return offsets


def frames(inner: NDArray[Any], outer: NDArray[Any]) -> NDArray[np.float32]:
    """Return local reference frames (K, 3, 3), whose columns are the axes (as TOLDI, Yang et al. 2017).

    z is the direction of least spread of `inner`, pointing to the side of fewer points of `outer`; x is the mean of the
    projections of `outer` on the plane across z, weighted by nearness and by the square of the height.

    Args:
        inner: offsets (K, P, 3) that give z.
        outer: offsets (K, Q, 3) in radii that give its sign and x.
    """
    _, vectors = np.linalg.eigh(np.matmul(inner.transpose(0, 2, 1), inner))  # `einsum` takes six times as long
    z = vectors[:, :, 0]
    height = np.einsum("kpi,ki->kp", outer, z)
    flip = height.sum(axis=1) > 0
    z[flip] *= -1
    near = np.maximum(1 - np.sqrt(np.einsum("kpi,kpi->kp", outer, outer)), 0)
    x = np.einsum("kp,kpi->ki", near * near * height * height, outer)
    x -= np.einsum("ki,ki->k", x, z)[:, None] * z
    length = np.sqrt(np.einsum("ki,ki->k", x, x))[:, None]
    x = np.where(length > 1e-9, x / np.maximum(length, 1e-9), vectors[:, :, 2])
    return np.stack([x, np.cross(z, x), z], axis=2).astype(np.float32)


def patches(cloud: Points, keys: Points, radii: tuple[float, ...], count: int) -> list[NDArray[np.float32]]:
    """Return a patch (K, count, 3) of every key (K, 3) at each radius, in the key's local frame and in radii.

    Args:
        cloud: (N, 3).
        keys: (K, 3).
        radii: ascending, in the unit of the cloud.
        count: points of a patch.
    """
    offsets = [neighbours(cloud, keys, radius, count) for radius in radii]
    axes = frames(offsets[0], offsets[-1])
    return [np.matmul(offset, axes) for offset in offsets]
