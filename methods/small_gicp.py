"""Generalized ICP (Segal 2009) and its voxelised form (Koide 2021), by the library small_gicp."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from common.errors import InputError
from methods.base import Cloud, Method, NoSolution, Pose
from methods.geometry.features import require_positive, unit_pair

KINDS = ("GICP", "VGICP")
"""The library's registration types."""
_NEIGHBOURS = 10
"""Points of a neighbourhood in the library."""


class SmallGicp(Method):
    """Refine a pose by plane-to-plane distances under covariances of neighbourhoods (GICP, or VGICP on a grid).

    Distances are fractions of the pair's scale.

    Parameters:
        kind_of: GICP, or VGICP, which matches to a grid of Gaussians.
        voxel: edge of the voxels that subsample the clouds; VGICP's voxels have five times that edge.
        distance: pairs farther apart are omitted.
        iterations: maximum iterations.
    """

    kind = "local"
    local = True
    requires = ("small_gicp",)
    variants: ClassVar[dict[str, dict[str, Any]]] = {"small_gicp": {}, "small_vgicp": {"kind_of": "VGICP"}}

    kind_of: str = "GICP"
    voxel: float = 0.03
    distance: float = 1.0
    iterations: int = 50

    def __post_init__(self) -> None:
        require_positive(self)
        if self.kind_of not in KINDS:
            raise InputError(f"small_gicp[kind_of={self.kind_of}]: not {' or '.join(KINDS)}")

    def register(self, source: Cloud, target: Cloud, init: Pose | None = None) -> Pose:
        """Refine `init` (4, 4), by default the identity.

        Raises:
            NoSolution: fewer points than a neighbourhood has: the library reads past the end of such clouds.
        """
        import small_gicp

        pair = unit_pair(source, target)
        if min(len(pair.source), len(pair.target)) < _NEIGHBOURS:
            raise NoSolution(f"a cloud has fewer than {_NEIGHBOURS} points")
        with self.stage("refine"):
            result = small_gicp.align(
                pair.target,
                pair.source,
                pair.to_unit(np.eye(4) if init is None else init),
                registration_type=self.kind_of,
                voxel_resolution=5 * self.voxel,
                downsampling_resolution=self.voxel,
                max_correspondence_distance=self.distance,
                num_threads=1,
                max_iterations=self.iterations,
            )
        inliers = result.num_inliers
        self.note(iterations=result.iterations, converged=bool(result.converged), inliers=inliers)
        if not inliers:
            raise NoSolution("no pair lies within the distance")
        return pair.to_original(result.T_target_source)
