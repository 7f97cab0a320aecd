"""Parameters and seeds reach the solvers, and poses are converted back to the unit of the clouds."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from common.errors import InputError
from methods import fgr as fgr_module
from methods import icp as icp_module
from methods import pca as pca_module
from methods import ransac as ransac_module
from methods.base import NoSolution
from methods.fgr import Fgr, alike_triples, graduated_pose
from methods.geometry import ransac as ransac_steps
from methods.geometry.features import unit_pair
from methods.geometry.icp import METRICS
from methods.geometry.principal_axes import candidates, distances, principal_axes
from methods.geometry.ransac import edges_alike
from methods.icp import NEAR, Icp
from methods.learned.base import Learned, NormalisedPair
from methods.pca import PrincipalAxes
from methods.ransac import Ransac
from tests.catalog import build
from tests.methods.clouds import moved, pose, solve, turned_pair


def test_fgr_depends_on_the_seed_only_by_its_triples() -> None:
    p = np.random.default_rng(0).normal(size=(80, 3))
    first, again, other = (alike_triples(p, 1.04 * p, 0.9, 50, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert first.shape == (3, 50) and np.array_equal(first, again) and not np.array_equal(first, other)


def test_edges_of_fgrs_triples_have_about_the_same_length_in_both_clouds() -> None:
    draw = np.random.default_rng(1)
    p, q = draw.normal(size=(2, 60, 3))
    triples = alike_triples(p, q, 0.9, 10**6, draw)
    assert 10 < triples.shape[1] < 100 * 60
    x, y = (np.linalg.norm(c[triples] - c[np.roll(triples, 1, axis=0)], axis=2) for c in (p, q))
    assert (np.minimum(x, y) > 0.9 * np.maximum(x, y)).all()
    assert alike_triples(p, 2 * p, 0.9, 10, draw).shape == (3, 0)


def test_the_graduated_pose_ignores_wrong_matches() -> None:
    draw = np.random.default_rng(2)
    p, T = draw.normal(size=(200, 3)), pose(130)
    q = p @ T[:3, :3].T + T[:3, 3] + draw.normal(scale=0.002, size=p.shape)
    q[:100] = draw.normal(size=(100, 3))
    assert np.abs(graduated_pose(p, q, np.ones(200, dtype=int), 0.05, 64) - T).max() < 0.005
    counts = (np.arange(200) >= 100).astype(int)
    assert np.abs(graduated_pose(p, q, counts, 10.0, 5) - T).max() < 0.002


@pytest.mark.parametrize("trim", [0.0, 0.1, 0.25, 0.5])
def test_icp_keeps_the_share_that_is_not_trimmed(monkeypatch: pytest.MonkeyPatch, trim: float) -> None:
    source, target, _ = turned_pair(10, n=400)
    kept, usual = [], icp_module.step
    monkeypatch.setattr(icp_module, "step", lambda p, q, d: (kept.append(len(p)), usual(p, q, d))[1])
    solve(Icp(trim=trim), source, target)
    assert set(kept) == {round(400 * (1 - trim))}


def test_icps_confidence_is_the_share_of_points_with_a_near_partner() -> None:
    source, target, _ = turned_pair(8, n=400)
    icp = Icp(iterations=200)
    T = solve(icp, source, target[:250])
    assert icp.scratch.notes["converged"]
    nearest = cdist(moved(T, source), target[:250]).min(axis=1)
    expected = (nearest <= NEAR * unit_pair(source, target[:250]).scale).mean()
    assert 0.3 < expected < 0.95 and icp.scratch.notes["confidence"] == pytest.approx(expected, abs=0.011)


def test_ransac_passes_its_parameters_and_its_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target, _ = turned_pair(30, n=200)
    given, usual = [], ransac_module.ransac
    monkeypatch.setattr(ransac_module, "ransac", lambda *a: (given.append(a[2:]), usual(*a))[1])
    method = Ransac(iterations=500, distance=0.06, edge_ratio=0.75)
    solve(method, source, target)
    assert given[0][:3] == (500, 0.06, 0.75) and given[0][3] is method.rng


@pytest.mark.parametrize("ratio", [0.6, 0.9])
def test_edges_are_alike_by_the_ratio_of_their_lengths(ratio: float) -> None:
    p, q = np.random.default_rng(0).normal(size=(2, 30, 3))
    a, b = cdist(p, p), cdist(q, q)
    with np.errstate(invalid="ignore"):
        expected = np.minimum(a / b, b / a) >= ratio
    assert (edges_alike(p, q, ratio) == expected).all() and 0.05 < expected.mean() < 0.9


def test_a_pose_between_scaled_clouds_is_converted_to_the_original_ones() -> None:
    """x -> target_centre + scale * T((x - source_centre) / scale), for both kinds of normalisation."""
    T, x = pose(3), np.random.default_rng(1).normal(size=(20, 3)) * 7
    scale, a, b = 5.0, np.array([1.0, -2.0, 30.0]), np.array([-4.0, 0.5, 9.0])
    expected = b + scale * ((x - a) / scale @ T[:3, :3].T + T[:3, 3])
    none = torch.zeros(1, 1, 3)
    result = NormalisedPair(none, none, scale, a, b).denormalise(T)
    assert np.allclose(x @ result[:3, :3].T + result[:3, 3], expected)
    source, target, truth = turned_pair(40, n=100, scale=9.0)
    pair = unit_pair(source, target)
    unit = pair.source @ pair.to_unit(truth)[:3, :3].T + pair.to_unit(truth)[:3, 3]
    assert cdist(unit, pair.target).min(axis=1).max() < 1e-5
    assert np.allclose(pair.to_original(pair.to_unit(truth)), truth)


@pytest.mark.parametrize("trim", [0.0, 0.3, 0.995])
@pytest.mark.parametrize("limit", [0.05, 0.1, np.inf])
def test_icp_uses_the_nearest_pairs_within_its_limit(
    monkeypatch: pytest.MonkeyPatch, trim: float, limit: float
) -> None:
    source, target, _ = turned_pair(10, n=300)
    used: list[np.ndarray] = []
    monkeypatch.setattr(
        icp_module, "step", lambda p, q, d: (used.append(np.linalg.norm(p - q, axis=1)), (np.eye(4), 0))[1]
    )
    pair = unit_pair(source, target)
    start = pair.to_unit(np.eye(4))
    nearest = np.sort(cdist(moved(start, pair.source), pair.target).min(axis=1))[: max(3, round(300 * (1 - trim)))]
    solve(Icp(trim=trim, distance=limit), source, target)
    assert np.allclose(np.sort(used[0]), nearest[nearest <= limit], atol=1e-6) and len(used) == 1


@pytest.mark.parametrize(("given", "start", "expected"), [(None, False, np.inf), (None, True, 0.2), (0.3, True, 0.3)])
@pytest.mark.parametrize("levels", [1, 3])
def test_icp_doubles_limit_and_cells_from_fine_to_coarse(
    monkeypatch: pytest.MonkeyPatch, given: float | None, start: bool, expected: float, levels: int
) -> None:
    source, target, truth = turned_pair(5, n=500)
    icp, seen = Icp(distance=given, levels=levels, voxel=0.15, iterations=7, tolerance=1e-12), []
    usual = Icp.refine

    def refine(self, T, a, b, limit):  # type: ignore[no-untyped-def]
        result = usual(self, T, a, b, np.inf)
        seen.append((limit, len(a.points), len(b.points), result[1], a, b))
        return result

    monkeypatch.setattr(Icp, "refine", refine)
    solve(icp, source, target, *([truth] if start else []))
    pair = unit_pair(source, target)
    for (limit, n, m, _, a, b), level in zip(seen, reversed(range(levels)), strict=True):
        edge = 0.15 * 2 ** (level - 1)
        sizes = [
            len(np.unique(np.floor((c - c.min(axis=0)) / edge), axis=0)) if level else 500
            for c in (pair.source, pair.target)
        ]
        assert (limit, [n, m]) == (expected * 2**level, sizes)
        assert np.isin(a.points, pair.source).all() and np.isin(b.points, pair.target).all()
        assert (a.normals == 0).all() and np.allclose(np.linalg.norm(b.normals, axis=1), 1)
    notes = icp.scratch.notes
    assert notes["iterations"] == sum(done for _, _, _, done, _, _ in seen)
    assert start or (notes["iterations"] == 7 * levels and notes["converged"] is False)


@pytest.mark.parametrize("metric", METRICS)
def test_icp_estimates_the_normals_that_its_metric_needs(monkeypatch: pytest.MonkeyPatch, metric: str) -> None:
    source, target, _ = turned_pair(5, n=200)
    calls, kernels = [], []
    usual, weigh = icp_module.normals, icp_module.weighted
    monkeypatch.setattr(icp_module, "normals", lambda *a: (calls.append(a), usual(*a))[1])
    monkeypatch.setattr(icp_module, "weighted", lambda *a: (kernels.append(a[2:]), weigh(*a))[1])
    solve(Icp(metric=metric, normal_radius=0.3), source, target)
    pair = unit_pair(source, target)
    wanted = [pair.target, pair.source] if metric in ("generalized", "symmetric") else [pair.target]
    assert len(calls) == len(wanted) and not kernels
    for (cloud, *rest), expected in zip(calls, wanted, strict=True):
        assert np.array_equal(cloud, expected) and rest == [0.3, "none"]
    solve(Icp(metric=metric, kernel="huber", width=0.07), source, target)
    assert set(kernels) == {("huber", 0.07)}


REFUSED = ["trim=-0.01", "trim=1", "distance=0", "distance=-1", "iterations=0", "tolerance=0", "normal_radius=-1"]
REFUSED += ["width=0", "voxel=0", "levels=0", "metric=x", "kernel=x", "normal_radius=inf"]
ACCEPTED = ["trim=0", "trim=0.99", "distance=inf", "distance=0.001", "levels=1", "kernel=none"]


@pytest.mark.parametrize("text", REFUSED + ACCEPTED)
def test_icp_refuses_what_is_out_of_range(text: str) -> None:
    if text in ACCEPTED:
        build(f"icp[{text}]")
    else:
        with pytest.raises(InputError, match=text.split("=")[0]):
            build(f"icp[{text}]")


def test_fgr_passes_its_parameters_and_notes_its_inliers(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target, _ = turned_pair(30, n=200)
    fgr, calls = Fgr(iterations=7, tuples=123), []
    monkeypatch.setattr(fgr_module, "graduated_pose", lambda *a: (calls.append(a), graduated_pose(*a))[1])
    solve(fgr, source, target)
    ((p, _, counts, *rest),) = calls
    assert rest == [0.05, 7] and len(p) == fgr.scratch.notes["matches"] and counts.sum() == 3 * 123
    assert fgr.scratch.notes["confidence"] == fgr.scratch.notes["inliers"] / len(p) > 0.5


@pytest.mark.parametrize("radius", [0.49, 0.501, 1.0, 1.999, 2.01])
def test_learned_methods_keep_the_scale_of_known_sizes_and_scale_others_to_one(radius: float) -> None:
    draw = np.random.default_rng(0)
    unit = draw.normal(size=(40, 3))
    unit -= unit.mean(axis=0)
    unit /= np.linalg.norm(unit, axis=1).max()
    small = 0.3 * unit[::-1] + (1, 2, 3)
    for a, b in ((radius * unit - 4, radius * small), (radius * small, radius * unit - 4)):
        method = Learned()
        method.state.update(net=SimpleNamespace(config=SimpleNamespace(least_points=40)), device="cpu")
        pair = method.normalise(a, b)
        assert pair.scale == pytest.approx(1.0 if 0.5 <= radius <= 2 else radius)
        assert np.allclose(pair.source_centre, a.mean(axis=0)) and np.allclose(pair.target_centre, b.mean(axis=0))
        for ours, cloud in ((pair.source, a), (pair.target, b)):
            assert ours.shape == (1, 40, 3) and ours.dtype == torch.float32
            assert np.allclose(ours[0].numpy(), (cloud - cloud.mean(axis=0)) / pair.scale, atol=1e-6)
        method.state["net"].config.least_points = 41
        for clouds in ((a, b), (a, np.vstack([b, b])), (np.vstack([a, a]), b)):
            with pytest.raises(NoSolution, match="40 points; the features need 41"):
                method.normalise(*clouds)
    for bad, message in (
        (np.full((40, 3), 7.0), "equal"),
        (unit + np.inf, "not finite"),
        (unit * np.nan, "not finite"),
    ):
        method.state["net"].config.least_points = 3
        with pytest.raises(NoSolution, match=message):
            method.normalise(bad, bad)
    with pytest.raises(NoSolution, match="not finite"):
        pair.denormalise(np.full((4, 4), np.nan))


def test_a_learned_method_asks_its_network_in_two_stages_and_undoes_the_scale() -> None:
    draw, T, seen = np.random.default_rng(1), pose(4), []
    a, b = 50 * draw.normal(size=(2, 30, 3)) + 7

    class Net:
        config = SimpleNamespace(least_points=3)

        def prepare(self, source: torch.Tensor, target: torch.Tensor) -> str:
            seen.append((source, target))
            return "prepared"

        def estimate(self, prepared: str, source: torch.Tensor, target: torch.Tensor) -> SimpleNamespace:
            assert prepared == "prepared" and (source, target) == seen[0]
            return SimpleNamespace(T=torch.from_numpy(T)[None])

    method = Learned()
    method.state.update(net=Net(), device="cpu")
    result = solve(method, a, b)
    assert list(method.scratch.stages) == ["features", "network"]
    pair = method.normalise(a, b)
    x = (a - pair.source_centre) / pair.scale
    assert np.allclose(moved(result, a), pair.target_centre + pair.scale * moved(T, x), atol=1e-3)


@pytest.mark.parametrize(("share", "checked"), [(1.0, 400), (0.5, 400), (0.5, 10), (0.001, 7), (0.8, 40)])
def test_principal_axes_rank_by_the_mean_of_the_nearest_share_of_checked_points(share: float, checked: int) -> None:
    a, b = np.random.default_rng(2).normal(size=(2, 40, 3)) * (1, 0.6, 0.3)
    R, t = np.stack([pose(k)[:3, :3] for k in range(5)]), np.random.default_rng(3).normal(size=(5, 3))
    every = max(1, len(a) // checked)
    expected = []
    for rotation, shift in zip(R, t, strict=True):
        near = np.sort(cdist(a[::every] @ rotation.T + shift, b).min(axis=1))
        expected.append(near[: max(1, round(share * len(near)))].mean())
    assert distances(a, b, R, t, share, checked) == pytest.approx(expected)
    found = candidates(a - a.mean(axis=0), b - b.mean(axis=0), share, checked)
    assert len(found.rotations) == 24 and (np.diff(found.distances) >= 0).all()
    assert (
        np.allclose(np.linalg.det(found.rotations), 1)
        and len({tuple(r.ravel().round(6)) for r in found.rotations}) == 24
    )


def test_principal_axes_turn_with_the_cloud_and_are_ordered_by_extent() -> None:
    cloud = np.abs(np.random.default_rng(5).normal(size=(200, 3))) ** 1.5 * (1, 0.6, 0.3)
    cloud -= cloud.mean(axis=0)
    axes, R = principal_axes(cloud), pose(8)[:3, :3]
    assert np.allclose(axes.T @ axes, np.eye(3)) and np.linalg.det(axes) == pytest.approx(1)
    assert (np.diff((cloud @ axes).std(axis=0)) > 0).all() and (((cloud @ axes) ** 3).sum(axis=0)[:2] > 0).all()
    assert np.allclose(principal_axes(cloud @ R.T), R @ axes)
    method = PrincipalAxes()
    solve(method, cloud, cloud @ R.T)
    notes = method.scratch.notes
    assert (
        notes["confidence"] == -notes["distance"] and 0 <= notes["distance"] < 1e-6 and "solve" in method.scratch.stages
    )
    for n, fails in ((2, True), (3, False)):
        for pair in ((cloud[:n], cloud), (cloud, cloud[:n])):
            if fails:
                with pytest.raises(NoSolution, match="three finite points"):
                    solve(method, *pair)
            else:
                assert np.isfinite(solve(method, *pair)).all()


def test_ransac_draws_as_many_triples_as_asked_and_keeps_the_first_of_equals(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    p, q = draw.uniform(-1, 1, size=(2, 50, 3))
    q[:12] = moved(pose(2), p[:12])
    drawn: list[int] = []

    class Counting:
        """A generator that counts triples."""

        def __init__(self) -> None:
            self.rng = np.random.default_rng(1)
            self.permutation = self.rng.permutation

        def integers(self, high: int, size: tuple[int, int], dtype: type) -> np.ndarray:
            assert high == 50 and size[0] == 3
            drawn.append(size[1])
            return self.rng.integers(high, size=size, dtype=dtype)

    monkeypatch.setattr(ransac_steps, "BATCH", 1000)
    T, inliers = ransac_steps.ransac(p, q, 2500, 0.05, 0.9, Counting())  # type: ignore[arg-type]
    assert drawn == [1000, 1000, 500] and inliers >= 12
    near = np.linalg.norm(moved(T, p) - q, axis=1) < 0.05
    assert near.sum() >= 12 and np.abs(T - pose(2)).max() < 0.05
    expected, _ = Rotation.align_vectors(q[near] - q[near].mean(axis=0), p[near] - p[near].mean(axis=0))
    assert np.allclose(T[:3, :3], expected.as_matrix(), atol=1e-6), "refitted to the inliers of the best triple"


def test_triangles_without_area_have_no_pose_and_others_orthonormal_axes() -> None:
    draw = np.random.default_rng(3)
    triangles = draw.normal(size=(3, 3, 8)).astype(np.float32)
    axes, area = ransac_steps.plane_axes(triangles)
    for k in range(8):
        a, b, c = triangles[..., k].T
        normal = np.cross(b - a, c - a)
        assert area[k] == pytest.approx(np.linalg.norm(normal), rel=1e-4)
        assert np.allclose(axes[2, :, k], normal / np.linalg.norm(normal), atol=1e-5)
        assert np.allclose(axes[:, :, k] @ axes[:, :, k].T, np.eye(3), atol=1e-5)
        assert np.linalg.det(axes[:, :, k]) == pytest.approx(1, abs=1e-4)
        assert np.allclose(axes[0, :, k], (b - a) / np.linalg.norm(b - a), atol=1e-5)
    flat = triangles.copy()
    flat[:, 2, ::2] = flat[:, 1, ::2]
    for pair in ((flat, triangles), (triangles, flat), (flat, flat)):
        assert ransac_steps.triple_poses(*pair)[0].shape[-1] == 4


def test_principal_axes_are_ranked_by_400_points_and_the_nearest_share_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[float, int]] = []
    monkeypatch.setattr(pca_module, "candidates", lambda a, b, *rest: (given.append(rest), candidates(a, b, *rest))[1])
    source, target, _ = turned_pair(20, n=900)
    solve(PrincipalAxes(), source, target)
    solve(PrincipalAxes(share=0.5), source, target)
    assert given == [(0.8, 400), (0.5, 400)]
