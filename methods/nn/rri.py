"""Rigorously rotation-invariant features (Chen et al. 2019): four numbers a neighbour, on CPU and CUDA."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from ctypes import CDLL
from typing import NamedTuple

import torch
from torch import Tensor

from methods.native import rri
from methods.nn.spread import chunks, max_threads, spread

NUMBERS = 4
"""Numbers a neighbour: ‖p‖, ‖q‖, the angle between p and q, and the gap to the next neighbour around p."""
_DISTANCES = 1 << 24
"""Distances held at once by the brute-force search."""
_ROWS = 1024
"""Points described at once by torch on the CPU: what they need stays in the cache."""
_PLACES = 256
"""Points described at once by the kernel, at least: enough pieces for all threads."""
_PARTS = 16
"""Pieces for each thread, where there are so many points: enough that no thread waits long for the last."""
_LEAF = 24
"""Points in a leaf of the k-d tree: 10 and 64 are slower."""
_TINY = 1e-6
"""Below this length, relative to the cloud's scale, a direction is not defined."""
_NOWHERE = 16.0
"""Stands for an azimuth that is not defined: above all others, which are counted from half of it."""


class _Cloud(NamedTuple):
    """A centred cloud by coordinates, (4, N): x, y, z and ‖p‖; half the time of (N, 3). And the least length with a direction."""

    planes: Tensor
    least: Tensor


