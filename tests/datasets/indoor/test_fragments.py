"""Fusion of frames, and paths of the camera."""

import numpy as np

from common.keys import rng
from datasets.indoor.camera import Camera
from datasets.indoor.fragments import VOXEL, Path, fragment, fuse, paths
from datasets.indoor.layout import KINDS, furnished
from datasets.indoor.walls import panel

CAMERA = Camera(width=48, height=36, focal=44.0)


def test_fusion_averages_noise_and_keeps_one_layer():
    """Twenty noisy images of a wall give one point a voxel, nearer to the wall than a single measurement."""
    draw = np.random.default_rng(0)
    images = [2.01 + 0.02 * draw.standard_normal((36, 48)) for _ in range(20)]
    points = fuse(images, [np.eye(4)] * 20, CAMERA)
    assert np.abs(points[:, 2] - 2.01).std() < 0.01
    cells = np.floor(points / VOXEL)
    assert len(np.unique(cells, axis=0)) == len(points) > 1000
    columns = np.unique(cells[:, :2], axis=0)
    assert len(points) < 1.3 * len(columns)


def test_what_one_frame_alone_measures_is_left_out():
    image = np.full((36, 48), 2.01)
    other = np.where(np.arange(48) < 24, 2.01, 0.0) * np.ones((36, 1))
    points = fuse([image, other], [np.eye(4)] * 2, CAMERA)
    assert points[:, 0].max() < 0.05 and len(points) > 100


def test_a_fragment_lies_on_the_surface_in_the_frame_of_the_first_camera():
    wall = panel((-5, 2.0, -5), (10, 0, 0), (0, 0, 10))
    positions, targets = np.array([[0.0, 0, 1], [0.2, 0.1, 1]]), np.array([[0.0, 2, 1], [0.4, 2, 0.9]])
    seen = fragment(rng("wall"), wall, Path(positions, targets, np.array([0.0, 0, 1])), CAMERA, frames=4)
    np.testing.assert_allclose(seen.pose[:3, 3], positions[0])
    assert len(seen.points) > 500 and abs(np.median(seen.points[:, 2]) - 2.0) < 0.03


def test_paths_stay_in_the_room():
    room = furnished(rng("a room"), KINDS["office"])
    for path in paths(rng("paths"), room, 6):
        for share in (0.0, 1.0):
            x, y, z = path.pose(share)[:3, 3]
            assert 0.2 < x < room.width - 0.2 and 0.2 < y < room.length - 0.2 and 0.8 < z < 2.1
