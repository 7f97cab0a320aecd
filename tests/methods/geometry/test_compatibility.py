"""Compatibility of matches: against definitions, loops and the singular values of single poses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from methods.base import NoSolution, rigid
from methods.geometry.compatibility import (
    best_hypothesis,
    leading_eigenvectors,
    length_differences,
    refined,
    second_order,
    strongest,
    weighted_poses,
)

RNG = np.random.default_rng(0)


def planted(n: int = 200, correct: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Matches (n, 3) of which the first `correct` follow a pose, with noise of .003."""
    rng = np.random.default_rng(seed)
    T = rigid(Rotation.random(random_state=seed).as_matrix(), [0.2, -0.3, 0.1])
    p, q = rng.uniform(-1, 1, (2, n, 3))
    q[:correct] = p[:correct] @ T[:3, :3].T + T[:3, 3] + rng.normal(scale=0.003, size=(correct, 3))
    return p, q, T


def test_differences_of_lengths_are_those_of_cdist() -> None:
    p, q, _ = planted()
    assert np.allclose(length_differences(p, q), abs(cdist(p, p) - cdist(q, q)), atol=2e-3)


def test_the_second_order_counts_common_neighbours() -> None:
    graph = np.triu(RNG.random((30, 30)) < 0.3, 1)
    graph = graph | graph.T
    weights = second_order(graph | np.eye(30, dtype=bool))
    for i in range(30):
        for j in range(30):
            common = sum(graph[i, k] and graph[j, k] for k in range(30)) if graph[i, j] and i != j else 0
            assert weights[i, j] == common


def test_poses_of_exact_matches_are_exact_whatever_the_weights() -> None:
    R = Rotation.random(5, random_state=0).as_matrix()
    p, t = RNG.normal(size=(5, 8, 3)), RNG.normal(size=(5, 3))
    q = np.einsum("bij,bkj->bki", R, p) + t[:, None]
    poses = weighted_poses(p, q, RNG.random((5, 8)) + 0.1)
    assert np.allclose(poses.R, R) and np.allclose(poses.t, t)


def test_a_match_of_weight_zero_has_no_effect() -> None:
    p, q, _ = planted(6, 5)
    w = np.array([[1, 1, 1, 1, 1, 0.0]])
    a, b = weighted_poses(p[None], q[None], w), weighted_poses(p[None, :5], q[None, :5], w[:, :5])
    assert np.allclose(a.R, b.R) and np.allclose(a.t, b.t)


def test_the_best_hypothesis_is_the_planted_one_and_refits_to_its_inliers() -> None:
    p, q, T = planted()
    R = np.concatenate([Rotation.random(50, random_state=1).as_matrix(), T[None, :3, :3]])
    poses = type(weighted_poses(p[None], q[None], np.ones((1, 200))))(R, np.tile(T[:3, 3], (51, 1)))
    best = best_hypothesis(poses, p, q, 0.05)
    assert np.array_equal(best, T)
    fitted, count = refined(best, p, q, 0.05)
    assert count >= 60 and np.abs(fitted - T).max() < 2e-3


def test_a_pose_without_inliers_is_no_solution() -> None:
    p, q, _ = planted(10, 0)
    with pytest.raises(NoSolution, match="a pose needs 3"):
        refined(np.eye(4), p, q + 100, 0.05)


def test_leading_eigenvectors_are_those_of_numpy() -> None:
    a = RNG.random((4, 12, 12))
    a += a.swapaxes(1, 2)
    expected = abs(np.linalg.eigh(a)[1][..., -1])
    assert np.allclose(leading_eigenvectors(a, 50), expected, atol=1e-8)


def test_the_strongest_columns_are_sorted() -> None:
    scores = RNG.random((5, 20)).astype(np.float32)
    assert np.array_equal(strongest(scores, 4), np.argsort(-scores, axis=1)[:, :4])


@pytest.mark.parametrize("seed", range(5))
def test_fits_are_rotations_even_to_flat_and_mirrored_matches(seed: int) -> None:
    """Of a plane a reflection fits as well as a rotation; of mirrored points it fits better."""
    rng = np.random.default_rng(seed)
    p = rng.normal(size=(2, 12, 3)) * np.array([[[1, 1, 0]], [[1, 1, 1]]])
    q = p @ Rotation.random(random_state=seed).as_matrix().T
    q[1] *= (1, 1, -1)
    w = rng.random((2, 12)) + 0.1
    poses = weighted_poses(p, q, w)
    assert np.allclose(np.linalg.det(poses.R), 1) and np.allclose(poses.R @ poses.R.transpose(0, 2, 1), np.eye(3))
    for k in range(2):
        centred = [x[k] - np.average(x[k], axis=0, weights=w[k]) for x in (p, q)]
        expected, _ = Rotation.align_vectors(centred[1], centred[0], weights=w[k])
        residual = [
            ((centred[1] - centred[0] @ R.T) ** 2).sum(axis=1) @ w[k] for R in (expected.as_matrix(), poses.R[k])
        ]
        assert residual[1] <= residual[0] + 1e-9


def test_a_pose_is_refitted_until_its_inliers_do_not_change() -> None:
    p, q, truth = planted()
    start = truth @ rigid(Rotation.from_rotvec((0, 0, 0.04)).as_matrix(), [0.02, 0, 0])
    T, count = refined(start, p, q, 0.05)
    again, same = refined(T, p, q, 0.05)
    assert count == same >= 60 and np.abs(again - T).max() < 1e-3 < np.abs(start - T).max()
    near = np.linalg.norm(p @ T[:3, :3].T + T[:3, 3] - q, axis=1) < 0.05
    assert near.sum() == count > (np.linalg.norm(p @ start[:3, :3].T + start[:3, 3] - q, axis=1) < 0.05).sum()
