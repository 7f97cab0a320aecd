"""Fusion of frames, and paths of the camera."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from common.keys import rng
from datasets.indoor.camera import Camera
from datasets.indoor.fragments import VOXEL, Path, _attraction, _beyond, _points, fragment, fuse, paths
from datasets.indoor.layout import KINDS, Room, furnished
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


def test_fusion_is_that_of_a_plain_loop():
    """Every voxel with a point of any frame, and in each the weighted mean of the offsets along the rays."""
    draw, camera, voxel = np.random.default_rng(3), Camera(width=12, height=9, focal=11.0), 0.2
    images = [draw.uniform(0.9, 1.3, (9, 12)) * (draw.random((9, 12)) > 0.2) for _ in range(3)]
    poses = [np.eye(4) for _ in range(3)]
    for pose in poses:
        pose[:3, :3] = Rotation.from_rotvec(draw.normal(scale=0.05, size=3)).as_matrix()
        pose[:3, 3] = draw.normal(scale=0.05, size=3)
    cells, sums = set(), {}
    for image, pose in zip(images, poses, strict=True):
        points = _points(image, pose, camera)
        assert len(points) == (image > 0).sum()
        for (row, column), point in zip(np.argwhere(image > 0), points, strict=True):
            ray = np.array([(column - 5.5) / 11, (row - 4) / 11, 1.0])
            np.testing.assert_allclose(point, pose[:3, :3] @ (image[row, column] * ray) + pose[:3, 3], atol=1e-12)
            cells.add(tuple(np.floor(point / voxel).astype(int)))
    for cell in sorted(cells):
        centre = (np.array(cell) + 0.5) * voxel
        for image, pose in zip(images, poses, strict=True):
            x, y, z = pose[:3, :3].T @ (centre - pose[:3, 3])
            column, row = round(x / z * 11 + 5.5), round(y / z * 11 + 4)
            if z <= 0.1 or not (0 <= column < 12 and 0 <= row < 9) or image[row, column] == 0:
                continue
            distance = image[row, column] - z
            if distance > -0.06:
                offset = pose[:3, :3] @ (np.array([x, y, z]) / z * min(distance, 0.06))
                sums.setdefault(cell, []).append((offset, 1 / (0.3 + z**4)))
    expected = []
    for cell, parts in sums.items():
        mean = sum(weight * offset for offset, weight in parts) / sum(weight for _, weight in parts)
        if len(parts) >= 2 and np.abs(mean).max() <= voxel / 2:
            expected.append((np.array(cell) + 0.5) * voxel + mean)
    np.testing.assert_allclose(fuse(images, poses, camera, voxel), expected, atol=1e-12)
    assert 20 < len(expected) < len(cells)


def test_a_camera_looks_mostly_at_furniture_up_to_its_height_and_else_anywhere():
    room = Room(4.0, 5.0, 2.5)
    points = np.array([_attraction(rng("empty", i), room) for i in range(200)])
    np.testing.assert_allclose(points.min(axis=0), (0, 0, 0.2), atol=0.1)
    np.testing.assert_allclose(points.max(axis=0), (4, 5, 1.6), atol=0.1)
    room.taken += [(1.0, 1.1, 2.0, 2.2, 0.5), (3.0, 3.1, 1.0, 1.2, 2.4)]
    points = np.array([_attraction(rng("furnished", i), room) for i in range(1000)])
    low, high = (
        ((points >= (a, c, 0.3 * min(top, 1.6))) & (points <= (b, d, min(top, 1.6)))).all(axis=1)
        for a, b, c, d, top in room.taken
    )
    assert 0.82 < (low | high).mean() < 0.89 and abs(low.sum() - high.sum()) < 100


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ((3.0, 0, 0), (3, 0, 0)),
        ((0.8, 0, 0), (1, 0, 0)),
        ((0.69, 0, 2), (1.39, 0.3, 2)),
        ((0.0, 0, -2), (0.7, 0.3, -2)),
        ((0.0, 0, 0), (0.7 / np.hypot(0.7, 0.3), 0.3 / np.hypot(0.7, 0.3), 0)),
    ],
)
def test_a_target_is_a_metre_away_and_not_straight_above_or_below(target, expected):
    position = np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(_beyond(position, position + target), position + expected, atol=1e-12)
