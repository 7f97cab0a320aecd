"""Distances of alignments against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from methods.geometry.principal_axes import candidates, distances, principal_axes
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


def test_distances_do_not_depend_on_the_order_of_the_source() -> None:
    source, target, T = solid(0), solid(1), pose(5)
    shuffled = np.random.default_rng(0).permutation(source)
    one, other = (distances(cloud, target, T[None, :3, :3], T[None, :3, 3], 0.8, 300) for cloud in (source, shuffled))
    assert one == pytest.approx(other, rel=1e-12)


@pytest.mark.parametrize("unit", [1e-30, 1e-3, 1e25])
def test_distances_are_proportional_to_the_unit(unit: float) -> None:
    source, target, T = solid(0), solid(1), pose(40)
    pose_of = T[None, :3, :3], T[None, :3, 3]
    scaled = distances(unit * source, unit * target, pose_of[0], unit * pose_of[1], 0.8, 100)
    assert scaled / unit == pytest.approx(distances(source, target, *pose_of, 0.8, 100), rel=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_alignments_are_the_24_rotations_that_map_axes_to_axes_whatever_the_clouds(seed: int) -> None:
    """Also of clouds that are no copies of each other, whose frames may differ in handedness before it is fixed."""
    source, target = solid(seed), solid(seed + 100) * np.where(np.random.default_rng(seed).random(3) < 0.5, -1, 1)
    found = candidates(source, target, 0.8, 100)
    assert np.allclose(np.linalg.det(found.rotations), 1)
    assert np.allclose(found.rotations @ found.rotations.transpose(0, 2, 1), np.eye(3))
    assert (np.diff(found.distances) >= 0).all()
    in_axes = principal_axes(target).T @ found.rotations @ found.axes
    signed = np.rint(in_axes)
    assert np.allclose(in_axes, signed, atol=1e-9) and len(np.unique(signed, axis=0)) == len(signed) == 24
