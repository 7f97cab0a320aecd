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
