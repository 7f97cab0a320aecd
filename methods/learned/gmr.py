"""Base of the DeepGMR methods: weights, the backbone's precision, batches of pairs, and mixtures for figures.

The method itself, step by step, is `methods/deepgmr.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from common.devices import is_gpu
from common.errors import unknown
from methods.core.base import Cloud, Gaussians, NoSolution, Pose
from methods.learned.base import Learned

if TYPE_CHECKING:
    from torch import Tensor

    from methods.nn.gmr import GmrNet

PRECISIONS = ("int8", "bfloat16", "float32")
"""Number formats of the backbone's layers, the narrowest first."""
BFLOAT16_CAPABILITY = 8
"""Major compute capability from which GPUs multiply bfloat16 matrices."""
_UNTRAINED_SEED = 0
"""Seed of the untrained control's initial weights."""
Result = TypeVar("Result")


class GmrMethod(Learned):
    """Base of the methods on a `GmrNet`; a subclass computes `poses`.

    Clouds reach a GPU in one transfer, and sums of the mixtures leave it in one: the host waits twice for any batch.

    Parameters:
        untrained: a control: the network as initialised, whose batch norms use each cloud's own statistics as in the first
            step of training. It shows what the method achieves without learning.
        precision: the narrowest number format of the network's wide layers, where the device is faster with it: "int8",
            "bfloat16" or "float32".
    """

    batched = True

    untrained: bool = False
    precision: str = "int8"

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise unknown("precision of deepgmr", self.precision, PRECISIONS)

    def poses(self, sources: Sequence[Tensor], targets: Sequence[Tensor]) -> NDArray[np.float64]:
        """Compute T_target_source (B, 4, 4) of B normalised clouds (1, N, 3) and (1, M, 3)."""
        raise NotImplementedError

    @classmethod
    def network_type(cls) -> type[GmrNet]:
        """See `Learned.network_type`."""
        from methods.nn.gmr import GmrNet

        return GmrNet

    @classmethod
    def load(cls, file: Path) -> GmrNet:
        """See `Learned.load`; the backbone is the folded one, for inference."""
        from methods.nn.inference import FoldedPointNet

        net: GmrNet = super().load(file)
        net.backbone = FoldedPointNet(net.backbone)  # type: ignore[arg-type]
        return net

    def network_for(self, domain: str) -> GmrNet:
        """See `Learned.network_for`; the control's network is as initialised."""
        if not self.untrained:
            trained: GmrNet = super().network_for(domain)
            return trained
        self.state["weights"] = "none: untrained"
        return self._untrained_network()

    @classmethod
    def _untrained_network(cls) -> GmrNet:
        """Build the network from a fixed seed; its batch norms use the statistics of the cloud at hand."""
        import torch

        torch.manual_seed(_UNTRAINED_SEED)
        net: GmrNet = cls.network()
        for module in net.modules():
            if isinstance(module, torch.nn.BatchNorm1d):
                module.running_mean = module.running_var = None
                module.track_running_stats = False
        return net

    def setup(self, device: str, seed: int, domain: str) -> None:
        """See `Learned.setup`; notes the precision of the backbone and the implementation of the features."""
        super().setup(device, seed, domain)
        net: GmrNet = self.state["net"]
        precision = "float32" if self.untrained else usable_precision(self.precision, device)
        if precision == "int8":
            net.backbone.quantise()  # type: ignore[operator, union-attr]
        elif precision == "bfloat16":
            net.backbone.to_bfloat16()  # type: ignore[operator, union-attr]
        self.note(precision=precision)
        if net.config.features == "rri":
            from methods.nn.rri import implementation

            self.note(features=implementation(device, net.config.k))

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        pose = self._register_all([source], [target])[0]
        if isinstance(pose, NoSolution):
            raise pose
        return pose

    def register_batch(self, sources: Sequence[Cloud], targets: Sequence[Cloud]) -> list[Pose | NoSolution]:
        """See `Method.register_batch`; pair by pair for the control, whose batch norms must see one cloud at a time."""
        if self.untrained:
            return super().register_batch(sources, targets)
        return self._register_all(sources, targets)

    def _register_all(self, sources: Sequence[Cloud], targets: Sequence[Cloud]) -> list[Pose | NoSolution]:
        pairs = [_result_or_reason(self.normalise, *clouds) for clouds in zip(sources, targets, strict=True)]
        valid = [pair for pair in pairs if not isinstance(pair, NoSolution)]
        poses = iter(self.poses([p.source for p in valid], [p.target for p in valid]) if valid else ())
        return [
            pair if isinstance(pair, NoSolution) else _result_or_reason(pair.denormalise, next(poses)) for pair in pairs
        ]

    def gaussians(self, source: Cloud, target: Cloud) -> tuple[Gaussians, Gaussians]:
        """See `Method.gaussians`."""
        import torch

        from methods.nn.pair_batch import to_device

        pair = self.normalise(source, target)
        clouds, centres = (
            to_device((pair.source, pair.target), self.state["device"]),
            (pair.source_centre, pair.target_centre),
        )
        with torch.inference_mode():
            first, second = (
                _gaussians_of(gamma, cloud, pair.scale, centre)
                for gamma, cloud, centre in zip(self.assignments(*clouds), clouds, centres, strict=True)
            )
        return first, second

    def assignments(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the assignments Γ (1, N, J) and (1, M, J) of normalised clouds (1, N, 3) and (1, M, 3)."""
        net: GmrNet = self.state["net"]
        return net(net.features(source)), net(net.features(target))


def usable_precision(narrowest: str, device: str) -> str:
    """Return the narrowest of `PRECISIONS`, from `narrowest` on, with which a device multiplies matrices faster."""
    import torch

    from methods.nn.inference import can_quantise

    if not is_gpu(device):
        can = torch.cpu.get_capabilities()
        faster = {"int8": can_quantise(), "bfloat16": can.get("amx_bf16") or can.get("avx512_bf16"), "float32": True}
    else:
        capability, _ = torch.cuda.get_device_capability(device)  # of this device, which need not be the current one
        faster = {"int8": False, "bfloat16": capability >= BFLOAT16_CAPABILITY, "float32": True}
    return next(name for name in PRECISIONS[PRECISIONS.index(narrowest) :] if faster[name])


def _gaussians_of(gamma: Tensor, cloud: Tensor, scale: float, centre: NDArray[np.float64]) -> Gaussians:
    """Return the mixture of a normalised cloud (1, N, 3) in the original cloud's frame and units."""
    from methods.nn.gmm import mixture

    weights, means, variances = (x[0].cpu().numpy() for x in mixture(gamma.double(), cloud.double()))
    return Gaussians(gamma[0].double().cpu().numpy(), weights, means * scale + centre, np.sqrt(variances) * scale)


def _result_or_reason(function: Callable[..., Result], *arguments: object) -> Result | NoSolution:
    """Return the result of a call, or the `NoSolution` it raises."""
    try:
        return function(*arguments)
    except NoSolution as reason:
        return reason
