"""Rigorously rotation-invariant (RRI) features (Chen et al. 2019): four numbers per neighbour, on CPU and CUDA."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from ctypes import CDLL
from typing import NamedTuple

import torch
from torch import Tensor

from methods.native import rri, rri_cuda
from methods.nn.rri_batched import TINY, features_of_batch
from methods.nn.threads import chunks, max_threads, thread_map

NUMBERS = 4
"""Numbers per neighbour: ‖p‖, ‖q‖, the angle between p and q, and the angle around p to the next neighbour."""
_TORCH_ROWS = 1024
"""Points per chunk for torch on the CPU: its temporaries stay in the cache."""
_MIN_KERNEL_ROWS = 256
"""Minimum points per chunk for the compiled kernel: enough chunks for all threads."""
_CHUNKS_PER_THREAD = 16
"""Chunks per thread for large clouds: no thread waits long for the last chunk."""
_LEAF_SIZE = 24
"""Points per leaf of SciPy's k-d tree: 10 and 64 are slower."""
_UNDEFINED = 16.0
"""Sort key of an undefined azimuth: larger than all others, which are offset by half of it."""


class _CentredCloud(NamedTuple):
    """Coordinates of a centred cloud in rows, which halves the time.

    Attributes:
        rows: (4, N): x, y, z and the distance from the centroid.
        least: length below which a direction is undefined.
    """

    rows: Tensor
    least: Tensor


