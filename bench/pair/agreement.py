"""Evaluation of poses without ground truth: overlap, residual and mutual agreement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.evaluation import metrics
from common import specs
from datasets.poses import move

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Fit:
    """Fit of a moved source to the target.

    Attributes:
        share: share of source points with a target point nearby, 0 to 1.
        residual: median distance of these points to the nearest target point; NaN without such points.
    """

    share: float
    residual: float


def fits(poses: Array, source: Array, target: Array, near: float) -> list[Fit]:
    """Compute the fit of poses (K, 4, 4) of source (N, 3) to target (M, 3); `near` is the distance of overlapping points."""
    from scipy.spatial import cKDTree

    tree, results = cKDTree(target), []
    for T in poses:
        distance = np.asarray(tree.query(move(T, source), distance_upper_bound=near)[0])
        inside = distance[np.isfinite(distance)]
        results.append(Fit(len(inside) / len(source), float(np.median(inside)) if len(inside) else float("nan")))
    return results


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
        independent: number of different methods; `a`, `a+b` and `a[x=1]` count as one.
        best: member with the smallest residual among those whose overlap is maximal within `OVERLAP_TOLERANCE`.
    """

    members: tuple[int, ...]
    independent: int
    best: int


def consensus(methods: list[str], distance: Array, fits: list[Fit], alike: float) -> Consensus | None:
    """Return the largest group of poses within the distance `alike` of one of them; None without poses.

    Groups are ranked by the number of different methods, then by median overlap.
    """
    if not methods:
        return None
    groups = [tuple(int(i) for i in np.flatnonzero(row <= alike)) for row in distance]

    def rank(members: tuple[int, ...]) -> tuple[int, float]:
        return independent(methods, members), float(np.median([fits[i].share for i in members]))

    members = max(groups, key=rank)
    largest = max(fits[i].share for i in members)
    best = min((i for i in members if fits[i].share >= largest - OVERLAP_TOLERANCE), key=lambda i: fits[i].residual)
    return Consensus(members, independent(methods, members), best)


def independent(methods: list[str], members: tuple[int, ...]) -> int:
    """Count the different base methods of the members."""
    return len({specs.parse(specs.split_outside(methods[i], "+")[0]).name for i in members})
