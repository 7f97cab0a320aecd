import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from common.errors import InputError
from datasets.symmetry import members, rotations, turn


def _same_sets(a, b):
    return len(a) == len(b) and all(np.abs(b - m).max(axis=(1, 2)).min() < 1e-9 for m in a)


@pytest.mark.parametrize("axis", ["x", "y", "z"])
@pytest.mark.parametrize("family", ["C", "D"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_finite_groups_are_scipys(family, n, axis):
    ours = rotations(f"{family}{n}{axis}")
    assert ours[0] is None
    assert len(ours[1]) == n * (2 if family == "D" else 1)
    if family == "C":
        assert _same_sets(ours[1], Rotation.create_group(f"C{n}", axis=axis.upper()).as_matrix())
    main = np.eye(3)["xyz".index(axis)]
    flips = [m for m in ours[1] if np.allclose(m @ main, -main)]
    assert len(flips) == (n if family == "D" else 0)
    if flips:
        secondary = np.eye(3)[("xyz".index(axis) + 1) % 3]
        assert any(np.allclose(m @ secondary, secondary) for m in flips)


@pytest.mark.parametrize("name", ["C1", "C4", "C7x", "D1", "D2y", "D6", "O"])
def test_finite_groups_are_closed_and_proper(name):
    _, group = rotations(name)
    assert np.array_equal(group[0], np.eye(3))
    assert np.allclose(np.linalg.det(group), 1)
    products = (group[:, None] @ group[None]).reshape(-1, 3, 3)
    assert all(np.abs(group - m).max(axis=(1, 2)).min() < 1e-9 for m in products)
    assert len({tuple(np.round(m, 6).ravel()) for m in group}) == len(group)


def test_cube_is_scipys_octahedral_group():
    assert _same_sets(rotations("O")[1], Rotation.create_group("O").as_matrix())


def test_continuous_groups():
    axis, cosets = rotations("Cinf")
    assert np.array_equal(axis, [0, 0, 1]) and len(cosets) == 1
    axis, cosets = rotations("Dinfy")
    assert np.array_equal(axis, [0, 1, 0]) and len(cosets) == 2
    assert np.array_equal(cosets[1] @ axis, -axis)


def test_turn_is_scipys_rotation_vector():
    axis = np.array([2.0, -1.0, 2.0]) / 3
    angles = np.linspace(-7, 7, 11)
    assert np.allclose(turn(axis, angles), Rotation.from_rotvec(angles[:, None] * axis).as_matrix())


@pytest.mark.parametrize("name", ["", "C0", "E3", "C4w", "Ox", "cinf", "D-2"])
def test_unknown_names_are_one_line(name):
    with pytest.raises(InputError, match="unknown symmetry"):
        rotations(name)


@pytest.mark.parametrize(("name", "count"), [("C4", 4), ("D3x", 6), ("O", 24), ("Cinf", 8), ("Dinfy", 16)])
def test_members_sample_a_continuous_axis_at_even_steps(name, count):
    sampled = members(name, 8)
    assert sampled.shape == (count, 3, 3) and np.allclose(sampled[0], np.eye(3))
    axis = "y" if name.endswith("y") else "z"
    group = rotations(name)[1] if "inf" not in name else rotations(f"{name[0]}8{axis}")[1]
    assert _same_sets(sampled, group)
