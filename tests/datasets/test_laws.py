"""Laws of problems: every field of a key matters; poses, noise and outliers have their distributions; overlaps and tags."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from scipy.stats import kstest, norm

from common.errors import InputError
from common.keys import rng
from datasets import conditions, poses
from datasets.base import DataSet, MeshShape, NotEnoughPoints, Pair, PairSet, Shape
from datasets.conditions import condition, labels_allowed
from datasets.problems import ProblemKey, call_seed, make_problem

PLATE = np.array([[[-0.6, -0.5, 0], [0.6, -0.5, 0], [0.6, 0.5, 0]], [[-0.6, -0.5, 0], [0.6, 0.5, 0], [-0.6, 0.5, 0]]])


class Plates(DataSet):
    """A plate in the xy-plane, whose z coordinate is the noise alone."""

    categories = ("a", "b")

    def labels(self, split):
        return None

    def shape(self, split, index):
        return MeshShape(f"{split}{index}", "a", PLATE)


KEY = ProblemKey("plates", "noisy", 200, 3, 1, "test", "axis_angle", (10.0, 170.0))
OTHERS = {
    "dataset": "other",
    "condition": "noisy[sigma=0.01]",  # the same noise under another text
    "points": 201,
    "index": 4,
    "seed": 2,
    "split": "train",
    "sampler": "haar",
    "angles": (11.0, 170.0),
}


@pytest.mark.parametrize("field", OTHERS)
def test_every_field_of_a_key_changes_the_problem(field):
    one, other = make_problem(Plates(), KEY), make_problem(Plates(), replace(KEY, **{field: OTHERS[field]}))
    same_pose = np.array_equal(one.T_target_source, other.T_target_source)
    assert same_pose == (field in ("condition", "points")), "conditions and sizes are compared on the same poses"
    assert np.array_equal(one.source_pose, other.source_pose) == same_pose
    n = min(len(one.source), len(other.source))
    assert not np.allclose(one.source[:n], other.source[:n]) and one.sha256() != other.sha256()


@pytest.mark.parametrize("sampler", poses.SAMPLERS)
def test_translations_and_axes_have_their_laws(sampler):
    draw, low, high = rng("laws", sampler), 0.0, 180.0
    T = np.stack([poses.sample_pose(sampler, draw, low, high) for _ in range(1500)])
    if sampler.endswith("_box"):
        for axis in range(3):
            assert kstest(T[:, axis, 3] + 0.5, "uniform").pvalue > 1e-3
        return
    length = np.linalg.norm(T[:, :3, 3], axis=1)
    assert kstest(length / 0.5, "uniform").pvalue > 1e-3
    for axis in range(3):  # a coordinate of a uniform direction is uniform
        assert kstest((T[:, axis, 3] / length + 1) / 2, "uniform").pvalue > 1e-3
    if sampler == "euler45":
        return
    R = T[:, :3, :3]
    skew = np.stack([R[:, 2, 1] - R[:, 1, 2], R[:, 0, 2] - R[:, 2, 0], R[:, 1, 0] - R[:, 0, 1]], axis=1)
    for axis in (skew / np.linalg.norm(skew, axis=1, keepdims=True)).T:
        assert kstest((axis + 1) / 2, "uniform").pvalue > 1e-3
    angle = np.arctan2(np.linalg.norm(skew, axis=1), np.trace(R, axis1=1, axis2=2) - 1)
    law = {"axis_angle": angle / np.pi, "haar": (angle - np.sin(angle)) / np.pi}[sampler]
    assert kstest(law, "uniform").pvalue > 1e-3


@pytest.mark.parametrize(
    "condition", ["noisy", "unseen", "resampled", "density[target=700]", "partial", "outliers", "crop", "nearest"]
)
def test_noise_is_on_both_clouds(condition):
    problem = make_problem(Plates(), replace(KEY, condition=condition, points=600))
    A = problem.source_pose
    for cloud, pose in ((problem.source, A), (problem.target, problem.T_target_source @ A)):
        z = (cloud.astype(float) - pose[:3, 3]) @ pose[:3, 2]
        near = z[np.abs(z) < 0.04] if condition == "outliers" else z
        assert near.size > 300 and kstest(near, norm(0, 0.01).cdf).pvalue > 1e-3
        if condition == "outliers":
            assert (np.abs(z) > 0.04).mean() == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.5])
def test_outliers_are_random_rows_and_uniform_in_the_cube_about_the_centroid(fraction):
    cloud = rng("cloud").normal(size=(4000, 3)) * 0.05 + (3.0, -2.0, 5.0)
    result = condition(f"outliers[fraction={fraction},sigma=0]").disturb(cloud, rng("outliers"))
    rows = np.flatnonzero((result != cloud).any(axis=1))
    assert len(rows) == round(fraction * 4000)
    if fraction:
        for column in ((result[rows] - cloud.mean(axis=0) + 1) / 2).T:
            assert kstest(column, "uniform").pvalue > 1e-3
        assert kstest(rows / 4000, "uniform").pvalue > 1e-3


@pytest.mark.parametrize(("sigma", "clip"), [(0.1, 0.05), (0.02, 0.05), (0.01, 0.004)])
def test_noise_is_a_clipped_normal_of_each_coordinate(sigma, clip):
    cloud = rng("cloud").normal(size=(5000, 3))
    noise = condition(f"noisy[sigma={sigma},clip={clip}]").disturb(cloud, rng("noise")) - cloud
    assert np.abs(noise).max() <= clip + 1e-12 and abs(np.corrcoef(noise.T)[0, 1]) < 0.06
    for end in (-clip, clip):
        assert (np.abs(noise - end) < 1e-9).mean() == pytest.approx(norm(0, sigma).sf(clip), abs=0.012)
    inner = noise[np.abs(noise) < clip - 1e-9]
    low, high = norm(0, sigma).cdf([-clip, clip])
    assert kstest((norm(0, sigma).cdf(inner) - low) / (high - low), "uniform").pvalue > 1e-3


@pytest.mark.parametrize(("source", "target", "expected"), [(1.0, 0.5, 0.5), (0.5, 1.0, 1.0), (0.8, 0.2, 0.25)])
def test_overlap_is_the_share_of_the_source_that_the_target_shows(monkeypatch, source, target, expected):
    """The first view shows the left part of the plate, the second another part from the left."""
    shares = iter((source, target))
    monkeypatch.setattr(
        conditions, "visible_on_grid", lambda cloud: np.flatnonzero(cloud[:, 0] < 1.2 * next(shares) - 0.6)
    )
    clouds = condition("partial").make(MeshShape("plate", "a", PLATE), 300, np.eye(4), np.eye(4), rng("views"))
    assert clouds.overlap == pytest.approx(expected, abs=0.08)
    assert [np.ptp(cloud[:, 0]) / 1.2 for cloud in clouds[:2]] == pytest.approx([source, target], abs=0.08)


POINTS_AVAILABLE = [
    *[("clean", n, 128, n) for n in (1, 127, 128)],
    *[("clean", 5000, None, 5000), ("resampled", 5000, None, 5000), ("density", 5000, None, 5000)],
    *[("resampled", 63, 127, 63), ("resampled", 64, 127, 63), ("resampled", 127, 127, 63), ("resampled", 64, 128, 64)],
    *[("density[target=100]", n, 128, min(n, 28)) for n in (1, 28, 29, 128)],
    *[("density[target=100]", 50, 101, 1), ("partial", 77, None, 77), ("partial[visibility=hpr]", 77, None, 77)],
    *[("partial[visibility=hpr]", n, 128, min(n, 64)) for n in (1, 64, 65, 128)],
    *[("crop", n, 128, min(n, 64)) for n in (1, 64, 65, 128)],
    *[("nearest", n, 128, n) for n in (1, 128)],
    *[
        (name, 129, 128, None)
        for name in ("clean", "resampled", "density[target=100]", "crop", "nearest", "partial[visibility=hpr]")
    ],
    *[("crop", 5000, None, 5000), ("nearest", 5000, None, 5000)],
    *[("density[target=100]", 1, 100, None), ("partial", 1, 128, None)],
]


@pytest.mark.parametrize(("name", "requested", "fixed", "expected"), POINTS_AVAILABLE)
def test_as_many_points_are_available_as_two_clouds_without_repeated_points_allow(name, requested, fixed, expected):
    if expected is None:
        with pytest.raises(NotEnoughPoints):
            condition(name).points_available(requested, fixed)
    else:
        assert condition(name).points_available(requested, fixed) == expected


@pytest.mark.parametrize("edge", ["noisy[{}=0]", "noisy[sigma=1,{}=0]", "outliers[fraction={}]", "density[target={}]"])
def test_parameters_are_refused_just_outside_their_range(edge):
    inside, outside = {
        "noisy[{}=0]": ("noisy[sigma=0]", "noisy[sigma=-0.001]"),
        "noisy[sigma=1,{}=0]": ("noisy[clip=0]", "noisy[clip=-0.001]"),
        "outliers[fraction={}]": ("outliers[fraction=0]", "outliers[fraction=-0.001]"),
        "density[target={}]": ("density[target=1]", "density[target=0]"),
    }[edge]
    condition(inside)
    for refused in (outside, "outliers[fraction=1]", "outliers[sigma=-1]", "density[sigma=-1]", "partial[clip=-1]"):
        with pytest.raises(InputError):
            condition(refused)
    condition("outliers[fraction=0.999]")


@pytest.mark.parametrize("categories", [1, 2, 7, 40])
def test_unseen_splits_the_categories_into_halves(categories):
    train, test = (labels_allowed(condition("unseen"), split, categories) for split in ("train", "test"))
    assert [*train, *test] == list(range(categories)) and len(train) == categories // 2
    assert labels_allowed(condition("noisy"), "test", categories) is None


class Scans(PairSet):
    """Three pairs of scans with all that a pair can have."""

    def __len__(self):
        return 3

    def pair(self, row):
        draw = rng("scans", row)
        truth, own = poses.sample_pose("haar", draw), poses.sample_pose("haar", draw)
        clouds = draw.normal(size=(50, 3)), draw.normal(size=(40, 3)) + 9
        points = draw.normal(size=(7, 3)).astype(np.float32)
        return Pair(f"s/{row}-9", "s", *clouds, truth, 0.1 + row, row * np.eye(6), own, "C2", points, ("other", 4))


@pytest.mark.parametrize("points", [30, 40, 50, 60])
def test_a_real_problem_is_its_pair_with_at_most_n_points_of_each_cloud(points):
    key = ProblemKey("scans", "real", points, 1, seed=3, sampler="none")
    problem, pair = make_problem(Scans(), key), Scans().pair(Scans().pick(1, 3))
    for cloud, whole in ((problem.source, pair.source), (problem.target, pair.target)):
        rows = [int(np.flatnonzero((whole.astype(np.float32) == point).all(axis=1))[0]) for point in cloud]
        assert len(rows) == min(points, len(whole)) and rows == sorted(set(rows))
        assert len(rows) == len(whole) or rows != list(range(points)), "a random part, not the first points"
    R, t = pair.T_target_source[:3, :3], pair.T_target_source[:3, 3]
    angle = np.degrees(Rotation.from_matrix(R).magnitude())
    expected = {"object": pair.name, "category": "s", "overlap": pair.overlap, "symmetry": "C2"}
    assert {name: problem.tags[name] for name in expected} == expected
    assert (problem.tags["angle_deg"], problem.tags["translation"]) == pytest.approx((angle, np.linalg.norm(t)))
    for ours, theirs in [
        (problem.T_target_source, pair.T_target_source),
        (problem.source_pose, pair.source_pose),
        (problem.information, pair.information),
        (problem.evaluation_points, pair.evaluation),
    ]:
        np.testing.assert_array_equal(ours, theirs)
    assert problem.identity == ("other", 4)
    if points < 40:
        for other in (replace(key, seed=4), replace(key, index=2), replace(key, points=points + 1)):
            assert not np.array_equal(make_problem(Scans(), other).source[:points], problem.source)
    with pytest.raises(InputError, match="--conditions real"):
        make_problem(Scans(), replace(key, condition="noisy"))


def test_names_of_problems_and_seeds_of_calls_identify_them():
    assert (
        KEY.id == "plates/noisy/200/10-170/00003" and replace(KEY, angles=(0.0, 180.0)).id == "plates/noisy/200/00003"
    )
    assert replace(KEY, angles=(0.0, 90.0)).id == "plates/noisy/200/0-90/00003"
    problem = make_problem(Plates(), KEY)
    same = replace(problem, key=replace(KEY, dataset="copy"), origin=(KEY.id, KEY.seed))
    others = [replace(problem, key=replace(KEY, **change)) for change in ({"index": 9}, {"seed": 9}, {"points": 9})]
    seeds = [call_seed(problem, "m", 0), call_seed(problem, "m", 1), call_seed(problem, "n", 0)]
    seeds += [call_seed(other, "m", 0) for other in others]
    assert len(set(seeds)) == len(seeds) and call_seed(same, "m", 0) == seeds[0]
    np.testing.assert_array_equal(same.evaluation_points, problem.evaluation_points)
    assert not np.array_equal(others[0].evaluation_points, problem.evaluation_points)
    changed = [replace(problem, source=problem.source + 1), replace(problem, target=problem.target + 1)]
    changed += [replace(problem, T_target_source=problem.T_target_source + 1)]
    assert len({other.sha256() for other in [problem, *changed]}) == 4


@pytest.mark.parametrize("points", [499, 500, 501])
def test_evaluation_points_repeat_only_if_the_source_has_fewer(points):
    chosen = make_problem(Plates(), replace(KEY, points=points)).evaluation_points
    assert len(chosen) == 500 and (len(np.unique(chosen, axis=0)) == 500) == (points >= 500)


def test_poses_are_scipys():
    draw = rng("poses")
    for _ in range(10):
        q, t, x = draw.normal(size=4), draw.normal(size=3), draw.normal(size=(6, 3))
        R = Rotation.from_quat(q)
        T = poses.quaternion_pose([*t, *q])
        np.testing.assert_allclose(T, np.vstack([np.c_[R.as_matrix(), t], [0, 0, 0, 1]]), atol=1e-12)
        np.testing.assert_allclose(poses.move(T, x), R.apply(x) + t, atol=1e-12)
        np.testing.assert_allclose(poses.rotate(T[:3, :3], x), R.apply(x), atol=1e-12)
        np.testing.assert_allclose(poses.inverse(T), np.linalg.inv(T), atol=1e-12)
    for wrong in ([1, 2, 3, 0, 0, 0, 0], [1, 2, 3, 0, 0, 1]):
        with pytest.raises(ValueError):
            poses.quaternion_pose(wrong)
    poses.quaternion_pose([0, 0, 0, 0, 0, 0.5, 0])
    with pytest.raises(InputError, match="unknown sampler"):
        poses.sample_pose("haar2", draw)
    for sampler in poses.SAMPLERS:
        bounded = poses.sample_pose(sampler, rng("bounds", sampler), 0.0, 180.0)
        np.testing.assert_array_equal(poses.sample_pose(sampler, rng("bounds", sampler)), bounded)
    for sampler in ("axis_angle", "haar"):  # without bounds, all angles occur
        angles = [poses.angle_deg(poses.sample_pose(sampler, draw)[:3, :3]) for _ in range(400)]
        assert max(angles) > 170 and min(angles) < 45


class Counted(Shape):
    """Records how many points are drawn."""

    name, category, symmetry = "counted", "a", "C2"
    frame = np.eye(4)

    def __init__(self):
        self.drawn = 0

    @property
    def symmetry_frame(self):
        return self.frame

    def samples(self, points, count, rng):
        self.drawn += points * count
        return [rng.normal(size=(points, 3)) * (0.3, 0.2, 0.1) for _ in range(count)]


class Single(DataSet):
    """One shape."""

    categories = ("a", "b")

    def __init__(self, shape):
        self.only = shape

    def labels(self, split):
        return None

    def shape(self, split, index):
        return self.only


class Sizes(Single):
    """Eight objects of 10 to 80 fixed points."""

    def labels(self, split):
        return np.zeros(8, dtype=int)

    def point_counts(self, split):
        return np.arange(10, 90, 10)

    def shape(self, split, index):
        shape = Counted()
        shape.name = f"object of {10 * (index + 1)}"
        return shape


@pytest.mark.parametrize(
    ("name", "least"), [("clean", 30), ("resampled", 60), ("density[target=40]", 70), ("crop", 60)]
)
def test_objects_with_fewer_points_than_a_problem_takes_are_left_out(name, least):
    made = [make_problem(Sizes(None), ProblemKey("sizes", name, 30, index)) for index in range(24)]
    assert {int(problem.tags["object"].split()[-1]) for problem in made} == set(range(least, 90, 10))


FOR_FIXED_POINTS = [name for name, kind in conditions.CONDITIONS.items() if not kind.real and name != "partial"]


@pytest.mark.parametrize("points", [30, 101])
@pytest.mark.parametrize("name", [*FOR_FIXED_POINTS, "partial[visibility=hpr]", "density[target=17]", "crop[keep=0.3]"])
def test_a_problem_takes_exactly_the_points_that_its_condition_announces(name, points):
    """Objects with fewer points are left out beforehand, and no other."""
    shape = Counted()
    problem = make_problem(Single(shape), ProblemKey("single", name, points, 0))
    assert shape.drawn == condition(name).needed(points) and 0 < len(problem.source) <= points


def test_the_pose_of_the_source_is_that_of_the_frame_of_its_symmetry():
    frame = np.eye(4)
    frame[:3, :3], frame[:3, 3] = poses.axis_rotation(np.array([0.0, 0.6, 0.8]), 50), (0.1, 0.2, -0.3)
    plain, framed = Counted(), Counted()
    framed.frame = frame
    one, other = (make_problem(Single(shape), replace(KEY, dataset="single")) for shape in (plain, framed))
    np.testing.assert_allclose(other.source_pose, one.source_pose @ frame, atol=1e-12)
    assert other.tags["symmetry"] == "C2" and one.sha256() == other.sha256()


class Same(PairSet):
    """The same two clouds as every pair."""

    def __len__(self):
        return 6

    def pair(self, row):
        cloud = rng("same").normal(size=(300, 3))
        return Pair(f"s/{row}-9", "s", cloud, cloud + 1, np.eye(4))


@pytest.mark.parametrize("field", ["dataset", "index", "seed", "points"])
def test_every_field_of_the_key_of_a_real_pair_changes_the_points_that_are_taken(field):
    key = ProblemKey("same", "real", 100, 1, 1)
    values = {"dataset": "other", "index": 2, "seed": 2, "points": 101}
    one, other = make_problem(Same(), key), make_problem(Same(), replace(key, **{field: values[field]}))
    shared = (one.source[:, None] == other.source[None, :100]).all(axis=2).any(axis=1).mean()
    assert shared < 0.6 and len(other.source) == (101 if field == "points" else 100)  # a third by chance
