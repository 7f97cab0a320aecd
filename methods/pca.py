"""Principal axes: the classical global alignment without features, and what anything learned on such axes has to beat."""

from __future__ import annotations

import numpy as np

from methods.base import Cloud, Method, NoSolution, Pose, rigid
from methods.geometry.principal_axes import candidates

_CHECKED = 400


class PrincipalAxes(Method):
    """Centroid onto centroid and principal axes onto principal axes, in the best of the 24 right-handed ways.

    The way is taken that leaves the nearest `share` of 400 source points nearest to the target, on average. Needs complete
    objects: what is missing turns the axes.
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
            found = candidates(clouds[0] - centres[0], clouds[1] - centres[1], self.share, _CHECKED)
        left = float(found.distances[0])
        self.note(distance=left, confidence=-left)
        return rigid(found.rotations[0], centres[1] - found.rotations[0] @ centres[0])
