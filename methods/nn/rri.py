"""Rigorously rotation-invariant features (Chen et al. 2019): four numbers a neighbour, the same function for CPU and CUDA."""

from __future__ import annotations

import math

import torch
from torch import Tensor

NUMBERS = 4
"""Numbers a neighbour: ‖p‖, ‖q‖, the angle between p and q, and the gap to the next neighbour around p."""
_BLOCK = 1 << 24
"""Distances held at once by the brute-force search."""
_TINY = 1e-6
"""Below this length, relative to the cloud's scale, a direction is not defined."""


def rri(points: Tensor, k: int = 20) -> Tensor:
    """Features (B, N, 4k) float of clouds (B, N, 3), invariant to rotation about each cloud's centroid and to its position.

    With p a point of the centred cloud and q its k nearest neighbours sorted by distance, the four blocks of k numbers are
    ‖p‖, ‖q‖, the angle from p to q in [0, π], and the angle around p, counter-clockwise in the plane normal to it, from
    the projection of q to the next projected neighbour. Where p is at the centroid both angles are 0; where q is parallel
    to p (or a duplicate of it) the gap is 0 and q is no one's next. Equal projections: all gaps but the last are 0.

    Raises:
        ValueError: a cloud has fewer than k + 1 points.
    """
    centred = points - points.mean(dim=1, keepdim=True)
    index = neighbours(centred, k)
    clouds = [_describe(cloud, rows) for cloud, rows in zip(centred, index, strict=True)]
    return torch.stack(clouds)


def neighbours(points: Tensor, k: int) -> Tensor:
    """Indices (B, N, k) of the k nearest other points of each point (B, N, 3), nearest first.

    On the CPU a k-d tree (four times faster at N = 1024), else brute force in blocks of rows.

    Raises:
        ValueError: a cloud has fewer than k + 1 points.
    """
    if points.shape[1] < k + 1:
        raise ValueError(f"{k} neighbours need at least {k + 1} points; the cloud has {points.shape[1]}")
    search = _search_tree if points.device.type == "cpu" else _search_blocks
    return torch.stack([search(cloud, k) for cloud in points])


def _search_tree(cloud: Tensor, k: int) -> Tensor:
    from scipy.spatial import cKDTree

    array = cloud.detach().numpy()
    tree = cKDTree(array, balanced_tree=False, compact_nodes=False)
    found = tree.query(array, k + 1, workers=torch.get_num_threads())[1]
    return _without_self(torch.from_numpy(found).long(), torch.arange(len(array)))


def _search_blocks(cloud: Tensor, k: int) -> Tensor:
    rows = max(1, _BLOCK // len(cloud))
    parts = []
    for start in range(0, len(cloud), rows):
        block = cloud[start : start + rows]
        distance = torch.cdist(block, cloud, compute_mode="donot_use_mm_for_euclid_dist")
        own = torch.arange(start, start + len(block), device=cloud.device)
        parts.append(_without_self(distance.topk(k + 1, largest=False).indices, own))
    return torch.cat(parts)


def _without_self(found: Tensor, own: Tensor) -> Tensor:
    """Drop each row's own index from (n, k + 1) indices, or the last one where duplicates crowded it out."""
    is_self = found == own[:, None]
    is_self[:, -1] |= ~is_self.any(dim=1)
    return found[~is_self].view(len(found), -1)


def _describe(cloud: Tensor, index: Tensor) -> Tensor:
    """Features (N, 4k) of one centred cloud (N, 3) with neighbours (N, k)."""
    radius = cloud.norm(dim=1)
    tiny = _TINY * radius.max()
    q = [axis[index] for axis in cloud.T.contiguous()]  # three (N, k) planes: half the time of one (N, k, 3)
    normal = cloud / radius.clamp_min(tiny.clamp_min(torch.finfo(cloud.dtype).tiny))[:, None]
    first, second = _tangents(normal)
    along, x, y = (_dot(q, axis) for axis in (normal, first, second))
    across = torch.hypot(x, y)
    defined = (radius > tiny)[:, None]
    angle = torch.where(defined, torch.atan2(across, along), 0.0)
    gap = _gaps(torch.atan2(y, x), defined & (across > tiny))
    return torch.cat([radius[:, None].expand_as(angle), radius[index], angle, gap], dim=1)


def _dot(q: list[Tensor], axis: Tensor) -> Tensor:
    """Dot products (N, k) of neighbours, as planes of coordinates, with one axis (N, 3) a point."""
    return q[0] * axis[:, 0, None] + q[1] * axis[:, 1, None] + q[2] * axis[:, 2, None]


def _tangents(normal: Tensor) -> tuple[Tensor, Tensor]:
    """Two unit vectors (N, 3) that make a right-handed frame with each normal (N, 3); which ones does not matter.

    The frame of Duff et al. 2017: no branch, no division by a small number.
    """
    x, y, z = normal.unbind(dim=1)
    sign = torch.where(z < 0, -1.0, 1.0).to(normal.dtype)
    a = -1.0 / (sign + z)
    b = x * y * a
    first = torch.stack([1.0 + sign * x * x * a, sign * b, -sign * x], dim=1)
    second = torch.stack([b, sign + y * y * a, -y], dim=1)
    return first, second


def _gaps(azimuth: Tensor, defined: Tensor) -> Tensor:
    """Angle (N, k) in [0, 2π] from each azimuth (N, k) to the next defined one, counter-clockwise; 0 if not defined.

    A point's only defined neighbour is its own next: its gap is the full turn.
    """
    ordered, order = torch.where(defined, azimuth, math.inf).sort(dim=1, stable=True)
    following = torch.cat([ordered[:, 1:], torch.full_like(ordered[:, :1], math.inf)], dim=1)
    wrapped = ordered[:, :1] + 2 * math.pi
    gap = torch.where(following.isinf(), wrapped, following) - ordered
    return torch.empty_like(gap).scatter_(1, order, torch.where(ordered.isinf(), 0.0, gap))
