"""DeepGMR on coordinates, by its properties."""

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
from methods.learned.training import build_network
from methods.learned.weights import WEIGHTS_FOLDER, Card, save
from tests.methods.clouds import moved, pose


def solid(seed: int, n: int = 300) -> np.ndarray:
    """Points of a solid with three different extents and no symmetry."""
    x = np.random.default_rng(seed).uniform(0, 1, (n, 3))
    cloud = np.stack([x[:, 0] * (1 + 0.5 * x[:, 1]), 0.6 * x[:, 1], 0.3 * x[:, 2] * x[:, 0]], axis=1)
    return cloud - cloud.mean(axis=0)


@pytest.fixture
def method(tmp_path: Path) -> DeepGMRResampled:
    """With a freshly initialised network: what is tested holds for any weights."""
    torch.manual_seed(0)
    net = build_network("deepgmr_resampled")
    file = tmp_path / "w.safetensors"
    save(file, net.state_dict(), Card("deepgmr_resampled", asdict(net.config), {}))
    network_method = DeepGMRResampled(weights=str(file), precision="float32")
    network_method.setup("cpu", 0, "shapes40")
    return network_method


@pytest.mark.parametrize("seed", range(3))
def test_the_same_points_give_the_true_pose_with_any_weights(method: DeepGMRResampled, seed: int) -> None:
    source, T = solid(0), pose(seed)
    order = np.random.default_rng(seed).permutation(len(source))
    method.begin(0)
    result = method.register(source.astype(np.float32), moved(T, source)[order])
    assert rmse(result, T, source) < 1e-4


def test_the_pose_of_either_cloud_changes_the_answer_as_it_must(method: DeepGMRResampled) -> None:
    source, target, T, S = solid(0), solid(1, 250), pose(1), pose(2)
    answers = []
    for a, b in ((np.eye(4), np.eye(4)), (S, T)):
        method.begin(0)
        result = method.register(moved(a, source), moved(b, target))
        answers.append(np.linalg.inv(b) @ result @ a)
    assert np.abs(answers[0] - answers[1]).max() < 1e-3


def test_bad_clouds(method: DeepGMRResampled) -> None:
    cloud = solid(0).astype(np.float32)
    for bad in (cloud[:2], np.full((9, 3), np.inf, dtype=np.float32), np.ones((9, 3), dtype=np.float32)):
        method.begin(0)
        with pytest.raises(NoSolution):
            method.register(bad, bad)


def test_weights_of_another_method_are_refused() -> None:
    file = next(WEIGHTS_FOLDER.glob("deepgmr_shapes40*"))
    with pytest.raises(InputError, match="'deepgmr', not 'deepgmr_resampled'"):
        DeepGMRResampled(weights=str(file)).setup("cpu", 0, "shapes40")
