"""Alignments of principal axes: what `pca` answers, and where `deepgmr_resampled` starts from."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Candidates(NamedTuple):
    """Rigid alignments of a pair that lay principal axes on principal axes, the likeliest first.

    Attributes:
        axes: the source's principal axes, the columns of a rotation (3, 3), the least extent first.
        rotations: (n, 3, 3), source onto target; centroids lie on each other.
        distances: (n,) what `distances` says of each.
    """

    axes: Array
    rotations: Array
    distances: Array


def candidates(source: Array, target: Array, share: float, checked: int) -> Candidates:
    """The 24 right-handed alignments of the principal axes of two centred clouds (N, 3) and (M, 3), judged by distance.

    The axes are known up to sense, and up to order where two extents are alike.
    """
    axes = principal_axes(source)
    rotations = principal_axes(target) @ _ways() @ axes.T
    found = distances(source, target, rotations, np.zeros((len(rotations), 3)), share, checked)
    order = found.argsort(kind="stable")
    return Candidates(axes, rotations[order], found[order])


def principal_axes(centred: Array) -> Array:
    """Principal axes of a centred cloud (N, 3): the columns of a rotation (3, 3), the least extent first.

    They point where the third moment along them is positive, but for the last, which makes the frame right-handed: so they
    turn with the cloud.
    """
    axes = np.linalg.eigh(centred.T @ centred)[1]
    axes = axes * np.where(((centred @ axes) ** 3).sum(axis=0) < 0, -1.0, 1.0)
    return np.asarray(axes * [1.0, 1.0, np.linalg.det(axes)])


def distances(source: Array, target: Array, rotations: Array, translations: Array, share: float, checked: int) -> Array:
    """How far poses (n, 3, 3), (n, 3) leave `checked` points of the source (N, 3) from the target (M, 3), (n,).

    The mean distance to the nearest target point, over the nearest `share` of the points.
    """
    from scipy.spatial import cKDTree

    seen = source[:: max(1, len(source) // checked)]
    moved = seen @ rotations.transpose(0, 2, 1) + translations[:, None]
    nearest = np.sort(cKDTree(target).query(moved)[0], axis=1)
    return np.asarray(nearest[:, : max(1, round(share * len(seen)))].mean(axis=1))


@functools.cache
def _ways() -> Array:
    """The 24 rotations (24, 3, 3) that permute and reverse the axes."""
    from scipy.spatial.transform import Rotation

    return np.rint(Rotation.create_group("O").as_matrix())
