"""What is wrong with a returned pose, and how to fix it."""

import numpy as np
import pytest

from bench.storage.pose import names_fix, pose_fault, translation_fault
from methods.base import rigid

R = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
T = rigid(R, [1, 2, 3])


def linear(factor):
    """Return the pose with its 3 x 3 part multiplied."""
    changed = T.copy()
    changed[:3, :3] = changed[:3, :3] @ (factor * np.eye(3))
    return changed


class Stubborn:
    def __array__(self, *_args, **_options):
        raise RuntimeError("call detach first")


@pytest.mark.parametrize(("pose", "says"), [
    ((R, T[:3, 3]), "no matrix but tuple: (R, t)? return rigid(R, t)"),
    ([R, T[:3, 3]], "no matrix but list: (R, t)? return rigid(R, t)"),
    ((T, 0.3), "no matrix but tuple of 2"),
    (None, "no matrix of numbers but NoneType"),
    ("a pose", "no matrix of numbers but str"),
    (Stubborn(), "no matrix but Stubborn (call detach first)"),
    (T + 0j, "is complex; return real numbers"),
    (T.astype(str), "no matrix of numbers"),
    (T[:3], "has shape (3, 4), not (4, 4): add the row 0 0 0 1"),
    (R, "has shape (3, 3), not (4, 4): a rotation? return rigid(R, t)"),
    (T.ravel(), "return T.reshape(4, 4)"),
    (T[None], "return T[0]"),
    (T[0], "has shape (4,), not (4, 4)"),
    (T * np.nan, "is not finite"),
    (linear(0.98), "it scales by 0.98; divide"),
    (linear(1e-3), "it scales by 0.001; divide"),
    (linear(np.diag([1, 1, -1])), "is a reflection; flip one axis"),
    (linear(np.diag([1, 1, 0.9])), "not rigid: RᵀR differs from the identity by 0.19"),
    (linear(0), "not rigid: RᵀR differs from the identity by 1"),
    (T.T, "the translation is in the last row; transposed? return T.T"),
    (T + np.diag([0, 0, 0, 1]), "its last row is 0 0 0 2, not 0 0 0 1"),
])  # fmt: skip
def test_each_fault_is_named(pose, says):
    assert says in pose_fault(pose)


@pytest.mark.parametrize("pose", [T, T.tolist(), T.astype(np.float32), np.asfortranarray(T), np.eye(4, dtype=int)])
def test_a_rigid_matrix_has_no_fault(pose):
    assert pose_fault(pose) is None


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e5])
def test_a_translation_is_judged_by_the_size_of_the_clouds(size):
    """At most 10⁶ times the largest coordinate of either cloud, as docs/add-a-method.md says."""
    cloud = np.array([[1, 2, -3], [np.nan, np.inf, 0]]) * size
    for clouds in ((cloud, cloud), (cloud / 9, cloud), (cloud, cloud / 9)):
        assert translation_fault(rigid(R, [2.99e6 * size, 0, 0]), *clouds) is None
        for far in (3.01e6 * size, 1e155, 1e300):
            assert "times the largest coordinate" in translation_fault(rigid(R, [0, -far, 0]), *clouds)


def test_empty_and_zero_clouds_have_the_size_one():
    for cloud in (np.zeros((0, 3)), np.zeros((4, 3)), np.full((2, 3), np.nan)):
        for length in (0.99e6, 1.01e6):
            assert (translation_fault(rigid(R, [0, length, 0]), cloud, cloud) is None) == (length < 1e6)
        assert translation_fault(rigid(R, [1e155, 2, 3]), cloud, cloud)


@pytest.mark.parametrize(("share", "rigid"), [(0.9, True), (1.1, False)])
def test_the_fault_is_named_from_the_tolerance_on(share, rigid):
    """An entry of the last row and of RᵀR may deviate by 10⁻⁴; what only scales is rigid within 10⁻³ once it is divided."""
    last_row = T + np.outer([0, 0, 0, share * 1e-4], [0, 1, 0, 0])
    scaled = linear(np.diag([1, 1, 1 + share * 0.5e-4]))
    assert (pose_fault(last_row) is None) == (pose_fault(scaled) is None) == rigid
    assert rigid or "its last row is 0 0.00011 0 1" in pose_fault(last_row)
    nearly = linear(2 * np.diag([1, 1, 1 + share * 0.74e-3]))
    assert ("it scales by 2.00" in pose_fault(nearly)) == rigid and "reflection" not in pose_fault(nearly)
    mirrored = linear(2 * np.diag([1, 1, -1 - share * 0.74e-3]))
    assert ("it scales by 2.00" in pose_fault(mirrored)) == rigid == ("and is a reflection" in pose_fault(mirrored))


@pytest.mark.parametrize(
    ("pose", "named"),
    [
        ((R, T[:3, 3]), True),
        (None, False),
        (T + 0j, True),
        (T[:3], True),
        (R, True),
        (T[None], True),
        (T[0], False),
        (T * np.nan, False),
        (linear(0.98), True),
        (linear(np.diag([1, 1, -1])), True),
        (linear(np.diag([1, 1, 0.9])), True),
        (T.T, True),
        (T + np.diag([0, 0, 0, 1]), False),
        (linear(np.diag([2, 2, -2])), False),
    ],
)
def test_it_is_known_whether_a_fault_names_its_fix(pose, named):
    """Where none is named, `bench.py check` adds what a pose is."""
    assert names_fix(pose_fault(pose)) == named
