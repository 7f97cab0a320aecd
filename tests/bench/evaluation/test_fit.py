"""Right or as good, and the search for another pose, on shapes of known symmetry."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bench.evaluation import fit as fit_module
from bench.evaluation import metrics
from bench.evaluation.fit import TOLERANCE, Fit, as_good, rival
from common.keys import rng
from common.rigid import inverse
from datasets.poses import haar
from datasets.problems import Problem, ProblemKey
from datasets.symmetry import members, turn
from methods.geometry import search

X, Z = np.eye(3)[0], np.eye(3)[2]
DIAGONAL = np.ones(3) / np.sqrt(3)


def box(draw, n, low, high):
    """Uniform points (n, 3) on the faces of a box."""
    size = np.subtract(high, low)
    areas = np.array([size[1] * size[2], size[0] * size[2], size[0] * size[1]])
    axis = draw.choice(3, n, p=areas / areas.sum())
    points = draw.uniform(size=(n, 3))
    points[np.arange(n), axis] = draw.integers(0, 2, n)
    return points * size + low


def cube(draw, n):
    return box(draw, n, (-0.4,) * 3, (0.4,) * 3)


def oblong(draw, n):
    return box(draw, n, (-0.5, -0.3, -0.15), (0.5, 0.3, 0.15))


def cylinder(draw, n):
    angle = draw.uniform(0, 2 * np.pi, n)
    return np.stack([0.3 * np.cos(angle), 0.3 * np.sin(angle), draw.uniform(-0.5, 0.5, n)], axis=1)


def cone(draw, n):
    angle, height = draw.uniform(0, 2 * np.pi, n), np.sqrt(draw.uniform(0, 1, n))
    return np.stack([0.35 * height * np.cos(angle), 0.35 * height * np.sin(angle), 0.5 - height], axis=1)


def asymmetric(draw, n):
    """Three boxes of different lengths along the axes: an L with a third arm."""
    arms = [((0, 0, 0), (1, 0.2, 0.15)), ((0, 0, 0), (0.2, 0.7, 0.15)), ((0.7, 0, 0), (0.9, 0.2, 0.45))]
    return np.concatenate([box(draw, n // 3, low, high) for low, high in arms]) - (0.4, 0.2, 0.1)


def pose(R, t=(0.0, 0.0, 0.0)):
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = R, t
    return T


def problem(make, points=510):
    """A problem of two samples of a shape, its source in the frame of the symmetries."""
    draw = rng("fit", make.__name__)
    source, target = make(draw, points), make(draw, points)
    T = pose(haar(draw), draw.uniform(-0.3, 0.3, 3))
    clouds = source.astype(np.float32), (target @ T[:3, :3].T + T[:3, 3]).astype(np.float32)
    return Problem(ProblemKey("test", "resampled", points, 0), *clouds, T, np.eye(4), {"overlap": 1.0})


SYMMETRIC = [
    (cube, turn(Z, np.pi / 2)),
    (cube, turn(DIAGONAL, 2 * np.pi / 3)),
    (oblong, turn(Z, np.pi)),
    (cylinder, turn(Z, 1.234) @ turn(X, np.pi)),
    (cone, turn(Z, 2.345)),
]
WRONG = [
    (cube, turn(Z, np.pi / 6)),
    (oblong, turn(Z, np.pi / 6)),
    (cylinder, turn(X, np.pi / 6)),
    (cone, turn(X, np.pi)),
    (asymmetric, turn(DIAGONAL, np.pi / 6)),
    (asymmetric, turn(X, np.pi)),
]


@pytest.mark.parametrize(("make", "g"), SYMMETRIC)
def test_a_pose_off_by_a_symmetry_is_as_good(make, g):
    given = problem(make)
    T = given.T_target_source @ pose(g)
    fit = Fit(given)
    assert fit.rmse(T[None], given.T_target_source[None])[0] > 0.2  # recall counts it as wrong
    assert as_good(fit, T[None]).tolist() == [True]


@pytest.mark.parametrize(("make", "g"), WRONG)
def test_a_pose_off_by_another_rotation_is_not(make, g):
    given = problem(make)
    # 30 degrees move these small shapes by less than the default limit of 0.2
    assert as_good(Fit(given), (given.T_target_source @ pose(g))[None], far=0.15).tolist() == [False]


@pytest.mark.parametrize(
    ("make", "expected"), [(cube, True), (oblong, True), (cylinder, True), (cone, True), (asymmetric, False)]
)
def test_the_search_finds_another_pose_of_symmetric_shapes_only(make, expected):
    fit = Fit(problem(make))
    assert [rival(fit, seed) <= 1 + TOLERANCE for seed in (0, 1)] == [expected] * 2


def test_of_many_equal_poses_one_fits_better_than_the_truth():
    """A cylinder can be turned by any angle, so that the truth is one of many and hardly the best."""
    assert rival(Fit(problem(cylinder))) < 1 < rival(Fit(problem(asymmetric)))


def test_the_search_finds_what_fits_best_of_all_far_poses():
    """Against the declared symmetries of a cube: 23 poses, each refined."""
    fit = Fit(problem(cube))
    poses = fit.truth @ np.stack([pose(g) for g in members("O", 1)[1:]])
    best = fit.ratios(poses, far=0.2).min()
    assert rival(fit) <= best * (1 + 1e-3)


def half_seen(make):
    """The problem without the lowest third of the source along x."""
    given = problem(make)
    kept = given.source[:, 0] > np.quantile(given.source[:, 0], 0.3)
    return dataclasses.replace(given, source=given.source[kept], tags={"overlap": 0.7})


@pytest.mark.parametrize(
    ("given", "ratio"),
    [
        (problem(oblong), 0.94237),
        (problem(cone), 0.95507),
        (problem(asymmetric), 1.53086),
        (half_seen(oblong), 1.02204),
        (half_seen(asymmetric), 1.51717),
    ],
)
def test_the_search_is_that_of_the_published_ceilings(given, ratio):
    """Its constants decide what it finds: with any other, ceilings of earlier runs would not be comparable."""
    assert rival(Fit(given)) == pytest.approx(ratio, rel=1e-4)


@pytest.mark.parametrize("make", [oblong, cone, asymmetric])
def test_the_fit_is_invariant_under_a_common_rigid_motion(make):
    given, motion = problem(make), pose(haar(rng("motion")), (1.0, -2.0, 0.5))
    moved = (given.target @ motion[:3, :3].T + motion[:3, 3]).astype(np.float32)
    back = inverse(motion)
    source = (given.source @ motion[:3, :3].T + motion[:3, 3]).astype(np.float32)
    T = motion @ given.T_target_source @ back
    other = dataclasses.replace(given, source=source, target=moved, T_target_source=T)
    for g in (turn(Z, np.pi), turn(X, 0.5)):
        answer = given.T_target_source @ pose(g)
        one, two = Fit(given), Fit(other)
        again = (motion @ answer @ back)[None]
        assert one.distances(answer[None])[0] == pytest.approx(two.distances(again)[0], rel=1e-4)
        assert as_good(one, answer[None]) == as_good(two, again)


def test_the_distance_is_that_of_its_definition():
    given = problem(oblong, 60)
    fit, T = Fit(given), given.T_target_source @ pose(turn(Z, 0.3))
    moved = given.source.astype(float) @ T[:3, :3].T + T[:3, 3]
    apart = ((moved[:, None] - given.target.astype(float)) ** 2).sum(axis=2)
    parts = [np.sort(apart.min(axis=axis))[:54].mean() for axis in (0, 1)]
    assert fit.keep == 0.9 and fit.distances(T[None])[0] == pytest.approx(np.sqrt(np.mean(parts)), rel=1e-9)


@pytest.mark.parametrize(("overlap", "keep"), [(None, 0.9), (np.nan, 0.9), (0.95, 0.9), (0.6, 0.6), (0.1, 0.3)])
def test_the_share_that_is_kept_is_the_overlap_within_its_bounds(overlap, keep):
    given = problem(oblong, 90)
    fit = Fit(dataclasses.replace(given, tags={"overlap": overlap}))
    assert fit.keep == keep
    for n, values in ((90, np.arange(90.0)), (4, np.arange(4.0)), (2, np.arange(2.0))):
        kept = np.sort(values)[: min(n, max(3, round(keep * n)))]
        assert values[::-1][search._nearest(values[::-1], keep)].mean() == pytest.approx(kept.mean())
        assert sorted(search._nearest(values[::-1], keep)) == list(range(n - len(kept), n))


def test_errors_motions_and_thinned_clouds_are_those_of_their_definitions():
    given = problem(asymmetric, 300)
    fit, draw = Fit(given), rng("definitions")
    A, B = (pose(haar(draw), draw.normal(size=3)) for _ in range(2))
    assert fit.rmse(A[None], B[None])[0] == pytest.approx(float(metrics.rmse(A, B, given.evaluation_points)))
    radius = max(np.linalg.norm(c - c.mean(axis=0), axis=1).max() for c in (given.source, given.target))
    truth = fit.distances(fit.refined_poses(given.T_target_source[None]))[0]
    assert fit.limit - truth == pytest.approx(1e-6 * radius, rel=1e-4)
    p = draw.normal(size=(20, 3))
    q = p @ A[:3, :3].T + A[:3, 3] + 0.05 * draw.normal(size=(20, 3))
    R, _ = Rotation.align_vectors(q - q.mean(axis=0), p - p.mean(axis=0))
    T = search.kabsch(p, q)
    assert np.allclose(T[:3, :3], R.as_matrix(), atol=1e-7) and np.allclose(T[:3, 3], q.mean(0) - R.apply(p.mean(0)))
    flat = p * (1, 1, 0)
    assert np.linalg.det(search.kabsch(flat, flat * (1, -1, 0))[:3, :3]) == pytest.approx(1)
    for n in (3, 2048, 2049, 9000):
        cloud = np.arange(3 * n, dtype=float).reshape(n, 3)
        thin = search.even(cloud, fit_module.MAX_POINTS)
        rows = thin[:, 0] / 3
        assert len(thin) == min(n, 2048) and (rows[0], rows[-1]) == (0, n - 1) and np.ptp(np.diff(rows)) <= 1


def test_a_pose_that_is_refined_far_away_is_not_as_good_and_the_ratio_is_of_refined_poses():
    given = problem(cube)
    fit, T = Fit(given), given.T_target_source
    assert (
        fit.ratios(T[None], 0.2)[0] == pytest.approx(fit.distances(fit.refined_poses(T[None]))[0] / fit.limit)
        and fit.ratios(T[None], 0.2)[0] < 1
    )
    moved = T @ pose(turn(Z, 0.3))
    step = fit.rmse(moved[None], fit.refined_poses(moved[None]))[0]
    assert np.isfinite(fit.ratios(moved[None], step * 1.01)[0]) and np.isinf(fit.ratios(moved[None], step * 0.99)[0])
    limit = (1 + fit_module.TOLERANCE) * fit.limit
    for factor in (0.99, 1.01):
        fit.limit = fit.distances(fit.refined_poses(T[None]))[0] / (1 + fit_module.TOLERANCE) / factor
        assert as_good(fit, T[None])[0] == (factor < 1)
    assert limit > 0
