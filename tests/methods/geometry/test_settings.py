"""Settings that follow from the kind of the data and the resolution of the clouds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from common.kinds import DataKind
from methods.geometry.features import unit_pair
from methods.geometry.settings import FINEST, OBJECTS, cell, feature_settings, resolution, voxel_means
from methods.ransac import Ransac
from tests.methods.clouds import lumpy, turned_pair


def grid(edge: float, side: int = 30) -> np.ndarray:
    x, y = np.meshgrid(np.arange(side) * edge, np.arange(side) * edge)
    return np.stack([x.ravel(), y.ravel(), np.zeros(side**2)], axis=1)


def test_the_resolution_of_a_square_grid_is_its_edge() -> None:
    assert resolution(grid(0.03)) == pytest.approx(0.03)
    assert cell(grid(0.03), grid(0.05)) == pytest.approx(0.05)
    assert cell(grid(0.001), grid(0.002)) == FINEST


def test_settings_of_objects_do_not_depend_on_the_clouds() -> None:
    assert feature_settings(DataKind.OBJECTS, grid(0.01), grid(0.2)) == OBJECTS
    assert (type(OBJECTS)(0.0, 0.2, 0.5, 100, "outward", 0.06)) == OBJECTS


@pytest.mark.parametrize("kind", [DataKind.SCANS, DataKind.RANGE_IMAGES])
def test_lengths_of_partial_scans_grow_with_the_resolution(kind: DataKind) -> None:
    fine, coarse = (feature_settings(kind, grid(e), grid(e)) for e in (0.04, 0.08))
    for name in ("voxel", "normal_radius", "feature_radius", "distance"):
        assert getattr(coarse, name) == pytest.approx(2 * getattr(fine, name))


def test_settings_of_partial_scans_are_those_of_the_committed_runs() -> None:
    """Radii of normals and features and the distance of inliers in voxels; other values make other methods of those compared."""
    edge, cloud = 0.04, grid(0.04)
    for kind, voxels, orientation in (
        (DataKind.SCANS, (2, 5, 2), "viewpoint"),
        (DataKind.RANGE_IMAGES, (3, 8, 1.5), "outward"),
    ):
        normal, feature, distance = (edge * count for count in voxels)
        settings = feature_settings(kind, cloud, cloud)
        lengths = (settings.normal_radius, settings.feature_radius, settings.distance)
        assert lengths == pytest.approx((normal, feature, distance))
        assert (settings.feature_neighbours, settings.orientation) == (400, orientation)


def test_given_settings_take_precedence() -> None:
    source, target, _ = turned_pair(30)
    method = Ransac(voxel=0.2, feature_radius=0.7, orientation="none")
    method.adapt(DataKind.SCANS)
    pair, settings = method.prepared(source, target)
    assert (settings.voxel, settings.feature_radius, settings.orientation) == (0.2, 0.7, "none")
    assert settings.normal_radius == pytest.approx(0.4) and len(pair.source) < len(source) / 2


def test_means_of_cells_move_with_the_cloud_and_keep_its_mass() -> None:
    cloud = lumpy(2000)
    means = voxel_means(cloud, 0.1)
    assert 100 < len(means) < 1000
    R = Rotation.random(random_state=1).as_matrix()
    again = voxel_means(cloud @ R.T + 3, 0.1)
    assert np.allclose(np.sort((means @ R.T + 3) @ [1, 2, 4]), np.sort(again @ [1, 2, 4]), atol=1e-9)
    one = voxel_means(cloud, 10.0)
    assert len(one) <= 8


def test_unit_pairs_of_objects_are_not_thinned() -> None:
    source, target, _ = turned_pair(30)
    pair, settings = Ransac().prepared(source, target)
    assert settings == OBJECTS
    assert np.array_equal(pair.source, unit_pair(source, target).source)
