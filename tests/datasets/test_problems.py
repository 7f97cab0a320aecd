import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from common.errors import InputError
from common.keys import rng
from datasets import poses
from datasets.base import (
    DataSet,
    MeshShape,
    NotEnoughPoints,
    PointShape,
    centred_in_unit_sphere,
    sample_triangles,
    triangle_areas,
)
from datasets.conditions import condition, half_space
from datasets.problems import ProblemKey, make_problem, problem_set_sha256
from tests.catalog import open_data


class Toy(DataSet):
    """Random fixed points of two categories."""

    categories = ("a", "b", "c", "d")
    fixed_points = 128

    def labels(self, split):
        return np.arange(12) % 4

    def shape(self, split, index):
        return PointShape(f"{split}_{index}", self.categories[index % 4], rng("toy", split, index).random((128, 3)))


class Endless(Toy):
    """Without end."""

    def labels(self, split):
        return None


def key(**changes):
    return ProblemKey(**{"dataset": "toy", "condition": "noisy", "points": 64, "index": 3} | changes)


# Poses


def test_axis_rotation_agrees_with_scipy():
    draw = rng("axis")
    for _ in range(20):
        axis, angle = poses.direction(draw), draw.uniform(0, 180)
        expected = Rotation.from_rotvec(np.deg2rad(angle) * axis).as_matrix()
        np.testing.assert_allclose(poses.axis_rotation(axis, angle), expected, atol=1e-12)


@pytest.mark.parametrize("angle", [0.0, 1e-5, 0.3, 90, 179.9999, 180])
def test_angle_is_read_back_accurately(angle):
    assert poses.angle_deg(poses.axis_rotation(poses.direction(rng("a")), angle)) == pytest.approx(angle, abs=1e-6)


def test_euler45_composes_as_scipy_intrinsic_xyz():
    angles = rng("e").uniform(0, 45, 3)
    expected = Rotation.from_euler("XYZ", angles, degrees=True).as_matrix()
    np.testing.assert_allclose(poses.euler45(rng("e")), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("sampler", "mean", "share_below_30"),
    [
        ("axis_angle", 90, 0.167),
        ("haar", 126.5, 0.0075),
        ("euler45", 44.7, 0.15),
        ("euler45_box", 44.7, 0.15),
        ("euler180_box", 136.9, 0.0044),
    ],
)
def test_samplers_have_the_protocols_mean_and_tail(sampler, mean, share_below_30):
    draw = rng("sampler", sampler)
    angles = np.array([poses.angle_deg(poses.sample_pose(sampler, draw)[:3, :3]) for _ in range(4000)])
    assert angles.mean() == pytest.approx(mean, abs=5 * angles.std() / 4000**0.5)
    assert (angles < 30).mean() == pytest.approx(share_below_30, abs=0.025)


@pytest.mark.parametrize("sampler", ["axis_angle", "haar", "euler45", "euler180_box"])
def test_bounds_on_the_angle_hold(sampler):
    draw = rng("bounds", sampler)
    angles = [poses.angle_deg(poses.sample_pose(sampler, draw, 20, 40)[:3, :3]) for _ in range(50)]
    assert min(angles) >= 20 and max(angles) <= 40


def test_a_sampler_that_cannot_reach_the_angles_says_so():
    with pytest.raises(InputError, match="never draws"):
        poses.sample_pose("euler45", rng(1), 150, 180)


def test_haar_is_uniform():
    # Each column of a uniform rotation is uniform on the sphere: mean 0, second moment 1/3.
    columns = np.array([poses.haar(rng("haar", i))[:, 1] for i in range(3000)])
    np.testing.assert_allclose(columns.mean(0), 0, atol=0.05)
    np.testing.assert_allclose(columns.T @ columns / 3000, np.eye(3) / 3, atol=0.03)


# Sampling


def test_triangle_samples_are_area_uniform_and_on_the_surface():
    triangles = np.array([[[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 0, 1], [3, 0, 1], [0, 1, 1]]], float)
    areas = triangle_areas(triangles)
    np.testing.assert_allclose(areas, [0.5, 1.5])
    points = sample_triangles(triangles, np.cumsum(areas), 20_000, rng("t"))
    upper = points[:, 2] > 0.5
    assert upper.mean() == pytest.approx(0.75, abs=0.015)
    np.testing.assert_allclose(points[upper].mean(0), triangles[1].mean(0), atol=0.02)
    assert (points[:, 0] / np.where(upper, 3, 1) + points[:, 1] <= 1 + 1e-12).all() and (points >= 0).all()


