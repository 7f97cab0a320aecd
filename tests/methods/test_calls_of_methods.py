"""What methods pass to solvers and libraries, and what they make of the results, with stubs in their place."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from common.kinds import DataKind
from methods import deepgmr_resampled, fgr, kiss_matcher, sc2_pcr, teaser
from methods.base import NoSolution, rigid
from methods.cpd import Cpd
from methods.deepgmr_resampled import DeepGMRResampled
from methods.fgr import Fgr, alike_triples, graduated_pose
from methods.fricp import Fricp
from methods.geometry import hgmm
from methods.geometry.features import unit_pair
from methods.hgmr import Hgmr
from methods.icp import Icp
from methods.kiss_matcher import KissMatcher
from methods.learned.base import NormalisedPair
from methods.pointnetlk import PointNetLK
from methods.sc2_pcr import Sc2Pcr
from methods.teaser import Teaser
from tests.methods.clouds import lumpy, moved, pose, solve, turned_pair

SOURCE, TARGET, TRUTH = turned_pair(35, n=300, scale=4.0)
UNIT = unit_pair(SOURCE, TARGET)


# Libraries


class Matcher:
    """KISS-Matcher: its answers, and what it was given."""

    valid, inliers, initial = True, 12, 48

    def __init__(self, config: object) -> None:
        self.given.append(config)

    def estimate(self, source: np.ndarray, target: np.ndarray) -> SimpleNamespace:
        self.given.append((source, target, os.sched_getaffinity(0)))
        T = UNIT.to_unit(TRUTH)
        return SimpleNamespace(valid=self.valid, rotation=1.0001 * T[:3, :3], translation=T[:3, 3][:, None])

    def get_num_final_inliers(self) -> int:
        return self.inliers

    def get_initial_correspondences(self) -> list[int]:
        return [0] * self.initial


@pytest.fixture
def matcher(monkeypatch: pytest.MonkeyPatch) -> type[Matcher]:
    Matcher.given = []  # type: ignore[attr-defined]
    module = SimpleNamespace(KISSMatcherConfig=lambda **settings: settings, KISSMatcher=Matcher)
    monkeypatch.setitem(sys.modules, "kiss_matcher", module)
    return Matcher


@pytest.mark.parametrize(
    ("valid", "inliers", "initial", "says"),
    [(True, 12, 48, None), (True, 3, 0, None), (True, 2, 48, "2 consistent matches"), (False, 12, 48, "12 consistent")],
)
def test_kiss_matcher_returns_a_valid_pose_of_three_matches(
    matcher: type[Matcher], monkeypatch: pytest.MonkeyPatch, valid: bool, inliers: int, initial: int, says: str | None
) -> None:
    for name, value in (("valid", valid), ("inliers", inliers), ("initial", initial)):
        monkeypatch.setattr(matcher, name, value)
    method = KissMatcher()
    if says:
        with pytest.raises(NoSolution, match=f"{says}.*a pose needs 3"):
            solve(method, SOURCE, TARGET)
    else:
        np.testing.assert_allclose(solve(method, SOURCE, TARGET), TRUTH, atol=1e-5)
    config, (source, target, _) = matcher.given  # type: ignore[attr-defined]
    assert config == {"voxel_size": 0.06, "normal_r_gain": 3.0, "fpfh_r_gain": 5.0}
    for given, cloud in ((source, UNIT.source), (target, UNIT.target)):
        assert given.dtype == np.float32 and np.allclose(given, cloud, atol=1e-6)
    assert method.scratch.notes == {"inliers": inliers, "confidence": inliers / max(initial, 1)}
    assert list(method.scratch.stages) == ["solve"]


@pytest.mark.parametrize("processors", [1, 2, None])
def test_kiss_matcher_starts_as_many_threads_as_allowed_and_gives_the_processors_back(
    matcher: type[Matcher], monkeypatch: pytest.MonkeyPatch, processors: int | None
) -> None:
    allowed, limits = {5, 3, 9}, [{5, 3, 9}]
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(limits[-1]))
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, given: limits.append(set(given)))
    if processors:
        monkeypatch.setenv("BENCH_THREADS", str(processors))
    else:
        monkeypatch.delenv("BENCH_THREADS", raising=False)
    KissMatcher().setup("cpu", 0, "d")
    source, target, during = matcher.given[-1]  # type: ignore[attr-defined]
    assert during == set(sorted(allowed)[: processors or 1]) and limits[-1] == allowed
    assert len(source) == len(target) == 2000 and source.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(source, axis=1), 0.5, rtol=1e-5)
    monkeypatch.setattr(matcher, "estimate", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        KissMatcher().setup("cpu", 0, "d")
    assert limits[-1] == allowed


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(("cells", "refused"), [(29, True), (30, False)])
def test_kiss_matcher_needs_thirty_cells_of_each_cloud(
    matcher: type[Matcher], monkeypatch: pytest.MonkeyPatch, side: int, cells: int, refused: bool
) -> None:
    """A few points are counted first, and all of them only where those are not enough."""
    counted: list[int] = []
    few = UNIT[side]
    monkeypatch.setattr(
        kiss_matcher,
        "_cells",
        lambda cloud, edge: (
            counted.append(len(cloud)) or (cells - (len(cloud) < 300) if cloud[0, 0] == few[0, 0] else 99)
        ),
    )
    if refused:
        with pytest.raises(NoSolution, match=f"^{cells} cells of 0.06 contain points; the library needs 30$"):
            solve(KissMatcher(), SOURCE, TARGET)
    else:
        solve(KissMatcher(), SOURCE, TARGET)
    assert counted == ([250, 300] if side == 0 else [250, 250, 300]) + ([250] if side == 0 and not refused else [])


@pytest.mark.parametrize("init", [None, pose(7)])
def test_the_pose_of_pycpd_follows_the_start(monkeypatch: pytest.MonkeyPatch, init: np.ndarray | None) -> None:
    """Its rotation multiplies rows: of the moved source Y, Y R + t lies on X."""
    step, made = pose(9, 0.2), []

    class Drift:
        def __init__(self, **settings: Any) -> None:
            made.append(settings)
            self.R, self.t = 1.0002 * step[:3, :3].T, step[:3, 3][None]
            self.P, self.iteration = np.full((3, 5), 0.25), np.int64(7)

        def register(self) -> None:
            made.append("registered")

    monkeypatch.setitem(sys.modules, "pycpd", SimpleNamespace(RigidRegistration=Drift))
    method = Cpd()
    method.begin(0)
    T = method.register(SOURCE, TARGET, init)
    start = UNIT.to_unit(np.eye(4) if init is None else init)
    np.testing.assert_allclose(T, UNIT.to_original(step @ start), atol=1e-9)
    assert method.scratch.notes == {"iterations": 7, "confidence": 15 * 0.25 / 300} and made[1] == "registered"
    np.testing.assert_allclose(made[0]["Y"], UNIT.source @ start[:3, :3].T + start[:3, 3])
    given = {name: made[0][name] for name in ("scale", "w", "max_iterations", "tolerance")}
    assert given == {"scale": False, "w": 0.1, "max_iterations": 60, "tolerance": 1e-5}


@pytest.mark.parametrize("count", [499, 500, 501, 900])
def test_at_most_500_points_drift(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    sizes: list[list[int]] = []

    class Drift:
        R, t, P, iteration = np.eye(3), np.zeros((1, 3)), np.ones((1, 1)), 1

        def __init__(self, **settings: Any) -> None:
            sizes.append([len(settings["Y"]), len(settings["X"])])

        def register(self) -> None:
            pass

    monkeypatch.setitem(sys.modules, "pycpd", SimpleNamespace(RigidRegistration=Drift))
    Cpd().register(lumpy(count).astype(np.float32), lumpy(40).astype(np.float32))
    Cpd().register(lumpy(40).astype(np.float32), lumpy(count).astype(np.float32))
    assert sizes == [[min(count, 500), 40], [40, min(count, 500)]]


@pytest.mark.parametrize("init", [None, pose(7)])
def test_fricp_gets_the_start_and_its_pose_comes_back(monkeypatch: pytest.MonkeyPatch, init: np.ndarray | None) -> None:
    given: list[Any] = []
    native = SimpleNamespace(
        Method=SimpleNamespace(RICP="robust"),
        register_=lambda *clouds, init: (
            given.extend([*clouds, init]) or SimpleNamespace(transformation=UNIT.to_unit(TRUTH))
        ),
    )
    monkeypatch.setitem(sys.modules, "fricp_cpp", SimpleNamespace(native=native))
    method = Fricp()
    method.begin(0)
    np.testing.assert_allclose(method.register(SOURCE, TARGET, init), TRUTH, atol=1e-9)
    source, target, kind, start = given
    assert np.array_equal(source, UNIT.source) and np.array_equal(target, UNIT.target) and kind == "robust"
    np.testing.assert_allclose(start, UNIT.to_unit(np.eye(4) if init is None else init))


# Solvers


def test_hgmr_passes_its_parameters_to_the_tree_and_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The floor of a variance is the square of that of a standard deviation."""
    given: list[Any] = []
    monkeypatch.setattr(hgmm, "fit_tree", lambda *parts: given.append(parts) or "tree")
    found = SimpleNamespace(T=torch.from_numpy(UNIT.to_unit(TRUTH)), share=0.5, iterations=3, converged=True)
    monkeypatch.setattr(hgmm, "align", lambda *parts: given.append(parts) or found)
    own = {"levels": 3, "least_points": 5, "flatness": 0.2, "floor": 0.3, "blur": 0.4, "outliers": 0.6}
    for parameters in ({}, own | {"iterations": 7, "tolerance": 0.8}):
        method = Hgmr(**parameters)
        method.begin(0)
        np.testing.assert_allclose(method.register(SOURCE, TARGET, pose(7)), TRUTH, atol=1e-9)
        assert method.scratch.notes == {"confidence": 0.5, "iterations": 3, "converged": True}
    usual = {"levels": 2, "least_points": 32, "flatness": 0.01, "floor": 0.01, "blur": 0.3, "outliers": 1e-3}
    for (target, fit), (tree, source, start, search), p in zip(
        given[::2],
        given[1::2],
        (usual | {"iterations": 60, "tolerance": 1e-3}, own | {"iterations": 7, "tolerance": 0.8}),
        strict=True,
    ):
        assert tree == "tree" and np.array_equal(source, UNIT.source) and np.array_equal(target, UNIT.target)
        np.testing.assert_allclose(start.numpy(), UNIT.to_unit(pose(7)))
        square = pytest.approx(p["floor"] ** 2)
        assert tuple(fit) == (p["levels"], square, p["flatness"], p["least_points"], 20, 0.01)
        assert tuple(search) == (p["blur"], p["floor"], p["outliers"], p["iterations"], p["tolerance"], 0.01)
    Hgmr().register(SOURCE, TARGET)
    np.testing.assert_allclose(given[-1][2].numpy(), UNIT.to_unit(np.eye(4)))


