"""What a pose must be, and the defaults of an outcome."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bench.storage.outcome import Outcome, Status
from bench.storage.pose import pose_fault

R = Rotation.random(random_state=0).as_matrix()


def pose(rotation, last=(0.0, 0.0, 0.0, 1.0), shift=(1e3, -2.0, 3.0)):
    return np.vstack([np.c_[rotation, shift], last])


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (pose(R), None),
        (pose(R).tolist(), None),
        (pose(R).astype(np.float32), None),
        (pose(R * (1 + 1e-6)), None),
        (pose(R @ np.diag([1, 1, -1.0])), "the pose is a reflection; flip one axis so that the determinant is 1"),
        (pose(-R), "the pose is a reflection; flip one axis so that the determinant is 1"),
        (pose(R * 1.01), "the pose is not rigid: it scales by 1.01; divide its 3 x 3 part by that"),
        (
            pose(R @ np.diag([1, 1, -1.01])),
            "the pose is not rigid: RᵀR differs from the identity by 0.02; use the nearest rotation (SVD)",
        ),
        (pose(R, (0, 0, 0.1, 1)), "the pose is not rigid: its last row is 0 0 0.1 1, not 0 0 0 1"),
        (pose(R, (0, 0, 0, 2)), "the pose is not rigid: its last row is 0 0 0 2, not 0 0 0 1"),
        (
            pose(np.zeros((3, 3))),
            "the pose is not rigid: RᵀR differs from the identity by 1; use the nearest rotation (SVD)",
        ),
        (pose(R, shift=(np.inf, 0, 0)), "the pose is not finite"),
        (pose(R * np.nan), "the pose is not finite"),
        (np.eye(3), "the pose has shape (3, 3), not (4, 4): a rotation? return rigid(R, t)"),
        (np.eye(4)[None], "the pose has shape (1, 4, 4), not (4, 4): return T[0]"),
        (None, "the pose is no matrix of numbers but NoneType"),
        ("text", "the pose is no matrix of numbers but str"),
        ({1: 2}, "the pose is no matrix of numbers but dict"),
    ],
)
def test_a_pose_is_a_rigid_matrix_or_has_a_fault(value, fault):
    assert pose_fault(value) == fault


def test_an_outcome_is_of_one_pair_on_one_thread_of_the_processor_unless_given():
    one, other = Outcome("m", "p", Status.OK), Outcome("m", "p", Status.OK)
    assert (one.phase, one.repeat, one.seed, one.pose, one.device, one.threads) == ("accuracy", 0, 0, None, "cpu", 1)
    assert np.isnan([one.time_ms, one.peak_mb, one.gpu_memory_mb]).all() and (one.batch, one.message) == (1, "")
    assert one.stages == one.notes == {} and one.stages is not other.stages
