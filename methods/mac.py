"""MAC (Zhang et al. 2023): poses of maximal cliques of compatible matches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from methods.base import LogUniform, NoSolution
from methods.geometry.compatibility import (
    Floats,
    Hypotheses,
    length_differences,
    second_order,
    weighted_poses,
)
from methods.geometry.compatible_matches import CompatibleMatchesMethod
from methods.geometry.features import Points


class Mac(CompatibleMatchesMethod):
    """Fit a pose to a maximal clique of compatible FPFH matches around each of the best matches, and choose the best pose.

    The paper enumerates all maximal cliques and keeps, for each match, the heaviest that contains it. Here a clique is
    grown from the match: the one with the highest weights to all members joins, until none is compatible with all. It is
    maximal, but not always the heaviest.

    Parameters:
        strictness: maximum difference of two distances of compatible matches, relative to the tolerance.
        cliques: number of matches around which a clique is grown.
        largest: number of matches at which a clique grows no further: a pose gains little from more.
    """

    search = {"strictness": LogUniform(0.2, 1.0), "cliques": (100, 200, 400)}

    strictness: float = 0.5
    cliques: int = 200
    largest: int = 100

    def hypotheses(self, p: Points, q: Points, tolerance: float) -> Hypotheses:
        """Return the poses of cliques of matches p to q (K, 3).

        Raises:
            NoSolution: no clique has 3 matches.
        """
        weights = second_order(length_differences(p, q) < self.strictness * tolerance)
        strength = weights.sum(axis=1)
        starts = np.argsort(-strength, kind="stable")[: self.cliques]
        members = np.unique(grown_cliques(weights, starts, self.largest), axis=0)
        members = members[members.sum(axis=1) >= 3]
        if not len(members):
            raise NoSolution("no three matches keep their distances")
        shape = (*members.shape, 3)
        return weighted_poses(np.broadcast_to(p, shape), np.broadcast_to(q, shape), members * strength)


def grown_cliques(weights: Floats, starts: NDArray[np.intp], largest: int) -> NDArray[np.bool_]:
    """Return the members (B, K) of a clique around each of B starts, which is maximal or has the largest size.

    Args:
        weights: (K, K), symmetric; 0 between matches that are not connected, and on the diagonal.
        starts: rows of the matches that the cliques contain.
        largest: number of members at which a clique grows no further.
    """
    members = np.zeros((len(starts), len(weights)), dtype=bool)
    members[np.arange(len(starts)), starts] = True
    sums = weights[starts]  # of the weights to all members; 0 where one is not connected
    active = np.arange(len(starts))
    for _ in range(largest - 1):
        if not len(active):
            break
        best = sums.argmax(axis=1)
        grows = sums[np.arange(len(active)), best] > 0
        active, sums, best = active[grows], sums[grows], best[grows]
        members[active, best] = True
        joined = weights[best]
        sums = np.where((sums > 0) & (joined > 0), sums + joined, 0)
    return members
