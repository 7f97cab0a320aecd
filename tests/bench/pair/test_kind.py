"""Guessing the kind of data: whole objects, scans of planes, and range images of curved surfaces."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from bench.pair.kind import guess_kind, parallel_share
from common.kinds import DataKind
from datasets.poses import haar


def room(rng, low, high):
    """A floor and two walls, cut to low <= x <= high, seen from within."""
    x, y = rng.uniform(0, 4, (3, 4000)), rng.uniform(0, 3, (3, 4000))
    faces = [np.stack(p, 1) for p in ((x[0], y[0], 0 * x[0]), (x[1], 0 * x[1], y[1]), (0 * x[2], x[2], y[2]))]
    points = np.concatenate(faces)
    return points[(points[:, 0] >= low) & (points[:, 0] <= high)]


def ellipsoid(rng, count=4000):
    u = rng.normal(size=(count, 3))
    return u / np.linalg.norm(u, axis=1, keepdims=True) * [1.0, 0.7, 0.5]


def test_two_samples_of_a_whole_object_are_objects_at_any_pose_and_unit():
    rng = np.random.default_rng(0)
    source, target = ellipsoid(rng), ellipsoid(rng) @ haar(rng).T
    assert guess_kind(source, target)[0] == DataKind.OBJECTS
    assert guess_kind(1000 * source, 1000 * target)[0] == DataKind.OBJECTS


def test_two_parts_of_a_room_are_scans():
    rng = np.random.default_rng(1)
    kind, reason = guess_kind(room(rng, 0, 2.5), room(rng, 1, 4) @ haar(rng).T)
    assert kind == DataKind.SCANS
    assert "parallel" in reason


def test_two_views_of_a_curved_object_are_range_images():
    rng = np.random.default_rng(2)
    cloud = ellipsoid(rng)
    source, target = cloud[cloud[:, 0] > 0], cloud[cloud @ [1, 1, 0] > 0] @ haar(rng).T
    assert guess_kind(source, target)[0] == DataKind.RANGE_IMAGES


def test_all_normals_of_a_plane_are_parallel():
    plane = np.random.default_rng(3).uniform(-1, 1, (1000, 3)) * [1, 1, 0]
    assert parallel_share(plane) == 1


def test_clouds_without_extent_are_of_the_default_kind():
    points = np.zeros((20, 3), np.float32)
    assert guess_kind(points, points) == (DataKind.OBJECTS, "the default, since all points of the source are equal")


@pytest.mark.parametrize("count", [400, 500, 501, 1300])
def test_the_share_of_parallel_normals_by_brute_force(count):
    """Of at most 500 normals, evenly; two planes at an angle of 9° or 11°."""
    draw = np.random.default_rng(4)
    cloud = draw.uniform(-0.4, 0.4, (count, 3)) * [1, 1, 0]
    for degrees in (9, 11):
        turn = Rotation.from_rotvec([np.radians(degrees), 0, 0]).as_matrix()
        far = (np.arange(count) % 3 == 0)[:, None]
        both = np.where(far, cloud @ turn.T + [5, 0, 0], cloud)
        used = far[:: -(-count // 500), 0]
        expected = 1.0 if degrees < 10 else np.equal.outer(used, used).mean()
        assert parallel_share(both) == pytest.approx(expected)


def test_normals_are_of_at_most_thirty_points_within_a_fifth_of_the_scale():
    """The share of parallel normals on a bent sheet, with normals by plain principal components."""
    u = np.random.default_rng(5).uniform(-1, 1, (350, 2))
    sheet = np.column_stack([u, 0.5 * np.sin(3 * u[:, 0])])
    apart, planes = cdist(sheet, sheet), []
    for row in apart:
        near = sheet[[i for i in np.argsort(row)[:30] if row[i] < 0.2]]
        planes.append(np.linalg.svd(near - near.mean(axis=0))[2][2] if len(near) > 2 else np.array([0.0, 0, 1]))
    parallel = np.abs(np.array(planes) @ np.transpose(planes)) > np.cos(np.radians(10))
    assert parallel_share(sheet) == pytest.approx(parallel.mean(), abs=1e-3) and 0.1 < parallel.mean() < 0.5


def box(extents, seed):
    """Points of the surface of a box with all eight corners, so that the extents are exact."""
    u = np.random.default_rng(seed).uniform(-1, 1, (3000, 3))
    face = np.arange(3000) % 3
    u[np.arange(3000), face] = np.sign(u[np.arange(3000), face])
    return u * extents


def test_extents_that_differ_by_less_than_nine_percent_are_of_one_object():
    cloud = box((1.0, 0.8, 0.5), 0)
    for stretch, same in ((1.0, True), (1.085, True), (1 / 1.085, True), (1.105, False), (1 / 1.105, False)):
        for axis in range(3):
            factors = np.ones(3)
            factors[axis] = stretch
            kind, reason = guess_kind(cloud, cloud * factors)
            assert (kind == DataKind.OBJECTS) == same and ("agree within 9%" in reason) == same


@pytest.mark.parametrize(("shares", "kind"), [((0.05, 0.091), DataKind.SCANS), ((0.05, 0.089), DataKind.RANGE_IMAGES)])
def test_parts_are_of_a_scene_if_seven_percent_of_their_normals_are_parallel_on_average(monkeypatch, shares, kind):
    cloud, left = box((1.0, 0.8, 0.5), 0), list(shares)
    monkeypatch.setattr("bench.pair.kind.parallel_share", lambda _: left.pop(0))
    assert guess_kind(cloud, cloud * (1.5, 1, 1)) == (
        kind,
        "the extents of the clouds differ, and "
        + ("7% of all pairs of normals are parallel, as in rooms" if kind == DataKind.SCANS else "")
        + ("only 7% of all pairs of normals are parallel, as on curved objects" if kind != DataKind.SCANS else ""),
    )
