"""What can be said of poses when the truth is not known: how much they overlap, and which of them agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.evaluation import metrics
from common import specs

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Fit:
    """How a moved source lies on the target.

    Attributes:
        share: of the source's points that have a target point near, 0 to 1.
        residual: median distance of those to their nearest target point; NaN if there are none.
    """

    share: float
    residual: float


def fits(poses: Array, source: Array, target: Array, near: float) -> list[Fit]:
    """The fit of each pose (K, 4, 4): source (N, 3) into target (M, 3); `near` is a distance."""
    from scipy.spatial import cKDTree

    tree, found = cKDTree(target), []
    for T in poses:
        distance = np.asarray(tree.query(source @ T[:3, :3].T + T[:3, 3], distance_upper_bound=near)[0])
        inside = distance[np.isfinite(distance)]
        found.append(Fit(len(inside) / len(source), float(np.median(inside)) if len(inside) else float("nan")))
    return found


@dataclass(frozen=True, eq=False)
class Agreement:
    """Differences of every two of K poses, each (K, K): angle in degrees, how far apart they put the source's centroid, and
    the root mean square distance between where they put the source's points.
    """

    angle_deg: Array
    shift: Array
    distance: Array


def agreement(poses: Array, source: Array) -> Agreement:
    """Compare poses (K, 4, 4) on the source's points (N, 3)."""
    first, second = poses[:, None], poses[None]
    centre = source.mean(axis=0)
    centres = poses[:, :3, :3] @ centre + poses[:, :3, 3]
    shift = np.linalg.norm(centres[:, None] - centres[None], axis=-1)
    distance = metrics.rmse(first, second, source) if len(poses) else np.zeros((0, 0))
    return Agreement(metrics.rre_deg(first, second), shift, np.asarray(distance))


ALIKE_SHARE = 0.01
"""Overlaps that differ by less say nothing: a few points at the edge of what counts as near."""


@dataclass(frozen=True)
class Consensus:
    """The poses that agree with one another.

    Attributes:
        members: their indices.
        independent: how many different methods are among them; `a`, `a+b` and `a[x=1]` count as one.
        best: the member with the smallest residual of those that overlap most, to within `ALIKE_SHARE`.
    """

    members: tuple[int, ...]
    independent: int
    best: int


def consensus(methods: list[str], distance: Array, found: list[Fit], alike: float) -> Consensus | None:
    """The largest group of poses around one of them, all within `alike` of it; None if there is no pose.

    Size is the number of different methods, then their overlap.
    """
    if not methods:
        return None
    groups = [tuple(int(i) for i in np.flatnonzero(row <= alike)) for row in distance]

    def rank(members: tuple[int, ...]) -> tuple[int, float]:
        return independent(methods, members), float(np.median([found[i].share for i in members]))

    members = max(groups, key=rank)
    most = max(found[i].share for i in members)
    best = min((i for i in members if found[i].share >= most - ALIKE_SHARE), key=lambda i: found[i].residual)
    return Consensus(members, independent(methods, members), best)


def independent(methods: list[str], members: tuple[int, ...]) -> int:
    """How many methods of different name start the given ones."""
    return len({specs.parse(specs.split_outside(methods[i], "+")[0]).name for i in members})
