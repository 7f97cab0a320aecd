"""Matches of two clouds by the learned local descriptor."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from methods.geometry import fpfh
from methods.learned.descriptor import WEIGHTS, describe, load

if TYPE_CHECKING:
    from methods.nn.descriptor import DescriptorNet

Points = NDArray[np.float64]
KEYS = 4096
"""Maximum number of points of a cloud that are described."""
METRE = 1 / 1.7
"""Length, in a pair's scale, of a metre of the scans that the descriptor was trained on."""


class Described(NamedTuple):
    """Rows (K,) of a cloud, its points (K, 3) there, and their unit descriptors (K, D)."""

    rows: NDArray[np.intp]
    points: Points
    descriptors: NDArray[np.float32]

    def at(self, chosen: NDArray[np.intp]) -> Described:
        """Return some of the points, by their positions (Q,)."""
        return Described(self.rows[chosen], self.points[chosen], self.descriptors[chosen])


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
        keys = cloud[rows]
        return Described(rows, keys, describe(self.network, cloud, keys, metre))

    def describe_both(self, source: Points, target: Points) -> tuple[Described, Described]:
        """Describe two clouds (N, 3) and (M, 3) at unit scale, on two threads if BENCH_THREADS permits."""
        from methods.nn.threads import single_threaded

        with single_threaded(1):  # threads of operations inside would wait for each other after every one
            if int(os.environ.get("BENCH_THREADS", "1")) < 2:
                return self.describe(source), self.describe(target)
            with ThreadPoolExecutor(1) as pool:
                other = pool.submit(self.describe, target)
                return self.describe(source), other.result()

    def mutual(self, source: Described, target: Described) -> NDArray[np.intp]:
        """Return index pairs (K, 2) of points whose descriptors are each other's nearest."""
        rows = fpfh.matches(source.descriptors, target.descriptors, mutual=True)
        return np.stack([source.rows[rows[:, 0]], target.rows[rows[:, 1]]], axis=1)
