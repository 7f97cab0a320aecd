"""Trimmed ICP: point-to-plane by default, optionally point-to-point, generalized, robust, or coarse to fine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError, unknown
from common.kinds import DataKind
from common.text import counted
from methods.base import Cloud, LogUniform, Method, NoSolution, Pose
from methods.geometry.features import Normals, Points, UnitPair, normals, require_positive, unit_pair
from methods.geometry.icp import KERNELS, METRICS, directions, step, thinned, weighted
from methods.geometry.partial_icp import refine_partial
from methods.geometry.settings import cell

NEAR = 0.05
"""Distance, relative to the pair's scale, within which a source point is an inlier; the inlier share is the confidence."""
NEAR_START = 0.2
"""Limit of distances with an initial pose, relative to the pair's scale: a choice; docs/choosing.md shows its effect."""


class Surface(NamedTuple):
    """Points (N, 3) and their normals (N, 3) of either sign."""

    points: Points
    normals: Normals


class Icp(Method):
    """Iterative closest point with point-to-plane distances (Chen 1992) and trimmed worst pairs (Chetverikov 2002).

    Parameters:
        trim: share of the pairs, the farthest, that each iteration omits.
        iterations: maximum iterations of each level.
        tolerance: stop when a step rotates (radians) and translates (fractions of the pair's scale) by less than this.
        normal_radius: neighbourhood of the normals, a fraction of the pair's scale.
        distance: pairs farther apart than this fraction of the pair's scale are omitted, too; inf for no limit. It prevents
            partial scans, half of which has no counterpart, from being pulled together, but stops convergence from afar.
            None: 0.2 with an initial pose (as after `+`), which is assumed to be near, and inf without. With an initial pose
            on partial scans (by the kind of the data), None means limits of 4, 2 and 1 cells of the resolution, a robust
            kernel and no trimming (`methods.geometry.partial_icp`); the parameters below and above then have no effect.
        metric: "plane", "point" (Besl 1992), or "generalized", plane to plane (Segal 2009).
        kernel: "none", or a robust kernel: "huber", "cauchy", "tukey".
        width: scale of the kernel, a fraction of the pair's scale.
        levels: 1, or the number of passes from coarse to fine. Before the last, which uses all points, clouds are subsampled
            to one point per cell; cells and the limit of distances are halved from pass to pass.
        voxel: edge of the finest cells, a fraction of the pair's scale.
    """

    kind = "local"
    local = True
    requires = ("open3d",)
    may_be_infinite = ("distance",)
    search = {
        "trim": (0.0, 0.1, 0.2, 0.3, 0.5),
        "iterations": (50, 100, 200),
        "normal_radius": LogUniform(0.08, 0.5),
        "distance": (None, 0.1, 0.2, 0.4, 0.8),
    }

    trim: float = 0.1
    iterations: int = 50
    tolerance: float = 1e-5
    normal_radius: float = 0.2
    distance: float | None = None
    metric: str = "plane"
    kernel: str = "none"
    width: float = 0.05
    levels: int = 1
    voxel: float = 0.1

    def __post_init__(self) -> None:
        require_positive(self, "trim", "distance")
        if not 0 <= self.trim < 1:
            raise InputError(f"icp[trim={self.trim}]: not a share; give one from 0 (keep all) to below 1")
        if self.distance is not None and not self.distance > 0:
            raise InputError(f"icp[distance={self.distance}]: not above 0; inf means no limit")
        for name, value, known in (("metric", self.metric, METRICS), ("kernel", self.kernel, ("none", *KERNELS))):
            if value not in known:
                raise unknown(f"{name} of icp", value, known)

    def register(self, source: Cloud, target: Cloud, init: Pose | None = None) -> Pose:
        """Refine `init` (4, 4), by default the identity between the original clouds (not matched centroids)."""
        pair = unit_pair(source, target)
        limit = (np.inf if init is None else NEAR_START) if self.distance is None else self.distance
        T = pair.to_unit(np.eye(4) if init is None else init)
        if self.data_kind != DataKind.OBJECTS and self.distance is None and init is not None:
            return self.refine_scans(pair, T)
        with self.stage("normals"):
            target_normals = normals(pair.target, self.normal_radius, "none")
            both = self.metric == "generalized"  # the other metrics use the target's only
            source_normals = normals(pair.source, self.normal_radius, "none") if both else np.zeros_like(pair.source)
        with self.stage("refine"):
            iterations = 0
            for level in reversed(range(self.levels)):
                p, q = (self.rows(cloud, level) for cloud in (pair.source, pair.target))
                clouds = Surface(pair.source[p], source_normals[p]), Surface(pair.target[q], target_normals[q])
                T, count, last, inliers = self.refine(T, *clouds, limit * 2**level)
                iterations += count
        self.note(iterations=iterations, converged=bool(last <= self.tolerance), confidence=inliers)
        return pair.to_original(T)

    def refine_scans(self, pair: UnitPair, T: Pose) -> Pose:
        """Refine a pose (4, 4) between the unit clouds of partial scans; return it between the original clouds."""
        with self.stage("refine"):
            result = refine_partial(pair.source, pair.target, T, cell(pair.source, pair.target))
        self.note(
            iterations=result.iterations, converged=bool(result.last <= self.tolerance), confidence=result.fit.inliers
        )
        return pair.to_original(result.pose)

    def rows(self, cloud: Points, level: int) -> NDArray[np.intp]:
        """Return the rows (K,) of a cloud (N, 3) that a level uses; level 0, the last, uses all."""
        return thinned(cloud, self.voxel * 2 ** (level - 1)) if level else np.arange(len(cloud))

    def refine(self, T: Pose, source: Surface, target: Surface, limit: float) -> tuple[Pose, int, float, float]:
        """Run one level from T (4, 4) between unit clouds.

        Returns:
            The pose, the number of iterations, the last step's size, and the share of inliers.

        Raises:
            NoSolution: fewer than 3 points have a partner within the limit.
        """
        from scipy.spatial import cKDTree

        tree = cKDTree(target.points)
        keep = max(3, round((1 - self.trim) * len(source.points)))
        last, done = np.inf, 0
        while last > self.tolerance and done < self.iterations:
            moved = source.points @ T[:3, :3].T + T[:3, 3]
            distance, nearest = map(np.asarray, tree.query(moved))
            best = np.argpartition(distance, keep - 1)[:keep]
            best = best[distance[best] <= limit]
            if len(best) < 3:
                raise NoSolution(f"partners within the distance: {counted(len(best), 'point')}; a pose needs 3")
            p, q = moved[best], target.points[nearest[best]]
            d = directions(self.metric, target.normals[nearest[best]], source.normals[best] @ T[:3, :3].T)
            if self.kernel != "none":
                d = weighted(d, q - p, self.kernel, self.width)
            delta, last = step(p, q, d)
            T = delta @ T
            done += 1
        return T, done, last, float(np.mean(distance <= NEAR))
