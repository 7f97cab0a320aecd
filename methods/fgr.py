"""Fast Global Registration (Zhou 2016) over FPFH matches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from common.kinds import DataKind
from methods.base import Cloud, LogUniform, NoSolution, Pose, rigid
from methods.geometry.compatibility import weighted_poses
from methods.geometry.features import FeatureMethod, Points

TUPLE_SCALE = {DataKind.OBJECTS: 0.85, DataKind.SCANS: 0.9, DataKind.RANGE_IMAGES: 0.9}
"""Kind of the data to the minimum ratio of edges unless given. That of partial scans is the paper's. That of objects was chosen
by recall on training problems: .48 (.95), .56 (.9), .61 (.85), .61 (.8), each by
`python -m performance.search_views modelnet40 resampled 512 axis_angle 120 "fgr[tuple_scale=0.85]" train`."""
DIVISION = 1.4
"""Factor by which the kernel's width falls in an iteration."""
DRAWS = 10
"""Triples per match that are drawn together, so many times at most."""


class Fgr(FeatureMethod):
    """Minimise a robust objective over FPFH matches that pass an edge-length test, by graduated non-convexity.

    Parameters:
        distance: maximum error of a correct match, where the graduation stops, a fraction of the pair's scale; None: by the
            kind of the data, .05 for objects.
        iterations: steps of the solver.
        tuple_scale: minimum ratio of the edges of a matched triple; None: .85 for objects, .9 for partial scans.
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
    tuple_scale: float | None = None
    tuples: int = 1000

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        pair, settings = self.prepared(source, target)
        matches = self.matches(pair, settings)
        p, q = pair.source[matches[:, 0]], pair.target[matches[:, 1]]
        distance, scale = self.inlier_distance(self.distance, settings), self.tuple_scale or TUPLE_SCALE[self.data_kind]
        with self.stage("solve"):
            counts = np.bincount(alike_triples(p, q, scale, self.tuples, self.rng).ravel(), minlength=len(p))
            if not counts.any():
                raise NoSolution("no triple of matches has edges of equal lengths")
            T = graduated_pose(p, q, counts, distance, self.iterations)
        inliers = int((np.linalg.norm(p @ T[:3, :3].T + T[:3, 3] - q, axis=1) < distance).sum())
        self.note(inliers=inliers, confidence=inliers / len(p))
        if not inliers:
            raise NoSolution("no match agrees with the pose")
        return pair.to_original(T)


def alike_triples(p: Points, q: Points, ratio: float, most: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return random triples (3, B) of matches p to q (K, 3) whose edges have about the same lengths in both clouds.

    At most `most`, from at most 100 K draws.

    Args:
        p: source points.
        q: their matches in the target.
        ratio: minimum ratio of each edge of a triple to the matched edge, and vice versa.
        most: number of triples.
        rng: random generator.
    """
    kept: list[NDArray[np.intp]] = []
    while len(kept) < DRAWS and sum(part.shape[1] for part in kept) < most:
        triples = rng.integers(len(p), size=(3, DRAWS * len(p)), dtype=np.intp)
        for a, b in ((0, 1), (1, 2), (2, 0)):
            i, j = triples[a], triples[b]
            x, y = (np.einsum("ij,ij->i", edge, edge) for edge in (p[i] - p[j], q[i] - q[j]))
            triples = triples[:, (ratio**2 * x < y) & (ratio**2 * y < x)]
        kept.append(triples)
    return np.concatenate(kept, axis=1)[:, :most]


def graduated_pose(p: Points, q: Points, counts: NDArray[np.integer], distance: float, iterations: int) -> Pose:
    """Minimise the sum of Geman-McClure's function of residuals, whose width falls from 1 to the distance.

    Args:
        p: source points (K, 3) at unit scale.
        q: their matches in the target (K, 3).
        counts: weights (K,) of the matches.
        distance: final width.
        iterations: steps; each solves for the pose with weights that are fixed by the residuals.
    """
    used = np.flatnonzero(counts)
    p, q, counts = p[used], q[used], counts[used]
    R, t, square = np.eye(3), np.zeros(3), 1.0
    for _ in range(iterations):
        residuals = p @ R.T + t - q
        weights = counts * (square / (square + np.einsum("ij,ij->i", residuals, residuals))) ** 2
        (R,), (t,) = weighted_poses(p[None], q[None], weights[None])
        square = max(square / DIVISION, distance**2)
    return rigid(R, t)
