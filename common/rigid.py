"""Rigid motions as 4 x 4 matrices: validity and inverse. Pure functions over batches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

RIGID_TOLERANCE = 1e-4
"""Largest deviation of an entry of RᵀR from the identity at which a matrix still counts as rigid."""
_EYE3, _LAST_ROW = np.eye(3), np.array([0.0, 0.0, 0.0, 1.0])


def is_rigid(T: NDArray[Any], tolerance: float = RIGID_TOLERANCE) -> NDArray[np.bool_]:
    """Return whether matrices are finite rigid motions: last row 0 0 0 1, and a rotation without reflection.

    Args:
        T: matrices (..., 4, 4).
        tolerance: largest deviation of an entry of RᵀR and of the last row.

    Returns:
        Booleans (...,).
    """
    T = np.asarray(T, dtype=np.float64)
    R = T[..., :3, :3]
    with np.errstate(all="ignore"):  # what is not finite, or overflows, fails a comparison
        orthogonal = np.abs(np.swapaxes(R, -1, -2) @ R - _EYE3).max(axis=(-1, -2)) <= tolerance
        affine = np.abs(T[..., 3, :] - _LAST_ROW).max(axis=-1) <= tolerance
        proper = np.linalg.det(R) > 0
    return np.asarray(orthogonal & affine & proper & np.isfinite(T[..., :3, 3]).all(axis=-1))


def inverse(T: NDArray[np.float64]) -> NDArray[np.float64]:
    """Invert rigid matrices (..., 4, 4)."""
    inverted = np.zeros_like(T)
    R_transposed = np.swapaxes(T[..., :3, :3], -1, -2)
    inverted[..., :3, :3] = R_transposed
    inverted[..., :3, 3] = -(R_transposed @ T[..., :3, 3, None])[..., 0]
    inverted[..., 3, 3] = 1
    return inverted
