"""DeepGMR on coordinates along principal axes: what a pose does to it, and that its network takes part."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.evaluation.metrics import rmse
from common.errors import InputError
from methods.base import NoSolution
from methods.deepgmr_resampled import DeepGMRResampled
from methods.geometry.principal_axes import candidates, distances
from methods.learned import training
from methods.learned.weights import Card, save
from methods.nn.aligned import AlignedNet, in_frame
from methods.nn.gmr import GmrConfig
from tests.methods.made import moved, pose


def solid(seed: int, n: int = 300) -> np.ndarray:
    """Points of a solid with three different extents and no symmetry."""
    x = np.random.default_rng(seed).uniform(0, 1, (n, 3))
    cloud = np.stack([x[:, 0] * (1 + 0.5 * x[:, 1]), 0.6 * x[:, 1], 0.3 * x[:, 2] * x[:, 0]], axis=1)
    return cloud - cloud.mean(axis=0)


@pytest.fixture
def method(tmp_path: Path) -> DeepGMRResampled:
    """With a freshly initialised network: what is tested holds for any weights."""
    torch.manual_seed(0)
    net = training.build("deepgmr_resampled")
    file = tmp_path / "w.safetensors"
    save(file, net.state_dict(), Card("deepgmr_resampled", asdict(net.config), {}))
    made = DeepGMRResampled(weights=str(file), precision="float32")
    made.setup("cpu", 0, "shapes40")
    return made


@pytest.mark.parametrize("seed", range(3))
def test_the_same_points_give_the_true_pose_with_any_weights(method: DeepGMRResampled, seed: int) -> None:
    source, T = solid(0), pose(seed)
    order = np.random.default_rng(seed).permutation(len(source))
    method.begin(0)
    found = method.register(source.astype(np.float32), moved(T, source)[order])
    assert rmse(found, T, source) < 1e-4


def test_the_pose_of_either_cloud_changes_the_answer_as_it_must(method: DeepGMRResampled) -> None:
    source, target, T, S = solid(0), solid(1, 250), pose(1), pose(2)
    answers = []
    for a, b in ((np.eye(4), np.eye(4)), (S, T)):
        method.begin(0)
        found = method.register(moved(a, source), moved(b, target))
        answers.append(np.linalg.inv(b) @ found @ a)
    assert np.abs(answers[0] - answers[1]).max() < 1e-3


def test_bad_clouds(method: DeepGMRResampled) -> None:
    cloud = solid(0).astype(np.float32)
    for bad in (cloud[:2], np.full((9, 3), np.inf, dtype=np.float32), np.ones((9, 3), dtype=np.float32)):
        method.begin(0)
        with pytest.raises(NoSolution):
            method.register(bad, bad)


def test_what_the_network_sees_lies_together() -> None:
    source, T = solid(0), pose(4)
    target = source @ T[:3, :3].T
    found = candidates(source, target, 1.0, 400)
    assert found.distances[0] < 1e-6 and (np.diff(found.distances) >= 0).all()
    a, b = in_frame(torch.from_numpy(source), torch.from_numpy(target), found, 24)
    assert b.shape == (24, 300, 3) and torch.allclose(a, b[0], atol=1e-6) and not torch.allclose(a, b[1], atol=1e-2)
    assert np.allclose(np.cov(a.numpy().T), np.diag(np.diag(np.cov(a.numpy().T))), atol=1e-9)


def test_distances_against_brute_force() -> None:
    source, target, T = solid(0, 40), solid(1, 50), pose(5)
    every = np.linalg.norm((source @ T[:3, :3].T + T[:3, 3])[:, None] - target[None], axis=2).min(axis=1)
    found = distances(source, target, T[None, :3, :3], T[None, :3, 3], 0.5, 40)
    assert found == pytest.approx(np.sort(every)[:20].mean())


def test_features_that_are_not_coordinates_are_refused() -> None:
    with pytest.raises(ValueError, match="xyz"):
        AlignedNet(GmrConfig())


def test_weights_of_another_method_are_refused() -> None:
    file = next(training.WEIGHTS.glob("deepgmr_shapes40*"))
    with pytest.raises(InputError, match="'deepgmr', not 'deepgmr_resampled'"):
        DeepGMRResampled(weights=str(file)).setup("cpu", 0, "shapes40")
