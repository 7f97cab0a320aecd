"""Fast Global Registration (Zhou 2016), Open3D's implementation."""

from __future__ import annotations

from methods.base import Cloud, LogUniform, NoSolution, Pose
from methods.geometry.features import FeatureMethod
from methods.geometry.open3d_bridge import open3d, pairs, point_cloud


class Fgr(FeatureMethod):
    """Minimise a robust objective over FPFH matches that pass an edge-length test, by graduated non-convexity.

    Parameters:
        distance: the residual at which the graduation stops, a fraction of the pair's scale; None: by the kind of the data,
            .05 for objects.
        iterations: steps of the solver.
        tuple_scale: minimum ratio of the edges of a matched triple.
        tuples: maximum number of matched triples.
    """

    random = True
    requires = ("open3d",)
    search = {
        "distance": LogUniform(0.01, 0.2),
        "iterations": (32, 64, 128),
        "tuple_scale": (0.8, 0.9, 0.95, 0.98),
        "tuples": (300, 1000, 3000),
    }

    object_distance = 0.05

    distance: float | None = None
    iterations: int = 64
    tuple_scale: float = 0.95
    tuples: int = 1000

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        pair, settings = self.prepared(source, target)
        matches = self.matches(pair, settings)
        option = self.option(self.inlier_distance(self.distance, settings))
        o3d = open3d()
        with self.stage("solve"):
            o3d.utility.random.seed(self.seed)
            result = o3d.pipelines.registration.registration_fgr_based_on_correspondence(
                point_cloud(pair.source),
                point_cloud(pair.target),
                pairs(matches),
                option,
            )
        self.note(confidence=result.fitness, inlier_rmse=result.inlier_rmse)
        if result.fitness == 0:
            raise NoSolution("no match agrees with the pose")
        return pair.to_original(result.transformation)

    def option(self, distance: float) -> object:
        """Return Open3D's options; without `decrease_mu` the objective is never graduated and the distance has no effect."""
        return open3d().pipelines.registration.FastGlobalRegistrationOption(
            use_absolute_scale=True,
            decrease_mu=True,
            maximum_correspondence_distance=distance,
            iteration_number=self.iterations,
            tuple_scale=self.tuple_scale,
            maximum_tuple_count=self.tuples,
        )
