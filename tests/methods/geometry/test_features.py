"""Unit pairs and normals."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from common.errors import InputError
from methods.base import NoSolution, Unavailable, rigid
from methods.fgr import Fgr
from methods.geometry import fpfh
from methods.geometry.features import _deviations, nearest_rotation, normals, radius, unit_pair
from methods.geometry.open3d_bridge import open3d, point_cloud
from tests.catalog import build
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


@pytest.mark.parametrize("name", ["fgr", "ransac10k", "sc2_pcr", "turbo_reg", "mac", "teaser"])
def test_setup_notes_which_code_computes_the_features(name: str) -> None:
    method = build(name)
    try:
        method.setup("cpu", 0, "shapes40")
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert method.scratch.notes["features"] == fpfh.implementation()


@pytest.mark.parametrize("orientation", ["outward", "tangent_plane"])
def test_normals_of_a_sphere_point_outward(orientation: str) -> None:
    u = lumpy(800)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    n = normals(u, 0.3, orientation)
    assert np.mean(np.einsum("ij,ij->i", n, u) > 0.9) > 0.99


@pytest.mark.parametrize("seed", range(3))
def test_the_scale_is_the_mean_of_both_radii_about_the_centroids(seed: int) -> None:
    source, target, _ = turned_pair(20, seed, n=80, scale=3.0)
    target = 2 * target[:50] + np.float32(9)
    pair = unit_pair(source, target)
    clouds = [c.astype(np.float64) for c in (source, target)]
    radii = [np.quantile(np.linalg.norm(c - c.mean(axis=0), axis=1), 0.95) for c in clouds]
    assert pair.scale == pytest.approx(np.mean(radii))
    for cloud, ours, centre in zip(clouds, pair[:2], pair[2:4], strict=True):
        assert np.allclose(centre, cloud.mean(axis=0)) and np.allclose(ours * pair.scale + centre, cloud)


def test_clouds_are_refused_if_they_lie_on_a_line_to_rounding() -> None:
    line = np.outer(np.linspace(-1, 1, 50), [1.0, 2.0, 3.0])
    wave = np.outer(np.cos(np.arange(50)), [3.0, 0.0, -1.0])
    for offset, width, refused in ((0, 1e-7, True), (0, 1e-4, False), (1e4, 1e-4, True), (1e4, 0.1, False)):
        cloud = line + width * wave + offset
        for pair in ((cloud, line + wave), (line + wave, cloud)):
            if refused:
                with pytest.raises(NoSolution, match="on a line"):
                    unit_pair(*pair)
            else:
                unit_pair(*pair)
    far = np.vstack([line, 100 * line[-1:], 100 * line[:1]])  # coordinates of far points are rounded more
    for width, refused in ((1e-5, True), (1e-3, False)):
        cloud = far + width * np.outer(np.cos(np.arange(52)), [3.0, 0.0, -1.0])
        with pytest.raises(NoSolution, match="on a line") if refused else nullcontext():
            unit_pair(cloud, line + wave)
    ends = np.array([[1.0, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]] * 10)  # deviations 1 and the width
    for width, refused in ((7e-7, True), (1.5e-6, False)):
        with pytest.raises(NoSolution, match="on a line") if refused else nullcontext():
            unit_pair(ends * [1, width, 0], line + wave)
    for covariance in (np.diag([3.0, 2.0, 1.0]), np.cov(np.random.default_rng(0).normal(size=(3, 20)))):
        e = np.linalg.eigvalsh(covariance)
        pairs = e[0] * e[1] + e[0] * e[2] + e[1] * e[2]
        assert _deviations(covariance) == pytest.approx((np.sqrt(e.sum()), np.sqrt(pairs / e.sum())))
    assert _deviations(np.zeros((3, 3))) == (0.0, 0.0)
    with pytest.raises(NoSolution, match="all points of the source are equal"):
        unit_pair(np.zeros((5, 3)), line + wave)
    for bad, message in ((line[:2], "2 points"), (line[:, :2], "shape"), (np.full((9, 3), 0.3), "equal")):
        with pytest.raises(NoSolution, match=f"target.*{message}|{message}.*target"):
            unit_pair(line + wave, bad)


def test_normals_of_the_tangent_plane_are_open3ds_with_twelve_neighbours_and_mostly_point_outward() -> None:
    for cloud in (lumpy(300), np.random.default_rng(300).normal(size=(300, 3))):
        oriented = point_cloud(cloud)
        oriented.estimate_normals(open3d().geometry.KDTreeSearchParamHybrid(0.4, 30))
        oriented.orient_normals_consistent_tangent_plane(12)
        expected = np.asarray(oriented.normals)
        expected = expected * (1 if (expected * cloud).sum() > 0 else -1)
        assert np.array_equal(normals(cloud, 0.4, "tangent_plane"), expected)


def test_normals_without_orientation_keep_their_signs_and_lie_along_the_radius() -> None:
    u = lumpy(800)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    n = normals(u, 0.3, "none")
    outward = np.einsum("ij,ij->i", n, u)
    assert (np.abs(outward) > 0.9).mean() > 0.99 and (outward < 0).any() and (outward > 0).any()
    flipped = normals(u, 0.3, "outward")
    assert np.allclose(flipped, n * np.where(outward < 0, -1, 1)[:, None])


@pytest.mark.parametrize("parameters", [{}, {"feature_radius": 0.3, "feature_neighbours": 20, "normal_radius": 0.4}])
def test_matches_are_mutual_nearest_neighbours_in_the_space_of_features(parameters: dict[str, float]) -> None:
    source, target, _ = turned_pair(40, n=120)
    noisy = target + np.random.default_rng(0).normal(scale=0.02, size=target.shape).astype(np.float32)
    method = Fgr(**parameters)
    pair, settings = method.prepared(source, noisy)
    wanted = {"normal_radius": 0.2, "feature_radius": 0.5, "feature_neighbours": 100} | parameters
    radius, k = wanted["feature_radius"], wanted["feature_neighbours"]
    assert np.array_equal(pair.source, unit_pair(source, noisy).source) and settings.orientation == "outward"
    features = []
    for cloud in pair[:2]:
        oriented = point_cloud(cloud, normals(cloud, wanted["normal_radius"], "outward"))
        search = open3d().geometry.KDTreeSearchParamHybrid(radius, int(k))
        features.append(np.asarray(open3d().pipelines.registration.compute_fpfh_feature(oriented, search).data).T)
    gap = cdist(*features)
    near = (gap <= gap.min(axis=1, keepdims=True) + 1e-9) & (gap <= gap.min(axis=0) + 1e-9)  # ties are possible
    matches = method.matches(pair, settings)
    assert near[tuple(matches.T)].all() and len(set(matches[:, 0])) == len(matches) > 10
    single = near.sum(axis=1) == 1
    alone = [(i, j) for i, j in zip(*np.nonzero(near), strict=True) if single[i] and near[:, j].sum() == 1]
    second = np.sort(gap, axis=1)[:, 1] > gap.min(axis=1) + 1e-3
    assert {pair for pair in alone if second[pair[0]]} <= set(map(tuple, matches.tolist()))
    assert method.scratch.notes["matches"] == len(matches)
    assert list(method.scratch.stages) == ["normals", "features", "matching"]
    for limit in (len(matches) + 1, len(matches), 7, 3):
        p, q = method.matched_points(pair, settings, limit)
        rows = [int(np.flatnonzero((pair.source[matches[:, 0]] == point).all(axis=1))[0]) for point in p]
        assert len(p) == min(limit, len(matches)) and rows == sorted(set(rows))
        assert (rows[0], rows[-1]) == (0, len(matches) - 1) and max(np.diff(rows)) - min(np.diff(rows)) <= 1
        assert (q == pair.target[matches[rows, 1]]).all()


@pytest.mark.parametrize("value", [0, -1, np.inf, np.nan])
def test_parameters_that_are_not_above_zero_are_refused(value: float) -> None:
    for name in ("normal_radius", "feature_radius", "distance", "tuple_scale"):
        with pytest.raises(InputError, match=rf"fgr\[{name}="):
            Fgr(**{name: value})
    with pytest.raises(InputError, match="orientation"):
        Fgr(orientation="inward")


def test_the_nearest_rotation_is_the_polar_factor() -> None:
    from scipy.linalg import polar

    R = Rotation.random(20, random_state=1).as_matrix() + np.random.default_rng(0).normal(scale=0.05, size=(20, 3, 3))
    for matrix in R:
        assert np.allclose(nearest_rotation(matrix), polar(matrix)[0])
    mirrored = nearest_rotation(np.diag([1.0, 1.0, -0.1]))
    assert np.linalg.det(mirrored) == pytest.approx(1)
