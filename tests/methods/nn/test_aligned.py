"""The network's input in the principal frame."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from methods.geometry.principal_axes import candidates
from methods.nn.aligned import AlignedNet, in_principal_frame
from methods.nn.gmr import GmrConfig
from tests.methods.clouds import pose


def solid(seed: int, n: int = 300) -> np.ndarray:
    """Points of a solid with three different extents and no symmetry."""
    x = np.random.default_rng(seed).uniform(0, 1, (n, 3))
    cloud = np.stack([x[:, 0] * (1 + 0.5 * x[:, 1]), 0.6 * x[:, 1], 0.3 * x[:, 2] * x[:, 0]], axis=1)
    return cloud - cloud.mean(axis=0)


def test_what_the_network_sees_lies_together() -> None:
    source, T = solid(0), pose(4)
    target = source @ T[:3, :3].T
    candidate_poses = candidates(source, target, 1.0, 400)
    assert candidate_poses.distances[0] < 1e-6 and (np.diff(candidate_poses.distances) >= 0).all()
    a, b = in_principal_frame(torch.from_numpy(source), torch.from_numpy(target), candidate_poses, 24)
    assert b.shape == (24, 300, 3) and torch.allclose(a, b[0], atol=1e-6) and not torch.allclose(a, b[1], atol=1e-2)
    assert np.allclose(np.cov(a.numpy().T), np.diag(np.diag(np.cov(a.numpy().T))), atol=1e-9)


def test_features_that_are_not_coordinates_are_refused() -> None:
    with pytest.raises(ValueError, match="xyz"):
        AlignedNet(GmrConfig())
