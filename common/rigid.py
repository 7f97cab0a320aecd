"""Rigid motions as 4 x 4 matrices: validity and inverse. Pure functions over batches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

RIGID_TOLERANCE = 1e-4
"""Largest deviation of an entry of RᵀR from the identity at which a matrix still counts as rigid."""


def is_rigid(T: NDArray[Any], tolerance: float = RIGID_TOLERANCE) -> NDArray[np.bool_]:
    """Return whether matrices are finite rigid motions: last row 0 0 0 1, and a rotation without reflection.

    Args:
        T: matrices (..., 4, 4).
        tolerance: largest deviation of an entry of RᵀR and of the last row.

    Returns:
        Booleans (...,).
    """
    T = np.asarray(T, dtype=np.float64)
    # Arithmetic of floats takes a tenth of the time of arrays without dimensions.
    rows: Any = T.tolist() if T.ndim == 2 else np.moveaxis(T, (-2, -1), (0, 1))
    (a, b, c, x), (d, e, f, y), (g, h, i, z), (*zeros, one) = rows
    with np.errstate(all="ignore"):  # what is not finite, or overflows, fails a comparison
        rigid = a * (e * i - f * h) + b * (f * g - d * i) + c * (d * h - e * g) > 0
        units = a * a + d * d + g * g - 1, b * b + e * e + h * h - 1, c * c + f * f + i * i - 1
        angles = a * b + d * e + g * h, a * c + d * f + g * i, b * c + e * f + h * i
        for deviation in (*units, *angles, *zeros, one - 1):
            rigid = rigid & (abs(deviation) <= tolerance)
        for coordinate in (x, y, z):
            rigid = rigid & (abs(coordinate) < np.inf)
    return np.asarray(rigid)


def inverse(T: NDArray[np.float64]) -> NDArray[np.float64]:
    """Invert rigid matrices (..., 4, 4)."""
    inverted = np.zeros_like(T)
    R_transposed = np.swapaxes(T[..., :3, :3], -1, -2)
    inverted[..., :3, :3] = R_transposed
    inverted[..., :3, 3] = -(R_transposed @ T[..., :3, 3, None])[..., 0]
    inverted[..., 3, 3] = 1
    return inverted
