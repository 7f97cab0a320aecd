"""Principal axes: the classical global alignment without features, the baseline of methods that learn on such axes."""

from __future__ import annotations

import numpy as np

from methods.base import Cloud, Method, NoSolution, Pose, rigid
from methods.geometry.principal_axes import candidates

_RANKING_POINTS = 400
"""Source points whose distances to the target rank the alignments."""


class PrincipalAxes(Method):
    """Align centroids and principal axes, in the best of the 24 right-handed ways.

    The best has the smallest mean distance of 400 source points to the target, over the nearest `share` of them. It needs
    complete objects: missing parts rotate the axes.

    Parameters:
        share: share of the source points that rank an alignment, those nearest to the target.
    """

    kind = "global"

    share: float = 0.8

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`.

        Raises:
            NoSolution: fewer than three points, or a coordinate that is not finite.
        """
        clouds = [np.asarray(cloud, dtype=np.float64) for cloud in (source, target)]
        if min(map(len, clouds)) < 3 or not all(np.isfinite(cloud).all() for cloud in clouds):
            raise NoSolution("principal axes need three finite points or more")
        centres = [cloud.mean(axis=0) for cloud in clouds]
        with self.stage("solve"):
            ranked = candidates(clouds[0] - centres[0], clouds[1] - centres[1], self.share, _RANKING_POINTS)
        distance = float(ranked.distances[0])
        self.note(distance=distance, confidence=-distance)
        return rigid(ranked.rotations[0], centres[1] - ranked.rotations[0] @ centres[0])
