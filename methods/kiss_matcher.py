"""KISS-Matcher (Lim et al. 2025), the authors' library: Faster-PFH, k-core pruning and graduated non-convexity."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from methods.base import Cloud, Method, NoSolution, Pose, rigid
from methods.geometry.features import Points, nearest_rotation, require_positive, unit_pair

_LEAST_CELLS = 30
"""Minimum number of occupied voxels that the library supports."""
_QUICK_CHECK_POINTS = 250
"""Points that nearly always suffice to see that a cloud occupies so many voxels."""
_WARM_UP_POINTS = 2000
"""Points of the clouds of the first call."""


class KissMatcher(Method):
    """Register globally by Faster-PFH features, k-core pruning and graduated non-convexity; the voxel size sets all radii.

    Parameters:
        voxel: edge of the voxels that subsample the clouds, a fraction of the pair's scale.
        normal_gain, feature_gain: radii of normals and features in voxels.
    """

    requires = ("kiss_matcher",)
    environment = {"OMP_NUM_THREADS": "1", "OMP_THREAD_LIMIT": "1"}

    voxel: float = 0.06
    normal_gain: float = 3.0
    feature_gain: float = 5.0

    def __post_init__(self) -> None:
        require_positive(self)

    def setup(self, device: str, seed: int, domain: str) -> None:
        """Make a first call with the process limited to BENCH_THREADS processors, where the system supports that.

        TBB starts one thread per processor at the first call, and has no other setting. With one thread, sums have a fixed
        order, so that equal calls give equal poses, and times are comparable to those of other methods.
        """
        if hasattr(os, "sched_setaffinity"):
            processors = os.sched_getaffinity(0)
            os.sched_setaffinity(0, sorted(processors)[: int(os.environ.get("BENCH_THREADS", "1"))])
            try:
                ball = np.random.default_rng(0).normal(size=(_WARM_UP_POINTS, 3))
                ball /= 2 * np.linalg.norm(ball, axis=1, keepdims=True)
                self._matcher().estimate(*2 * [ball.astype(np.float32)])
            finally:
                os.sched_setaffinity(0, processors)

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`.

        Raises:
            NoSolution: too few points, with which the library crashes, or no consistent matches.
        """
        pair = unit_pair(source, target)
        for cloud in (pair.source, pair.target):
            if (
                _cells(cloud[:_QUICK_CHECK_POINTS], self.voxel) < _LEAST_CELLS
                and (cells := _cells(cloud, self.voxel)) < _LEAST_CELLS
            ):
                raise NoSolution(f"{cells} cells of {self.voxel} contain points; the library needs {_LEAST_CELLS}")
        matcher = self._matcher()
        with self.stage("solve"):
            result = matcher.estimate(pair.source.astype(np.float32), pair.target.astype(np.float32))
        inliers = matcher.get_num_final_inliers()
        matches = max(len(matcher.get_initial_correspondences()), 1)
        self.note(inliers=inliers, confidence=inliers / matches)
        if not result.valid or inliers < 3:
            raise NoSolution(f"{inliers} consistent matches; a pose needs 3")
        return pair.to_original(
            rigid(nearest_rotation(np.asarray(result.rotation)), np.asarray(result.translation).ravel())
        )

    def _matcher(self) -> Any:
        import kiss_matcher

        config = kiss_matcher.KISSMatcherConfig(
            voxel_size=self.voxel, normal_r_gain=self.normal_gain, fpfh_r_gain=self.feature_gain
        )
        return kiss_matcher.KISSMatcher(config)


def _cells(cloud: Points, edge: float) -> int:
    """Count the cells of a grid that contain points of a cloud (N, 3)."""
    cells = np.floor((cloud - cloud.min(axis=0)) / edge)
    sides = cells.max(axis=0) + 1
    return len(np.unique(cells[:, 0] + sides[0] * (cells[:, 1] + sides[1] * cells[:, 2])))
