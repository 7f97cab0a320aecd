"""Hierarchical Gaussian mixture registration (Eckart et al., ECCV 2018)."""

from __future__ import annotations

import numpy as np

from common.errors import InputError
from methods.base import Cloud, LogUniform, Method, Pose
from methods.geometry.features import require_positive, unit_pair

FIT_ITERATIONS, FIT_GAIN = 20, 0.01  # of EM in a level of the tree; it stops when the mean log likelihood gains less
DAMPING = 0.01


class Hgmr(Method):
    """A tree of anisotropic Gaussian mixtures of the target; the source's points descend it and are moved by EM.

    The fit in a level is EM in all nodes at once, without random numbers. A step of the registration is weighted point-to-plane
    least squares, with a plane normal to each axis of a component and its inverse variance as weight. The tree is blurred
    at first, which widens the reach, then sharper and sharper. Lengths are fractions of the pair's scale.

    Parameters:
        levels: depth of the tree, at most; a node has 8 children.
        least_points: components of fewer points are not split.
        flatness: nor those whose least variance is at most this share of all; 0 splits the flattest, too.
        floor: the least standard deviation of a component along an axis.
        blur: standard deviation added to all components at first; 0 for none.
        outliers: density, in points a unit of volume, of those that belong to nothing, beside 1 for the rest; 0 for none.
        iterations: the most iterations of the registration.
        tolerance: stop when a step turns (radians) and moves less than this.
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
                raise InputError(f"hgmr[{name}={getattr(self, name)}]: below 0 or not finite; 0 is none")

    def setup(self, device: str, seed: int, domain: str) -> None:
        """Keep the device, "cpu" or "cuda", on which trees are fitted and descended."""
        self.state["device"] = device

    def register(self, source: Cloud, target: Cloud, init: Pose | None = None) -> Pose:
        """Refine `init` (4, 4), by default the identity between the clouds as given (not matched centroids).

        Its confidence is the share of the source that the target's mixture accounts for.
        """
        import torch

        from methods.geometry import hgmm

        pair = unit_pair(source, target)
        device = self.state.get("device", "cpu")
        start = pair.to_unit(np.eye(4) if init is None else init)
        points, onto, T = (torch.as_tensor(x, device=device) for x in (pair.source, pair.target, start))
        growth = hgmm.Growth(self.levels, self.floor**2, self.flatness, self.least_points, FIT_ITERATIONS, FIT_GAIN)
        search = hgmm.Search(self.blur, self.floor, self.outliers, self.iterations, self.tolerance, DAMPING)
        with torch.inference_mode():
            with self.stage("tree"):
                tree = hgmm.grow(onto, growth)
            with self.stage("solve"):
                found = hgmm.align(tree, points, T, search)
        self.note(confidence=found.share, iterations=found.iterations, converged=found.converged)
        return pair.to_original(found.T.cpu().numpy())
