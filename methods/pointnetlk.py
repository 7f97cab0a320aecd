"""PointNetLK (Aoki et al., CVPR 2019): Lucas-Kanade on a learned global feature, from an initial pose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from methods.base import Cloud, Pose, rigid
from methods.learned.base import OBJECT_RADII, Learned, NormalisedPair

if TYPE_CHECKING:
    from torch import Tensor

    from methods.nn.lk import LkNet


class PointNetLK(Learned):
    """Bring the source's global PointNet feature to the target's by steps with a numerical Jacobian, computed once.

    A local method: its weights were trained on Euler angles up to 45°, as in the paper; convergence from larger angles is not
    to be expected.
    """

    kind = "local"
    local = True
    variants = {"pointnetlk": {}}
    trained = "pointnetlk"
    radii = OBJECT_RADII

    sampler: str = "euler45"

    @classmethod
    def network_type(cls) -> type[LkNet]:
        """See `Learned.network_type`."""
        from methods.nn.lk import LkNet

        return LkNet

    def register(self, source: Cloud, target: Cloud, init: Pose | None = None) -> Pose:
        """Refine `init` (4, 4), by default centroid on centroid without rotation."""
        import torch

        from methods.nn.pair_batch import to_device

        net: LkNet = self.state["net"]
        pair = self.normalise(source, target)
        start = None if init is None else self.normalised_pose(init, pair)
        with self.stage("refine"), torch.inference_mode():
            on_device = to_device((pair.source, pair.target), self.state["device"])
            prepared = net.prepare(*on_device)
            T = net.estimate(prepared, on_device[0], on_device[1], start).T[0].cpu().numpy()
        return pair.denormalise(T)

    def normalised_pose(self, T: Pose, pair: NormalisedPair) -> Tensor:
        """Convert a pose (4, 4) between the original clouds to one (1, 4, 4) between the normalised clouds."""
        import torch

        R = np.asarray(T)[:3, :3]
        translation = (np.asarray(T)[:3, 3] + R @ pair.source_centre - pair.target_centre) / pair.scale
        return torch.from_numpy(rigid(R, translation))[None].to(self.state["device"])


class PointNetLKSmall(PointNetLK):
    """PointNetLK reduced for a CPU: widths 32, 32, 32, 64, 256 in place of 64, 64, 64, 128, 1 024, and 8 steps."""

    variants = {"pointnetlk_small": {}}
    trained = "pointnetlk_small"
    size = {"widths": (32, 32, 32, 64, 256), "iterations": 8}
