"""Alignments of principal axes: the poses of `pca`, and the initial poses of `deepgmr_resampled`."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from methods.geometry.search import Cloud

Array = NDArray[np.float64]

COLUMNS = 8
"""Columns per radius of the clouds, in which points follow each other along the third axis."""


class Candidates(NamedTuple):
    """Rigid alignments of a pair that map principal axes to principal axes, the best first.

    Attributes:
        axes: the source's principal axes, the columns of a rotation (3, 3), the smallest extent first.
        rotations: (n, 3, 3), source to target; centroids coincide.
        distances: (n,), see `distances`.
    """

    axes: Array
    rotations: Array
    distances: Array


def candidates(source: Array, target: Array, share: float, checked: int) -> Candidates:
    """Rank the 24 right-handed alignments of the principal axes of two centred clouds (N, 3) and (M, 3) by distance.

    The sense of the axes is ambiguous, and so is their order if two extents are similar.

    Args:
        source: (N, 3).
        target: (M, 3).
        share: see `distances`.
        checked: see `distances`.
    """
    axes = principal_axes(source)
    rotations = principal_axes(target) @ _axis_permutations() @ axes.T
    errors = distances(source, target, rotations, np.zeros((len(rotations), 3)), share, checked)
    order = errors.argsort(kind="stable")
    return Candidates(axes, rotations[order], errors[order])


def principal_axes(centred: Array) -> Array:
    """Return the principal axes of a centred cloud (N, 3): the columns of a rotation (3, 3), the smallest extent first.

    They point to where the third moment along them is positive, except for the last, which makes the frame right-handed. So
    they rotate with the cloud.
    """
    axes = np.linalg.eigh(centred.T @ centred)[1]
    axes = axes * np.where(((centred @ axes) ** 3).sum(axis=0) < 0, -1.0, 1.0)
    return np.asarray(axes * [1.0, 1.0, np.linalg.det(axes)])


def distances(source: Array, target: Array, rotations: Array, translations: Array, share: float, checked: int) -> Array:
    """Compute the mean distance (n,) of the source to the target under each of n poses.

    Args:
        source: (N, 3).
        target: (M, 3).
        rotations: (n, 3, 3).
        translations: (n, 3).
        share: share of the checked points, those with the smallest distances, that are averaged.
        checked: number of source points to check.
    """
    scale = max(float(np.abs(cloud).max()) for cloud in (source, target)) or 1.0
    sample = _near_in_turn(source[:: max(1, len(source) // checked)], scale)
    moved = sample @ rotations.transpose(0, 2, 1) + translations[:, None]
    nearest = scale * np.sort(Cloud(target / scale).distances(moved / scale), axis=1)
    return np.asarray(nearest[:, : max(1, round(share * len(sample)))].mean(axis=1))


def _near_in_turn(points: Array, scale: float) -> Array:
    """Return points (n, 3) in an order in which near ones follow each other, so that each match bounds the next distance."""
    x, y = np.rint(points[:, :2].T * (COLUMNS / scale))
    return points[np.lexsort((points[:, 2] * (1 - 2 * (y % 2)), y * (1 - 2 * (x % 2)), x))]


@functools.cache
def _axis_permutations() -> Array:
    """Return the 24 rotations (24, 3, 3) that permute and reverse the axes."""
    from scipy.spatial.transform import Rotation

    return np.rint(Rotation.create_group("O").as_matrix())
