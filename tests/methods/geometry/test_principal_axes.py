"""Distances of alignments against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from methods.geometry.principal_axes import distances
from tests.methods.clouds import pose


def solid(seed: int, n: int = 300) -> np.ndarray:
    """Points of a solid with three different extents and no symmetry."""
    x = np.random.default_rng(seed).uniform(0, 1, (n, 3))
    cloud = np.stack([x[:, 0] * (1 + 0.5 * x[:, 1]), 0.6 * x[:, 1], 0.3 * x[:, 2] * x[:, 0]], axis=1)
    return cloud - cloud.mean(axis=0)


def test_distances_against_brute_force() -> None:
    source, target, T = solid(0, 40), solid(1, 50), pose(5)
    every = np.linalg.norm((source @ T[:3, :3].T + T[:3, 3])[:, None] - target[None], axis=2).min(axis=1)
    measured = distances(source, target, T[None, :3, :3], T[None, :3, 3], 0.5, 40)
    assert measured == pytest.approx(np.sort(every)[:20].mean())


@pytest.mark.parametrize("unit", [1e-30, 1e-3, 1e25])
def test_distances_are_proportional_to_the_unit(unit: float) -> None:
    source, target, T = solid(0), solid(1), pose(40)
    pose_of = T[None, :3, :3], T[None, :3, 3]
    scaled = distances(unit * source, unit * target, pose_of[0], unit * pose_of[1], 0.8, 100)
    assert scaled / unit == pytest.approx(distances(source, target, *pose_of, 0.8, 100), rel=1e-5)
