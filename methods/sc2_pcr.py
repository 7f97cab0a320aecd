"""SC2-PCR (Chen et al. 2022): poses of matches that are compatible with many of the same other matches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from methods.base import Cloud, LogUniform, Pose
from methods.geometry.compatibility import (
    Floats,
    Hypotheses,
    best_hypothesis,
    leading_eigenvectors,
    length_differences,
    refined,
    strongest,
    weighted_poses,
)
from methods.geometry.features import FeatureMethod, Points


class Sc2Pcr(FeatureMethod):
    """Fit a pose to the matches that are most compatible with each of the best FPFH matches, and choose the best pose.

    The first-order compatibility of two matches is whether the distance between them is equal in both clouds. The second
    order of two compatible matches is the number of matches compatible with both, which separates correct matches better.

    Parameters:
        tolerance: maximum difference of two distances, and the maximum residual of an inlier; None: by the kind of the data,
            .06 for objects.
        seeds: share of the matches around which poses are fitted.
        wide, narrow: matches kept around a seed by the compatibility with all matches, then by that within those kept.
        limit: maximum number of matches, evenly subsampled (memory grows with the square).
    """

    requires = ("open3d",)
    search = {"tolerance": LogUniform(0.02, 0.2), "seeds": (0.05, 0.1, 0.2), "wide": (20, 30, 50)}

    tolerance: float | None = None
    seeds: float = 0.1
    wide: int = 30
    narrow: int = 20
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

    def hypotheses(self, p: Points, q: Points, tolerance: float) -> Hypotheses:
        """Return a pose for each seed of matches p to q (K, 3)."""
        difference = length_differences(p, q)
        hard = (difference < tolerance).astype(np.float32)
        soft = soft_compatibility(difference, tolerance)
        confidence = leading_eigenvectors(soft)
        seeds = best_separated(confidence, p, tolerance, max(3, round(self.seeds * len(p))))
        second = hard[seeds] @ hard
        second *= hard[seeds]
        wide = strongest(second, self.wide)
        narrow = self._narrowed(p[wide], q[wide], wide, tolerance)
        near_p, near_q = p[narrow], q[narrow]
        weights = leading_eigenvectors(soft_compatibility(_local_differences(near_p, near_q), tolerance))
        return weighted_poses(near_p, near_q, weights.astype(np.float64) + 1e-9)

    def _narrowed(self, p: Points, q: Points, rows: NDArray[np.intp], tolerance: float) -> NDArray[np.intp]:
        """Keep the rows (B, narrow) of the matches (B, wide, 3) that agree best with the seed within their set."""
        hard = (_local_differences(p, q) < tolerance).astype(np.float32)
        local = np.matmul(hard[:, :1], hard)[:, 0] * hard[:, 0]
        return np.take_along_axis(rows, strongest(local, self.narrow), axis=1)


def soft_compatibility(difference: Floats, tolerance: float) -> Floats:
    """Return weights that fall from 1 to 0 as the difference of distances grows to the tolerance."""
    weights = difference / np.float32(tolerance)
    weights *= weights
    np.subtract(1, weights, out=weights)
    return np.maximum(weights, 0, out=weights)


def best_separated(scores: Floats, points: Points, distance: float, count: int) -> NDArray[np.intp]:
    """Return the rows of the highest scores (K,), local maxima within the distance first, then others."""
    from scipy.spatial import cKDTree

    near = cKDTree(points).query_pairs(distance, output_type="ndarray")
    lower = np.where(scores[near[:, 0]] < scores[near[:, 1]], near[:, 0], near[:, 1])
    maximum = np.ones(len(scores), dtype=bool)
    maximum[lower] = False
    return np.lexsort((-scores, ~maximum))[:count]


def _local_differences(p: Points, q: Points) -> Floats:
    """Return (B, k, k) the differences of distances within B sets of matches (B, k, 3)."""
    lengths = [
        np.linalg.norm(x[:, :, None] - x[:, None], axis=-1) for x in (p.astype(np.float32), q.astype(np.float32))
    ]
    return np.abs(lengths[0] - lengths[1])
