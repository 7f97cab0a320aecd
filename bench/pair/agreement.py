"""Evaluation of poses without ground truth: overlap, residual and mutual agreement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.evaluation import metrics
from bench.pair.families import START
from common.rigid import inverse
from datasets.poses import move

Array = NDArray[np.float64]


TRIM = 0.4
"""Share of each cloud's points, the nearest to the other cloud, whose distances are the trimmed residual."""


@dataclass(frozen=True)
class Fit:
    """Fit of a moved source to the target.

    Attributes:
        share: share of source points with a target point nearby, 0 to 1.
        target_share: share of target points with a source point nearby.
        residual: median distance of the source points with a target point nearby to the nearest one; NaN without such points.
        trimmed: two-way trimmed residual: mean over both directions of the mean distance of the nearest `TRIM` of the points.
    """

    share: float
    target_share: float
    residual: float
    trimmed: float

    @property
    def overlap(self) -> float:
        """Mean of the shares of both clouds."""
        return (self.share + self.target_share) / 2


UNKNOWN = Fit(*[float("nan")] * 4)
"""Fit of a method without a pose."""


def fits(poses: Array, source: Array, target: Array, near: float) -> list[Fit]:
    """Compute the fit of poses (K, 4, 4) of source (N, 3) to target (M, 3); `near` is the distance of overlapping points."""
    from scipy.spatial import cKDTree

    trees, results = (cKDTree(source), cKDTree(target)), []
    for T in poses:
        forward = np.asarray(trees[1].query(move(T, source))[0])
        backward = np.asarray(trees[0].query(move(inverse(T), target))[0])
        inside = forward[forward < near]
        residual = float(np.median(inside)) if len(inside) else float("nan")
        trimmed = (_trimmed(forward) + _trimmed(backward)) / 2
        results.append(Fit(len(inside) / len(source), float((backward < near).mean()), residual, trimmed))
    return results


def _trimmed(distance: Array) -> float:
    """Return the mean of the smallest `TRIM` of distances (N,)."""
    count = max(1, round(TRIM * len(distance)))
    return float(np.partition(distance, count - 1)[:count].mean())


@dataclass(frozen=True, eq=False)
class Agreement:
    """Pairwise differences of K poses, each (K, K).

    Attributes:
        angle_deg: angle in degrees.
        shift: distance between the moved centroids of the source.
        distance: root mean square distance between the moved points of the source.
    """

    angle_deg: Array
    shift: Array
    distance: Array


def agreement(poses: Array, source: Array) -> Agreement:
    """Compare poses (K, 4, 4) pairwise on the source's points (N, 3)."""
    first, second = poses[:, None], poses[None]
    centre = source.mean(axis=0)
    centres = poses[:, :3, :3] @ centre + poses[:, :3, 3]
    shift = np.linalg.norm(centres[:, None] - centres[None], axis=-1)
    distance = metrics.rmse(first, second, source) if len(poses) else np.zeros((0, 0))
    return Agreement(metrics.rre_deg(first, second), shift, np.asarray(distance))


OVERLAP_TOLERANCE = 0.01
"""Difference of overlaps that counts as equal; it comes from a few points at the limit distance."""


@dataclass(frozen=True)
class Consensus:
    """Group of poses that agree.

    Attributes:
        members: indices of the poses.
        witnesses: independent evidence for it, see `witnesses`.
        best: member with the smallest residual among those whose overlap is maximal within `OVERLAP_TOLERANCE`.
    """

    members: tuple[int, ...]
    witnesses: int
    best: int


def consensus(families: Sequence[str], distance: Array, fits: Sequence[Fit], alike: float) -> Consensus | None:
    """Return the strongest group of poses within the distance `alike` of one of them; None without poses.

    Groups are ranked by their witnesses, then by their largest overlap. Neither depends on how often a family occurs.

    Args:
        families: family of each of K poses.
        distance: (K, K), distances between poses.
        fits: of each pose.
        alike: distance up to which two poses agree.
    """
    return _strongest(families, distance <= alike, fits, np.ones(len(families), dtype=bool))


def rival(
    families: Sequence[str], distance: Array, fits: Sequence[Fit], alike: float, group: Consensus
) -> Consensus | None:
    """Return the strongest group, as by `consensus`, of poses that disagree with every member of a group; None without any."""
    return _strongest(families, distance <= alike, fits, (distance[list(group.members)] > alike).all(axis=0))


def _strongest(families: Sequence[str], alike: Any, fits: Sequence[Fit], allowed: Any) -> Consensus | None:
    """Return the strongest neighbourhood (rows of the boolean (K, K) `alike`) among the allowed poses (K,)."""
    rows = [alike[i] & allowed for i in np.flatnonzero(allowed)]
    groups = [tuple(int(i) for i in np.flatnonzero(row)) for row in rows]
    if not groups:
        return None
    members = max(groups, key=lambda g: (witnesses([families[i] for i in g]), max(fits[i].overlap for i in g)))
    largest = max(fits[i].overlap for i in members)
    candidates = [i for i in members if fits[i].overlap >= largest - OVERLAP_TOLERANCE]
    best = min(candidates, key=lambda i: fits[i].trimmed)
    return Consensus(members, witnesses([families[i] for i in members]), best)


def witnesses(families: Iterable[str]) -> int:
    """Count the independent witnesses among agreeing methods: families that search, or 1 if there is none.

    A method that starts at the identity and agrees with one that searches is no further witness: it refines the pose in which
    both began, and its agreement shows a local optimum, which the fit measures already.

    >>> witnesses(["methods.fgr.Fgr", "methods.fgr.Fgr", START]), witnesses([START, START])
    (1, 1)
    """
    return max(len(set(families) - {START}), 1)
