"""DeepGMR (Yuan et al., ECCV 2020): learned, pose-invariant assignments of points to Gaussians, and a closed-form pose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from common.errors import InputError
from methods.base import Cloud, Method, NoSolution, Pose
from methods.nn.weights import MALLOC, Card, choose, read_card, read_tensors, sha256

if TYPE_CHECKING:
    from torch import Tensor

    from methods.nn.gmr import GmrNet

FOLDER = Path(__file__).parent / "weights"
_UNTRAINED_SEED = 0
_UNIT_RADIUS = (0.5, 2.0)


class DeepGMR(Method):
    """Learned shares of each point in J Gaussians, from features no rotation changes; the pose aligns the Gaussians.

    Weights are chosen by the run's domain among the files in `methods/weights/`. Clouds of unit objects (radius 0.5 to 2)
    are taken as they are, others are scaled together to radius 1.

    Parameters:
        weights: a weight file to use instead of choosing one.
        training: the condition the weights were trained under.
        untrained: a control: the network as initialised, its batch norms using each cloud's own statistics as at the
            first step of training. What the mathematics gives without learning.
    """

    kind = "learned"
    requires = ("torch", "safetensors")
    environment = MALLOC
    variants = {"deepgmr": {}}

    weights: str = ""
    training: str = "noisy"
    untrained: bool = False

    @classmethod
    def network(cls, **config: Any) -> GmrNet:
        """A freshly initialised network; `config` overrides fields of `methods.nn.gmr.GmrConfig`."""
        from methods.nn.gmr import GmrConfig, GmrNet

        return GmrNet(GmrConfig(**config))

    def setup(self, device: str, seed: int, domain: str) -> None:
        """Load the weights for the domain; says which file in its note.

        Raises:
            InputError: the file is not safetensors, or not of this network.
            Unavailable: there are no weights that may be used for the domain.
        """
        import torch

        torch.set_flush_denormal(True)
        self.state["weights"] = "none: untrained"
        with torch.random.fork_rng(devices=[]):  # building a network draws from the global generator
            net = untrained() if self.untrained else self.chosen(domain)
        self.state.update(net=net.to(device).eval(), device=device)

    def chosen(self, domain: str) -> GmrNet:
        """The network with the weights for a domain, or with those asked for."""
        file = Path(self.weights) if self.weights else choose("deepgmr", domain, self.training, FOLDER)
        self.state["weights"] = file.name
        self.note(weights=file.name, sha256=sha256(file))
        return load_network(file)

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
        if not np.isfinite(T).all():
            raise NoSolution("the network's answer is not finite")
        return _restored(T, scale, centres)

    def tensors(self, source: Cloud, target: Cloud) -> tuple[list[Tensor], float, list[Pose]]:
        """Both clouds (1, N, 3) float32 on the device, centred and of unit size; the scale and the centroids taken away.

        Raises:
            NoSolution: not finite, no extent, or too few points for the features.
        """
        import torch

        clouds = [np.asarray(cloud, dtype=np.float64) for cloud in (source, target)]
        least = self.state["net"].config.least_points
        if min(map(len, clouds)) < least:
            raise NoSolution(f"a cloud has {min(map(len, clouds))} points; the features need {least}")
        if not all(np.isfinite(cloud).all() for cloud in clouds):
            raise NoSolution("a coordinate is not finite")
        centres = [cloud.mean(axis=0) for cloud in clouds]
        centred = [cloud - centre for cloud, centre in zip(clouds, centres, strict=True)]
        radius = max(float(np.linalg.norm(cloud, axis=1).max()) for cloud in centred)
        if radius == 0:
            raise NoSolution("all points are equal")
        scale = 1.0 if _UNIT_RADIUS[0] <= radius <= _UNIT_RADIUS[1] else radius
        made = [torch.from_numpy((cloud / scale).astype(np.float32))[None] for cloud in centred]
        return [cloud.to(self.state["device"]) for cloud in made], scale, centres


class Untrained(DeepGMR):
    """DeepGMR as initialised: what its mathematics gives without learning, beside every row of the trained one."""

    kind = "control"
    variants = {"deepgmr_untrained": {}}

    untrained: bool = True


def _restored(T: Pose, scale: float, centres: list[Pose]) -> Pose:
    """The pose between the clouds as given, from the one between centred and scaled clouds."""
    T[:3, 3] = scale * T[:3, 3] + centres[1] - T[:3, :3] @ centres[0]
    return T


def load_network(file: Path) -> GmrNet:
    """The network of a weight file, batch norms folded.

    Raises:
        InputError: the file is not safetensors, of another method, or its card and its tensors disagree.
    """
    card = read_card(file)
    net = DeepGMR.network(**_checked(file, card))
    net.load_state_dict(read_tensors(file, net.state_dict()))
    net.backbone.fold()
    return net


def _checked(file: Path, card: Card) -> dict[str, Any]:
    """The configuration on a card, if it is one of this network."""
    from methods.nn.gmr import CHOICES, GmrConfig

    if card.method != "deepgmr":
        raise InputError(f"{file}: field 'method' is '{card.method}', not 'deepgmr'; give weights of deepgmr")
    known = GmrConfig.__dataclass_fields__
    odd = sorted(card.config.keys() - known.keys())
    if odd:
        raise InputError(f"{file}: field 'config.{odd[0]}' is unknown; train it again with this version")
    for name, choices in CHOICES.items():
        if card.config.get(name, choices[0]) not in choices:
            raise InputError(f"{file}: field 'config.{name}' is '{card.config[name]}', not {' or '.join(choices)}")
    return {name: tuple(v) if isinstance(v, list) else v for name, v in card.config.items()}


def untrained() -> GmrNet:
    """The network as initialised from a fixed seed; its batch norms use the statistics of the cloud at hand."""
    import torch

    torch.manual_seed(_UNTRAINED_SEED)
    net = DeepGMR.network()
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.running_mean = module.running_var = None
            module.track_running_stats = False
    return net
