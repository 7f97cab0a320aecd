"""HGMR: accuracy, reach, starts, and poor clouds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from common.errors import InputError
from datasets.problems import ProblemKey, make_problem
from methods.base import NoSolution, Pose, rigid
from methods.geometry import hgmm as hgmm
from methods.hgmr import Hgmr
from tests.catalog import build, open_data
from tests.methods.clouds import lumpy


def turn(degrees: float, seed: int = 1) -> np.ndarray:
    axis = np.random.default_rng(seed).normal(size=3)
    return Rotation.from_rotvec(np.deg2rad(degrees) * axis / np.linalg.norm(axis)).as_matrix()


def problem(degrees: float, seed: int = 1, noise: float = 0.0, n: int = 600) -> tuple[np.ndarray, np.ndarray, Pose]:
    """Source, shuffled target, and the true pose."""
    rng = np.random.default_rng(seed)
    T = rigid(turn(degrees, seed), np.array([0.1, -0.05, 0.1]))
    source = lumpy(n)
    target = rng.permutation(source @ T[:3, :3].T + T[:3, 3])
    pair = (c + rng.normal(scale=noise, size=c.shape) if noise else c for c in (source, target))
    first, second = (c.astype(np.float32) for c in pair)
    return first, second, T


def solve(method: Hgmr, *clouds: np.ndarray) -> Pose:
    method.begin(0)
    return method.register(*clouds)


def angle(T: Pose, truth: Pose) -> float:
    """Degrees between two poses' rotations."""
    return float(np.rad2deg(Rotation.from_matrix(T[:3, :3].T @ truth[:3, :3]).magnitude()))


@pytest.mark.parametrize("index", range(0, 40, 5))
@pytest.mark.parametrize("condition", ["clean", "noisy"])
def test_small_turns_are_undone_on_shapes(condition: str, index: int) -> None:
    shapes = open_data("shapes40")
    result = make_problem(shapes, ProblemKey("shapes40", condition, 512, index, split="train", angles=(0.0, 15.0)))
    T = solve(Hgmr(), result.source, result.target)
    difference = T - result.T_target_source
    error = result.source @ difference[:3, :3].T + difference[:3, 3]
    assert np.sqrt(np.square(error).sum(axis=1).mean()) < 0.03


def test_a_noisy_pair_is_aligned_and_it_says_so() -> None:
    source, target, truth = problem(15, noise=0.01)
    method = Hgmr()
    T = solve(method, source, target)
    assert angle(T, truth) < 1 and np.abs(T[:3, 3] - truth[:3, 3]).max() < 0.01
    notes = method.scratch.notes
    assert notes["converged"] and notes["iterations"] < 60 and notes["confidence"] > 0.95
    assert set(method.scratch.stages) == {"tree", "solve"}


def test_confidence_is_lower_where_it_is_lost() -> None:
    method, errors = Hgmr(), {}
    for degrees in (10, 170):
        source, target, _ = problem(degrees)
        solve(method, source, target)
        errors[degrees] = method.scratch.notes["confidence"]
    assert errors[170] < errors[10]


def test_it_degrades_with_rotation_and_the_blur_widens_its_reach() -> None:
    errors = {}
    for blur in (0.0, 0.3):
        for degrees in (20, 60, 160):
            runs = [problem(degrees, seed) for seed in range(6)]
            errors[blur, degrees] = np.mean([angle(solve(Hgmr(blur=blur), s, t), T) < 5 for s, t, T in runs])
    assert errors[0.3, 20] == 1 and errors[0.3, 60] > errors[0.0, 60] and errors[0.3, 160] < 0.5


def test_turning_both_clouds_conjugates_the_answer() -> None:
    source, target, _ = problem(15, noise=0.005)
    Q = rigid(turn(20, 5), np.zeros(3))
    T = solve(Hgmr(), source, target)
    turned = solve(Hgmr(), *((c @ Q[:3, :3].T).astype(np.float32) for c in (source, target)))
    assert np.allclose(turned, Q @ T @ Q.T, atol=1e-3)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_scale_changes_nothing_but_the_translation(scale: float) -> None:
    source, target, _ = problem(12)
    a, b = solve(Hgmr(), source, target), solve(Hgmr(), source * np.float32(scale), target * np.float32(scale))
    assert np.allclose(a[:3, :3], b[:3, :3], atol=1e-4) and np.allclose(scale * a[:3, 3], b[:3, 3], atol=1e-3 * scale)


def test_it_starts_where_it_is_told_and_follows_others() -> None:
    source, target, truth = problem(150)
    near = truth @ rigid(turn(10, 3), np.array([0.02, 0.0, 0.0]))
    assert angle(solve(Hgmr(), source, target), truth) > 10
    assert angle(solve(Hgmr(), source, target, near), truth) < 0.2
    chain = build("index_match+hgmr")
    chain.setup("cpu", 0, "shapes40")
    chain.begin(0)
    ordered = (source @ truth[:3, :3].T + truth[:3, 3]).astype(np.float32)
    assert angle(chain.register(source, ordered), truth) < 0.2


def test_outliers_are_withstood() -> None:
    source, target, truth = problem(8)
    stray = np.random.default_rng(0).uniform(0.8, 1.2, size=(60, 3)).astype(np.float32)
    error = [angle(solve(Hgmr(outliers=o), np.vstack([source, stray]), target), truth) for o in (0.0, 1e-3)]
    assert error[1] < 0.5 and error[0] > 10


def test_clouds_out_of_reach_are_told() -> None:
    source, target, _ = problem(5)
    with pytest.raises(NoSolution, match="nearer"):
        solve(Hgmr(), source, target + np.float32(20))


POOR = {
    "three points": np.eye(3),
    "few": lumpy(9),
    "plane": lumpy(200) * [1, 1, 0],
    "duplicates": np.repeat(lumpy(20), 10, axis=0),
    "line": np.outer(np.arange(50.0), [1, 2, 3]),
    "equal": np.ones((50, 3)),
    "one far point": np.vstack([lumpy(200), [[1e6, 0, 0]]]),
    "nan": np.full((50, 3), np.nan),
}


@pytest.mark.parametrize("name", POOR)
def test_poor_clouds_give_a_rigid_pose_or_a_reason(name: str) -> None:
    poor, good = POOR[name].astype(np.float32), lumpy(200).astype(np.float32)
    for clouds in ((poor, poor[::-1].copy()), (poor, good), (good, poor)):
        try:
            T = solve(Hgmr(levels=3, least_points=1), *clouds)
        except NoSolution as reason:
            assert str(reason)
        else:
            assert np.allclose(T[:3, :3] @ T[:3, :3].T, np.eye(3), atol=1e-6) and np.linalg.det(T[:3, :3]) > 0


def test_what_it_keeps_grows_with_the_points_not_with_their_square() -> None:
    large = lumpy(65_536).astype(np.float32)
    T = solve(Hgmr(levels=3, iterations=2), large, large)
    assert angle(T, np.eye(4)) < 1


def test_bad_parameters_are_one_line() -> None:
    for given in ({"levels": 0}, {"blur": -1.0}, {"outliers": np.inf}, {"floor": 0.0}):
        with pytest.raises(InputError) as caught:
            Hgmr(**given)
        assert "\n" not in str(caught.value)