@pytest.mark.parametrize("kind", list(DataKind))
@pytest.mark.parametrize("given", [None, 0.7])
def test_fgr_compares_edges_by_the_ratio_for_the_data(
    monkeypatch: pytest.MonkeyPatch, kind: DataKind, given: float | None
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(fgr, "alike_triples", lambda *parts: calls.append(parts) or alike_triples(*parts))
    method = Fgr(tuple_scale=given, tuples=77)
    method.adapt(kind)
    solve(method, *turned_pair(30, n=400)[:2])
    ((p, q, ratio, most, rng),) = calls
    assert ratio == (given or {DataKind.OBJECTS: 0.85}.get(kind, 0.9)) and most == 77
    assert rng is method.rng and len(p) == len(q)


def test_fgr_counts_the_matches_within_its_distance_and_refuses_a_pose_without_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[Any] = []
    found = [UNIT.to_unit(TRUTH), rigid(np.eye(3), np.array([9.0, 0, 0]))]
    monkeypatch.setattr(fgr, "graduated_pose", lambda *parts: calls.append(parts) or found[len(calls) - 1])
    method = Fgr(distance=0.04)
    np.testing.assert_allclose(solve(method, SOURCE, TARGET), TRUTH, atol=1e-9)
    p, q, counts, distance, iterations = calls[0]
    T = found[0]
    inliers = (np.linalg.norm(p @ T[:3, :3].T + T[:3, 3] - q, axis=1) < 0.04).sum()
    notes = method.scratch.notes
    assert (
        notes["inliers"] == inliers > 10
        and notes["confidence"] == inliers / len(p)
        and (distance, iterations) == (0.04, 64)
    )
    assert len(counts) == len(p) and counts.sum() == 3 * 1000
    with pytest.raises(NoSolution, match="no match agrees with the pose"):
        solve(method, SOURCE, TARGET)
    monkeypatch.setattr(fgr, "alike_triples", lambda *_: np.zeros((3, 0), int))
    with pytest.raises(NoSolution, match="no triple of matches"):
        solve(method, SOURCE, TARGET)


@pytest.mark.parametrize("most", [1, 40, 200, 10**6])
@pytest.mark.parametrize("ratio", [0.8, 0.95])
def test_fgr_draws_ten_triples_a_match_at_a_time_ten_times_at_most(most: int, ratio: float) -> None:
    draw = np.random.default_rng(1)
    p, q = draw.normal(size=(2, 30, 3))
    q[:20] = 1.1 * p[:20]
    rng, parts = np.random.default_rng(0), list[np.ndarray]()
    while len(parts) < 10 and sum(part.shape[1] for part in parts) < most:
        triples = rng.integers(30, size=(3, 300))
        x, y = (np.linalg.norm(c[triples] - c[np.roll(triples, -1, axis=0)], axis=2) for c in (p, q))
        parts.append(triples[:, ((ratio * x < y) & (ratio * y < x)).all(axis=0)])
    expected = np.concatenate(parts, axis=1)[:, :most]
    assert np.array_equal(alike_triples(p, q, ratio, most, np.random.default_rng(0)), expected)


@pytest.mark.parametrize(("distance", "iterations"), [(0.5, 1), (0.5, 4), (0.2, 9)])
def test_graduated_poses_are_weighted_fits_of_falling_width(distance: float, iterations: int) -> None:
    """Against least squares with Geman-McClure weights, from the identity, whose square falls by 1.4 to that of the distance."""
    draw, truth = np.random.default_rng(0), pose(3, 0.2)
    p, counts = draw.normal(size=(40, 3)), draw.integers(0, 4, 40)
    q = moved(truth, p) + draw.normal(scale=0.05, size=p.shape)
    R, t, square = np.eye(3), np.zeros(3), 1.0
    for _ in range(iterations):
        w = counts * (square / (square + ((p @ R.T + t - q) ** 2).sum(axis=1))) ** 2
        a, b = np.average(p, axis=0, weights=w), np.average(q, axis=0, weights=w)
        R = Rotation.align_vectors(q - b, p - a, weights=w + 1e-300)[0].as_matrix()
        t = b - R @ a
        square = max(square / 1.4, distance**2)
    np.testing.assert_allclose(graduated_pose(p, q, counts, distance, iterations), rigid(R, t), atol=1e-4)


@pytest.mark.parametrize("compiled", [True, False])
def test_teaser_solves_on_the_largest_clique_of_matches(monkeypatch: pytest.MonkeyPatch, compiled: bool) -> None:
    """Distances of two matches may differ by twice the bound of one."""
    calls: list[Any] = []
    rows = np.array([4, 7, 8])
    monkeypatch.setattr(teaser, "largest_clique", lambda *parts: calls.append(parts) or (rows if compiled else None))
    monkeypatch.setattr(teaser.teaser, "solve", lambda *parts: calls.append(parts) or (UNIT.to_unit(TRUTH), 3))
    method = Teaser(noise_bound=0.03, clique_seconds=2.0, limit=50)
    np.testing.assert_allclose(solve(method, SOURCE, TARGET), TRUTH, atol=1e-9)
    (p, q, tolerance, seconds), (kept_p, kept_q, bound, limit) = calls
    assert (tolerance, seconds, bound, limit) == (0.06, 2.0, 0.03, 2.0) and len(p) == len(q) == 50
    chosen = rows if compiled else np.arange(50)
    assert np.array_equal(kept_p, p[chosen]) and np.array_equal(kept_q, q[chosen])
    assert {k: method.scratch.notes[k] for k in ("clique", "confidence")} == {"clique": 3, "confidence": 3 / 50}
    assert (Teaser().clique_seconds, Teaser().limit, Teaser().noise_bound) == (5.0, 2000, None)


@pytest.mark.parametrize(("count", "share", "seeds"), [(50, 0.1, 5), (50, 0.01, 3), (1500, 1.0, 1000), (75, 0.3, 22)])
def test_sc2_pcr_grows_a_set_around_each_of_so_many_seeds(
    monkeypatch: pytest.MonkeyPatch, count: int, share: float, seeds: int
) -> None:
    """A share of the matches, three at least and 1000 at most, by the confidence from five power iterations."""
    calls: list[Any] = []
    usual, vectors = sc2_pcr.best_separated, sc2_pcr.leading_eigenvectors  # type: ignore[attr-defined]
    iterations: list[Any] = []
    monkeypatch.setattr(sc2_pcr, "best_separated", lambda *parts: calls.append(parts) or usual(*parts))
    monkeypatch.setattr(sc2_pcr, "leading_eigenvectors", lambda *parts: iterations.append(parts[1:]) or vectors(*parts))
    p, T = np.random.default_rng(0).normal(size=(count, 3)), pose(1)
    poses = Sc2Pcr(seeds=share, wide=8, narrow=5).hypotheses(p, p @ T[:3, :3].T + T[:3, 3], 0.1)
    ((scores, points, tolerance, number),) = calls
    assert len(scores) == count and points is p and (tolerance, number) == (0.1, seeds)
    assert iterations == [(5,), ()] and len(poses[0]) == seeds
    np.testing.assert_allclose(poses[0], np.tile(T[:3, :3], (seeds, 1, 1)), atol=1e-4)


def test_soft_compatibility_falls_with_the_square_of_the_difference() -> None:
    difference = np.array([[0.0, 0.05, 0.1, 0.2]], dtype=np.float32)
    kept = difference.copy()
    weights = sc2_pcr.soft_compatibility(difference, 0.1)
    np.testing.assert_allclose(weights, [[1, 0.75, 0, 0]], atol=1e-6)
    assert np.array_equal(difference, kept)


def test_a_set_keeps_the_matches_that_agree_with_the_first_within_it() -> None:
    """By the number of common compatible matches, of those that are compatible with the first."""
    draw = np.random.default_rng(0)
    graph = np.triu(draw.random((30, 30)) < 0.5, 1)
    compatible = (graph | graph.T | np.eye(30, dtype=bool)).astype(np.float32)
    rows = np.stack([draw.permutation(30)[:9] for _ in range(6)])
    kept = sc2_pcr._narrowed(compatible, rows, 4)
    assert kept.shape == (6, 4)
    for chosen, members in zip(kept, rows, strict=True):
        common = {
            m: sum(compatible[members[0], k] * compatible[k, m] for k in members) * compatible[members[0], m]
            for m in members
        }
        assert set(chosen) <= set(members) and len(set(chosen)) == 4
        assert sorted(common[m] for m in chosen) == sorted(common.values())[-4:]


@pytest.mark.parametrize("last", [0.5e-5, 1e-5, 2e-5])
def test_icp_has_converged_if_its_last_step_is_within_the_tolerance(
    monkeypatch: pytest.MonkeyPatch, last: float
) -> None:
    monkeypatch.setattr(Icp, "refine", lambda self, T, *_: (T, 3, last, 0.25))
    method = Icp(levels=2)
    solve(method, SOURCE, TARGET)
    assert method.scratch.notes == {"iterations": 6, "converged": last <= 1e-5, "confidence": 0.25}


# Learned methods


def test_a_start_of_pointnetlk_is_that_between_its_normalised_clouds() -> None:
    T, a, b, scale = pose(3, 5.0), np.array([1.0, 2, 3]), np.array([-4.0, 5, 0.5]), 7.0
    method, none = PointNetLK(), torch.zeros(1, 1, 3)
    method.state["device"] = "cpu"
    unit = method.normalised_pose(T, NormalisedPair(none, none, scale, a, b))
    assert unit.shape == (1, 4, 4) and unit.dtype == torch.float64
    x = np.random.default_rng(0).normal(size=(9, 3))
    expected = (moved(T, a + scale * x) - b) / scale
    np.testing.assert_allclose(moved(unit[0].numpy(), x), expected, atol=1e-5)
    np.testing.assert_allclose(NormalisedPair(none, none, scale, a, b).denormalise(unit[0].numpy()), T, atol=1e-9)


@pytest.mark.parametrize("start", [None, pose(4)])
def test_pointnetlk_refines_the_normalised_clouds_from_its_start(start: np.ndarray | None) -> None:
    seen: list[Any] = []

    class Net:
        config = SimpleNamespace(least_points=3)

        def prepare(self, *clouds: torch.Tensor) -> str:
            seen.append(clouds)
            return "prepared"

        def estimate(self, *given: Any) -> SimpleNamespace:
            assert torch.is_inference_mode_enabled()
            seen.append(given)
            return SimpleNamespace(T=torch.from_numpy(pose(5))[None])

    method = PointNetLK()
    method.state.update(net=Net(), device="cpu")
    method.begin(0)
    result = method.register(SOURCE, TARGET, start)
    pair = method.normalise(SOURCE, TARGET)
    np.testing.assert_allclose(result, pair.denormalise(pose(5)))
    (source, target), (prepared, first, second, begun) = seen
    assert prepared == "prepared" and first is source and second is target
    assert torch.equal(source, pair.source) and torch.equal(target, pair.target)
    assert (begun is None) == (start is None)
    if start is not None:
        assert torch.equal(begun, method.normalised_pose(start, pair))
    assert list(method.scratch.stages) == ["refine"]


@pytest.mark.parametrize("alignments", [1, 4])
def test_deepgmr_on_coordinates_returns_the_pose_nearest_to_the_target(
    monkeypatch: pytest.MonkeyPatch, alignments: int
) -> None:
    """Alignments are ranked, and so are the poses, by 400 source points and the nearest share of them."""
    from methods.nn import aligned

    ranked: list[Any] = []
    usual_rank, usual_distances = deepgmr_resampled.candidates, deepgmr_resampled.distances
    monkeypatch.setattr(deepgmr_resampled, "candidates", lambda *parts: ranked.append(parts) or usual_rank(*parts))
    monkeypatch.setattr(deepgmr_resampled, "distances", lambda *parts: ranked.append(parts) or usual_distances(*parts))
    torch.manual_seed(0)
    net = DeepGMRResampled.network().eval()
    method = DeepGMRResampled(alignments=alignments)
    method.state.update(net=net, device="cpu")
    source, target = (torch.from_numpy(lumpy(n, seed).astype(np.float32))[None] for n, seed in ((90, 0), (80, 1)))
    method.begin(0)
    T = method._pose(source, target)
    (a, b, share, most), (p, q, R, t, same, count) = ranked
    assert (share, most) == (same, count) == (aligned.SHARE, 400) and len(R) == len(t) == alignments
    for cloud, tensor in ((a, source), (b, target), (p, source), (q, target)):
        assert cloud.dtype == np.float64 and np.array_equal(cloud, tensor[0].numpy().astype(np.float64))
    residuals = usual_distances(p, q, R, t, share, count)
    best = int(residuals.argmin())
    assert np.array_equal(T[:3, :3], R[best]) and np.array_equal(T[:3, 3], t[best])
    assert method.scratch.notes == {"distance": residuals[best], "confidence": -residuals[best]}
    assert list(method.scratch.stages) == ["features", "network", "solve", "matching"]
    one, other = method.assignments(source, target)
    inputs = method._network_inputs(source, target)
    assert torch.equal(one, net(inputs[0])) and torch.equal(other, net(inputs[1][:1])) and len(inputs[1]) == alignments
    pairs = method.poses([source, source], [target, source])
    np.testing.assert_allclose(pairs[0], T, atol=1e-6)
    assert not np.allclose(pairs[1], T) and cdist(moved(pairs[1], p), p).min(axis=1).max() < 1e-3
