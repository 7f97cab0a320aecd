"""Motions that aligned clouds leave open, on surfaces whose symmetries are known."""

import itertools

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.spatial.distance import cdist
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


def plain_normals(points):
    """The directions of smallest extent of the 20 nearest points."""
    nearest = [points[row] for row in np.argsort(cdist(points, points), axis=1)[:, :20]]
    return np.array([np.linalg.svd(near - near.mean(axis=0))[2][2] for near in nearest])


def test_normals_and_evidence_are_those_of_the_matched_points():
    draw = rng("matched")
    target, pose = draw.normal(size=(150, 3)) * (3, 2, 1), np.eye(4)
    pose[:3, :3], pose[:3, 3] = TURN, (1, 2, 3)
    source = (np.concatenate([target[::2] + 0.1 * draw.normal(size=(75, 3)), target[:25] + 40]) - pose[:3, 3]) @ TURN
    apart = cdist(source @ TURN.T + pose[:3, 3], target)
    inside, row = apart.min(axis=1) < 0.5, apart.argmin(axis=1)
    assert 20 < inside.sum() < 100
    ours, theirs = (plain_normals(cloud) for cloud in (source, target))
    assert np.abs((freedom.normals(target) * theirs).sum(axis=1)) == pytest.approx(1)
    cosines = np.abs(((ours @ TURN.T)[inside] * theirs[row[inside]]).sum(axis=1))
    result = freedom.freedom(pose, source, target, 0.5)
    assert result.normals == pytest.approx(cosines.mean())
    matched = freedom.open_motions(target[row[inside]], theirs[row[inside]], 0.5)
    assert result.stiffness == pytest.approx(matched[1]) and len(result.motions) == len(matched[0])


@pytest.mark.parametrize(("count", "known"), [(19, False), (20, True)])
def test_twenty_matched_points_are_enough(count, known):
    points = rng("few").normal(size=(count, 3))
    assert np.isfinite(freedom.freedom(np.eye(4), points, points, 0.1).stiffness) == known


@pytest.mark.parametrize("near", [0.01, 0.4, 3.0])
def test_the_stiffness_is_the_smallest_share_along_the_normals_of_any_motion(near):
    """The smallest generalised eigenvalue, of matrices that are summed over the displacements by the six unit twists."""
    draw = rng("stiffness")
    points, facing = draw.normal(size=(80, 3)) * (2, 1, 0.5) + 5, draw.normal(size=(80, 3)) * (1, 0.6, 0.4)
    facing /= np.linalg.norm(facing, axis=1)[:, None]
    radius = np.sqrt(((points - points.mean(axis=0)) ** 2).sum(axis=1).mean())
    p = (points - points.mean(axis=0)) / radius
    moves = [np.cross(e, p) for e in np.eye(3)] + [np.tile(e, (80, 1)) for e in np.eye(3)]
    H = [[((a * facing).sum(axis=1) * (b * facing).sum(axis=1)).mean() for b in moves] for a in moves]
    M = np.array([[(a * b).sum(axis=1).mean() for b in moves] for a in moves])
    M[:3, :3] += (near / radius) ** 2 * np.eye(3)
    assert freedom.open_motions(points, facing, near)[1] == pytest.approx(eigh(H, M)[0][0])


@pytest.mark.parametrize(("share", "is_open"), [(0.015, True), (0.019, True), (0.021, False), (0.03, False)])
def test_a_motion_is_open_below_two_percent(share, is_open):
    """On a cylinder's wall whose normals have this share of their squares across the wall, or along its axis."""
    angle = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    radial, across = (np.stack([np.cos(a), np.sin(a), 0 * a], axis=1) for a in (angle, angle + np.pi / 2))
    axial = np.tile((0.0, 0, 1), (200, 1))
    signs = np.array([-1, 1])
    for few, others, slides in ((across, (radial, axial), 0), (axial, (radial, across), 1)):
        parts = [
            (radial + z * axial, np.sqrt(share) * i * few + np.sqrt(0.5 - share / 2) * (j * others[0] + k * others[1]))
            for z, i, j, k in itertools.product((-2, -1, 1, 2), signs, signs, signs)
        ]
        points, facing = (np.concatenate(part) for part in zip(*parts, strict=True))
        motions, stiffness = freedom.open_motions(points, facing, 1e-9)
        assert stiffness == pytest.approx(share) and len(motions) == is_open
        assert all(np.abs(m.axis) == pytest.approx((0, 0, 1)) and (m.point is None) == slides for m in motions)


def test_axes_are_an_orthonormal_basis_with_the_largest_component_positive():
    for k in (1, 2, 3):
        for seed in range(5):
            basis = np.linalg.qr(rng("tidy", k, seed).normal(size=(3, k)))[0]
            axes = freedom._tidy(basis)
            assert axes @ axes.T == pytest.approx(np.eye(k)) and axes.T @ axes == pytest.approx(basis @ basis.T)
            assert all(axis[np.argmax(np.abs(axis))] > 0 for axis in axes)
            first = (basis @ basis.T)[:, np.argmax(np.diag(basis @ basis.T))]
            assert axes[0] == pytest.approx(first / np.linalg.norm(first)), (
                "the projection of the nearest coordinate axis"
            )


def test_a_motion_is_named_by_its_axis_and_a_point_of_it():
    axis, point = np.array([0.0, 0.126, 1]), np.array([1.23456, -0.0001, 2])
    assert str(freedom.Motion(axis, None)) == "sliding along (0, 0.13, 1)"
    assert str(freedom.Motion(axis, point)) == "turning about (0, 0.13, 1) through (1.235, 0, 2)"
