"""Parameters and seeds reach the solvers, and poses are converted back to the unit of the clouds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from methods import icp as icp_module
from methods import ransac as ransac_module
from methods.fgr import Fgr
from methods.geometry.features import unit_pair
from methods.geometry.open3d_bridge import open3d
from methods.geometry.ransac import edges_alike
from methods.icp import NEAR, Icp
from methods.learned.base import NormalisedPair
from methods.ransac import Ransac
from tests.methods.clouds import moved, pose, solve, turned_pair


def test_fgr_seeds_the_library_by_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target, _ = turned_pair(30, n=200)
    seeds: list[int] = []
    monkeypatch.setattr(open3d().utility.random, "seed", seeds.append)
    for seed in (3, 4, 2**31 + 5):
        solve(Fgr(), source, target, seed=seed)
    assert seeds == [3, 4, 5]


def test_fgr_passes_its_parameters() -> None:
    option = Fgr(iterations=7, tuple_scale=0.8, tuples=123).option(0.03)
    names = "maximum_correspondence_distance iteration_number tuple_scale maximum_tuple_count use_absolute_scale decrease_mu"
    assert [getattr(option, name) for name in names.split()] == [0.03, 7, 0.8, 123, True, True]


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
