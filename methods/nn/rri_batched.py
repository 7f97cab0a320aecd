"""Rotation-invariant features of a whole batch on a GPU: one compiled kernel, or few torch operations without a loop over clouds.

`methods.nn.rri` defines the features. The number of operations does not depend on the number of clouds or, while the distances
fit into memory, of points; the host never waits.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from methods.native import rri_cuda

TINY = 1e-6
"""Length, relative to the cloud's radius, below which a direction is undefined."""
_UNDEFINED = 16.0
"""Sort key of an undefined azimuth: larger than all others."""
_MEMORY_SHARE = 4
"""A block of distances takes at most the free memory of the GPU divided by this; two are held at a time."""
_HOST_BYTES = 1 << 28
"""Maximum bytes of a block in the host's memory."""


def features_of_batch(points: Tensor, k: int) -> Tensor:
    """Compute the features (B, N, 4k) of clouds (B, N, 3), as `methods.nn.rri.rigid_invariant_features` does."""
    centred = points - points.mean(dim=1, keepdim=True)
    radius = torch.linalg.vector_norm(centred, dim=2)
    least = (TINY * radius.amax(dim=1)).clamp_min_(torch.finfo(points.dtype).tiny)
    kernel = rri_cuda.kernel(points.device, k) if points.dtype == torch.float32 else None
    if kernel is not None:
        planes = torch.cat([centred.transpose(1, 2), radius[:, None]], dim=1)
        return kernel(planes, least)
    return _by_torch(centred, radius, least[:, None, None], k)


def _by_torch(centred: Tensor, radius: Tensor, least: Tensor, k: int) -> Tensor:
    """Compute the features of centred clouds (B, N, 3) with radii (B, N) and least lengths (B, 1, 1)."""
    count, size, _ = centred.shape
    first = torch.arange(0, count * size, size, device=centred.device)
    rows = (nearest(centred, k) + first[:, None, None]).flatten()
    every = torch.cat([centred, radius[..., None]], dim=2).flatten(0, 1)
    q = every.index_select(0, rows).view(count, size, k, 4)
    x, y, along = _in_frames(q, centred / radius[..., None].clamp_min(least))
    across, here = torch.hypot(x, y), radius[..., None] > least
    azimuth = torch.where(here & (across > least), torch.atan2(y, x), _UNDEFINED)
    angle = torch.atan2(across, along).mul_(here)
    return torch.cat([radius[..., None].expand(-1, -1, k), q[..., 3], angle, _gaps(azimuth)], dim=2)


def nearest(centred: Tensor, k: int) -> Tensor:
    """Return the indices (B, N, k) of the k nearest other points of each point (B, N, 3), nearest first.

    All distances are computed, in as few blocks of rows as memory allows.
    """
    count, size, _ = centred.shape
    rows = max(1, _block_bytes(centred) // (centred.element_size() * count * size))
    return torch.cat([_nearest_of(centred, slice(begin, begin + rows), k) for begin in range(0, size, rows)], dim=1)


def _nearest_of(centred: Tensor, rows: slice, k: int) -> Tensor:
    """Return the indices (B, n, k) of the nearest of the points in some rows."""
    axes = [(centred[:, rows, None, axis], centred[:, None, :, axis]) for axis in range(3)]
    squares = (axes[0][0] - axes[0][1]).square_()
    for own, other in axes[1:]:
        difference = own - other
        squares.addcmul_(difference, difference)
    squares.diagonal(offset=rows.start, dim1=1, dim2=2).fill_(math.inf)  # a point is not its own neighbour
    return squares.topk(k, largest=False).indices


def _block_bytes(centred: Tensor) -> int:
    """Return the bytes that a block of distances may take."""
    if centred.device.type != "cuda":
        return _HOST_BYTES
    free, _ = torch.cuda.mem_get_info(centred.device)
    return int(free) // _MEMORY_SHARE


def _in_frames(q: Tensor, normal: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return x, y, along (B, N, k) of neighbours q (B, N, k, 3 or more) in right-handed frames around normals (B, N, 3).

    The reflection that maps the normal n to the axis -s z, with s the sign of n_z, maps its plane to the x-y plane. It has no
    division by a small number; y times s undoes the change of handedness.
    """
    nx, ny, nz = normal[..., None].unbind(dim=2)
    qx, qy, qz = q[..., :3].unbind(dim=3)
    sign = torch.ones_like(nz).copysign_(nz)
    along = torch.addcmul(torch.addcmul(nx * qx, ny, qy), nz, qz)
    share = torch.addcmul(along, sign, qz).div_(nz.abs().add_(1.0))
    x = torch.addcmul(qx, nx, share, value=-1.0)
    y = torch.addcmul(qy, ny, share, value=-1.0)
    return x, y.mul_(sign), along


def _gaps(azimuth: Tensor) -> Tensor:
    """Return the angle in [0, 2π] from each azimuth (B, N, k) to the next defined one, counter-clockwise; 0 if it is undefined.

    If only one neighbour is defined, its angle is the full turn.
    """
    ordered, order = azimuth.sort(dim=2, stable=True)
    again = ordered[..., :1] + 2 * math.pi
    following = torch.cat([ordered[..., 1:], again], dim=2)
    following = torch.where(following < _UNDEFINED, following, again)
    gap = torch.where(ordered < _UNDEFINED, following - ordered, 0.0)
    return torch.empty_like(gap).scatter_(2, order, gap)
