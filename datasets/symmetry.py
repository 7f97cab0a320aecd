"""Proper rotational symmetry groups by name, in the frame of the object that declares them.

A name is `C<n>` (n turns about the main axis), `D<n>` (those and the half turns about the secondary axis and its images),
`Cinf` and `Dinf` (the same with every angle), each with an optional main axis `x`, `y` or `z` (default `z`), or `O`
(the 24 rotations of the cube). Main and secondary axis move together cyclically: z with x, x with y, y with z; so `D2y`
turns about y and flips about z, and `C4` is `C4z`. `C1` is no symmetry.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError

Array = NDArray[np.float64]

_NAME = re.compile(r"([CD])([1-9]\d*|inf)([xyz]?)")


@cache
def rotations(name: str) -> tuple[Array | None, Array]:
    """Return the group of a name as coset representatives of its continuous part.

    Args:
        name: such as "C1", "C4", "D2y", "Cinf", "Dinfx", "O".

    Returns:
        The axis (3,) of the continuous part, None if the group is finite, and rotations (n, 3, 3), the identity first.
        Every element of the group is (a turn about the axis) @ (one of the rotations). Both arrays are read-only.

    Raises:
        InputError: there is no such group.
    """
    axis, matrices = _cube() if name == "O" else _axial(name)
    for array in (axis, matrices):
        if array is not None:
            array.setflags(write=False)
    return axis, matrices


def members(name: str, turns: int) -> Array:
    """Return rotations (n, 3, 3) of a group, the identity first; a continuous axis is sampled at `turns` even steps."""
    axis, matrices = rotations(name)
    if axis is None:
        return matrices
    steps = turn(axis, 2 * np.pi * np.arange(turns) / turns)
    return (steps[:, None] @ matrices).reshape(-1, 3, 3)


def turn(axis: Array, angle: Array | float) -> Array:
    """Compute rotations (..., 3, 3) by angles (...,) in radians about a unit axis (3,) (Rodrigues' formula)."""
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    along = np.outer(axis, axis)
    cos, sin = np.cos(angle)[..., None, None], np.sin(angle)[..., None, None]
    return np.asarray(along + cos * (np.eye(3) - along) + sin * cross)


def _axial(name: str) -> tuple[Array | None, Array]:
    """Return a cyclic or dihedral group."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise InputError(f"unknown symmetry '{name}'; use C<n>, D<n>, Cinf or Dinf, then x, y or z if not z; or O")
    family, order, suffix = match.groups()
    index = "xyz".index(suffix or "z")
    main, secondary = np.eye(3)[index], np.eye(3)[(index + 1) % 3]
    turns = 1 if order == "inf" else int(order)
    matrices = _exact(turn(main, 2 * np.pi * np.arange(turns) / turns))
    if family == "D":
        matrices = np.concatenate([matrices, matrices @ _exact(turn(secondary, np.pi))])
    return (main if order == "inf" else None), matrices


def _cube() -> tuple[None, Array]:
    """Return the 24 signed permutation matrices of determinant 1."""
    quarter = [_exact(turn(axis, np.pi / 2)) for axis in np.eye(3)]
    matrices = [np.eye(3)]
    for matrix in matrices:  # the list grows while it is read, until it is closed under quarter turns
        for product in (matrix @ q for q in quarter):
            if not any(np.array_equal(product, known) for known in matrices):
                matrices.append(product)
    return None, np.array(matrices)


def _exact(matrices: Array) -> Array:
    """Round entries near 0, ±1/2 or ±1 to exactly these, so that a quarter turn maps a grid onto itself."""
    halves = np.round(2 * matrices) / 2
    return np.where(np.abs(matrices - halves) < 1e-12, halves, matrices) + 0.0
