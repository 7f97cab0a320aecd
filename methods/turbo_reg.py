"""TurboReg (Yan et al. 2025): poses of triangles of compatible matches around the strongest pairs of matches."""

from __future__ import annotations

import numpy as np

from methods.base import LogUniform, NoSolution
from methods.geometry.compatibility import (
    Hypotheses,
    length_differences,
    second_order,
    strongest,
    weighted_poses,
)
from methods.geometry.compatible_matches import CompatibleMatchesMethod
from methods.geometry.features import Points


class TurboReg(CompatibleMatchesMethod):
    """Complete the most compatible pairs of FPFH matches to triangles, and choose the pose of the triangle with the best score.

    Two matches are connected if the distance between them is equal in both clouds, with the number of matches connected
    to both as the weight. The pairs of the highest weight are pivots; each is completed by the matches with the highest
    weights to its two ends.

    Parameters:
        strictness: maximum difference of two distances of connected matches, relative to the tolerance.
        pivots: number of pairs that are completed.
        triangles: triangles of each pivot.
    """

    search = {"strictness": LogUniform(0.2, 1.0), "pivots": (500, 1000, 2000)}

    strictness: float = 0.5
    pivots: int = 1000
    triangles: int = 2

    def hypotheses(self, p: Points, q: Points, tolerance: float) -> Hypotheses:
        """Return the poses of the triangles of matches p to q (K, 3).

        Raises:
            NoSolution: no three matches are connected.
        """
        weights = second_order(length_differences(p, q) < self.strictness * tolerance)
        pairs = np.flatnonzero(np.triu(weights, 1))
        values = weights.ravel()[pairs]
        if len(pairs) > self.pivots:
            pairs = pairs[np.argpartition(-values, self.pivots - 1)[: self.pivots]]
        first, second = np.divmod(np.sort(pairs), len(p))
        both = weights[first] + weights[second]
        both[(weights[first] == 0) | (weights[second] == 0)] = 0
        if not both.any():
            raise NoSolution("no three matches keep their distances")
        third = strongest(both, self.triangles)
        corners = np.stack(np.broadcast_arrays(first[:, None], second[:, None], third), axis=-1)
        corners = corners[np.take_along_axis(both, third, axis=1) > 0]
        return weighted_poses(p[corners], q[corners], np.ones(corners.shape))
