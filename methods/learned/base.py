"""What every learned method needs beside its network: weights chosen and checked, clouds as tensors, poses restored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from common.errors import InputError
from methods.core.base import Cloud, Method, NoSolution, Pose, Unavailable
from methods.learned.weights import MALLOC, Card, available, choose, command, read_card, read_tensors, sha256

if TYPE_CHECKING:
    from torch import Tensor

OBJECTS = (0.8, 1.1)
"""Radii of the objects of the training sets, a little beyond: what networks on coordinates know."""
FOLDER = Path(__file__).parents[1] / "weights"


class Learned(Method):
    """Base of the learned methods: a subclass names its network by `parts`, and has a `register` of its own if it does more.

    Weights are chosen by the run's domain among the files in `methods/weights/`. Clouds whose radius is within
    `radii` are taken as they are, others are scaled together to radius 1.

    Class attributes a subclass sets:
        trained: the name it is trained by, which stands on the cards of its weights.
        size: the fields of the network's configuration in which a fresh network of that name differs from the default.
        radii: within which the larger cloud's radius needs no scaling.

    Parameters:
        weights: a weight file to use instead of choosing one.
        training: the condition the weights were trained under.
        sampler: of the true rotations the weights were trained on.
    """

    kind = "learned"
    requires = ("torch", "safetensors")
    environment = MALLOC

    trained: ClassVar[str] = ""
    size: ClassVar[Mapping[str, Any]] = {}
    radii: ClassVar[tuple[float, float]] = (0.5, 2.0)

    weights: str = ""
    training: str = "noisy"
    sampler: str = "axis_angle"

    @classmethod
    def parts(cls) -> tuple[type[Any], type[Any], Mapping[str, tuple[str, ...]]]:
        """The network's class, its configuration's dataclass, and what some fields of that may be."""
        raise NotImplementedError

    @classmethod
    def network(cls, **config: Any) -> Any:
        """A freshly initialised network; `config` overrides fields of its configuration."""
        net, configuration, _ = cls.parts()
        return net(configuration(**{**cls.size, **config}))

    @classmethod
    def load(cls, file: Path) -> Any:
        """The network of a weight file, whose card decides its configuration.

        Raises:
            InputError: the file is not safetensors, of another method, or its card and its tensors disagree.
        """
        net = cls.network(**cls.checked(file, read_card(file)))
        net.load_state_dict(read_tensors(file, net.state_dict()))
        return net

    @classmethod
    def checked(cls, file: Path, card: Card) -> dict[str, Any]:
        """The configuration on a card, if it is one of this network."""
        _, configuration, every_choice = cls.parts()
        if card.method != cls.trained:
            raise InputError(
                f"{file}: field 'method' is '{card.method}', not '{cls.trained}'; give weights of {cls.trained}"
            )
        odd = sorted(card.config.keys() - configuration.__dataclass_fields__.keys())
        if odd:
            raise InputError(f"{file}: field 'config.{odd[0]}' is unknown; train it again with this version")
        for name, choices in every_choice.items():
            if card.config.get(name, choices[0]) not in choices:
                raise InputError(f"{file}: field 'config.{name}' is '{card.config[name]}', not {' or '.join(choices)}")
        return {name: tuple(v) if isinstance(v, list) else v for name, v in card.config.items()}

    @classmethod
    def check_available(cls) -> None:
        """Raise `Unavailable` if nobody has trained this method yet, with the command that does."""
        if not available(cls.trained, cls.sampler, FOLDER):
            told = command(cls.trained, "shapes40", cls.training, cls.sampler)
            raise Unavailable(f"no weights of {cls.trained} are in {FOLDER.name}/; train them: {told}")

    def setup(self, device: str, seed: int, domain: str) -> None:
        """Load the weights for the domain; says which file in its note.

        Raises:
            InputError: the file is not safetensors, or not of this network.
            Unavailable: there are no weights that may be used for the domain.
        """
        import torch

        torch.set_flush_denormal(True)
        with torch.random.fork_rng(devices=[]):  # building a network draws from the global generator
            net = self.prepared(domain)
        self.state.update(net=net.to(device).eval(), device=device)

    def prepared(self, domain: str) -> Any:
        """The network with the weights for a domain, or with those asked for."""
        asked = Path(self.weights) if self.weights else None
        file = asked or choose(self.trained, domain, self.training, FOLDER, self.sampler)
        self.state["weights"] = file.name
        self.note(weights=file.name, sha256=sha256(file))
        return self.load(file)

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`: what the network estimates from its prepared input."""
        import torch

        net = self.state["net"]
        pair, scale, centres = self.tensors(source, target)
        with torch.inference_mode():
            with self.stage("features"):
                prepared = net.prepare(*pair)
            with self.stage("network"):
                T = net.estimate(prepared, *pair).T[0].cpu().numpy()
        return restored(T, scale, centres)

    def tensors(self, source: Cloud, target: Cloud) -> tuple[list[Tensor], float, list[Pose]]:
        """Both clouds (1, N, 3) float32 on the device, centred and of unit size; the scale and the centroids taken away.

        Raises:
            NoSolution: not finite, no extent, or too few points for the features.
        """
        import torch

        least = self.state["net"].config.least_points
        if min(len(source), len(target)) < least:
            raise NoSolution(f"a cloud has {min(len(source), len(target))} points; the features need {least}")
        # Coordinates in rows: sums and products along columns of three take four times as long.
        clouds = [np.array(cloud.T, dtype=np.float64, order="C") for cloud in (source, target)]
        with np.errstate(invalid="ignore"):  # of infinite coordinates
            centres = [cloud.mean(axis=1) for cloud in clouds]
        if not np.isfinite(centres).all():  # as little as one coordinate is seen in it
            raise NoSolution("a coordinate is not finite")
        centred = [cloud - centre[:, None] for cloud, centre in zip(clouds, centres, strict=True)]
        radius = max(float(np.sqrt(np.einsum("cn,cn->n", cloud, cloud).max())) for cloud in centred)
        if radius == 0:
            raise NoSolution("all points are equal")
        scale = 1.0 if self.radii[0] <= radius <= self.radii[1] else radius
        made = [torch.from_numpy(np.array(cloud.T / scale, dtype=np.float32, order="C"))[None] for cloud in centred]
        return [cloud.to(self.state["device"]) for cloud in made], scale, centres


def restored(T: Pose, scale: float, centres: list[Pose]) -> Pose:
    """The pose (4, 4) between the clouds as given, from the one between centred and scaled clouds.

    Raises:
        NoSolution: the pose is not finite.
    """
    if not np.isfinite(T).all():
        raise NoSolution("the network's answer is not finite")
    found = T.copy()
    found[:3, 3] = scale * T[:3, 3] + centres[1] - T[:3, :3] @ centres[0]
    return found
