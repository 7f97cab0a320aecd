"""Steps and thinning of ICP."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from methods.geometry.icp import FLAT, KERNELS, directions, step, thinned, weighted


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


def test_symmetric_has_no_residual_between_points_of_a_sphere_and_ignores_signs() -> None:
    rng = np.random.default_rng(7)
    n, m = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in rng.normal(size=(2, 50, 3)))
    n[np.einsum("ij,ij->i", n, m) < 0] *= -1
    for sign in (1, -1):
        d = directions("symmetric", n, sign * m)
        assert d.shape == (50, 1, 3) and np.allclose(np.linalg.norm(d, axis=2), 1)
        assert np.abs(np.einsum("kdj,kj->k", d, 2 * (n - m))).max() < 1e-12
    assert np.abs(np.einsum("kdj,kj->k", directions("plane", n, m), n - m)).max() > 0.1


def test_thinned_keeps_one_point_of_each_cell() -> None:
    cloud = np.random.default_rng(6).uniform(size=(400, 3))
    rows = thinned(cloud, 0.3)
    cells = np.floor((cloud - cloud.min(axis=0)) / 0.3)
    assert len(rows) == len(np.unique(cells, axis=0)) == len(np.unique(cells[rows], axis=0))


@pytest.mark.parametrize("r", [0.0, 0.4, 0.999, 1.0, 1.001, 3.0])
def test_kernels_are_their_formulas(r: float) -> None:
    tukey = (1 - r**2) ** 2 if r < 1 else 0.0
    expected = {"huber": 1.0 if r <= 1 else 1 / r, "cauchy": 1 / (1 + r**2), "tukey": tukey}
    assert {name: float(kernel(np.array([r]))[0]) for name, kernel in KERNELS.items()} == pytest.approx(expected)
    for name, weight in expected.items():  # a residual of length 2 r under a kernel of width 2
        d, residual = np.eye(3)[None] @ Rotation.random(random_state=3).as_matrix(), np.array([[2 * r, 0.0, 0.0]])
        scaled = np.einsum("kdj,kj->kd", weighted(d, residual, name, 2.0), residual)
        assert (scaled**2).sum() == pytest.approx(weight * (2 * r) ** 2)


def test_a_step_solves_the_damped_normal_equations() -> None:
    draw = np.random.default_rng(5)
    p, q = draw.normal(size=(2, 30, 3))
    d = draw.normal(size=(30, 2, 3))
    H, g = np.zeros((6, 6)), np.zeros(6)
    for k in range(30):
        for direction in d[k]:
            row = np.r_[np.cross(p[k], direction), direction]
            H, g = H + np.outer(row, row), g + row * (direction @ (q[k] - p[k]))
    x = np.linalg.solve(H + 0.01 * np.trace(H) / 6 * np.eye(6), g)
    T, size = step(p, q, d)
    assert np.allclose(T[:3, :3], Rotation.from_rotvec(x[:3]).as_matrix()) and np.allclose(T[:3, 3], x[3:])
    assert size == pytest.approx(max(np.linalg.norm(x[:3]), np.linalg.norm(x[3:])))
    far = step(p, p + np.array([5.0, 0, 0]), np.broadcast_to(np.eye(3), (30, 3, 3)))
    assert far[1] == pytest.approx(np.linalg.norm(far[0][:3, 3])), "the larger one may be the translation"


@pytest.mark.parametrize("edge", [0.1, 0.35])
def test_thinned_keeps_the_first_point_of_each_cell(edge: float) -> None:
    cloud = np.random.default_rng(6).normal(size=(400, 3)) - 7
    first: dict[tuple[int, ...], int] = {}
    for row, point in enumerate(cloud):
        first.setdefault(tuple(int(x) for x in (point - cloud.min(axis=0)) // edge), row)
    assert thinned(cloud, edge).tolist() == sorted(first.values())


def test_directions_are_the_targets_normals_or_the_axes() -> None:
    n, m = np.random.default_rng(4).normal(size=(2, 5, 3))
    assert (directions("plane", n, m) == n[:, None]).all()
    assert (directions("point", n, m) == np.eye(3)).all() and directions("point", n, m).shape == (5, 3, 3)
