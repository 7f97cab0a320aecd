"""Viewpoint of a scan, estimated from its normals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from methods.geometry.viewpoint import directions, viewpoint


def corner(n: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """Three faces of a room that meet in a corner, with normals of random sign."""
    rng = np.random.default_rng(0)
    uv, face = rng.uniform(0, 3, (n, 2)), rng.integers(0, 3, n)
    points, axes = np.zeros((n, 3)), np.eye(3)[face]
    for axis in range(3):
        points[face == axis] = np.insert(uv[face == axis], axis, 0, axis=1)
    return points, axes * rng.choice([-1, 1], n)[:, None]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_normals_of_a_rooms_corner_point_to_one_side(seed: int) -> None:
    points, n = corner()
    R = Rotation.random(random_state=seed).as_matrix()
    points, n = points @ R.T + 5, n @ R.T
    side = np.einsum("ij,ij->i", viewpoint(points, n) - points, n) > 0
    inward = np.einsum("ij,ij->i", R @ [1, 1, 1] * np.ones_like(n), n) > 0
    agree = np.mean(side == inward)
    assert max(agree, 1 - agree) > 0.97


def test_directions_are_unit_vectors_without_a_preferred_side() -> None:
    d = directions(80)
    assert np.allclose(np.linalg.norm(d, axis=1), 1)
    assert np.linalg.norm(d.mean(axis=0)) < 0.02
