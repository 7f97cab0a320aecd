"""Motions that two aligned clouds leave open: the null space of the point-to-plane residuals, as of a plane or a sphere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.pair.text import vector
from datasets.poses import move

Array = NDArray[np.float64]

NEIGHBOURS = 20
"""Points from which a normal is estimated."""
OPEN = 0.02
"""Share of a motion's squared displacement along the normals below which it is open; a cube of 1 500 points has 0.1."""
MIN_MATCHES = 20
"""Fewest matched points from which open motions are computed."""


@dataclass(frozen=True, eq=False)
class Motion:
    """Motion that the clouds leave open, in the target's frame.

    Attributes:
        axis: unit vector (3,).
        point: a point (3,) of the axis of a rotation; None for a translation along `axis`.
    """

    axis: Array
    point: Array | None

    def __str__(self) -> str:
        if self.point is None:
            return f"sliding along {vector(self.axis)}"
        return f"turning about {vector(self.axis)} through {vector(self.point, 3)}"


@dataclass(frozen=True, eq=False)
class Freedom:
    """Result of `freedom`.

    Attributes:
        motions: open motions, translations first.
        stiffness: the smallest share of squared displacement along the normals of any motion; 0 if one is free, NaN with
            fewer than `MIN_MATCHES` matched points.
        normals: mean |cos| of the angle between the normals of matched points, 0.5 for random normals; NaN likewise.
    """

    motions: tuple[Motion, ...]
    stiffness: float
    normals: float

    def sentence(self) -> str:
        """Name the open motions; empty if there are none."""
        return "the clouds leave open: " + "; ".join(map(str, self.motions)) if self.motions else ""


def normals(points: Array, neighbours: int = NEIGHBOURS) -> Array:
    """Estimate unit normals (N, 3) of points (N, 3), without orientation: the directions of smallest extent."""
    from scipy.spatial import cKDTree

    near = np.asarray(cKDTree(points).query(points, min(neighbours, len(points)))[1]).reshape(len(points), -1)
    local = points[near] - points[near].mean(axis=1, keepdims=True)
    return np.asarray(np.linalg.eigh(np.einsum("nki,nkj->nij", local, local))[1][:, :, 0])


def freedom(pose: Array, source: Array, target: Array, near: float) -> Freedom:
    """Find the motions of the source that do not move it along the normals of the overlapping surface.

    Args:
        pose: (4, 4), source to target.
        source: (N, 3).
        target: (M, 3).
        near: distance of overlapping points.
    """
    from scipy.spatial import cKDTree

    matches = cKDTree(target).query(move(pose, source), distance_upper_bound=near)
    inside, row = np.isfinite(matches[0]), np.asarray(matches[1])
    if np.count_nonzero(inside) < MIN_MATCHES:
        return Freedom((), float("nan"), float("nan"))
    facing = normals(target)[row[inside]]
    cosines = np.abs(np.einsum("ni,ni->n", normals(source)[inside] @ pose[:3, :3].T, facing))
    motions, stiffness = open_motions(target[row[inside]], facing, near)
    return Freedom(motions, stiffness, float(cosines.mean()))


def open_motions(points: Array, facing: Array, near: float) -> tuple[tuple[Motion, ...], float]:
    """Find the open motions of points (K, 3) with normals (K, 3), and the smallest share of any motion along the normals.

    A motion is a twist (w, v), which moves a point p by w x p + v, in units of the points' radius about their centroid. The
    share is vᵀHv / vᵀMv, where H is the mean square of the displacements along the normals and M that of the displacements.
    Displacements below `near` count as such to M, so that rotations of a thin rod about itself are open.
    """
    centre = points.mean(axis=0)
    radius = float(np.sqrt(((points - centre) ** 2).sum(axis=1).mean()))
    if radius == 0:  # one repeated point
        return (), float("nan")
    p = (points - centre) / radius
    along = np.concatenate([np.cross(p, facing), facing], axis=1)
    H = along.T @ along / len(p)
    M = np.eye(6)
    M[:3, :3] = (1 + (near / radius) ** 2) * np.eye(3) - p.T @ p / len(p)
    root = np.linalg.inv(np.linalg.cholesky(M))
    shares, vectors = np.linalg.eigh(root @ H @ root.T)
    free = root.T @ vectors[:, shares < OPEN]
    slides = _translations(H[3:, 3:])
    turns = _rotations(free, slides, centre, radius)
    return (*(Motion(axis, None) for axis in slides), *turns), float(max(shares[0], 0.0))


def _translations(H: Array) -> Array:
    """Return unit vectors (k, 3) that span the open translations, close to coordinate axes."""
    shares, vectors = np.linalg.eigh(H)
    return _tidy(vectors[:, shares < OPEN])


def _rotations(free: Array, slides: Array, centre: Array, radius: float) -> list[Motion]:
    """Return the rotations among the open twists (6, m), without the open translations (k, 3)."""
    rest = free.copy()
    rest[3:] -= slides.T @ (slides @ free[3:])
    count = free.shape[1] - len(slides)
    if count <= 0:
        return []
    basis = np.linalg.svd(rest[:3])[2][:count].T  # the combinations with most rotation
    twists = rest @ basis
    axes = _tidy(np.linalg.qr(twists[:3])[0])
    twists = twists @ np.linalg.lstsq(twists[:3], axes.T, rcond=None)[0]
    return [Motion(w, centre + radius * np.cross(w, v)) for w, v in zip(axes, twists[3:].T, strict=True)]


def _tidy(basis: Array) -> Array:
    """Return an orthonormal basis (k, 3) of the span of the columns (3, k), each vector as close as possible to an axis."""
    chosen: list[Array] = []
    left = basis @ basis.T
    for _ in range(basis.shape[1]):
        axis = left[:, np.argmax(np.diag(left))]
        axis = axis / np.linalg.norm(axis)
        axis = axis * np.sign(axis[np.argmax(np.abs(axis))])
        chosen.append(axis)
        left = left - np.outer(axis, axis)
    return np.array(chosen).reshape(-1, 3)
