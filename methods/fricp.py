"""Fast and robust ICP (Zhang, Yao, Deng 2022), by the authors' code in the package fricp-cpp."""

from __future__ import annotations

import numpy as np

from methods.base import Cloud, Method, Pose
from methods.geometry.features import unit_pair


class Fricp(Method):
    """Align by point-to-point ICP under Welsch's function of decreasing width, with Anderson acceleration."""

    kind = "local"
    local = True
    requires = ("fricp_cpp",)
    environment = {"OMP_NUM_THREADS": "1"}

    def register(self, source: Cloud, target: Cloud, init: Pose | None = None) -> Pose:
        """Refine `init` (4, 4), by default the identity."""
        import fricp_cpp

        pair = unit_pair(source, target)
        native = fricp_cpp.native
        with self.stage("refine"):
            result = native.register_(
                np.ascontiguousarray(pair.source),
                np.ascontiguousarray(pair.target),
                native.Method.RICP,
                init=pair.to_unit(np.eye(4) if init is None else init),
            )
        return pair.to_original(np.asarray(result.transformation))
