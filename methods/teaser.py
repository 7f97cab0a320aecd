"""TEASER++ (Yang, Shi, Carlone 2020), the authors' C++ library."""

from __future__ import annotations

from methods.base import Cloud, LogUniform, Pose
from methods.geometry.features import FeatureMethod
from methods.native import teaser
from methods.native.clique import largest_clique


class Teaser(FeatureMethod):
    """Find the largest clique of consistent FPFH matches, then fit the pose by graduated non-convexity.

    A kernel of ours finds the clique, as large as that of the library's search in a fraction of its time; without a compiler
    the library does.

    Parameters:
        noise_bound: maximum error of a correct match, a fraction of the pair's scale; None: by the kind of the data,
            .06 for objects.
        clique_seconds: time limit of the exact search for the clique.
        limit: maximum number of matches, evenly subsampled (memory grows with the square).
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
        super().setup(device, seed, domain)

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        pair, settings = self.prepared(source, target)
        p, q = self.matched_points(pair, settings, self.limit)
        bound = self.inlier_distance(self.noise_bound, settings)
        with self.stage("solve"):
            rows = largest_clique(p, q, 2 * bound, self.clique_seconds)
            kept = (p, q) if rows is None else (p[rows], q[rows])
            T, clique = teaser.solve(*kept, bound, self.clique_seconds)
        self.note(clique=clique, confidence=clique / len(p))
        return pair.to_original(T)
