"""Base of the methods that fit poses to sets of matches which keep their distances."""

from __future__ import annotations

from abc import abstractmethod

from common.kinds import DataKind
from methods.core.base import Cloud, LogUniform, Pose
from methods.geometry.compatibility import Hypotheses, best_hypothesis, refined
from methods.geometry.features import FeatureMethod, Points
from methods.geometry.verification import best_verified


class CompatibleMatchesMethod(FeatureMethod):
    """Propose poses from compatible matches, choose the one with the best score, and refit it to its inliers.

    With learned features of partial scans, the score of a pose also depends on the descriptors of all points
    (`methods.geometry.verification`).

    Parameters:
        tolerance: maximum residual of an inlier; None: by the kind of the data, .06 for objects.
        limit: maximum number of matches, evenly subsampled (memory grows with the square).
    """

    requires = ("open3d",)
    search = {"tolerance": LogUniform(0.02, 0.2)}

    tolerance: float | None = None
    limit: int = 2000

    @property
    def verifies(self) -> bool:
        """Whether poses are compared by the descriptors of all points."""
        return self.features == "learned" and self.data_kind != DataKind.OBJECTS

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        pair, settings = self.prepared(source, target)
        described = self.described(pair) if self.verifies else None
        p, q = self.matched_points(pair, settings, self.limit, mutual=False, described=described)
        tolerance = self.inlier_distance(self.tolerance, settings)
        with self.stage("solve"):
            poses = self.hypotheses(p, q, tolerance)
            if described is None:
                T, inliers = refined(best_hypothesis(poses, p, q, tolerance), p, q, tolerance)
            else:
                T, inliers = best_verified(poses, p, q, tolerance, *described)
        self.note(inliers=inliers, confidence=inliers / len(p))
        return pair.to_original(T)

    @abstractmethod
    def hypotheses(self, p: Points, q: Points, tolerance: float) -> Hypotheses:
        """Return poses of matches p to q (K, 3).

        Raises:
            NoSolution: no three matches are compatible.
        """
