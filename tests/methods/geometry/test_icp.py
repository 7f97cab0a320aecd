"""Steps and thinning of ICP."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from methods.geometry.icp import FLAT, directions, step, thinned


def test_point_to_plane_step_undoes_a_small_move_but_for_its_damping() -> None:
    rng = np.random.default_rng(3)
    p, n = rng.normal(size=(2, 500, 3))
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    turn, shift = np.array([2e-4, -1e-4, 3e-4]), np.array([1e-4, 2e-4, -1e-4])
    T, size = step(p, p @ Rotation.from_rotvec(turn).as_matrix().T + shift, n[:, None])
    assert np.allclose(Rotation.from_matrix(T[:3, :3]).as_rotvec(), turn, rtol=0.05, atol=2e-6)
    assert np.allclose(T[:3, 3], shift, rtol=0.05, atol=2e-6)
    assert size == pytest.approx(np.linalg.norm(turn), rel=0.05)


def test_generalized_weighs_residuals_by_the_inverse_of_both_covariances() -> None:
    rng = np.random.default_rng(4)
    n, m, r = rng.normal(size=(3, 20, 3))
    n, m = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (n, m))
    ours = (np.einsum("kdj,kj->kd", directions("generalized", n, m), r) ** 2).sum(axis=1)
    for k in range(20):
        flat = []
        for normal in (n[k], m[k]):
            Q = np.linalg.svd(normal[None])[2]  # the first row is the normal, the others span its plane
            flat.append(Q.T @ np.diag([FLAT, 1, 1]) @ Q)
        assert ours[k] == pytest.approx(2 * FLAT * r[k] @ np.linalg.inv(flat[0] + flat[1]) @ r[k])


def test_thinned_keeps_one_point_of_each_cell() -> None:
    cloud = np.random.default_rng(6).uniform(size=(400, 3))
    rows = thinned(cloud, 0.3)
    cells = np.floor((cloud - cloud.min(axis=0)) / 0.3)
    assert len(rows) == len(np.unique(cells, axis=0)) == len(np.unique(cells[rows], axis=0))
