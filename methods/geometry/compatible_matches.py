"""Base of the methods that fit poses to sets of matches which keep their distances."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from common.kinds import DataKind
from methods.core.base import Cloud, LogUniform, Pose
from methods.geometry.compatibility import Hypotheses, best_hypothesis, refined
from methods.geometry.features import FEATURES, FeatureMethod, Points, UnitPair
from methods.geometry.settings import FeatureSettings
from methods.geometry.verification import best_verified

if TYPE_CHECKING:
    from methods.geometry.learned_matches import Described


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
    known_features = (*FEATURES, "both")

    tolerance: float | None = None
    limit: int = 2000

    @property
    def verifies(self) -> bool:
        """Whether poses are compared by the descriptors of all points."""
        return self.learned and self.data_kind != DataKind.OBJECTS

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        pair, settings = self.prepared(source, target)
        described = self.described(pair) if self.verifies else None
        p, q = self._matched(pair, settings, described)
        tolerance = self.inlier_distance(self.tolerance, settings)
        with self.stage("solve"):
            poses = self.hypotheses(p, q, tolerance)
            if described is None:
                T, inliers = refined(best_hypothesis(poses, p, q, tolerance), p, q, tolerance)
            else:
                T, inliers = best_verified(poses, p, q, tolerance, *described)
        self.note(inliers=inliers, confidence=inliers / len(p))
        return pair.to_original(T)

    def _matched(
        self, pair: UnitPair, settings: FeatureSettings, described: tuple[Described, Described] | None
    ) -> tuple[Points, Points]:
        """Return the matched points (K, 3); with both features, the mutual matches of FPFH follow those of the descriptor."""
        p, q = self.matched_points(pair, settings, self.limit, mutual=False, described=described)
        if self.features != "both":
            return p, q
        thin = self.thinned(pair, settings.voxel)
        rows = self.fpfh_matches(thin, settings, mutual=True)
        self.note(matches=len(p) + len(rows))
        return np.concatenate([p, thin.source[rows[:, 0]]]), np.concatenate([q, thin.target[rows[:, 1]]])

    @abstractmethod
    def hypotheses(self, p: Points, q: Points, tolerance: float) -> Hypotheses:
        """Return poses of matches p to q (K, 3).

        Raises:
            NoSolution: no three matches are compatible.
        """
