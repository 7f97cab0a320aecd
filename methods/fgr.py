"""Fast Global Registration (Zhou 2016), Open3D's implementation."""

from __future__ import annotations

from methods.base import Cloud, LogUniform, NoSolution, Pose
from methods.geometry.features import FeatureMethod, unit_pair
from methods.geometry.open3d_bridge import open3d, pairs, point_cloud


class Fgr(FeatureMethod):
    """One smooth robust objective over FPFH matches that pass a test of edge lengths, made sharper step by step.

    Parameters:
        distance: the residual at which the sharpening stops, a fraction of the pair's scale.
        iterations: steps of the solver.
        tuple_scale: the least ratio of the edges of a matched triple.
        tuples: the most matched triples drawn.
    """

    random = True
    requires = ("open3d",)
    search = {
        "distance": LogUniform(0.01, 0.2),
        "iterations": (32, 64, 128),
        "tuple_scale": (0.8, 0.9, 0.95, 0.98),
        "tuples": (300, 1000, 3000),
    }

    distance: float = 0.05
    iterations: int = 64
    tuple_scale: float = 0.95
    tuples: int = 1000

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        pair = unit_pair(source, target)
        matches = self.matches(pair)
        o3d = open3d()
        with self.stage("solve"):
            o3d.utility.random.seed(self.seed)
            result = o3d.pipelines.registration.registration_fgr_based_on_correspondence(
                point_cloud(pair.source), point_cloud(pair.target), pairs(matches), self.option()
            )
        self.note(confidence=result.fitness, inlier_rmse=result.inlier_rmse)
        if result.fitness == 0:
            raise NoSolution("no match agrees with the pose found")
        return pair.to_original(result.transformation)

    def option(self) -> object:
        """Open3D's options. Without `decrease_mu` it never sharpens, and the distance would do nothing."""
        return open3d().pipelines.registration.FastGlobalRegistrationOption(
            use_absolute_scale=True,
            decrease_mu=True,
            maximum_correspondence_distance=self.distance,
            iteration_number=self.iterations,
            tuple_scale=self.tuple_scale,
            maximum_tuple_count=self.tuples,
        )
