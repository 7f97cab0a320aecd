"""Validity of rigid matrices."""

import numpy as np
from scipy.spatial.transform import Rotation

from common.rigid import is_rigid


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
