"""ICP: accuracy, starts, robustness."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from common.kinds import DataKind
from methods.base import NoSolution, rigid
from methods.geometry.icp import KERNELS, METRICS
from methods.icp import Icp
from tests.methods.clouds import solve, turned_pair


def test_icp_is_exact_from_a_near_start_and_says_so() -> None:
    source, target, truth = turned_pair(10)
    icp = Icp()
    assert np.abs(solve(icp, source, target) - truth).max() < 1e-4
    assert icp.scratch.notes["converged"] and icp.scratch.notes["iterations"] < 50
    assert set(icp.scratch.stages) == {"normals", "refine"}


def test_icp_starts_where_it_is_told() -> None:
    source, target, truth = turned_pair(150)
    near = truth @ rigid(Rotation.from_euler("z", 5, degrees=True).as_matrix(), np.array([0.02, 0.0, 0.0]))
    assert np.abs(solve(Icp(), source, target) - truth).max() > 0.1  # from the identity it is lost
    assert np.abs(solve(Icp(), source, target, near) - truth).max() < 1e-4
    assert np.allclose(solve(Icp(tolerance=10), source, target, truth), truth, atol=1e-5)


def test_trimming_withstands_points_without_a_match() -> None:
    source, target, truth = turned_pair(8)
    stray = np.random.default_rng(0).uniform(1.5, 2, size=(60, 3)).astype(np.float32)
    error = [np.abs(solve(Icp(trim=t), np.vstack([source, stray]), target) - truth).max() for t in (0.0, 0.2)]
    assert error[1] < 1e-4 < 1e-2 < error[0]


@pytest.mark.parametrize("kernel", ["none", *KERNELS])
@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_and_kernel_is_exact_from_a_near_start(metric: str, kernel: str) -> None:
    source, target, truth = turned_pair(12)
    result = solve(Icp(metric=metric, kernel=kernel, width=0.3, iterations=200), source, target)
    assert np.abs(result - truth).max() < 1e-3


def test_point_to_point_converges_to_the_least_squares_pose_of_its_matches() -> None:
    source, target, _ = turned_pair(8)
    noisy = (target + np.random.default_rng(2).normal(scale=0.01, size=target.shape)).astype(np.float32)
    T = solve(Icp(metric="point", trim=0.0, iterations=500, tolerance=1e-9), source, noisy)
    moved = source @ T[:3, :3].T + T[:3, 3]
    nearest = noisy[cdist(moved, noisy).argmin(axis=1)]
    R, _ = Rotation.align_vectors(nearest - nearest.mean(axis=0), source - source.mean(axis=0))
    assert np.abs(T[:3, :3] - R.as_matrix()).max() < 1e-4


@pytest.mark.parametrize("kernel", KERNELS)
def test_robust_kernels_resist_strays_that_are_not_trimmed(kernel: str) -> None:
    source, target, truth = turned_pair(2)
    stray = np.random.default_rng(5).uniform(0.3, 0.7, size=(200, 3)).astype(np.float32)
    error = [
        np.abs(
            solve(Icp(trim=0.0, kernel=k, width=0.05, iterations=200), np.vstack([source, stray]), target) - truth
        ).max()
        for k in ("none", kernel)
    ]
    assert error[1] < (0.8 if kernel == "huber" else 0.5) * error[0]  # Huber's only bounds their pull


def test_from_coarse_to_fine_reaches_farther() -> None:
    starts = [turned_pair(angle, seed) for angle in (50, 65, 80) for seed in range(6)]
    won = [
        sum(np.abs(solve(Icp(levels=levels, iterations=100), a, b) - truth).max() < 0.01 for a, b, truth in starts)
        for levels in (1, 3)
    ]
    assert won[1] >= won[0] and won[1] > 0


def test_after_another_method_far_partners_are_left_out() -> None:
    """A half without counterpart pulls on what is already right, unless a distance bounds the matches."""
    source, target, truth = turned_pair(20)
    seen = target[((target - target.mean(axis=0)) @ truth[:3, 0]) > 0]
    error = [np.abs(solve(Icp(distance=d), source, seen, truth) - truth).max() for d in (np.inf, None)]
    assert error[1] <= error[0]


def test_a_noisy_plate_does_not_slide_away() -> None:
    rng = np.random.default_rng(0)
    source, target = (rng.uniform(-1, 1, size=(2, 300, 3)) * [1, 1, 0]) + rng.normal(scale=0.01, size=(2, 300, 3))
    T = solve(Icp(), source.astype(np.float32), target.astype(np.float32))
    assert np.abs(T[:3, 3]).max() < 0.5


def test_icp_s_cap_ignores_what_has_no_partner():
    """A lump beside the source, a third of it, pulls the trimmed ICP away and leaves the capped one alone."""
    source, target, truth = turned_pair(8)
    lump = source[:300] * 0.3 + np.float32([1.5, 0, 0])
    source = np.concatenate([source, lump])
    errors = [np.abs(solve(icp, source, target) - truth).max() for icp in (Icp(), Icp(distance=0.25))]
    assert errors[1] < 0.02 < errors[0]
    with pytest.raises(NoSolution, match="within the distance"):
        solve(Icp(distance=1e-6), source, target + np.float32([0, 0, 9]))


def test_icp_says_how_much_of_the_source_is_met():
    source, target, _ = turned_pair(10)
    icp, astray = Icp(), Icp(iterations=1)
    solve(icp, source, target)
    astray.begin(0)
    astray.register(source, target, np.diag([1.0, -1, -1, 1]))
    assert icp.scratch.notes["confidence"] > 0.99 > astray.scratch.notes["confidence"]


@pytest.mark.parametrize("last", [1e-6, 1e-3])
def test_icp_on_scans_notes_what_its_refinement_reports(monkeypatch: pytest.MonkeyPatch, last: float) -> None:
    source, target, truth = turned_pair(10)
    result = SimpleNamespace(pose=np.eye(4), iterations=17, last=last, fit=SimpleNamespace(inliers=0.625))
    monkeypatch.setattr("methods.icp.refine_partial", lambda *_: result)
    icp = Icp()
    icp.adapt(DataKind.SCANS)
    solve(icp, source, target, truth)
    assert icp.scratch.notes == {"iterations": 17, "converged": last < 1e-5, "confidence": 0.625}


@pytest.mark.parametrize("metric", METRICS)
def test_a_start_and_a_source_that_was_moved_by_it_give_the_same_pose(metric: str) -> None:
    """Whatever a step takes from the source, such as its normals, must be turned by the pose so far."""
    source, target, truth = turned_pair(100)
    noise = np.random.default_rng(1).normal(scale=0.01, size=(2, *source.shape))  # no normal is ambiguous
    source, target = ((cloud + gap).astype(np.float32) for cloud, gap in zip((source, target), noise, strict=True))
    start = truth @ rigid(Rotation.from_euler("y", 9, degrees=True).as_matrix(), np.array([0.02, 0.0, 0.01]))
    moved = (source @ start[:3, :3].T + start[:3, 3]).astype(np.float32)
    icp = Icp(metric=metric, distance=0.5, iterations=3, tolerance=1e-12)
    one, two = solve(icp, source, target, start), solve(icp, moved, target) @ start
    np.testing.assert_allclose(one, two, atol=4e-3)
