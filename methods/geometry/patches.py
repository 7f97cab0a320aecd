"""Patches of a cloud as moments about the normals of their centres: the input of learned descriptors, unchanged by rigid motion.

A patch is a histogram over the distance from the axis through its centre along the normal and over the height along it. In every
cell, the points are summed with the powers of their direction around the axis, as complex numbers: a rotation about the axis
changes only the phases of the sums, so that no direction across the normal needs to be chosen.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from methods.geometry.viewpoint import MOST_POINTS, viewpoint
from methods.native import descriptor as native

Points = NDArray[np.float64]
CELLS = 4.5
"""Cells of the grid per radius that thins a cloud: on a plane, a ball then holds about 64 points."""
LEAF = 32
"""Points of a leaf of the tree: with as many neighbours, larger leaves than SciPy's 10 take a sixth less time."""
RINGS, LEVELS, ORDERS = 6, 7, 4
"""Values of the distance from the axis and of the height at which a histogram is centred, and the highest power."""
SUMS = (1 + 2 * ORDERS, RINGS * LEVELS)
"""Shape of the moments of a patch: the sums of ones, then real and imaginary part of each power; and the cells."""
USUAL = 16.0
"""Points of a patch that count as one in its moments."""
CHUNK = 256
"""Patches whose moments are computed together, a choice."""


def thinned(points: Points, edge: float) -> Points:
    """Return the first point of every cell of a grid with cells of `edge`, in the order of the points (N, 3)."""
    _, first = np.unique(_cells(points, edge), return_index=True)
    return np.asarray(points[np.sort(first)])


def averaged(points: Points, edge: float) -> Points:
    """Return the mean of the points (N, 3) in every cell of a grid with cells of `edge`: it has less noise than one of them."""
    _, cell, counts = np.unique(_cells(points, edge), return_inverse=True, return_counts=True)
    sums = np.stack([np.bincount(cell, weights=points[:, k]) for k in range(3)], axis=1)
    return np.asarray(sums / counts[:, None])


def _cells(points: Points, edge: float) -> NDArray[np.int64]:
    cell = np.floor((points - points.min(axis=0)) / edge).astype(np.int64)
    return np.asarray((cell[:, 0] << 42) | (cell[:, 1] << 21) | cell[:, 2])


def neighbours(support: Points, keys: Points, radius: float, count: int) -> tuple[Points, NDArray[np.bool_]]:
    """Return the offsets (K, count, 3) from keys (K, 3) to their nearest points of a cloud, in radii, and which there are.

    Offsets to points beyond the radius, or above the number of points, are zero.
    """
    from scipy.spatial import cKDTree

    count = min(count, len(support))
    found_at = cKDTree(support, leafsize=LEAF).query(keys, count, distance_upper_bound=radius)
    distance, index = (np.reshape(part, (len(keys), count)) for part in found_at)
    within = np.isfinite(distance)
    offsets = (support[np.where(within, index, 0)] - keys[:, None]) / radius
    offsets[~within] = 0
    return offsets, within


def least_spread(offsets: Points) -> Points:
    """Return the directions (K, 3) of least spread of patches (K, P, 3)."""
    _, vectors = np.linalg.eigh(np.matmul(offsets.transpose(0, 2, 1), offsets))  # `einsum` takes six times as long
    return np.asarray(vectors[:, :, 0])


class Side(NamedTuple):
    """Side of a cloud's surfaces that normals point to: that of the viewpoint (3,), or of the other side if the sign is -1."""

    view: Points
    sign: float

    def facing(self, keys: Points, directions: Points) -> Points:
        """Return directions (K, 3) at keys (K, 3), each with the sign that points to the side."""
        signs = self.sign * np.where(np.einsum("ki,ki->k", self.view - keys, directions) < 0, -1.0, 1.0)
        return np.asarray(signs[:, None] * directions)


def hollow_side(keys: Points, directions: Points, offsets: Points) -> Side:
    """Return the side to which more of the surroundings rise.

    The viewpoint makes normals agree with each other; which side of all surfaces it is on is less certain, but a scan is seen
    from its hollow side: rooms from the inside, things on the ground from above.

    Args:
        keys: points (K, 3) of a cloud.
        directions: their normals (K, 3) of any sign.
        offsets: patches (K, P, 3) around them.
    """
    side = Side(viewpoint(keys, directions), 1.0)
    rise = np.einsum("kpi,ki->", offsets, side.facing(keys, directions))
    return side if rise >= 0 else side._replace(sign=-1.0)


