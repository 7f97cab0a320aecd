"""TurboReg (Yan et al. 2025): poses of triangles of compatible matches around the strongest pairs of matches."""

from __future__ import annotations

import numpy as np

from methods.base import Cloud, LogUniform, NoSolution, Pose
from methods.geometry.compatibility import (
    Hypotheses,
    best_hypothesis,
    length_differences,
    refined,
    second_order,
    strongest,
    weighted_poses,
)
from methods.geometry.features import FeatureMethod, Points


class TurboReg(FeatureMethod):
    """Complete the most compatible pairs of FPFH matches to triangles, and choose the pose of the triangle with the best score.

    Two matches are connected if the distance between them is equal in both clouds, with the number of matches connected
    to both as the weight. The pairs of the highest weight are pivots; each is completed by the matches with the highest
    weights to its two ends.

    Parameters:
        tolerance: maximum residual of an inlier; None: by the kind of the data, .06 for objects.
        strictness: maximum difference of two distances of connected matches, relative to the tolerance.
        pivots: number of pairs that are completed.
        triangles: triangles of each pivot.
        limit: maximum number of matches, evenly subsampled (memory grows with the square).
    """

    requires = ("open3d",)
    search = {"tolerance": LogUniform(0.02, 0.2), "strictness": LogUniform(0.2, 1.0), "pivots": (500, 1000, 2000)}

    tolerance: float | None = None
    strictness: float = 0.5
    pivots: int = 1000
    triangles: int = 2
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
        """Return the poses of the triangles of matches p to q (K, 3), whose sides differ by less than a difference.

        Raises:
            NoSolution: no three matches are connected.
        """
        weights = second_order(length_differences(p, q) < difference)
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
