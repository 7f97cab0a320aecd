"""Hierarchical Gaussian mixture registration (Eckart et al., ECCV 2018)."""

from __future__ import annotations

import numpy as np

from common.errors import InputError
from methods.base import Cloud, LogUniform, Method, Pose
from methods.geometry.features import require_positive, unit_pair

FIT_ITERATIONS, FIT_GAIN = 20, 0.01
"""Maximum EM iterations per level of the tree, and the gain of the mean log likelihood below which EM stops."""
DAMPING = 0.01
"""Damping of a registration step, relative to the mean curvature."""


class Hgmr(Method):
    """Fit a tree of anisotropic Gaussian mixtures to the target, and align the source to it by EM.

    A level is fitted by EM in all nodes at once, without random numbers. A registration step is weighted point-to-plane
    least squares, with a plane normal to each axis of a component and its inverse variance as weight. The tree is blurred
    at first, which increases the basin of convergence, then less and less. Lengths are fractions of the pair's scale.

    Parameters:
        levels: maximum depth of the tree; a node has 8 children.
        least_points: components of fewer points are not split.
        flatness: components whose smallest variance is at most this share of the sum are not split; 0 splits all.
        floor: minimum standard deviation of a component along an axis.
        blur: initial standard deviation added to all components; 0 for none.
        outliers: density of outliers per unit of volume, relative to 1 for the rest; 0 for none.
        iterations: maximum iterations of the registration.
        tolerance: stop when a step rotates (radians) and translates by less than this.
    """

    kind = "local"
    local = True
    requires = ("torch",)
    search = {
        "levels": (1, 2, 3),
        "least_points": (16, 32, 64),
        "flatness": LogUniform(0.003, 0.1),
        "floor": LogUniform(0.003, 0.05),
        "blur": LogUniform(0.1, 1.0),
        "outliers": (0.0, 1e-4, 1e-3, 1e-2, 1e-1),
    }

    levels: int = 2
    least_points: int = 32
    flatness: float = 0.01
    floor: float = 0.01
    blur: float = 0.3
    outliers: float = 1e-3
    iterations: int = 60
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        require_positive(self, "flatness", "blur", "outliers")
        for name in ("flatness", "blur", "outliers"):
            if not 0 <= getattr(self, name) < np.inf:
                raise InputError(f"hgmr[{name}={getattr(self, name)}]: below 0 or not finite; 0 means none")

    def register(self, source: Cloud, target: Cloud, init: Pose | None = None) -> Pose:
        """Refine `init` (4, 4), by default the identity between the original clouds (not matched centroids).

        The confidence is the share of the source that belongs to the target's mixture.
        """
        import torch

        from methods.geometry import hgmm

        pair = unit_pair(source, target)
        start = pair.to_unit(np.eye(4) if init is None else init)
        points, target_points, T = (torch.as_tensor(x) for x in (pair.source, pair.target, start))
        fit = hgmm.FitParameters(self.levels, self.floor**2, self.flatness, self.least_points, FIT_ITERATIONS, FIT_GAIN)
        search = hgmm.SearchParameters(self.blur, self.floor, self.outliers, self.iterations, self.tolerance, DAMPING)
        with torch.inference_mode():
            with self.stage("tree"):
                tree = hgmm.fit_tree(target_points, fit)
            with self.stage("solve"):
                alignment = hgmm.align(tree, points, T, search)
        self.note(confidence=alignment.share, iterations=alignment.iterations, converged=alignment.converged)
        return pair.to_original(alignment.T.numpy())
