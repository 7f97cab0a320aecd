"""The learned local descriptor: its weights, and the descriptors of the points of a cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from methods.core.base import Unavailable
from methods.geometry.patches import patches
from methods.learned.trained import Trained
from methods.learned.weights import WEIGHTS_FOLDER, sha256

if TYPE_CHECKING:
    from methods.nn.descriptor import DescriptorNet

Points = NDArray[np.float64]
WEIGHTS = WEIGHTS_FOLDER / "descriptor_rooms.safetensors"
"""File of the weights; the command that trains them is on its card."""
CHUNK = 512
"""Patches that pass through the network together, a choice."""


class Descriptor(Trained):
    """Descriptors of points from the patches around them, trained on `rooms`."""

    trained = "descriptor"

    @classmethod
    def network_type(cls) -> type[DescriptorNet]:
        """See `Trained.network_type`."""
        from methods.nn.descriptor import DescriptorNet

        return DescriptorNet


def check_weights() -> None:
    """Raise `Unavailable`, with the training command, if there are no weights."""
    if not WEIGHTS.is_file():
        raise Unavailable(
            f"{WEIGHTS.name} is not in {WEIGHTS.parent.name}/; train it: bench.py train descriptor "
            f'--dataset "rooms[split=train]" --condition real --name {WEIGHTS.stem}'
        )


def load() -> tuple[Any, str]:
    """Return the network with its weights, for inference, and the SHA-256 of the weight file.

    Raises:
        Unavailable: there are no weights.
    """
    import torch

    check_weights()
    with torch.random.fork_rng(devices=[]):  # building a network draws from the global generator
        network = Descriptor.load(WEIGHTS)
    return network.eval(), sha256(WEIGHTS)


def describe(network: DescriptorNet, cloud: Points, keys: Points, metre: float) -> NDArray[np.float32]:
    """Compute the unit descriptors (K, D) of keys (K, 3).

    Args:
        network: with weights.
        cloud: (N, 3), whose points are in the patches.
        keys: points to describe.
        metre: the length in the cloud's unit that corresponds to a metre of an indoor scan.
    """
    return descriptors_of(network, moments_of(network, cloud, keys, metre))


def moments_of(network: DescriptorNet, cloud: Points, keys: Points, metre: float) -> NDArray[np.float32]:
    """Compute the moments (K, S, *SUMS) of the patches of keys, see `describe`."""
    config = network.config
    return patches(cloud, keys, tuple(metre * radius for radius in config.radii), config.points)


def descriptors_of(network: DescriptorNet, moments: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute the unit descriptors (K, D) of patches by their moments."""
    import torch

    with torch.inference_mode():
        parts = [torch.from_numpy(moments[start : start + CHUNK]) for start in range(0, len(moments), CHUNK)]
        return np.asarray(torch.cat([network(part) for part in parts]).numpy())
