"""Methods that do as they should, for tests."""

import time

import numpy as np

from methods.base import Method, rigid


class Good(Method):
    """Match centroids; the rotation that maps principal axes, one of four."""

    def register(self, source, target):
        with self.stage("solve"):
            time.sleep(0.001)
            (cs, us), (ct, ut) = (_axes(c) for c in (source, target))
            R = ut @ us.T
            self.note(confidence=0.5)
            return rigid(R, ct - R @ cs)


def _axes(cloud):
    centre = cloud.mean(0, dtype=np.float64)
    axes = np.linalg.svd(np.cov((cloud - centre).T))[0]
    skew = ((cloud - centre) @ axes) ** 3
    axes = axes * np.where(skew.sum(0) < 0, -1, 1)
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    return centre, axes
