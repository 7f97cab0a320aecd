"""Base of the methods that fit poses to sets of matches which keep their distances."""

from __future__ import annotations

from abc import abstractmethod

from methods.core.base import Cloud, LogUniform, Pose
from methods.geometry.compatibility import Hypotheses, best_hypothesis, refined
from methods.geometry.features import FeatureMethod, Points


class CompatibleMatchesMethod(FeatureMethod):
    """Propose poses from compatible matches, choose the one with the best score, and refit it to its inliers.

    Parameters:
        tolerance: maximum residual of an inlier; None: by the kind of the data, .06 for objects.
        limit: maximum number of matches, evenly subsampled (memory grows with the square).
    """

    requires = ("open3d",)
    search = {"tolerance": LogUniform(0.02, 0.2)}

    tolerance: float | None = None
    limit: int = 2000

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        pair, settings = self.prepared(source, target)
        p, q = self.matched_points(pair, settings, self.limit, mutual=False)
        tolerance = self.inlier_distance(self.tolerance, settings)
        with self.stage("solve"):
            T, inliers = refined(best_hypothesis(self.hypotheses(p, q, tolerance), p, q, tolerance), p, q, tolerance)
        self.note(inliers=inliers, confidence=inliers / len(p))
        return pair.to_original(T)

    @abstractmethod
    def hypotheses(self, p: Points, q: Points, tolerance: float) -> Hypotheses:
        """Return poses of matches p to q (K, 3).

        Raises:
            NoSolution: no three matches are compatible.
        """
