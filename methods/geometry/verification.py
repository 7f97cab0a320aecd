"""Choice among poses of scans by the descriptors of the points that each brings together.

Walls and floors coincide under many wrong poses, so that the number of near points says little. Under the right pose the near
points are of the same part of a surface, and their descriptors are alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from methods.core.base import NoSolution, Pose, rigid
from methods.geometry.compatibility import Hypotheses, match_scores, refined
from methods.geometry.search import separate

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

    from methods.geometry.learned_matches import Described

Points = NDArray[np.float64]

CANDIDATES = 40
"""Maximum number of poses that are compared, those with the highest scores over the matches."""
APART_DEG = 10.0
"""Rotation by which two of them differ, unless their translations differ by the distance of inliers."""
ALIKE = 0.25
"""Cosine of two descriptors above which a pair of near points counts for a pose, and below which against it."""
QUERIES = 1500
"""Maximum number of source points whose partners are compared."""


def best_verified(
    poses: Hypotheses, p: Points, q: Points, distance: float, source: Described, target: Described
) -> tuple[Pose, int]:
    """Return the pose (4, 4) with the highest `agreement`, refitted to its inliers, and the number of these.

    If the descriptors agree under no pose, that with the highest score over the matches is returned.

    Args:
        poses: proposed poses.
        p: matched source points (K, 3).
        q: their matches (K, 3).
        distance: maximum error of a correct match.
        source: described source points.
        target: described target points.

    Raises:
        NoSolution: no pose has three inliers.
    """
    from scipy.spatial import cKDTree

    scores = match_scores(poses, p, q, distance)
    rows = np.linspace(0, len(source.points) - 1, min(QUERIES, len(source.points))).astype(np.intp)
    queries, tree = source.at(rows), cKDTree(target.points)
    best, solution = -np.inf, None
    for row in _different(poses, scores, distance):
        try:
            T, inliers = refined(rigid(poses.R[row], poses.t[row]), p, q, distance)
        except NoSolution:
            continue
        value = max(0.0, agreement(T, queries, target, tree, distance))
        if value > best:
            best, solution = value, (T, inliers)
    if solution is None:
        raise NoSolution("fewer than 3 matches agree on each pose; a pose needs 3")
    return solution


def agreement(T: Pose, source: Described, target: Described, tree: cKDTree, distance: float) -> float:
    """Return the sum of (cosine of the descriptors - `ALIKE`) over source points and their nearest target points.

    Each pair has a weight that falls from 1 to 0 as its squared distance grows to the squared `distance`.

    Args:
        T: pose (4, 4) of the source.
        source: described source points.
        target: described target points.
        tree: of the target points.
        distance: beyond which points are no pair.
    """
    moved = source.points @ T[:3, :3].T + T[:3, 3]
    away, partner = map(np.asarray, tree.query(moved, distance_upper_bound=distance))
    near = np.flatnonzero(np.isfinite(away))
    cosines = np.einsum("ij,ij->i", source.descriptors[near], target.descriptors[partner[near]])
    return float((1 - (away[near] / distance) ** 2) @ (cosines - ALIKE))


def _different(poses: Hypotheses, scores: NDArray[np.floating], distance: float) -> NDArray[np.intp]:
    """Return the rows of at most `CANDIDATES` different poses, the highest scores first."""
    order = np.argsort(-scores, kind="stable")
    matrices = np.tile(np.eye(4), (len(order), 1, 1))
    matrices[:, :3, :3], matrices[:, :3, 3] = poses.R[order], poses.t[order]
    return order[separate(matrices, CANDIDATES, APART_DEG, distance)]