def rigid_invariant_features(points: Tensor, k: int = 20) -> Tensor:
    """Features (B, N, 4k) float of clouds (B, N, 3), invariant to rotation about each cloud's centroid and to its position.

    With p a point of the centred cloud and q its k nearest neighbours sorted by distance, the four blocks of k numbers are
    ‖p‖, ‖q‖, the angle from p to q in [0, π], and the angle around p, counter-clockwise in the plane normal to it, from
    the projection of q to the next projected neighbour. Where p is at the centroid both angles are 0; where q is parallel
    to p (or a duplicate of it) the gap is 0 and q is no one's next. Equal projections: all gaps but one are 0.

    Raises:
        ValueError: a cloud has fewer than k + 1 points.
    """
    if points.shape[1] < k + 1:
        raise ValueError(f"{k} neighbours need at least {k + 1} points; the cloud has {points.shape[1]}")
    centred = (points - points.mean(dim=1, keepdim=True)).detach().contiguous()
    count, size, _ = points.shape
    features = points.new_empty(count, size, NUMBERS * k)
    kernel = _kernel(points.device, points.dtype, k)
    ready = spread(lambda cloud: _describer(cloud, k, kernel), list(centred))
    if kernel:
        rows = max(_PLACES, count * size // (_PARTS * max_threads()))
    else:
        rows = _ROWS if points.device.type == "cpu" else max(1, _DISTANCES // size)
    spread(lambda piece: ready[piece.cloud](piece.rows, features[piece.cloud]), chunks(count, size, rows))
    return features


def implementation(device: str, k: int) -> str:
    """What computes `rri` of float32 clouds on a device: "native", which is the compiled kernel, or "torch"."""
    return "native" if _kernel(torch.device(device), torch.float32, k) else "torch"


def _kernel(device: torch.device, dtype: torch.dtype, k: int) -> CDLL | None:
    usable = device.type == "cpu" and dtype == torch.float32 and 1 <= k <= rri.MOST
    return rri.library() if usable else None


def _describer(cloud: Tensor, k: int, kernel: CDLL | None) -> Callable[[slice, Tensor], None]:
    """What writes the features of some points of a centred cloud (N, 3) to a tensor (N, 4k).

    The kernel counts the points in the order of its tree, torch as they are in the cloud.
    """
    if kernel:
        tree = rri.Tree(kernel, cloud)
        if tree.serves:
            return lambda places, into: tree.describe(places, k, _TINY * tree.radius, into)
    planes, search = _by_planes(cloud), _Tree(cloud) if cloud.device.type == "cpu" else _Blocks(cloud)
    return lambda rows, into: _describe(planes, rows, search(rows, k), into[rows])


class _Tree:
    """The k nearest other points of some points of a cloud (N, 3), nearest first, by a k-d tree: for the CPU."""

    def __init__(self, cloud: Tensor) -> None:
        from scipy.spatial import cKDTree

        self.tree = cKDTree(cloud.numpy(), leafsize=_LEAF, balanced_tree=False)

    def __call__(self, rows: slice, k: int) -> Tensor:
        """Indices (n, k) for the points in `rows`."""
        found = torch.from_numpy(self.tree.query(self.tree.data[rows], k + 1)[1])
        return _without_self(found, torch.arange(rows.start, rows.stop))


class _Blocks:
    """The same by distances to all points, held for a block of rows at a time: for a GPU."""

    def __init__(self, cloud: Tensor) -> None:
        self.cloud = cloud

    def __call__(self, rows: slice, k: int) -> Tensor:
        """Indices (n, k) for the points in `rows`."""
        distance = torch.cdist(self.cloud[rows], self.cloud, compute_mode="donot_use_mm_for_euclid_dist")
        found = distance.topk(k + 1, largest=False).indices
        return _without_self(found, torch.arange(rows.start, rows.stop, device=found.device))


def _without_self(found: Tensor, own: Tensor) -> Tensor:
    """Drop each row's own index from (n, k + 1) indices, or the last one where duplicates crowded it out."""
    if torch.equal(found[:, 0], own):
        return found[:, 1:]
    is_self = found == own[:, None]
    is_self[:, -1] |= ~is_self.any(dim=1)
    return found[~is_self].view(len(found), -1)


def _by_planes(cloud: Tensor) -> _Cloud:
    radius = cloud.norm(dim=1)
    return _Cloud(torch.stack([*cloud.T, radius]), (_TINY * radius.max()).clamp_min(torch.finfo(cloud.dtype).tiny))


def _describe(cloud: _Cloud, rows: slice, index: Tensor, into: Tensor) -> None:
    """Write the features (n, 4k) of the points in `rows`, whose neighbours are index (n, k)."""
    flat = index.reshape(-1)
    *q, far = (plane.index_select(0, flat).view(index.shape) for plane in cloud.planes)
    radius = cloud.planes[3, rows]
    normal = cloud.planes[:3, rows] / radius.clamp_min(cloud.least)
    along, x, y = (_dot(q, axis) for axis in (normal, *_tangents(normal)))
    across = torch.hypot(x, y)
    defined = (radius > cloud.least)[:, None]
    own, near, angle, gap = into.view(len(index), NUMBERS, -1).unbind(dim=1)
    own.copy_(radius[:, None])
    near.copy_(far)
    torch.atan2(across, along, out=angle).mul_(defined)
    _gaps(torch.atan2(y, x), defined & (across > cloud.least), gap)


def _dot(q: Sequence[Tensor], axis: Tensor) -> Tensor:
    """Dot products (n, k) of neighbours, as three planes (n, k) of coordinates, with one axis a point, (3, n)."""
    x, y, z = axis[..., None]
    return torch.addcmul(q[0] * x, q[1], y).addcmul_(q[2], z)


def _tangents(normal: Tensor) -> tuple[Tensor, Tensor]:
    """Two unit vectors (3, n) that make a right-handed frame with each normal (3, n); which ones does not matter.

    The frame of Duff et al. 2017: no branch, no division by a small number.
    """
    x, y, z = normal
    sign = torch.where(z < 0, -1.0, 1.0).to(normal.dtype)
    a = -1.0 / (sign + z)
    b = x * y * a
    first = torch.stack([1.0 + sign * x * x * a, sign * b, -sign * x])
    second = torch.stack([b, sign + y * y * a, -y])
    return first, second


def _gaps(azimuth: Tensor, defined: Tensor, into: Tensor) -> None:
    """Write the angle (n, k) in [0, 2π] from each azimuth (n, k) to the next defined one, counter-clockwise; 0 if not defined.

    A point's only defined neighbour is its own next: its gap is the full turn. What is sorted are float64 numbers whose
    last bits, worth 1e-12 at most, are the column: values and order in one pass of NumPy's vectorised sort. They lie off 0,
    next to which a processor may take all numbers, and so all columns, for 0.
    """
    k = azimuth.shape[1]
    low = (1 << (k - 1).bit_length()) - 1
    ordered = (azimuth.double() + _NOWHERE / 2).masked_fill_(~defined, _NOWHERE)
    ordered.view(torch.int64).bitwise_and_(~low).bitwise_or_(torch.arange(k, device=azimuth.device))
    if ordered.device.type == "cpu":
        ordered.numpy().sort(axis=1)
    else:
        ordered = ordered.sort(dim=1).values
    first_again = ordered[:, :1] + 2 * math.pi
    following = torch.cat([ordered[:, 1:], first_again], dim=1)
    following = torch.where(following < _NOWHERE, following, first_again)
    gap = (following - ordered).clamp_min_(0).masked_fill_(ordered >= _NOWHERE, 0)
    into.scatter_(1, ordered.view(torch.int64) & low, gap.to(into.dtype))
