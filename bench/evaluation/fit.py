"""How well a pose fits two clouds, compared with the ground truth: `as_good` for one pose, `rival` by a search.

A pose is refined by a few steps of trimmed ICP before its fit is measured, and so is the ground truth. Neither needs labels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from common.keys import rng as rng_of
from common.rigid import inverse
from datasets.poses import haar
from datasets.problems import Problem
from methods.geometry import search
from methods.geometry.search import Cloud, Pair, moved

Array = NDArray[np.float64]

TOLERANCE = 0.07
"""Relative excess of the two-way trimmed distance up to which a pose fits as well: the 95 % quantile of the excess of the ground
truth itself in one sample of an object over another, by `python -m performance.fit_tolerance`, see docs/metrics.md."""
FAR = 0.2
"""RMSE from which a pose is another pose than the ground truth: the limit of recall."""
COMPARED = 2000
"""Number of problems of a group, the first ones, whose wrong poses are compared with the ground truth."""
STEPS = 20
"""Maximum number of steps of the local refinement."""
KEEP = (0.3, 0.9)
"""Bounds of the share of points that is not trimmed; between them it is the overlap of the clouds."""
MAX_POINTS = 2048
"""Number of points of a cloud above which it is thinned evenly."""
ROTATIONS, CANDIDATES, SEPARATION = 2304, 24, 20.0
"""Rotations of the search, number of the best that are refined, and the angle in degrees between them."""
CELLS, HALF_WIDTH, CAP = 32, 1.1, 0.5
"""Cells along each side of the distance fields, half the side of their cube, and the distance from which penalties are equal; in
radii of the pair."""
SEARCH_POINTS = 128
"""Number of points by which the search scores rotations."""
FIRST_POINTS, FIRST_STEPS, FINALISTS = 256, 8, 8
"""Points and steps of the first refinement of the candidates, and number of the best that are refined with all points."""


class Fit:
    """Clouds of a problem, and how well poses fit them relative to the refined ground truth."""

    def __init__(self, problem: Problem) -> None:
        source, target = (
            search.even(np.asarray(c, dtype=np.float64), MAX_POINTS) for c in (problem.source, problem.target)
        )
        self.centres = source.mean(axis=0), target.mean(axis=0)
        clouds = source - self.centres[0], target - self.centres[1]
        self.scale = max(float(np.linalg.norm(cloud, axis=1).max()) for cloud in clouds)
        self.source, self.target = (Cloud(cloud / self.scale) for cloud in clouds)
        self.pair = Pair(self.source, self.target)
        overlap = float(problem.tags["overlap"] if problem.tags["overlap"] is not None else np.nan)
        self.keep = float(np.clip(KEEP[1] if np.isnan(overlap) else overlap, *KEEP))
        self.truth, self.points = problem.T_target_source, problem.evaluation_points.astype(np.float64)
        self.limit = float(self.distances(self.refined_poses(self.truth[None]))[0]) + 1e-6 * self.scale

    def distances(self, poses: Array) -> Array:
        """Compute the two-way trimmed distances (B,) of poses (B, 4, 4).

        It is the root of the mean of the squared distances to the nearest point of the other cloud, in both directions,
        without the largest 1 - keep of each direction.
        """
        squares = self.pair.fits(self.to_unit(poses), self.keep)[:, :, 0]
        return np.asarray(np.sqrt(squares.mean(axis=1)) * self.scale)

    def refined_poses(self, poses: Array) -> Array:
        """Refine poses (B, 4, 4) by trimmed point-to-point ICP with the matches of both directions."""
        return self.to_original(self.pair.refine(self.to_unit(poses), self.keep, steps=STEPS))

    def ratios(self, poses: Array, far: float) -> Array:
        """Return the distances (B,) of refined poses over that of the refined truth; infinite if refined by `far` or more."""
        refined = self.refined_poses(poses)
        return np.where(self.rmse(poses, refined) >= far, np.inf, self.distances(refined) / self.limit)

    def rmse(self, A: Array, B: Array) -> Array:
        """Compute the RMSE (B,) between poses (B, 4, 4) on the problem's evaluation points."""
        rotations, translations = A[:, :3, :3] - B[:, :3, :3], A[:, :3, 3] - B[:, :3, 3]
        apart = self.points @ rotations.transpose(0, 2, 1) + translations[:, None]
        return np.asarray(np.sqrt((apart**2).sum(axis=2).mean(axis=1)))

    def to_unit(self, poses: Array) -> Array:
        """Convert poses (B, 4, 4) between the original clouds to those between the centred clouds of unit radius."""
        converted = np.array(poses)
        a, b = self.centres
        converted[:, :3, 3] = (poses[:, :3, :3] @ a + poses[:, :3, 3] - b) / self.scale
        return converted

    def to_original(self, poses: Array) -> Array:
        """Convert poses (B, 4, 4) between the unit clouds to those between the original clouds."""
        converted = np.array(poses)
        a, b = self.centres
        converted[:, :3, 3] = self.scale * poses[:, :3, 3] + b - poses[:, :3, :3] @ a
        return converted


def as_good(fit: Fit, poses: Array, far: float = FAR) -> NDArray[np.bool_]:
    """Return whether each pose (B, 4, 4) is within RMSE `far` of a pose that fits as well as the refined ground truth."""
    return fit.ratios(poses, far) <= 1 + TOLERANCE


def rival(fit: Fit, seed: int = 0) -> float:
    """Return the lowest distance of a pose with RMSE ≥ `FAR` that a search over all rotations finds, over that of the truth.

    Rotations of a grid, turned at random by the seed, are scored by distance fields in both directions. The best that are
    unlike each other are refined, first with some of the points. It is infinite if no pose found is far from the truth.
    """
    first = Pair(fit.source, fit.target, FIRST_POINTS)
    poses = first.refine(_starts(fit, rng_of("search", seed)), fit.keep, steps=FIRST_STEPS)
    poses = poses[np.argsort(first.fits(poses, fit.keep)[:, :, 0].sum(axis=1), kind="stable")]
    poses = fit.to_original(poses[search.separate(poses, CANDIDATES, SEPARATION / 2)])
    refined = fit.refined_poses(poses[fit.rmse(poses, fit.truth[None]) >= FAR][:FINALISTS])
    others = fit.distances(refined)[fit.rmse(refined, fit.truth[None]) >= FAR]
    return float(others.min() / fit.limit) if len(others) else np.inf


def _starts(fit: Fit, draw: np.random.Generator) -> Array:
    """Return the poses (n, 4, 4) between the unit clouds that the search refines: the truth, turned about the common centre."""
    truth = fit.to_unit(fit.truth[None])[0]
    centre = moved(fit.source.points, truth).mean(axis=0) / 2
    turned = np.tile(np.eye(4), (ROTATIONS, 1, 1))
    turned[:, :3, :3] = search.rotations(ROTATIONS) @ haar(draw)
    turned[:, :3, 3] = centre - turned[:, :3, :3] @ centre
    poses, field = turned @ truth, (CELLS, HALF_WIDTH, CAP)
    penalties = search.scores(fit.target.field(*field), HALF_WIDTH, fit.source.even(SEARCH_POINTS), poses)
    penalties += search.scores(fit.source.field(*field), HALF_WIDTH, fit.target.even(SEARCH_POINTS), inverse(poses))
    poses = poses[np.argsort(penalties, kind="stable")]
    return poses[search.separate(poses, CANDIDATES, SEPARATION)]
