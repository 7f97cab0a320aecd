"""Coherent point drift (Myronenko and Song 2010), rigid, by the library pycpd."""

from __future__ import annotations

import numpy as np

from common.errors import InputError
from methods.base import Cloud, Method, Pose, rigid
from methods.geometry.features import nearest_rotation, require_positive, unit_pair


class Cpd(Method):
    """Align a Gaussian mixture, whose means are the source's points, rigidly to the target by EM with decreasing variance.

    Parameters:
        outliers: share of points that belong to no Gaussian.
        iterations: maximum iterations.
        tolerance: stop when the objective changes by less than this.
        limit: maximum points per cloud, evenly subsampled, since time and memory grow with the product of the sizes.
    """

    kind = "local"
    local = True
    requires = ("pycpd",)

    outliers: float = 0.1
    iterations: int = 60
    tolerance: float = 1e-5
    limit: int = 500

    def __post_init__(self) -> None:
        require_positive(self, "outliers")
        if not 0 <= self.outliers < 1:
            raise InputError(f"cpd[outliers={self.outliers}]: not a share; give one from 0 to below 1")

    def register(self, source: Cloud, target: Cloud, init: Pose | None = None) -> Pose:
        """Refine `init` (4, 4), by default the identity."""
        from pycpd import RigidRegistration

        pair = unit_pair(source, target)
        T = pair.to_unit(np.eye(4) if init is None else init)
        p, q = (c[np.linspace(0, len(c) - 1, min(len(c), self.limit)).astype(int)] for c in (pair.source, pair.target))
        moved = p @ T[:3, :3].T + T[:3, 3]
        drift = RigidRegistration(
            X=q, Y=moved, scale=False, w=self.outliers, max_iterations=self.iterations, tolerance=self.tolerance
        )
        with self.stage("refine"):
            drift.register()
        self.note(iterations=int(drift.iteration), confidence=float(np.asarray(drift.P).sum() / len(q)))
        return pair.to_original(rigid(nearest_rotation(np.asarray(drift.R).T), np.asarray(drift.t).ravel()) @ T)
