"""Patches as moments about the normals of their centres."""

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from methods.geometry.patches import (
    CELLS,
    LEVELS,
    RINGS,
    SUMS,
    USUAL,
    averaged,
    from_other_side,
    hollow_side,
    least_spread,
    moments_about,
    neighbours,
    patches,
    thinned,
)
from methods.native import descriptor as native


@pytest.fixture
def cloud():
    """A bumpy surface of 3 000 points."""
    draw = np.random.default_rng(0)
    xy = draw.uniform(-1, 1, (3000, 2))
    return np.column_stack([xy, 0.2 * np.sin(4 * xy[:, 0]) * np.cos(3 * xy[:, 1] + 1)])


def compared(moments):
    """Return the magnitudes of the moments (K, C), and their phases relative to those of the first cell that is not empty."""
    powers = moments[:, 1::2] + 1j * moments[:, 2::2]
    first = np.abs(powers).argmax(axis=2)[:, :, None]
    return moments[:, 0], powers * np.take_along_axis(powers, first, axis=2).conj()


def test_thinning_keeps_one_point_a_cell_and_only_given_points(cloud):
    kept = thinned(cloud, 0.1)
    cells = np.floor((kept - cloud.min(axis=0)) / 0.1)
    assert len(np.unique(cells, axis=0)) == len(kept) < 700
    assert cKDTree(cloud).query(kept)[0].max() == 0


def test_averages_are_the_means_of_the_cells(cloud):
    cells = np.floor((cloud - cloud.min(axis=0)) / 0.1)
    expected = [cloud[(cells == cell).all(axis=1)].mean(axis=0) for cell in np.unique(cells, axis=0)]
    np.testing.assert_allclose(averaged(cloud, 0.1), expected, atol=1e-12)


def test_neighbours_are_the_nearest_within_the_radius_in_radii(cloud):
    keys, support = cloud[:20], averaged(cloud, 0.3 / CELLS)
    offsets, within = neighbours(support, keys, 0.3, 32)
    assert offsets.shape == (20, 32, 3) and np.linalg.norm(offsets, axis=2).max() <= 1
    assert (offsets[~within] == 0).all()
    for key, offset, there in zip(keys, offsets, within, strict=True):
        away = np.linalg.norm(support - key, axis=1)
        expected = np.sort(away[away < 0.3])[:32]
        given = np.sort(np.linalg.norm(offset[there], axis=1))
        np.testing.assert_allclose(given, expected / 0.3, atol=1e-9)


def test_a_key_far_from_all_points_has_zeros(cloud):
    offsets, within = neighbours(cloud, np.array([[9.0, 9, 9]]), 0.3, 8)
    assert (offsets == 0).all() and not within.any()
    assert (patches(cloud, np.array([[9.0, 9, 9]]), (0.3, 0.6), 8) == 0).all()


def test_normals_are_across_a_plane(cloud):
    flat = cloud * [1, 1, 0]
    assert np.abs(least_spread(neighbours(flat, flat[:50], 0.3, 48)[0])[:, 2]) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("depth", [0.5, -0.5])
def test_normals_point_to_the_hollow_side(cloud, depth):
    bowl = np.column_stack([cloud[:, :2], depth * (cloud[:, :2] ** 2).sum(axis=1)])
    offsets, _ = neighbours(averaged(bowl, 0.1), bowl, 0.5, 64)
    directions = least_spread(offsets) * np.random.default_rng(0).choice([-1, 1], (len(bowl), 1))
    inside = hollow_side(bowl, directions, offsets).facing(bowl, directions)
    assert (np.sign(depth) * inside[:, 2] > 0).all()


def test_moments_share_a_point_among_the_cells_beside_it():
    axes = np.array([[0.0, 0, 1]])
    ring, level = 2.25, 3.5
    distance, height = ring / (RINGS - 1), 2 * level / (LEVELS - 1) - 1
    for turn in (0.0, 0.3):
        offset = np.array([[[distance * np.cos(turn), distance * np.sin(turn), height]]])
        found = USUAL * moments_about(offset, np.array([[True]]), axes)[0].reshape(-1, RINGS, LEVELS)
        expected = np.zeros((RINGS, LEVELS))
        expected[2, 3:5], expected[3, 3:5] = 0.75 / 2, 0.25 / 2
        np.testing.assert_allclose(found[0], expected, atol=1e-5)
        for k in range(1, len(found), 2):
            np.testing.assert_allclose(np.hypot(found[k], found[k + 1]), expected, atol=1e-5)
    powers = found[1::2] + 1j * found[2::2]
    zero = USUAL * moments_about(np.array([[[distance, 0, height]]]), np.array([[True]]), axes)[0].reshape(found.shape)
    turned = powers[:, 2, 3] / (zero[1::2] + 1j * zero[2::2])[:, 2, 3]
    np.testing.assert_allclose(turned, np.exp(0.3j * np.arange(1, len(turned) + 1)), atol=1e-5)


def test_patches_do_not_change_under_rigid_motion(cloud):
    """Without thinning, whose grid depends on the frame, moments of a moved cloud differ by phases alone."""
    R = Rotation.random(random_state=1).as_matrix()
    offsets, within = neighbours(cloud, cloud[:40], 0.4, 64)
    axes = least_spread(offsets)
    local, turned = (
        compared(moments_about(offsets, within, axes)),
        compared(moments_about(offsets @ R.T, within, axes @ R.T)),
    )
    for a, b in zip(local, turned, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-4)
    assert patches(cloud, cloud[:7], (0.2, 0.4), 16).shape == (7, 2, *SUMS)


def test_the_other_side_has_the_moments_about_the_opposite_axes(cloud):
    offsets, within = neighbours(cloud, cloud[:40], 0.4, 64)
    axes = least_spread(offsets)
    opposite = moments_about(offsets, within, -axes)
    turned = from_other_side(moments_about(offsets, within, axes)[:, None])[:, 0]
    for a, b in zip(compared(turned), compared(opposite), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-4)


@pytest.mark.parametrize("points", [800, 3000])
def test_the_kernel_computes_the_same_moments(cloud, points, monkeypatch):
    """Also at the border of a cloud, where patches have fewer points."""
    if native.KERNEL.load() is None:
        pytest.skip("the kernel cannot be had here")
    cloud = cloud[:points]
    keys = np.concatenate([cloud[:200], [[9.0, 9, 9]]])
    ours = patches(cloud, keys, (0.2, 0.4), 40)
    monkeypatch.setattr(native, "KERNEL", NoKernel)
    np.testing.assert_allclose(ours, patches(cloud, keys, (0.2, 0.4), 40), atol=1e-5)


class NoKernel:
    """A kernel that cannot be built."""

    @staticmethod
    def load():
        """Find no library."""
        return
