"""Pairs of scans as input of networks on the learned descriptor: a thousand points of each cloud with their descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.keys import rng
from datasets.cache import load_or_compute
from methods.core.base import Cloud
from methods.geometry.features import UnitPair, unit_pair
from methods.geometry.learned_matches import METRE
from methods.geometry.patches import thinned
from methods.learned.descriptor import describe, load

if TYPE_CHECKING:
    from torch import Tensor

    from methods.nn.descriptor import DescriptorNet

CELL = 0.1
"""Edge in nominal metres of the cells of the grid that thins a cloud."""
MOST_POINTS = 1024
"""Maximum number of points of a cloud."""


class DescribedCloud(NamedTuple):
    """Points (N, 3) in nominal metres, and their unit descriptors (N, D)."""

    points: NDArray[np.float32]
    descriptors: NDArray[np.float32]


def described_pair(
    network: DescriptorNet, source: Cloud, target: Cloud
) -> tuple[DescribedCloud, DescribedCloud, UnitPair]:
    """Thin and describe two clouds (N, 3) and (M, 3) in any unit; also return their pair at unit scale.

    A nominal metre is `METRE` of the unit scale, as for the descriptor, so that the unit of the clouds does not matter.

    Raises:
        NoSolution: a cloud does not determine a pose, see `unit_pair`.
    """
    pair = unit_pair(source, target)
    return _described(network, pair.source), _described(network, pair.target), pair


def _described(network: DescriptorNet, cloud: NDArray[np.float64]) -> DescribedCloud:
    """Describe at most `MOST_POINTS` points, the same at every call, of a centred cloud (N, 3) at unit scale.

    Grids are along the principal axes of the cloud, so that a moved cloud has the same points and descriptors.
    """
    axes = _principal_frame(cloud)
    own = cloud @ axes
    keys = thinned(own, CELL * METRE)
    if len(keys) > MOST_POINTS:
        keys = keys[np.sort(np.random.default_rng(0).permutation(len(keys))[:MOST_POINTS])]
    descriptors = describe(network, own, keys, METRE)
    return DescribedCloud((keys @ axes.T / METRE).astype(np.float32), descriptors)


def _principal_frame(cloud: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rotation (3, 3) whose columns are principal axes of a centred cloud, with signs from third moments."""
    axes = np.linalg.eigh(cloud.T @ cloud)[1]
    axes = axes * np.where(((cloud @ axes) ** 3).sum(axis=0) < 0, -1.0, 1.0)
    axes[:, 0] *= np.linalg.det(axes)
    return np.asarray(axes)


def training_batch(
    problems: Sequence[Any], points: int, device: str
) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor, Tensor]:
    """Return descriptors (B, n, D) and points (B, n, 3) of sources and targets, and true poses (B, 4, 4), in nominal metres.

    The n = `points` points of a cloud are a new random subset at every step.
    """
    import torch

    columns: list[list[NDArray[Any]]] = [[], [], [], [], []]
    for problem in problems:
        draw = rng("described scans", problem.key.seed, problem.key.index)
        arrays = _cached(problem)
        for side, name in enumerate(("source", "target")):
            count = len(arrays[name])
            rows = draw.choice(count, points, replace=count < points)
            columns[side].append(arrays[f"{name}_descriptors"][rows].astype(np.float32))
            columns[2 + side].append(arrays[name][rows])
        columns[4].append(arrays["pose"])
    x, y, source, target, T_true = (torch.from_numpy(np.stack(column)).to(device) for column in columns)
    return (x, y), source, target, T_true


def _cached(problem: Any) -> Any:
    """Return points, descriptors and true pose of a problem, from the cache if possible, since descriptors take most time."""

    def compute() -> dict[str, NDArray[Any]]:
        source, target, pair = described_pair(load()[0], problem.source, problem.target)
        pose = pair.to_unit(problem.T_target_source)
        pose[:3, 3] /= METRE
        return {
            "source": source.points,
            "source_descriptors": source.descriptors.astype(np.float16),
            "target": target.points,
            "target_descriptors": target.descriptors.astype(np.float16),
            "pose": pose,
        }

    return load_or_compute(f"described scans {problem.sha256().hex()} {_weights_sha256()}", [], compute)


def _weights_sha256() -> str:
    from methods.learned.descriptor import WEIGHTS
    from methods.learned.weights import sha256

    return sha256(WEIGHTS)
