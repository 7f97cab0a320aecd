"""PointNetLK (Aoki et al., CVPR 2019): Lucas-Kanade on a learned global feature; refines a start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from methods.base import Cloud, Pose, rigid
from methods.learned.base import OBJECTS, Learned, restored

if TYPE_CHECKING:
    from torch import Tensor

    from methods.nn.lk import LkNet


class PointNetLK(Learned):
    """Steps that bring the source's global PointNet feature to the target's, by a numerical Jacobian found once.

    A local method: its weights are those of Euler angles up to 45°, as in the paper; what starts farther off converges
    by luck.
    """

    kind = "local"
    local = True
    variants = {"pointnetlk": {}}
    trained = "pointnetlk"
    radii = OBJECTS

    sampler: str = "euler45"

    @classmethod
    def parts(cls) -> tuple[type[Any], type[Any], Mapping[str, tuple[str, ...]]]:
        """See `Learned.parts`."""
        from methods.nn.lk import LkConfig, LkNet

        return LkNet, LkConfig, {}

    def register(self, source: Cloud, target: Cloud, init: Pose | None = None) -> Pose:
        """Refine `init` (4, 4), by default centroid on centroid without a turn."""
        import torch

        net: LkNet = self.state["net"]
        pair, scale, centres = self.tensors(source, target)
        start = None if init is None else self.inside(init, scale, centres)
        with self.stage("refine"), torch.inference_mode():
            T = net.estimate(net.prepare(pair[0], pair[1]), pair[0], pair[1], start).T[0].cpu().numpy()
        return restored(T, scale, centres)

    def inside(self, T: Pose, scale: float, centres: list[Pose]) -> Tensor:
        """The pose (1, 4, 4) between centred and scaled clouds of one between the clouds as given."""
        import torch

        R = np.asarray(T)[:3, :3]
        made = rigid(R, (np.asarray(T)[:3, 3] + R @ centres[0] - centres[1]) / scale)
        return torch.from_numpy(made)[None].to(self.state["device"])


class PointNetLKSmall(PointNetLK):
    """PointNetLK reduced for a CPU: widths 32, 32, 32, 64, 256 in place of 64, 64, 64, 128, 1 024, and 8 steps."""

    variants = {"pointnetlk_small": {}}
    trained = "pointnetlk_small"
    size = {"widths": (32, 32, 32, 64, 256), "iterations": 8}
