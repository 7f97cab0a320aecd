"""Principal axes: exact on the same shape, right on independent samples of it, quiet on what has no axes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bench.evaluation.metrics import rmse
from methods.base import NoSolution
from methods.pca import PrincipalAxes


def wedge(seed: int, n: int = 600) -> np.ndarray:
    """Points of a solid with three different extents and no symmetry."""
    x = np.random.default_rng(seed).uniform(0, 1, (n, 3))
    return np.stack([x[:, 0] * (1 + 0.5 * x[:, 1]), 0.6 * x[:, 1], 0.3 * x[:, 2] * x[:, 0]], axis=1)


def posed(seed: int) -> np.ndarray:
    T = np.eye(4)
    T[:3, :3] = Rotation.random(random_state=seed).as_matrix()
    T[:3, 3] = (3, -2, 5)
    return T


@pytest.mark.parametrize("seed", range(8))
def test_same_points_exactly_and_other_points_nearly(seed: int) -> None:
    source, T = wedge(0), posed(seed)
    for other, limit in ((wedge(0)[::-1], 1e-5), (wedge(1), 0.05)):
        target = other @ T[:3, :3].T + T[:3, 3]
        result = PrincipalAxes().register(source.astype(np.float32), target.astype(np.float32))
        assert np.linalg.det(result[:3, :3]) == pytest.approx(1)
        assert rmse(result, T, source) < limit


def test_degenerate_clouds() -> None:
    line = np.linspace(0, 1, 50)[:, None] * np.array([1.0, 2, 3])
    assert np.isfinite(PrincipalAxes().register(line.astype(np.float32), line.astype(np.float32))).all()
    for bad in (line[:2], np.full((5, 3), np.nan)):
        with pytest.raises(NoSolution):
            PrincipalAxes().register(bad.astype(np.float32), line.astype(np.float32))