def test_centring_and_scaling():
    triangles = rng("c").random((20, 3, 3)) * 7 + 100
    moved = centred_in_unit_sphere(triangles)
    assert np.linalg.norm(moved, axis=2).max() == pytest.approx(1)
    sampled = MeshShape("x", "y", moved).samples(20_000, 1, rng("s"))[0]
    np.testing.assert_allclose(sampled.mean(0), 0, atol=0.02)
    with pytest.raises(ValueError, match="no area"):
        centred_in_unit_sphere(np.ones((4, 3, 3)))


def test_samples_of_fixed_points_share_none_and_repeat_none():
    cloud = rng("f").random((100, 3))
    a, b = PointShape("x", "y", cloud).samples(50, 2, rng("g"))
    assert len(np.unique(np.concatenate([a, b]), axis=0)) == 100
    with pytest.raises(NotEnoughPoints, match="100 fixed points"):
        PointShape("x", "y", cloud).samples(51, 2, rng("g"))


# Conditions


def truth_residual(problem):
    moved = poses.move(problem.T_target_source, problem.source.astype(float))
    return cKDTree(problem.target).query(moved)[0]


def test_clean_clouds_are_the_same_points_in_another_order():
    problem = make_problem(Toy(), key(condition="clean"))
    assert truth_residual(problem).max() < 1e-6
    moved = poses.move(problem.T_target_source, problem.source)
    assert (
        np.linalg.norm(moved - problem.target, axis=1).min()
        < 0.5
        < np.linalg.norm(moved - problem.target, axis=1).max()
    )


def test_noise_has_its_sigma_on_each_cloud_and_is_clipped():
    clean, noisy = (make_problem(Toy(), key(condition=c, points=128)) for c in ("clean", "noisy[sigma=0.1]"))
    np.testing.assert_allclose(clean.T_target_source, noisy.T_target_source)
    differences = cKDTree(clean.source).query(noisy.source)[0]
    assert 0 < differences.max() <= 3**0.5 * 0.05 + 1e-6
    draw = condition("noisy").disturb(np.zeros((20_000, 3)), rng("n"))
    assert draw.std() == pytest.approx(0.01, rel=0.02) and np.abs(draw).max() <= 0.05


def test_resampled_shares_no_point_and_halves_a_fixed_set():
    problem = make_problem(Toy(), key(condition="resampled[sigma=0]"))
    assert truth_residual(problem).min() > 1e-4
    assert condition("resampled").points_available(128, 128) == 64
    assert condition("resampled").points_available(64, 128) == 64
    assert condition("resampled").points_available(4096, None) == 4096
    with pytest.raises(NotEnoughPoints, match="never repeated"):
        condition("clean").points_available(129, 128)


def test_unseen_takes_the_second_half_of_the_categories():
    for dataset in (Toy(), Endless()):
        test = {make_problem(dataset, key(condition="unseen", index=i)).tags["category"] for i in range(12)}
        train = {
            make_problem(dataset, key(condition="unseen", index=i, split="train")).tags["category"] for i in range(12)
        }
        assert (test, train) == ({"c", "d"}, {"a", "b"})


# Problems


def test_a_problem_depends_on_its_key_alone():
    keys = [key(index=i) for i in range(20)]
    one = problem_set_sha256(make_problem(Toy(), k).sha256() for k in keys)
    with ThreadPoolExecutor(4) as pool:
        backwards = list(pool.map(lambda k: make_problem(Toy(), k).sha256(), reversed(keys)))
    assert problem_set_sha256(reversed(backwards)) == one
    assert problem_set_sha256(make_problem(Toy(), key(index=i, seed=1)).sha256() for i in range(20)) != one


def test_a_finite_split_is_used_up_before_an_object_comes_again():
    toy = Toy()
    assert sorted(toy.pick("test", i, 0) for i in range(12)) == list(range(12))
    assert [toy.pick("test", i, 0) for i in range(5)] == [toy.pick("test", i + 12, 0) for i in range(5)]
    assert [toy.pick("test", i, 0) for i in range(12)] != [toy.pick("test", i, 1) for i in range(12)]


