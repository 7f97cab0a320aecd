"""Patches in local reference frames."""

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from methods.geometry.patches import CELLS, frames, neighbours, patches, thinned


@pytest.fixture
def cloud():
    """A bumpy surface of 3 000 points."""
    draw = np.random.default_rng(0)
    xy = draw.uniform(-1, 1, (3000, 2))
    return np.column_stack([xy, 0.2 * np.sin(4 * xy[:, 0]) * np.cos(3 * xy[:, 1] + 1)])


def test_thinning_keeps_one_point_a_cell_and_only_given_points(cloud):
    kept = thinned(cloud, 0.1)
    cells = np.floor((kept - cloud.min(axis=0)) / 0.1)
    assert len(np.unique(cells, axis=0)) == len(kept) < 700
    assert cKDTree(cloud).query(kept)[0].max() == 0


def test_neighbours_are_the_nearest_within_the_radius_in_radii(cloud):
    keys = cloud[:20]
    offsets = neighbours(cloud, keys, 0.3, 32)
    assert offsets.shape == (20, 32, 3) and np.linalg.norm(offsets, axis=2).max() <= 1
    support = thinned(cloud, 0.3 / CELLS)
    for key, offset in zip(keys, offsets, strict=True):
        away = np.linalg.norm(support - key, axis=1)
        expected = np.sort(away[away < 0.3])[:32]
        given = np.unique(np.linalg.norm(offset.astype(float), axis=1).round(5))
        np.testing.assert_allclose(given[: len(expected)], np.unique((expected / 0.3).round(5)), atol=2e-5)


def test_a_key_far_from_all_points_has_zeros(cloud):
    patch = neighbours(cloud, np.array([[9.0, 9, 9]]), 0.3, 8)
    assert (patch == 0).all()


def test_frames_are_rotations_with_z_along_the_normal(cloud):
    offsets = neighbours(cloud, cloud[:50], 0.3, 48)
    axes = frames(offsets, offsets)
    np.testing.assert_allclose(np.matmul(axes.transpose(0, 2, 1), axes), np.tile(np.eye(3), (50, 1, 1)), atol=1e-5)
    assert np.linalg.det(axes) == pytest.approx(1, abs=1e-4)
    flat = neighbours(cloud * [1, 1, 0], cloud[:50] * [1, 1, 0], 0.3, 48)
    assert np.abs(frames(flat, flat)[:, 2, 2]) == pytest.approx(1, abs=1e-5)


def test_patches_do_not_change_under_rigid_motion(cloud):
    """Without thinning, whose grid depends on the frame, patches of a moved cloud are equal."""
    R = Rotation.random(random_state=1).as_matrix()
    offsets = neighbours(cloud, cloud[:40], 0.4, 64)
    turned = offsets @ R.T.astype(np.float32)
    local = np.matmul(offsets, frames(offsets, offsets))
    np.testing.assert_allclose(np.matmul(turned, frames(turned, turned)), local, atol=2e-3)
    both = patches(cloud, cloud[:7], (0.2, 0.4), 16)
    assert [patch.shape for patch in both] == [(7, 16, 3)] * 2
