"""Parts of ICP: metrics (directions of a residual), robust kernels, the linearised step, and subsampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from methods.core.base import Pose, rigid
from methods.geometry.features import Normals, Points

DAMPING = 0.01
"""Damping relative to the mean curvature; without it a noisy plate, free to slide in its plane, slides far away."""
FLAT = 1e-3
"""Variance of a point along its normal relative to that in its plane, for `generalized` (Segal 2009)."""

METRICS = ("plane", "point", "generalized", "symmetric")
"""Residual metrics, see `directions`."""
KERNELS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "huber": lambda r: 1 / np.maximum(r, 1),
    "cauchy": lambda r: 1 / (1 + r**2),
    "tukey": lambda r: np.where(r < 1, (1 - np.minimum(r, 1) ** 2) ** 2, 0),
}
"""Kernel to the weight of a squared residual, as a function of the residual in units of the kernel's width."""


def directions(metric: str, n: Normals, rotated: Normals) -> NDArray[np.float64]:
    """Return directions (K, D, 3) along which the residuals of pairs are measured; their lengths are weights.

    Args:
        metric: "plane" uses the target's normal (Chen 1992), "point" three axes of equal weight (Besl 1992),
            "generalized" the axes of the inverse of both points' covariances, which are flat along their normals,
            scaled so that residuals along equal normals have weight 1, "symmetric" the mean of both normals
            (Rusinkiewicz 2019), along which two points of a surface of constant curvature have no residual.
        n: the target's normals at the pairs (K, 3).
        rotated: the source's normals (K, 3), rotated like the source.
    """
    if metric == "plane":
        return n[:, None]
    if metric == "point":
        return np.broadcast_to(np.eye(3), (len(n), 3, 3))
    if metric == "symmetric":
        means = n + np.where(np.einsum("ij,ij->i", n, rotated) < 0, -1.0, 1.0)[:, None] * rotated  # signs may differ
        return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True))[:, None]
    flat = [np.eye(3) - (1 - FLAT) * m[:, :, None] * m[:, None, :] for m in (n, rotated)]
    axes: NDArray[np.float64] = np.linalg.cholesky(2 * FLAT * np.linalg.inv(flat[0] + flat[1]))
    return axes.transpose(0, 2, 1)


def weighted(d: NDArray[np.float64], r: Points, kernel: str, width: float) -> NDArray[np.float64]:
    """Scale the directions (K, D, 3) of each pair by the square root of its weight under a robust kernel.

    Args:
        d: result of `directions`.
        r: differences of the pairs (K, 3).
        kernel: a name of `KERNELS`.
        width: scale of the kernel, in the unit of the points.
    """
    size = np.linalg.norm(np.einsum("kdj,kj->kd", d, r), axis=1)
    return np.asarray(d * np.sqrt(KERNELS[kernel](size / width))[:, None, None])


def step(p: Points, q: Points, d: NDArray[Any]) -> tuple[Pose, float]:
    """Compute the rigid step that minimises sum (d . (R p + t - q))^2, with R linearised and damped, and its size.

    Args:
        p: moved source points (K, 3).
        q: their matches (K, 3).
        d: directions (K, D, 3), such as unit normals at the matches (K, 1, 3).

    Returns:
        T (4, 4), whose rotation is the exponential of the solution and so exactly a rotation, and the larger of its
        angle (radians) and its translation. Motions that the directions leave free (a sphere's rotations) are 0.
    """
    from scipy.spatial.transform import Rotation

    A = np.concatenate([np.cross(p[:, None], d), d], axis=2).reshape(-1, 6)
    b = np.einsum("kdj,kj->kd", d, q - p).ravel()
    H = A.T @ A
    x = np.linalg.solve(H + DAMPING * np.trace(H) / 6 * np.eye(6), A.T @ b)
    size = float(max(np.linalg.norm(x[:3]), np.linalg.norm(x[3:])))
    return rigid(Rotation.from_rotvec(x[:3]).as_matrix(), x[3:]), size


def thinned(points: Points, edge: float) -> NDArray[np.intp]:
    """Return the rows (K,) of the first point of a cloud (N, 3) in each occupied cell of a grid."""
    cells = np.floor((points - points.min(axis=0)) / edge)
    return np.sort(np.unique(cells, axis=0, return_index=True)[1])
