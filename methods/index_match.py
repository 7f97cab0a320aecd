"""Control: match points of the same index."""

from __future__ import annotations

import numpy as np

from methods.base import Cloud, Method, Pose, rigid
from methods.geometry.features import unit_pair


class IndexMatch(Method):
    """Fit the least-squares pose of source[i] to target[i]: a control that reveals correspondence leaked by point order.

    On shuffled clouds it must be no better than a random pose; on unshuffled ones it is exact. If the sizes differ,
    the last points of the longer cloud are omitted.
    """

    kind = "control"

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        from scipy.spatial.transform import Rotation

        n = min(len(source), len(target))
        pair = unit_pair(source[:n], target[:n])
        rotation, _ = Rotation.align_vectors(pair.target, pair.source)
        return pair.to_original(rigid(rotation.as_matrix(), np.zeros(3)))
