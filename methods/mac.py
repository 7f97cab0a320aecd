"""MAC (Zhang et al. 2023): poses of maximal cliques of compatible matches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from methods.base import Cloud, LogUniform, NoSolution, Pose
from methods.geometry.compatibility import (
    Floats,
    Hypotheses,
    best_hypothesis,
    length_differences,
    refined,
    second_order,
    weighted_poses,
)
from methods.geometry.features import FeatureMethod, Points


class Mac(FeatureMethod):
    """Fit a pose to a maximal clique of compatible FPFH matches around each of the best matches, and choose the best pose.

    The paper enumerates all maximal cliques and keeps, for each match, the heaviest that contains it. Here a clique is
    grown from the match: the one with the highest weights to all members joins, until none is compatible with all. It is
    maximal, but not always the heaviest.

    Parameters:
        tolerance: maximum residual of an inlier; None: by the kind of the data, .06 for objects.
        strictness: maximum difference of two distances of compatible matches, relative to the tolerance.
        cliques: number of matches around which a clique is grown.
        limit: maximum number of matches, evenly subsampled (memory grows with the square).
    """

    requires = ("open3d",)
    search = {"tolerance": LogUniform(0.02, 0.2), "strictness": LogUniform(0.2, 1.0), "cliques": (100, 200, 400)}

    tolerance: float | None = None
    strictness: float = 0.5
    cliques: int = 200
    limit: int = 2000

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        pair, settings = self.prepared(source, target)
        p, q = self.matched_points(pair, settings, self.limit, mutual=False)
        tolerance = self.inlier_distance(self.tolerance, settings)
        with self.stage("solve"):
            poses = self.hypotheses(p, q, self.strictness * tolerance)
            T, inliers = refined(best_hypothesis(poses, p, q, tolerance), p, q, tolerance)
        self.note(inliers=inliers, confidence=inliers / len(p))
        return pair.to_original(T)

    def hypotheses(self, p: Points, q: Points, difference: float) -> Hypotheses:
        """Return the poses of cliques of matches p to q (K, 3), whose distances differ by less than a difference.

        Raises:
            NoSolution: no clique has 3 matches.
        """
        weights = second_order(length_differences(p, q) < difference)
        strength = weights.sum(axis=1)
        starts = np.argsort(-strength, kind="stable")[: self.cliques]
        members = np.unique(grown_cliques(weights, starts), axis=0)
        members = members[members.sum(axis=1) >= 3]
        if not len(members):
            raise NoSolution("no three matches keep their distances")
        shape = (*members.shape, 3)
        return weighted_poses(np.broadcast_to(p, shape), np.broadcast_to(q, shape), members * strength)


def grown_cliques(weights: Floats, starts: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return the members (B, K) of a maximal clique around each of B starts.

    Args:
        weights: (K, K), symmetric; 0 between matches that are not connected, and on the diagonal.
        starts: rows of the matches that the cliques contain.
    """
    members = np.zeros((len(starts), len(weights)), dtype=bool)
    members[np.arange(len(starts)), starts] = True
    sums = weights[starts]  # of the weights to all members; 0 where one is not connected
    active = np.arange(len(starts))
    while len(active):
        best = sums.argmax(axis=1)
        grows = sums[np.arange(len(active)), best] > 0
        active, sums, best = active[grows], sums[grows], best[grows]
        members[active, best] = True
        joined = weights[best]
        sums = np.where((sums > 0) & (joined > 0), sums + joined, 0)
    return members
