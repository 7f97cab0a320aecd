"""Information matrices of `gt.info`: read either order of rotation and translation, and compute missing ones.

A matrix is the sum of GᵀG over the true correspondences of a pair. In the order of 3DMatch and Redwood, translation first,
G = [I | -[p]×] for the points p, so that the first block is the number of correspondences times I and the block beside it
-n [c]×, with the centroid c. The files of Open3D and of Fast Global Registration have rotation first, and the latter
rotations of the opposite sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import portable
from common.errors import InputError

Array = NDArray[np.float64]
_SWAP = np.array([3, 4, 5, 0, 1, 2])
_TOLERANCE = 1e-6
"""Largest difference of a block from a multiple of I, as a share of the multiple."""


def cross_matrix(v: NDArray[Any]) -> Array:
    """Return the matrix (3, 3) whose product with w is v × w."""
    x, y, z = v
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]], dtype=np.float64)


def standard_order(information: Array, centroids: Array, origin: str) -> Array:
    """Return an information matrix (6, 6) with translation first and rotations in the usual sense.

    The block that is a multiple of I belongs to the translation. The sense of rotation is right if the centroid that the
    matrix contains is nearer to one of the pair's than to its opposite.

    Args:
        information: matrix of the file, in either order.
        centroids: of the true correspondences (2, 3), in the source's and in the target's frame.
        origin: names the matrix in an error.

    Raises:
        InputError: neither block is a positive multiple of I.
    """
    if not _is_multiple_of_identity(information[:3, :3]):
        if not _is_multiple_of_identity(information[3:, 3:]):
            raise InputError(
                f"{origin} has no block n I on its diagonal, so it counts no correspondences; copy it again"
            )
        information = information[_SWAP][:, _SWAP]
    block = information[:3, 3:] / information[0, 0]
    centroid = np.array([block[1, 2] - block[2, 1], block[2, 0] - block[0, 2], block[0, 1] - block[1, 0]]) / 2
    same, opposite = (portable.norm(centroids - sign * centroid).min() for sign in (1, -1))
    if opposite < same:
        sign = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
        information = information * sign[:, None] * sign
    return information


def _is_multiple_of_identity(block: Array) -> bool:
    n = block[0, 0]
    return bool(n > 0 and np.abs(block - n * np.eye(3)).max() <= _TOLERANCE * n)


def information_of(points: NDArray[Any]) -> Array:
    """Compute the information matrix (6, 6) of correspondences with points (n, 3), n > 0, in the order of 3DMatch.

    >>> information_of(np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 3.0]])).astype(int)[0].tolist()
    [2, 0, 0, 0, 4, 0]
    """
    p = np.asarray(points, dtype=np.float64)
    total, square = portable.total(p), portable.total(p[:, :, None] * p[:, None, :])
    information = np.zeros((6, 6))
    information[:3, :3] = len(p) * np.eye(3)
    information[:3, 3:] = -cross_matrix(total)
    information[3:, :3] = information[:3, 3:].T
    information[3:, 3:] = (square[0, 0] + square[1, 1] + square[2, 2]) * np.eye(3) - square
    return information