def test_truth_and_source_pose_are_rigid_and_independent_of_the_condition():
    a, b = make_problem(Toy(), key(condition="clean")), make_problem(Toy(), key(condition="resampled"))
    np.testing.assert_array_equal(a.T_target_source, b.T_target_source)
    np.testing.assert_array_equal(a.source_pose, b.source_pose)
    R = a.T_target_source[:3, :3]
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-12)
    assert a.tags["angle_deg"] == pytest.approx(np.rad2deg(Rotation.from_matrix(R).magnitude()))
    assert a.tags["translation"] == pytest.approx(np.linalg.norm(a.T_target_source[:3, 3]))


def test_evaluation_points_are_500_of_the_source():
    problem = make_problem(Toy(), key())
    points = problem.evaluation_points
    assert points.shape == (500, 3)
    assert {tuple(p) for p in points} <= {tuple(p) for p in problem.source}


# Crops


@pytest.mark.parametrize(
    ("text", "kept"), [("crop[sigma=0]", 717), ("crop[sigma=0,keep=0.5]", 512), ("nearest[sigma=0]", 768)]
)
def test_crops_keep_the_points_of_their_protocols(text, kept):
    dataset = open_data("shapes40")
    problem = make_problem(dataset, ProblemKey("shapes40", text, 1024, 3, sampler="euler45_box"))
    assert len(problem.source) <= kept and len(problem.target) <= kept
    assert len(problem.source) > (0.7 * kept if "0.5" in text else kept - 1)
    assert 0.1 < problem.tags["overlap"] < 1


def test_a_crop_is_a_half_space_of_each_cloud():
    cloud = rng("half").random((500, 3)) * [1, 2, 3]
    normal = np.array([0.0, 0.6, 0.8])
    rows = half_space(cloud, normal, 0.7)
    height, rest = cloud @ normal, np.setdiff1d(np.arange(500), rows)
    assert len(rows) == 350 and height[rows].min() > height[rest].max()
    expected = height > np.percentile(height, 30)
    np.testing.assert_array_equal(rows, np.flatnonzero(expected))
    centred = half_space(cloud, normal, 0.5)
    np.testing.assert_array_equal(centred, np.flatnonzero((cloud - cloud.mean(0)) @ normal > 0))
    assert len(half_space(cloud, normal, 1.0)) == 500


def test_nearest_keeps_the_side_of_one_far_point_in_both_frames():
    clouds = [rng("near", k).random((400, 3)) for k in range(2)]
    kept = condition("nearest[keep=0.6]").kept_rows(clouds, rng("view"))
    directions = [clouds[k][kept[k]].mean(0) - np.delete(clouds[k], kept[k], axis=0).mean(0) for k in range(2)]
    assert [len(rows) for rows in kept] == [240, 240]
    cosine = directions[0] @ directions[1] / np.prod([np.linalg.norm(d) for d in directions])
    assert cosine > 0.9


@pytest.mark.parametrize(("keep", "points"), [(0.3, 101), (0.7, 1024), (0.61, 333), (1.0, 50)])
def test_the_share_that_a_crop_keeps_is_rounded_up(keep, points):
    kept = math.ceil(keep * points)
    for rows in condition(f"nearest[keep={keep}]").kept_rows([rng("rows").random((points, 3))] * 2, rng("view")):
        assert len(rows) == kept
    cloud = PointShape("x", "y", rng("crop").random((2 * points, 3)))
    clouds = condition(f"crop[keep={keep},sigma=0]").make(cloud, points, np.eye(4), np.eye(4), rng("make"))
    assert [len(c) for c in clouds[:2]] == [kept] * 2


def test_a_crop_needs_twice_the_fixed_points_and_may_be_of_unseen_categories():
    assert condition("crop").points_available(1024, 2048) == 1024
    assert condition("crop").points_available(1024, 1024) == 512
    assert condition("nearest").points_available(1024, 1024) == 1024
    assert condition("crop[unseen=true]").unseen_half and not condition("crop").unseen_half
    with pytest.raises(InputError, match="keep must be above 0"):
        condition("crop[keep=0]")
