"""DeepGMR (Yuan et al., ECCV 2020): learned, pose-invariant assignments of points to Gaussians, and a closed-form pose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from common.errors import unknown
from methods.base import Cloud, Gaussians, NoSolution, Pose
from methods.learned.base import Learned, restored

if TYPE_CHECKING:
    from torch import Tensor

    from methods.nn.gmm import Mixture
    from methods.nn.gmr import GmrNet

PRECISIONS = ("int8", "bfloat16", "float32")
_UNTRAINED_SEED = 0
_FEW = 4
"""Threads: where there are more, the pieces of one large cloud keep them busy better than two clouds do."""


class DeepGMR(Learned):
    """Learned shares of each point in J Gaussians, from features no rotation changes; the pose aligns the Gaussians.

    Parameters:
        untrained: a control: the network as initialised, its batch norms using each cloud's own statistics as at the
            first step of training. What the mathematics gives without learning.
        precision: the narrowest numbers that the network's wide layers compute on, where the device is faster with them:
            "int8", "bfloat16" or "float32".
    """

    variants = {"deepgmr": {}}
    trained = "deepgmr"

    batched = True

    untrained: bool = False
    precision: str = "int8"

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise unknown("precision of deepgmr", self.precision, PRECISIONS)

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

    def setup(self, device: str, seed: int, domain: str) -> None:
        """See `Learned.setup`; notes the precision of the network's wide layers, and what computes the features."""
        super().setup(device, seed, domain)
        precision = "float32" if self.untrained else usable_precision(self.precision, device)
        if precision != "float32":
            backbone = self.state["net"].backbone
            backbone.quantise() if precision == "int8" else backbone.narrow()
        self.note(precision=precision)
        config = self.state["net"].config
        if config.features == "rri":
            from methods.nn.rri import implementation

            self.note(features=implementation(device, config.k))

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        answer = self._solve([source], [target])[0]
        if isinstance(answer, NoSolution):
            raise answer
        return answer

    def register_batch(self, sources: Sequence[Cloud], targets: Sequence[Cloud]) -> list[Pose | NoSolution]:
        """See `Method.register_batch`. The control's batch norms see one cloud at a time, so it goes pair by pair."""
        return super().register_batch(sources, targets) if self.untrained else self._solve(sources, targets)

    def _solve(self, sources: Sequence[Cloud], targets: Sequence[Cloud]) -> list[Pose | NoSolution]:
        ready = [self._ready(*pair) for pair in zip(sources, targets, strict=True)]
        clouds = [pair[0] for pair in ready if not isinstance(pair, NoSolution)]
        poses = iter(self._poses(*zip(*clouds, strict=True)) if clouds else ())
        return [pair if isinstance(pair, NoSolution) else _answer(next(poses), *pair[1:]) for pair in ready]

    def _ready(self, source: Cloud, target: Cloud) -> tuple[list[Tensor], float, list[Pose]] | NoSolution:
        try:
            return self.tensors(source, target)
        except NoSolution as reason:
            return reason

    def _poses(self, sources: Sequence[Tensor], targets: Sequence[Tensor]) -> NDArray[np.float64]:
        """T_target_source (B, 4, 4) of prepared clouds (1, N, 3) and (1, M, 3)."""
        import torch

        from methods.nn.gmm import align
        from methods.nn.spread import max_threads, single_threaded, spread

        net: GmrNet = self.state["net"]
        with torch.inference_mode(), single_threaded(max_threads()):
            if sources[0].shape == targets[0].shape and not self.untrained:
                clouds = [torch.cat([*sources, *targets])]  # one pass is cheaper than two
            else:
                clouds = [torch.cat(list(sources)), torch.cat(list(targets))]
            with self.stage("features"):
                features = [net.describe(some) for some in clouds]
            with self.stage("network"):
                gamma = spread(net, features) if _one_each(features) else [net(some) for some in features]
            with self.stage("solve"):
                source, target = _mixtures(gamma, clouds)
                T: NDArray[np.float64] = align(source, target, net.config.centring).cpu().numpy()
        return T

    def gaussians(self, source: Cloud, target: Cloud) -> tuple[Gaussians, Gaussians]:
        """See `Method.gaussians`."""
        import torch

        pair, scale, centres = self.tensors(source, target)
        with torch.inference_mode():
            first, second = (
                _shown(gamma, cloud, scale, centre)
                for gamma, cloud, centre in zip(self.assignments(pair), pair, centres, strict=True)
            )
        return first, second

    def assignments(self, pair: list[Tensor]) -> list[Tensor]:
        """Gamma (1, N, J) of prepared source and target (1, N, 3)."""
        net: GmrNet = self.state["net"]
        return [net(net.describe(cloud)) for cloud in pair]


class Untrained(DeepGMR):
    """DeepGMR as initialised: what its mathematics gives without learning, beside every row of the trained one."""

    kind = "control"
    variants = {"deepgmr_untrained": {}}

    untrained: bool = True

    @classmethod
    def check_available(cls) -> None:
        """See `Method.check_available`: it needs no weights."""


def _one_each(features: Sequence[Tensor]) -> bool:
    """Whether the network gets one thread for each cloud of a pair: few threads have as much to do, and no one waits."""
    from methods.nn.spread import max_threads

    small, large = sorted(some.shape[1] for some in (features[0], features[-1]))
    few = len(features) == 2 and len(features[0]) == 1 and 2 <= max_threads() <= _FEW
    return few and small >= large / 2 and features[0].device.type == "cpu"


def _mixtures(gamma: Sequence[Tensor], clouds: Sequence[Tensor]) -> list[Mixture]:
    """Those of sources and of targets, which lie in one tensor or in two."""
    from methods.nn.gmm import mixture
    from methods.nn.spread import spread

    halves = (both if len(both) == 2 else both[0].chunk(2) for both in (gamma, clouds))
    return spread(lambda half: mixture(half[0].double(), half[1].double()), list(zip(*halves, strict=True)))


def _shown(gamma: Tensor, cloud: Tensor, scale: float, centre: NDArray[np.float64]) -> Gaussians:
    """One cloud's mixture, in the cloud's own frame and units."""
    from methods.nn.gmm import mixture

    made = [x[0].cpu().numpy() for x in mixture(gamma.double(), cloud.double())]
    return Gaussians(gamma[0].double().cpu().numpy(), made[0], made[1] * scale + centre, np.sqrt(made[2]) * scale)


def _answer(T: Pose, scale: float, centres: list[Pose]) -> Pose | NoSolution:
    try:
        return restored(T, scale, centres)
    except NoSolution as reason:
        return reason


def usable_precision(narrowest: str, device: str) -> str:
    """The narrowest of `PRECISIONS` in which a device multiplies matrices faster, but none narrower than asked."""
    import torch

    from methods.nn.pointnet import can_quantise

    if device == "cpu":
        can = torch.cpu.get_capabilities()
        faster = {"int8": can_quantise(), "bfloat16": can.get("amx_bf16") or can.get("avx512_bf16"), "float32": True}
    else:
        faster = {"int8": False, "bfloat16": torch.cuda.is_bf16_supported(False), "float32": True}
    return next(name for name in PRECISIONS[PRECISIONS.index(narrowest) :] if faster[name])


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
