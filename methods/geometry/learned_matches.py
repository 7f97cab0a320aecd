"""Matches of two clouds by the learned local descriptor."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from methods.learned.descriptor import WEIGHTS, describe, load

if TYPE_CHECKING:
    from methods.nn.descriptor import DescriptorNet

Points = NDArray[np.float64]
KEYS = 4096
"""Maximum number of points of a cloud that are described."""
METRE = 1 / 1.7
"""Length, in a pair's scale, of a metre of the scans that the descriptor was trained on."""


class Described(NamedTuple):
    """Rows (K,) of a cloud and the unit descriptors (K, D) of its points."""

    rows: NDArray[np.intp]
    descriptors: NDArray[np.float32]


@dataclass(frozen=True)
class LearnedMatcher:
    """Descriptor network with its weights.

    Attributes:
        network: the network.
        provenance: name and SHA-256 of the weight file.
    """

    network: DescriptorNet
    provenance: dict[str, str]

    @classmethod
    def load(cls) -> LearnedMatcher:
        """Load the weights.

        Raises:
            Unavailable: there are none.
        """
        network, sha256 = load()
        return cls(network, {"weights": WEIGHTS.name, "sha256": sha256})

    def describe(self, cloud: Points, metre: float = METRE) -> Described:
        """Describe at most `KEYS` points, the same at every call, of a cloud (N, 3) at unit scale."""
        rows = np.arange(len(cloud))
        if len(cloud) > KEYS:
            rows = np.sort(np.random.default_rng(0).permutation(len(cloud))[:KEYS])
        threads = int(os.environ.get("BENCH_THREADS", "1"))
        return Described(rows, describe(self.network, cloud, cloud[rows], metre, threads))

    def mutual(self, source: Described, target: Described) -> NDArray[np.intp]:
        """Return index pairs (K, 2) of points whose descriptors are each other's nearest."""
        import torch

        scores = torch.from_numpy(source.descriptors) @ torch.from_numpy(target.descriptors).T
        forward, back = scores.argmax(dim=1).numpy(), scores.argmax(dim=0).numpy()
        kept = np.flatnonzero(back[forward] == np.arange(len(forward)))
        return np.stack([source.rows[kept], target.rows[forward[kept]]], axis=1)
