"""What is wrong with the pose that a method returned, and how to fix it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.rigid import is_rigid

MAX_RELATIVE_TRANSLATION = 1e6
"""Largest translation of a plausible pose, relative to the largest coordinate of the two clouds."""
_SHAPES = {
    (3, 4): "add the row 0 0 0 1",
    (3, 3): "a rotation? return rigid(R, t)",
    (16,): "return T.reshape(4, 4)",
    (1, 4, 4): "return T[0]",
}
"""Fix by the shape of an array that is not (4, 4)."""
_MIRROR = np.array([[1, 1, -1, 1]] * 3 + [[1, 1, 1, 1]])
"""Turns a reflection into a rotation, element by element."""


def pose_fault(pose: Any) -> str | None:
    """Return why a pose is not a rigid (4, 4) matrix of real numbers, with the fix; None if it is."""
    try:
        T = np.asarray(pose)
        numeric = T.dtype.kind in "fiu"
    except Exception as error:  # whatever the class of the returned object raises, such as a tensor with a gradient
        return f"the pose is no matrix but {_kind(pose)}" + ("" if isinstance(error, ValueError) else f" ({error})")
    if T.dtype.kind == "c":
        return "the pose is complex; return real numbers, such as T.real if the imaginary part is zero"
    if not numeric:
        return f"the pose is no matrix of numbers but {_kind(pose)}"
    if T.shape != (4, 4):
        fix = _SHAPES.get(T.shape)
        return f"the pose has shape {T.shape}, not (4, 4)" + (f": {fix}" if fix else "")
    T = T.astype(np.float64)
    if is_rigid(T):
        return None
    return _why_not_rigid(T) if np.isfinite(T).all() else "the pose is not finite"


def _kind(pose: Any) -> str:
    """Name the type of an object that is no matrix, with the fix where it is a rotation and a translation."""
    name = type(pose).__name__
    if isinstance(pose, tuple | list) and len(pose) == 2:
        shapes = [getattr(part, "shape", None) for part in pose]
        if shapes[0] == (3, 3):
            return f"{name}: (R, t)? return rigid(R, t)"
    return f"{name} of {len(pose)}" if isinstance(pose, tuple | list) else name


def _why_not_rigid(T: NDArray[np.float64]) -> str:
    """Return what distinguishes a finite matrix (4, 4) from a rigid one."""
    if is_rigid(T * _MIRROR):
        return "the pose is a reflection; flip one axis so that the determinant is 1"
    if is_rigid(T.T):
        return "the pose is not rigid: the translation is in the last row; transposed? return T.T"
    if np.abs(T[3] - [0, 0, 0, 1]).max() > 1e-4:
        return f"the pose is not rigid: its last row is {' '.join(f'{x:.3g}' for x in T[3])}, not 0 0 0 1"
    with np.errstate(all="ignore"):
        scale = np.cbrt(np.abs(np.linalg.det(T[:3, :3])))
        unscaled = T.copy()
        unscaled[:3, :3] /= scale or 1.0
        deviation = np.abs(T[:3, :3].T @ T[:3, :3] - np.eye(3)).max()
    if scale and is_rigid(unscaled, 1e-3):
        return f"the pose is not rigid: it scales by {scale:.5g}; divide its 3 x 3 part by that"
    if scale and is_rigid(unscaled * _MIRROR, 1e-3):
        return f"the pose is not rigid: it scales by {scale:.5g} and is a reflection"
    return f"the pose is not rigid: RᵀR differs from the identity by {deviation:.2g}; use the nearest rotation (SVD)"


def names_fix(fault: str) -> bool:
    """Return whether a fault of a pose names its fix."""
    return any(mark in fault for mark in (";", "?", ": return", ": add"))


def translation_fault(pose: NDArray[np.float64], source: NDArray[Any], target: NDArray[Any]) -> str | None:
    """Return why the translation of a rigid pose (4, 4) is implausible for clouds (N, 3) and (M, 3); None if it is plausible."""
    length = float(np.abs(pose[:3, 3]).max())
    size = max(_largest(source), _largest(target))
    if length <= MAX_RELATIVE_TRANSLATION * (size or 1.0):
        return None
    return (
        f"the translation {length:.3g} is over {MAX_RELATIVE_TRANSLATION:g} times the largest coordinate {size:.3g}; "
        "raise NoSolution if a solver diverges"
    )


def _largest(cloud: NDArray[Any]) -> float:
    """Return the largest magnitude among the finite coordinates of a cloud; 0 if it has none."""
    magnitudes = np.abs(cloud)
    largest = float(magnitudes.max(initial=0.0))
    return largest if math.isfinite(largest) else float(magnitudes.max(initial=0.0, where=np.isfinite(magnitudes)))
