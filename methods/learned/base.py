"""Base of the learned methods: choose and check weights, normalise clouds, and undo the normalisation in the pose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from common.text import counted
from methods.core.base import Cloud, Method, NoSolution, Pose, Unavailable
from methods.learned.trained import Trained
from methods.learned.weights import (
    MALLOC,
    WEIGHTS_FOLDER,
    available,
    choose,
    sha256,
    training_command,
)

if TYPE_CHECKING:
    from torch import Tensor

OBJECT_RADII = (0.8, 1.1)
"""Range of the radii of the training objects, with a margin: the sizes known to networks on coordinates."""


class Network(Protocol):
    """Interface of a learned method's `torch.nn.Module`, used by the training loop and by `Learned.register`.

    Attributes:
        config: a dataclass, stored on the weights' card, with the property `least_points`, the minimum size of a cloud. If it
            has a true field `symmetric`, the loss receives every pose that maps the object onto itself.
    """

    config: Any

    def prepare(self, source: Tensor, target: Tensor) -> Any:
        """Compute what does not depend on the weights from clouds (B, N, 3) and (B, M, 3), without gradients."""

    def estimate(self, prepared: Any, source: Tensor, target: Tensor) -> tuple[Any, ...]:
        """Return T_target_source (B, 4, 4) float64, followed by whatever else the loss needs."""

    def loss(self, estimate: Any, T_true: Tensor) -> Tensor:
        """Return the scalar loss for T_target_source (B, 4, 4) float64, or (B, G, 4, 4) if `symmetric`."""


class NormalisedPair(NamedTuple):
    """Two clouds as a network's input: centred, and scaled together.

    Attributes:
        source: (1, N, 3) float32.
        target: (1, M, 3) float32.
        scale: the length in the original unit that is 1 here.
        source_centre: centroid (3,) in the original frame and unit.
        target_centre: centroid (3,) in the original frame and unit.
    """

    source: Tensor
    target: Tensor
    scale: float
    source_centre: Pose
    target_centre: Pose

    def denormalise(self, T: Pose) -> Pose:
        """Convert a pose (4, 4) between the normalised clouds to one between the original clouds.

        Raises:
            NoSolution: the pose is not finite.
        """
        if not np.isfinite(T).all():
            raise NoSolution("the network's pose is not finite")
        pose = T.copy()
        pose[:3, 3] = self.scale * T[:3, 3] + self.target_centre - T[:3, :3] @ self.source_centre
        return pose


class Learned(Trained, Method):
    """Base of the learned methods; a subclass names its network by `network_type` and may override `register`.

    Weights are chosen by the run's domain among the files in `methods/weights/`. Clouds whose radius is within `radii` keep
    their scale; others are scaled together to radius 1.

    Class attributes a subclass sets:
        trained, size: see `Trained`.
        radii: range of the larger cloud's radius within which the pair is not scaled.

    Parameters:
        weights: a weight file to use instead of choosing one.
        training: the condition the weights were trained under.
        sampler: of the true rotations the weights were trained on.
    """

    kind = "learned"
    requires = ("torch", "safetensors")
    devices = ("cpu", "cuda")
    environment = MALLOC

    radii: ClassVar[tuple[float, float]] = (0.5, 2.0)

    weights: str = ""
    training: str = "noisy"
    sampler: str = "axis_angle"

    @classmethod
    def check_available(cls) -> None:
        """Raise `Unavailable`, with the training command, if there are no weights of this method."""
        if not available(cls.trained, cls.sampler, WEIGHTS_FOLDER):
            command = training_command(cls.trained, "shapes40", cls.training, cls.sampler)
            raise Unavailable(f"no weights of {cls.trained} are in {WEIGHTS_FOLDER.name}/; train them: {command}")

    def setup(self, device: str, seed: int, domain: str) -> None:
        """Load the weights for the domain; note the file.

        Raises:
            InputError: the file is not safetensors, or not of this network.
            Unavailable: there are no weights that may be used for the domain.
        """
        import torch

        torch.set_flush_denormal(True)
        with torch.random.fork_rng(devices=[]):  # building a network draws from the global generator
            net = self.network_for(domain)
        self.state.update(net=net.to(device).eval(), device=device)

    def network_for(self, domain: str) -> Any:
        """Load the network with the weights for a domain, or with those of the parameter `weights`."""
        file = Path(self.weights)
        if not self.weights:
            file = choose(self.trained, domain, self.training, WEIGHTS_FOLDER, self.sampler)
        self.state["weights"] = file.name
        self.note(weights=file.name, sha256=sha256(file))
        return self.load(file)

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`: the network's estimate from its prepared input."""
        import torch

        from methods.nn.pair_batch import to_device

        net = self.state["net"]
        pair = self.normalise(source, target)
        with torch.inference_mode():
            with self.stage("features"):
                clouds = to_device((pair.source, pair.target), self.state["device"])
                prepared = net.prepare(*clouds)
            with self.stage("network"):
                T = net.estimate(prepared, *clouds).T[0].cpu().numpy()
        return pair.denormalise(T)

    def normalise(self, source: Cloud, target: Cloud) -> NormalisedPair:
        """Centre and scale two clouds (N, 3) and (M, 3), as tensors in the host's memory.

        Raises:
            NoSolution: a coordinate is not finite, all points are equal, or there are too few points for the features.
        """
        import torch

        least = self.state["net"].config.least_points
        if min(len(source), len(target)) < least:
            raise NoSolution(
                f"a cloud has {counted(min(len(source), len(target)), 'point')}; the features need {least}"
            )
        # Coordinates in rows: sums and products along columns of three take four times as long.
        clouds = [np.array(cloud.T, dtype=np.float64, order="C") for cloud in (source, target)]
        with np.errstate(invalid="ignore"):  # of infinite coordinates
            centres = [cloud.mean(axis=1) for cloud in clouds]
        if not np.isfinite(centres).all():  # every coordinate contributes to the centroid
            raise NoSolution("a coordinate is not finite")
        centred = [cloud - centre[:, None] for cloud, centre in zip(clouds, centres, strict=True)]
        radius = max(float(np.sqrt(np.einsum("cn,cn->n", cloud, cloud).max())) for cloud in centred)
        if radius == 0:
            raise NoSolution("all points are equal")
        scale = 1.0 if self.radii[0] <= radius <= self.radii[1] else radius
        rows = (np.array(cloud.T / scale, dtype=np.float32, order="C") for cloud in centred)
        tensors = [torch.from_numpy(cloud)[None] for cloud in rows]
        return NormalisedPair(tensors[0], tensors[1], scale, centres[0], centres[1])
