"""Matches of two clouds by the learned local descriptor."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from methods.geometry import fpfh
from methods.geometry.patches import from_other_side
from methods.learned.descriptor import WEIGHTS, descriptors_of, load, moments_of

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

    def describe_both(self, source: Points, target: Points) -> tuple[Described, Described]:
        """Describe at most `KEYS` points of each of two clouds (N, 3) and (M, 3) at unit scale, on BENCH_THREADS threads.

        The normals of a cloud may point to the wrong side. Of the target's sides, that which agrees with the source's is taken.
        """
        from methods.nn.threads import single_threaded

        clouds, rows = (source, target), [_described_rows(cloud) for cloud in (source, target)]
        keys = [cloud[chosen] for cloud, chosen in zip(clouds, rows, strict=True)]
        threads = int(os.environ.get("BENCH_THREADS", "1"))
        # Threads of operations inside would wait for each other after every one.
        with single_threaded(1), ThreadPoolExecutor(threads) as pool:
            own, other = pool.map(lambda cloud, points: moments_of(self.network, cloud, points, METRE), clouds, keys)
            described = pool.map(
                lambda moments: descriptors_of(self.network, moments), [own, other, from_other_side(other)]
            )
            first, *sides = map(Described, [rows[0], rows[1], rows[1]], [keys[0], keys[1], keys[1]], described)
            agreements = list(pool.map(lambda side: agreement(first, side), sides))
        return first, sides[int(np.argmax(agreements))]

    def mutual(self, source: Described, target: Described) -> NDArray[np.intp]:
        """Return index pairs (K, 2) of points whose descriptors are each other's nearest."""
        rows = fpfh.matches(source.descriptors, target.descriptors, mutual=True)
        return np.stack([source.rows[rows[:, 0]], target.rows[rows[:, 1]]], axis=1)


def _described_rows(cloud: Points) -> NDArray[np.intp]:
    """Return the rows of the points of a cloud (N, 3) that are described, the same at every call."""
    if len(cloud) <= KEYS:
        return np.arange(len(cloud))
    return np.sort(np.random.default_rng(0).permutation(len(cloud))[:KEYS])


def agreement(source: Described, target: Described) -> float:
    """Return the sum, over mutual matches, of the fourth power of the cosine of their descriptors.

    On 47 pairs of training rooms, it is larger for the right side on all, by a fifth or more; the number of matches separates
    the sides less.
    """
    rows = fpfh.matches(source.descriptors, target.descriptors, mutual=True)
    cosines = np.einsum("ij,ij->i", source.descriptors[rows[:, 0]], target.descriptors[rows[:, 1]])
    return float((cosines**4).sum())
