"""TEASER++ (Yang, Shi, Carlone 2020), the authors' C++ library."""

from __future__ import annotations

from methods.base import Cloud, LogUniform, Pose
from methods.geometry.features import FeatureMethod
from methods.native import teaser


class Teaser(FeatureMethod):
    """Find the largest clique of consistent FPFH matches, then fit the pose by graduated non-convexity.

    Parameters:
        noise_bound: maximum error of a correct match, a fraction of the pair's scale; None: by the kind of the data,
            .06 for objects.
        clique_seconds: time limit of the exact search for the clique.
        limit: maximum number of matches, evenly subsampled. 2 000 take up to a second and 220 MB, 5 000 up to four
            seconds and 1.4 GB.
    """

    requires = ("open3d",)
    search = {"noise_bound": LogUniform(0.01, 0.15), "limit": (500, 1000, 2000)}
    environment = {"OMP_THREAD_LIMIT": "1"}  # with more threads cliques differ between runs

    noise_bound: float | None = None
    clique_seconds: float = 5.0
    limit: int = 2000

    @classmethod
    def check_available(cls) -> None:
        """Raise `Unavailable` if TEASER++ is not installed and cannot be built."""
        teaser.check()

    def setup(self, device: str, seed: int, domain: str) -> None:
        """Build the library if necessary, so that no pair's time includes it."""
        teaser.prepare()

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        pair, settings = self.prepared(source, target)
        p, q = self.matched_points(pair, settings, self.limit)
        bound = self.inlier_distance(self.noise_bound, settings)
        with self.stage("solve"):
            T, clique = teaser.solve(p, q, bound, self.clique_seconds)
        self.note(clique=clique, confidence=clique / len(p))
        return pair.to_original(T)