def rigid_invariant_features(points: Tensor, k: int = 20) -> Tensor:
    """Compute features (B, N, 4k) of clouds (B, N, 3), invariant to rotation and translation of each cloud.

    With p a point of the centred cloud and q its k nearest neighbours sorted by distance, the four blocks of k numbers are
    ‖p‖, ‖q‖, the angle from p to q in [0, π], and the angle around p, counter-clockwise in the plane normal to it, from
    the projection of q to the next projected neighbour. If p is at the centroid, both angles are 0. If q is parallel to p (or a
    duplicate of it), its angle to the next is 0 and it is no neighbour's next. Of equal projections, all angles but one are 0.

    Args:
        points: float32 or float64; no gradient flows through the features.
        k: number of neighbours.

    Raises:
        ValueError: a cloud has fewer than k + 1 points.
    """
    if points.shape[1] < k + 1:
        raise ValueError(f"{k} neighbours need at least {k + 1} points; the cloud has {points.shape[1]}")
    if points.device.type != "cpu":
        return features_of_batch(points.detach(), k)
    centred = (points - points.mean(dim=1, keepdim=True)).detach().contiguous()
    count, size, _ = points.shape
    features = points.new_empty(count, size, NUMBERS * k)
    kernel = _kernel(points.device, points.dtype, k)
    writers = thread_map(lambda cloud: _feature_writer(cloud, k, kernel), list(centred))
    rows = max(_MIN_KERNEL_ROWS, count * size // (_CHUNKS_PER_THREAD * max_threads())) if kernel else _TORCH_ROWS
    thread_map(lambda chunk: writers[chunk.cloud](chunk.rows, features[chunk.cloud]), chunks(count, size, rows))
    return features


def implementation(device: str, k: int) -> str:
    """Return how features of float32 clouds are computed on a device: "native" (compiled kernel) or "torch"."""
    place = torch.device(device)
    native = _kernel(place, torch.float32, k) if place.type == "cpu" else rri_cuda.kernel(place, k)
    return "native" if native else "torch"


def _kernel(device: torch.device, dtype: torch.dtype, k: int) -> CDLL | None:
    """Return the compiled kernel if it supports the arguments and is available."""
    supported = device.type == "cpu" and dtype == torch.float32 and 1 <= k <= rri.MAX_NEIGHBOURS
    return rri.library() if supported else None


def _feature_writer(cloud: Tensor, k: int, kernel: CDLL | None) -> Callable[[slice, Tensor], None]:
    """Return a function of a slice of points and a tensor (N, 4k), which writes the features of these points to it.

    The kernel numbers the points in the order of its tree, torch in the order of the cloud (N, 3).
    """
    if kernel:
        tree = rri.Tree(kernel, cloud)
        if tree.in_range:
            return lambda rows, out: tree.describe(rows, k, TINY * tree.radius, out)
    centred = _with_radii(cloud)
    search = _TreeSearch(cloud)
    return lambda rows, out: _write_features(centred, rows, search(rows, k), out[rows])


class _TreeSearch:
    """Nearest neighbours in a cloud (N, 3) by a k-d tree."""

    def __init__(self, cloud: Tensor) -> None:
        from scipy.spatial import cKDTree

        self.tree = cKDTree(cloud.numpy(), leafsize=_LEAF_SIZE, balanced_tree=False)

    def __call__(self, rows: slice, k: int) -> Tensor:
        """Return the indices (n, k) of the k nearest other points of the points in `rows`, nearest first."""
        neighbours = torch.from_numpy(self.tree.query(self.tree.data[rows], k + 1)[1])
        return _without_self(neighbours, torch.arange(rows.start, rows.stop))


def _without_self(neighbours: Tensor, own: Tensor) -> Tensor:
    """Drop each row's own index from (n, k + 1) neighbours, or the last neighbour if duplicates displaced the own index."""
    if torch.equal(neighbours[:, 0], own):
        return neighbours[:, 1:]
    is_self = neighbours == own[:, None]
    is_self[:, -1] |= ~is_self.any(dim=1)
    return neighbours[~is_self].view(len(neighbours), -1)


def _with_radii(cloud: Tensor) -> _CentredCloud:
    radius = cloud.norm(dim=1)
    least = (TINY * radius.max()).clamp_min(torch.finfo(cloud.dtype).tiny)
    return _CentredCloud(torch.stack([*cloud.T, radius]), least)


def _write_features(cloud: _CentredCloud, rows: slice, index: Tensor, out: Tensor) -> None:
    """Write the features (n, 4k) of the points in `rows`, whose neighbours are index (n, k)."""
    flat = index.reshape(-1)
    *q, q_radius = (row.index_select(0, flat).view(index.shape) for row in cloud.rows)
    radius = cloud.rows[3, rows]
    normal = cloud.rows[:3, rows] / radius.clamp_min(cloud.least)
    along, x, y = (_dot(q, axis) for axis in (normal, *_tangents(normal)))
    across = torch.hypot(x, y)
    defined = (radius > cloud.least)[:, None]
    own, near, angle, gap = out.view(len(index), NUMBERS, -1).unbind(dim=1)
    own.copy_(radius[:, None])
    near.copy_(q_radius)
    torch.atan2(across, along, out=angle).mul_(defined)
    _write_gaps(torch.atan2(y, x), defined & (across > cloud.least), gap)


def _dot(q: Sequence[Tensor], axis: Tensor) -> Tensor:
    """Compute dot products (n, k) of neighbours, given as three coordinates (n, k), with one axis per point (3, n)."""
    x, y, z = axis[..., None]
    return torch.addcmul(q[0] * x, q[1], y).addcmul_(q[2], z)


def _tangents(normal: Tensor) -> tuple[Tensor, Tensor]:
    """Return two unit vectors (3, n) that complete each normal (3, n) to a right-handed frame (Duff et al. 2017).

    The features do not depend on which. The construction has no branch and no division by a small number.
    """
    x, y, z = normal
    sign = torch.where(z < 0, -1.0, 1.0).to(normal.dtype)
    a = -1.0 / (sign + z)
    b = x * y * a
    first = torch.stack([1.0 + sign * x * x * a, sign * b, -sign * x])
    second = torch.stack([b, sign + y * y * a, -y])
    return first, second


def _write_gaps(azimuth: Tensor, defined: Tensor, out: Tensor) -> None:
    """Write the angle (n, k) in [0, 2π] from each azimuth (n, k) to the next defined one, counter-clockwise; 0 if undefined.

    If only one neighbour is defined, its angle is the full turn. The sort keys are float64 azimuths whose last bits, worth
    at most 1e-12, are replaced by the column, so that one pass of NumPy's vectorised sort gives values and order. The offset
    keeps keys away from 0, where a processor that flushes denormals would lose the columns.
    """
    k = azimuth.shape[1]
    low = (1 << (k - 1).bit_length()) - 1
    ordered = (azimuth.double() + _UNDEFINED / 2).masked_fill_(~defined, _UNDEFINED)
    ordered.view(torch.int64).bitwise_and_(~low).bitwise_or_(torch.arange(k, device=azimuth.device))
    ordered.numpy().sort(axis=1)
    first_again = ordered[:, :1] + 2 * math.pi
    following = torch.cat([ordered[:, 1:], first_again], dim=1)
    following = torch.where(following < _UNDEFINED, following, first_again)
    gap = (following - ordered).clamp_min_(0).masked_fill_(ordered >= _UNDEFINED, 0)
    out.scatter_(1, ordered.view(torch.int64) & low, gap.to(out.dtype))
