"""Control: points of the same index are taken for matches."""

from __future__ import annotations

import numpy as np

from methods.base import Cloud, Method, Pose, rigid
from methods.geometry.features import unit_pair


class IndexMatch(Method):
    """The least-squares pose of source[i] onto target[i]. It shows a leak of the correspondence through the point order.

    On shuffled clouds it must do no better than a random pose; on unshuffled ones it is exact. Where the sizes differ,
    the longer cloud's last points are left out.
    """

    kind = "control"

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        from scipy.spatial.transform import Rotation

        n = min(len(source), len(target))
        pair = unit_pair(source[:n], target[:n])
        rotation, _ = Rotation.align_vectors(pair.target, pair.source)
        return pair.to_original(rigid(rotation.as_matrix(), np.zeros(3)))
