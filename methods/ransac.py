"""RANSAC over FPFH matches (Fischler 1981; Rusu 2009), Open3D's implementation."""

from __future__ import annotations

import numpy as np

from methods._features import FeatureMethod, unit_pair
from methods._open3d import open3d, pairs, point_cloud
from methods.base import Cloud, NoSolution, Pose


class Ransac(FeatureMethod):
    """Poses of random triples of mutual matches; the one with the most inliers wins.

    Confidence is 1: every iteration is done, never stopped early by a good enough pose. Otherwise 10 000 and
    10 000 000 iterations would be the same method wherever a few hundred suffice.

    Parameters:
        iterations: triples drawn.
        distance: a match is an inlier within this distance, a fraction of the pair's scale.
        edge_ratio: the least ratio of the edges of a triple, checked before its pose is computed.
    """

    random = True
    requires = ("open3d",)
    variants = {"ransac10k": {"iterations": 10_000}, "ransac10m": {"iterations": 10_000_000}}

    iterations: int = 10_000
    distance: float = 0.05
    edge_ratio: float = 0.9

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        pair = unit_pair(source, target)
        matches = self.matches(pair)
        reg = open3d().pipelines.registration
        # only the matched points: Open3D copies the whole source for every pose it scores
        ends = point_cloud(pair.source[matches[:, 0]]), point_cloud(pair.target[matches[:, 1]])
        checkers = [
            reg.CorrespondenceCheckerBasedOnEdgeLength(self.edge_ratio),
            reg.CorrespondenceCheckerBasedOnDistance(self.distance),
        ]
        with self.stage("solve"):
            open3d().utility.random.seed(self.seed)
            result = reg.registration_ransac_based_on_correspondence(
                *ends,
                pairs(np.repeat(np.arange(len(matches))[:, None], 2, axis=1)),
                self.distance,
                reg.TransformationEstimationPointToPoint(False),
                3,
                checkers,
                reg.RANSACConvergenceCriteria(self.iterations, 1.0),
            )
        self.note(iterations=self.iterations, fitness=result.fitness, inlier_rmse=result.inlier_rmse)
        if result.fitness == 0:
            raise NoSolution(f"none of {self.iterations} triples gave a pose with an inlier")
        return pair.answer(result.transformation)
