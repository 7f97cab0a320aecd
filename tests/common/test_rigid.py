"""Validity of rigid matrices."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from common.rigid import inverse, is_rigid


def poses(n, seed=0, length=0.5):
    draw = np.random.default_rng(seed)
    T = np.tile(np.eye(4), (n, 1, 1))
    T[:, :3, :3] = Rotation.random(n, rng=draw).as_matrix()
    T[:, :3, 3] = draw.normal(size=(n, 3)) * length
    return T


def test_rigid_matrices():
    good = poses(3, 4)
    assert is_rigid(good).all()
    bad = [
        np.full((4, 4), np.nan),
        np.diag([1.0, 1, -1, 1]),
        np.diag([2.0, 2, 2, 1]),
        np.zeros((4, 4)),
        np.ones((4, 4)),
    ]
    bad += [np.full((4, 4), np.inf), np.diag([1.0, 1, 1, 2]), np.full((4, 4), 1e300), np.diag([1.0, 1, 1.01, 1])]
    assert not is_rigid(np.array(bad)).any()
    assert bool(is_rigid(np.eye(4)))
    assert bool(is_rigid(np.diag([1.0, 1, 1.01, 1]), tolerance=0.1))


@pytest.mark.parametrize("tolerance", [1e-4, 1e-2])
def test_each_entry_may_deviate_by_the_tolerance(tolerance):
    """Scale, shear and last row, one at a time; a matrix of a batch is judged alone."""
    for part in ("scale", "shear", "last row"):
        for share, rigid in ((0.9, True), (1.1, False)):
            T = poses(3, 5)
            if part == "last row":
                T[1, 3] += share * tolerance * np.array([0, 1, 0, -1])
            else:
                change = np.eye(3)
                change[0, 0 if part == "scale" else 1] += share * tolerance / (2 if part == "scale" else 1)
                T[1, :3, :3] = T[1, :3, :3] @ change
            assert is_rigid(T, tolerance).tolist() == [True, rigid, True]
            assert tolerance != 1e-4 or is_rigid(T).tolist() == [True, rigid, True]
    for value in (np.nan, np.inf):
        T = poses(2)
        T[0, 1, 3] = value
        assert is_rigid(T).tolist() == [False, True]


def test_the_inverse_is_numpy_s():
    T = poses(6).reshape(2, 3, 4, 4)
    np.testing.assert_allclose(inverse(T), np.linalg.inv(T), atol=1e-12)
    np.testing.assert_allclose(inverse(T[0, 0]), np.linalg.inv(T[0, 0]), atol=1e-12)
