"""DeepGMR (Yuan et al., ECCV 2020): learned, pose-invariant assignments of points to Gaussians, and a closed-form pose."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from methods.base import Cloud, Pose
from methods.nn.learned import Learned, restored

if TYPE_CHECKING:
    from methods.nn.gmr import GmrNet

_UNTRAINED_SEED = 0


class DeepGMR(Learned):
    """Learned shares of each point in J Gaussians, from features no rotation changes; the pose aligns the Gaussians.

    Parameters:
        untrained: a control: the network as initialised, its batch norms using each cloud's own statistics as at the
            first step of training. What the mathematics gives without learning.
    """

    variants = {"deepgmr": {}}
    trained = "deepgmr"

    untrained: bool = False

    @classmethod
    def parts(cls) -> tuple[type[Any], type[Any], Mapping[str, tuple[str, ...]]]:
        """See `Learned.parts`."""
        from methods.nn.gmr import CHOICES, GmrConfig, GmrNet

        return GmrNet, GmrConfig, CHOICES

    @classmethod
    def load(cls, file: Path) -> GmrNet:
        """See `Learned.load`; batch norms are folded."""
        net: GmrNet = super().load(file)
        net.backbone.fold()
        return net

    def prepared(self, domain: str) -> GmrNet:
        """See `Learned.prepared`; of the control, the network as initialised."""
        if not self.untrained:
            trained: GmrNet = super().prepared(domain)
            return trained
        self.state["weights"] = "none: untrained"
        return untrained()

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        import torch

        net: GmrNet = self.state["net"]
        pair, scale, centres = self.tensors(source, target)
        with torch.inference_mode():
            with self.stage("features"):
                features = [net.describe(cloud) for cloud in pair]
            with self.stage("network"):
                gamma = (net(features[0]), net(features[1]))
            with self.stage("solve"):
                T = net.poses(gamma, (pair[0], pair[1]))[0][0].cpu().numpy()
        return restored(T, scale, centres)


class Untrained(DeepGMR):
    """DeepGMR as initialised: what its mathematics gives without learning, beside every row of the trained one."""

    kind = "control"
    variants = {"deepgmr_untrained": {}}

    untrained: bool = True

    @classmethod
    def check_available(cls) -> None:
        """See `Method.check_available`: it needs no weights."""


def untrained() -> GmrNet:
    """The network as initialised from a fixed seed; its batch norms use the statistics of the cloud at hand."""
    import torch

    torch.manual_seed(_UNTRAINED_SEED)
    net: GmrNet = DeepGMR.network()
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.running_mean = module.running_var = None
            module.track_running_stats = False
    return net
