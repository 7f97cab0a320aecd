"""Trimmed point-to-plane ICP."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from common.errors import InputError
from methods._features import Normals, Points, normals, require_positive, unit_pair
from methods.base import Between, Cloud, Method, NoSolution, Pose, rigid

DAMPING = 0.01  # of the mean curvature; without it a noisy plate, free to slide in its plane, slides out of sight

NEAR = 0.05
"""Distance, in the pair's scale, at which a source point counts as met; the share met is the method's confidence."""


class Icp(Method):
    """Iterative closest point: distances to the target's tangent planes (Chen 1992), worst pairs trimmed (Chetverikov 2002).

    Parameters:
        trim: share of the pairs, the farthest, that each iteration leaves out.
        iterations: the most iterations.
        tolerance: stop when a step turns (radians) and moves (fractions of the pair's scale) less than this.
        normal_radius: neighbourhood of the target's normals, a fraction of the pair's scale.
        distance: pairs farther apart than this fraction of the pair's scale are left out beside the worst; None for no such
            cap. It keeps partial scans, half of which has no counterpart, from being pulled together; from far it stands still.
    """

    kind = "local"
    local = True
    requires = ("open3d",)
    search = {
        "trim": (0.0, 0.1, 0.2, 0.3, 0.5),
        "iterations": (50, 100, 200),
        "normal_radius": Between(0.08, 0.5),
        "distance": (None, 0.1, 0.2, 0.4, 0.8),
    }

    trim: float = 0.1
    iterations: int = 50
    tolerance: float = 1e-5
    normal_radius: float = 0.2
    distance: float | None = None

    def __post_init__(self) -> None:
        require_positive(self, "trim")
        if not 0 <= self.trim < 1:
            raise InputError(f"icp[trim={self.trim}]: not a share; give one from 0 (keep all) to below 1")

    def register(self, source: Cloud, target: Cloud, init: Pose | None = None) -> Pose:
        """Refine `init` (4, 4), by default the identity between the clouds as given (not matched centroids)."""
        pair = unit_pair(source, target)
        T = pair.to_unit(np.eye(4) if init is None else init)
        with self.stage("normals"):
            planes = normals(pair.target, self.normal_radius, "none")
        with self.stage("refine"):
            tree = cKDTree(pair.target)
            keep = max(3, round((1 - self.trim) * len(pair.source)))
            step, done = np.inf, 0
            while step > self.tolerance and done < self.iterations:
                moved = pair.source @ T[:3, :3].T + T[:3, 3]
                distance, nearest = map(np.asarray, tree.query(moved))
                best = np.argpartition(distance, keep - 1)[:keep]
                if self.distance is not None:
                    best = best[distance[best] <= self.distance]
                    if len(best) < 3:
                        raise NoSolution(f"{len(best)} points have a partner within the distance; a pose needs 3")
                matched = nearest[best]
                delta, step = point_to_plane_step(moved[best], pair.target[matched], planes[matched])
                T = delta @ T
                done += 1
        self.note(iterations=done, converged=bool(step <= self.tolerance), confidence=float(np.mean(distance <= NEAR)))
        return pair.answer(T)


def point_to_plane_step(p: Points, q: Points, n: Normals) -> tuple[Pose, float]:
    """The rigid step that minimises sum (n . (R p + t - q))^2 with R linearised and damped, and its size.

    Args:
        p: moved source points (K, 3).
        q: their matches (K, 3).
        n: unit normals at the matches (K, 3).

    Returns:
        T (4, 4), whose rotation is the exponential of the solution and so exactly a rotation, and the larger of its
        angle (radians) and its translation. What the planes leave free (a sphere's turns) stays as it is.
    """
    A = np.hstack([np.cross(p, n), n])
    b = np.einsum("ij,ij->i", n, q - p)
    H = A.T @ A
    x = np.linalg.solve(H + DAMPING * np.trace(H) / 6 * np.eye(6), A.T @ b)
    return rigid(Rotation.from_rotvec(x[:3]).as_matrix(), x[3:]), float(
        max(np.linalg.norm(x[:3]), np.linalg.norm(x[3:]))
    )
