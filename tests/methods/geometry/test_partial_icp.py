"""ICP on partial scans: accuracy with half the points unmatched, no harm to a start, and the switch by the kind of data."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from common.kinds import DataKind
from methods.base import rigid
from methods.geometry.features import unit_pair
from methods.geometry.partial_icp import _fit, refine_partial
from methods.geometry.settings import cell
from methods.icp import Icp
from tests.methods.clouds import lumpy, solve, turned_pair


def halves(n: int = 6000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two parts of a surface that overlap by half, each sampled anew, and the pose of the first in the second's frame."""
    T = rigid(Rotation.random(random_state=2).as_matrix(), [0.3, 0.1, -0.2])
    a, b = lumpy(n, 0), lumpy(n, 1)
    source, target = a[a[:, 0] > -0.2], b[b[:, 0] < 0.2]
    return source.astype(np.float32), (target @ T[:3, :3].T + T[:3, 3]).astype(np.float32), T


def off(degrees: float, shift: float, seed: int) -> np.ndarray:
    axis = np.random.default_rng(seed).normal(size=3)
    rotation = Rotation.from_rotvec(np.deg2rad(degrees) * axis / np.linalg.norm(axis)).as_matrix()
    return rigid(rotation, shift * axis / np.linalg.norm(axis))


def degrees_between(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.rad2deg(Rotation.from_matrix(a[:3, :3].T @ b[:3, :3]).magnitude()))


def test_a_start_nearby_converges_though_half_of_each_scan_has_no_counterpart() -> None:
    source, target, T = halves()
    for seed in range(3):
        icp = Icp()
        icp.adapt(DataKind.SCANS)
        icp.begin(0)
        refined = icp.register(source, target, off(6, 0.04, seed) @ T)
        assert degrees_between(refined, T) < 0.5
        assert np.linalg.norm(refined[:3, 3] - T[:3, 3]) < 0.01


def test_a_start_far_away_is_returned_if_nothing_fits_better() -> None:
    source, target, _ = halves(1500)
    pair = unit_pair(source, target)
    start = rigid(np.eye(3), [50.0, 0, 0])
    result = refine_partial(pair.source, pair.target, start, cell(pair.source, pair.target))
    assert np.array_equal(result.pose, start) and result.fit == (0, 0)


def test_the_fit_never_gets_worse() -> None:
    source, target, T = halves(2000)
    pair = unit_pair(source, target)
    edge = cell(pair.source, pair.target)
    best = refine_partial(pair.source, pair.target, pair.to_unit(T), edge)
    again = refine_partial(pair.source, pair.target, best.pose, edge)
    assert again.fit.weight >= best.fit.weight > 0.3


def test_a_better_pose_near_the_start_is_never_refused() -> None:
    """The number of inliers may fall by a few while nearly all distances do."""
    source, target, T = halves(1500)
    pair = unit_pair(source, target)
    edge = cell(pair.source, pair.target)
    for seed in range(20):
        start = pair.to_unit(off(0.8, 0.004, seed) @ T)
        refined = refine_partial(pair.source, pair.target, start, edge).pose
        assert degrees_between(refined, pair.to_unit(T)) < 0.8 * degrees_between(start, pair.to_unit(T))


def test_the_fit_is_that_of_the_definition() -> None:
    """Mean of Tukey's weights, and share of points nearer than half a cell to the plane of a target point within a cell."""
    grid = np.stack(
        [*np.meshgrid(np.linspace(-1, 1, 41), np.linspace(-1, 1, 41)), np.zeros((41, 41))], axis=-1
    ).reshape(-1, 3)
    heights = np.array([0.0, 0.05, 0.1, 0.149, 0.151, 0.29, 0.5])
    points = np.column_stack([np.linspace(-0.5, 0.5, 7).round(2), np.zeros(7), heights])
    fit = _fit(points, np.eye(4), cKDTree(grid), np.tile([0.0, 0.0, -1.0], (len(grid), 1)), 0.3)
    weights = [(1 - (h / 0.15) ** 2) ** 2 for h in heights[:4]]
    np.testing.assert_allclose(fit, (sum(weights) / 7, 4 / 7))


def test_icp_on_objects_and_with_a_given_distance_does_not_depend_on_the_kind() -> None:
    source, target, truth = turned_pair(10, n=300)
    plain, adapted = Icp(), Icp()
    adapted.adapt(DataKind.SCANS)
    assert np.array_equal(solve(plain, source, target), solve(adapted, source, target))  # no initial pose
    given = [Icp(distance=0.2), Icp(distance=0.2)]
    given[1].adapt(DataKind.SCANS)
    assert np.array_equal(*(icp.register(source, target, truth) for icp in given))
