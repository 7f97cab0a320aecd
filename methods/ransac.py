"""RANSAC over FPFH matches (Fischler 1981; Rusu 2009)."""

from __future__ import annotations

from methods.base import Cloud, LogUniform, Pose
from methods.geometry.features import FeatureMethod
from methods.geometry.ransac import ransac


class Ransac(FeatureMethod):
    """Choose the pose with the most inliers among those of random triples of mutual FPFH matches, and fit it to them.

    Every iteration is run, without early termination. Otherwise 10 000 and 10 000 000 iterations would be the same method
    wherever a few hundred suffice.

    Parameters:
        iterations: number of triples.
        distance: a match is an inlier within this distance, a fraction of the pair's scale; None: by the kind of the
            data, .07 for objects.
        edge_ratio: minimum ratio of the edges of a triple, checked before its pose is computed.
        limit: maximum number of matches, evenly subsampled (memory grows with the square).
    """

    random = True
    requires = ("open3d",)
    search = {"distance": LogUniform(0.02, 0.2), "edge_ratio": (0.7, 0.8, 0.9, 0.95)}
    variants = {"ransac10k": {"iterations": 10_000}, "ransac10m": {"iterations": 10_000_000}}

    object_distance = 0.07

    iterations: int = 10_000
    distance: float | None = None
    edge_ratio: float = 0.9
    limit: int = 4000

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        pair, settings = self.prepared(source, target)
        p, q = self.matched_points(pair, settings, self.limit)
        distance = self.inlier_distance(self.distance, settings)
        with self.stage("solve"):
            T, inliers = ransac(p, q, self.iterations, distance, self.edge_ratio, self.rng)
        self.note(iterations=self.iterations, inliers=inliers, confidence=inliers / len(p))
        return pair.to_original(T)
