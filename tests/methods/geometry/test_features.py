"""Unit pairs and normals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from methods.base import NoSolution, rigid
from methods.geometry.features import normals, radius, unit_pair
from tests.methods.clouds import lumpy, turned_pair


def test_unit_pair_is_the_same_under_rotation_and_its_poses_go_there_and_back() -> None:
    source, target, truth = turned_pair(120)
    pair = unit_pair(source, target)
    assert unit_pair(source @ truth[:3, :3].T, target).scale == pytest.approx(pair.scale, rel=1e-5)
    assert np.allclose(pair.to_original(pair.to_unit(truth)), truth)
    moved = source @ truth[:3, :3].T + truth[:3, 3]
    unit = pair.source @ pair.to_unit(truth)[:3, :3].T + pair.to_unit(truth)[:3, 3]
    assert np.allclose(unit * pair.scale + pair.target_centre, moved, atol=1e-5)
    with pytest.raises(NoSolution, match="not a rotation"):
        pair.to_original(np.diag([1.0, 1.0, -1.0, 1.0]))
    with pytest.raises(NoSolution, match="not finite"):
        pair.to_original(np.full((4, 4), np.nan))


def test_an_answer_is_a_rotation_to_rounding_and_nothing_else() -> None:
    source, target, _ = turned_pair(120)
    pair = unit_pair(source, target)
    for R in Rotation.random(50, random_state=0).as_matrix():
        np.testing.assert_array_equal(pair.to_original(rigid(R, np.ones(3)))[:3, :3], R)
        sheared = R + 1e-4 * np.outer(R[0], R[1])
        for wrong in (-R, R[:, [1, 0, 2]], 1.001 * R, 0.999 * R, sheared, np.zeros((3, 3))):
            with pytest.raises(NoSolution, match="not a rotation"):
                pair.to_original(rigid(wrong, np.ones(3)))


@pytest.mark.parametrize("n", [3, 4, 20, 21, 1000])
def test_the_radius_is_numpys_quantile(n: int) -> None:
    cloud = lumpy(n)
    assert radius((cloud**2).sum(axis=1)) == pytest.approx(np.quantile(np.linalg.norm(cloud, axis=1), 0.95), rel=1e-12)


def test_three_points_are_enough_for_the_check() -> None:
    corners = np.eye(3, dtype=np.float32)
    assert unit_pair(corners, corners).source.shape == (3, 3)


@pytest.mark.parametrize("orientation", ["outward", "tangent_plane"])
def test_normals_of_a_sphere_point_outward(orientation: str) -> None:
    u = lumpy(800)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    n = normals(u, 0.3, orientation)
    assert np.mean(np.einsum("ij,ij->i", n, u) > 0.9) > 0.99
