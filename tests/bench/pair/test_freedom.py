"""Motions that aligned clouds leave open, on surfaces whose symmetries are known."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bench.pair import freedom
from common.keys import rng

COUNT, NEAR = 3000, 0.15
NOISE = 0.01
TURN = Rotation.from_rotvec((0.5, -0.3, 0.8)).as_matrix()
CENTRE = np.array([3.0, -2.0, 7.0])


def test_matches_of_one_repeated_point_leave_no_motion_to_compute():
    motions, stiffness = freedom.open_motions(np.ones((30, 3)), np.tile((0.0, 0, 1), (30, 1)), NEAR)
    assert motions == () and np.isnan(stiffness)


def surface(name):
    """Return points (N, 3) of a surface around the origin, with its axis along z."""
    draw = rng("freedom", name)
    u = draw.uniform(-1, 1, (COUNT, 3))
    if name == "sphere":
        return u / np.linalg.norm(u, axis=1)[:, None]
    if name == "cylinder":
        angle = np.pi * u[:, 0]
        return np.stack([np.cos(angle), np.sin(angle), 4 * u[:, 2]], axis=1)
    if name == "plane":
        return u * (1, 1, 0)
    face = draw.integers(3, size=COUNT)
    u[np.arange(COUNT), face] = np.sign(u[np.arange(COUNT), face])
    return u if name == "box" else u[np.abs(u[:, 2]) < 1] * (1, 1, 4)  # the walls of a square tube


def found(name):
    clean = surface(name)
    points = (clean + rng("noise", name).normal(0, NOISE, clean.shape)) @ TURN.T + CENTRE
    pose = np.eye(4)
    pose[:3, 3] = 1, 2, 3
    return freedom.freedom(pose, points[::2] - (1, 2, 3), points[1::2], NEAR)


@pytest.mark.parametrize(
    ("name", "slides", "turns"), [("sphere", 0, 3), ("cylinder", 1, 1), ("plane", 2, 1), ("box", 0, 0), ("tube", 1, 0)]
)
def test_the_number_of_open_motions_is_that_of_the_surface(name, slides, turns):
    result = found(name)
    assert sum(m.point is None for m in result.motions) == slides
    assert sum(m.point is not None for m in result.motions) == turns
    assert (result.stiffness < freedom.OPEN) == bool(result.motions) and result.normals > 0.9
    assert result.sentence().startswith("the clouds leave open: ") == bool(result.motions)


def test_axes_and_their_points_are_those_of_the_surface():
    slide, turn = found("cylinder").motions
    for motion in (slide, turn):
        assert abs(motion.axis @ TURN[:, 2]) > 0.999
    assert np.linalg.norm(np.cross(turn.point - CENTRE, TURN[:, 2])) < 0.05
    assert "sliding along (" in str(slide) and "turning about (" in str(turn)
    normal = TURN[:, 2]
    *slides, spin = found("plane").motions
    assert all(abs(m.axis @ normal) < 0.05 for m in slides) and abs(spin.axis @ normal) > 0.99
    assert all(np.linalg.norm(m.point - CENTRE) < 0.1 for m in found("sphere").motions)


def test_open_motions_do_not_move_points_along_the_normals():
    angle = rng("ring").uniform(-np.pi, np.pi, 500)
    normals = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    points = normals + rng("height").uniform(-2, 2, (500, 1)) * (0, 0, 1)
    motions, stiffness = freedom.open_motions(points, normals, 0.1)
    assert stiffness == pytest.approx(0, abs=1e-12) and len(motions) == 2
    for motion in motions:
        moved = np.cross(motion.axis, points - motion.point) if motion.point is not None else motion.axis
        assert np.abs((moved * normals).sum(axis=1)).max() < 1e-6


def test_clouds_without_overlap_have_no_statement():
    result = freedom.freedom(np.eye(4), surface("box"), surface("box") + 100, NEAR)
    assert result.motions == () and np.isnan(result.stiffness) and np.isnan(result.normals)