def moments_about(offsets: Points, within: NDArray[np.bool_], axes: Points) -> NDArray[np.float32]:
    """Compute the moments (K, *SUMS) of patches (K, P, 3) in radii about unit axes (K, 3)."""
    parts = [slice(start, start + CHUNK) for start in range(0, len(axes), CHUNK)]
    return np.concatenate([_moments(offsets[part], within[part], axes[part]) for part in parts])


def _moments(offsets: Points, within: NDArray[np.bool_], axes: Points) -> NDArray[np.float32]:
    x = across(axes)
    local = np.matmul(offsets, np.stack([x, np.cross(axes, x), axes], axis=2)).astype(np.float32)
    distance = np.hypot(local[:, :, 0], local[:, :, 1])
    direction = (local[:, :, 0] + 1j * local[:, :, 1]) / np.maximum(distance, np.float32(1e-6))
    rings = _shares(distance * (RINGS - 1), RINGS)
    levels = _shares((local[:, :, 2] + 1) * np.float32((LEVELS - 1) / 2), LEVELS)
    cells = (rings[:, :, :, None] * levels[:, :, None]).reshape(*within.shape, -1)
    powers = [np.asarray(within / USUAL, dtype=np.complex64)]
    for _ in range(ORDERS):
        powers.append(powers[-1] * direction)
    parts = [powers[0].real, *(part for power in powers[1:] for part in (power.real, power.imag))]
    return np.asarray(np.matmul(np.stack(parts, axis=1), cells), dtype=np.float32)


def from_other_side(moments: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the moments (K, S, *SUMS) about the opposite axes: heights and the sense of directions are reversed."""
    cells = moments.reshape(*moments.shape[:-1], RINGS, LEVELS)[..., ::-1].reshape(moments.shape)
    cells[:, :, 2::2] *= -1
    return cells


def _shares(position: NDArray[Any], count: int) -> NDArray[np.float32]:
    """Share positions (…) among the two whole numbers beside each, of `count` (…, count)."""
    away = np.abs(position[..., None] - np.arange(count, dtype=np.float32))
    return np.asarray(np.maximum(1 - away, 0), dtype=np.float32)


def across(axes: Points) -> Points:
    """Return a unit vector (K, 3) across each unit axis (K, 3): any one, as moments change with it by phases alone."""
    other = np.where(np.abs(axes[:, :1]) < 0.7, [[1.0, 0, 0]], [[0, 1.0, 0]])
    x = np.cross(other, axes)
    return np.asarray(x / np.linalg.norm(x, axis=1)[:, None])


def patches(cloud: Points, keys: Points, radii: tuple[float, ...], count: int) -> NDArray[np.float32]:
    """Return the moments (K, S, *SUMS) of the patches of every key (K, 3) at each radius.

    The axis of a key is the normal of its first patch, towards the hollow side of the cloud.

    Args:
        cloud: (N, 3).
        keys: (K, 3).
        radii: ascending, in the unit of the cloud.
        count: maximum number of points of a patch.
    """
    kernel = native.KERNEL.load()
    clouds = [averaged(cloud, radius / CELLS) for radius in radii]
    some = cloud[np.linspace(0, len(cloud) - 1, min(len(cloud), MOST_POINTS)).astype(np.intp)]
    around = neighbours(clouds[-1], some, radii[-1], count)[0]
    side = hollow_side(some, _normals(kernel, some, clouds[0], radii[0], count), around)
    axes = side.facing(keys, _normals(kernel, keys, clouds[0], radii[0], count))
    result = np.empty((len(keys), len(radii), *SUMS), dtype=np.float32)
    for scale, (support, radius) in enumerate(zip(clouds, radii, strict=True)):
        if kernel is None:
            result[:, scale] = moments_about(*neighbours(support, keys, radius, count), axes)
        else:
            native.write_moments(kernel, keys, across(axes), axes, support, radius, count, result[:, scale])
    return result


def _normals(kernel: Any, keys: Points, support: Points, radius: float, count: int) -> Points:
    if kernel is None:
        return least_spread(neighbours(support, keys, radius, count)[0])
    return native.least_spread(kernel, keys, support, radius, count)
