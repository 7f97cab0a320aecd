"""RANSAC's triples, scores and fit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from methods.base import NoSolution, rigid
from methods.geometry import ransac

LINE = np.outer(np.linspace(0, 1, 50), [1.0, 2.0, 3.0])


def test_triple_poses_are_least_squares() -> None:
    rng = np.random.default_rng(2)
    p = rng.normal(size=(30, 3, 3))
    q = p @ Rotation.random(random_state=4).as_matrix().T + rng.normal(scale=0.02, size=p.shape)
    R, t = ransac.triple_poses(*(x.transpose(2, 1, 0).astype(np.float32) for x in (p, q)))
    for b in range(30):
        expected, _ = Rotation.align_vectors(q[b] - q[b].mean(axis=0), p[b] - p[b].mean(axis=0))
        assert np.allclose(R[..., b], expected.as_matrix(), atol=1e-4)
        assert np.allclose(t[:, b], q[b].mean(axis=0) - R[..., b] @ p[b].mean(axis=0), atol=1e-5)


def test_scores_are_counts_of_inliers() -> None:
    rng = np.random.default_rng(2)
    p = rng.normal(size=(300, 3))
    truth = rigid(Rotation.random(random_state=1).as_matrix(), rng.normal(size=3))
    q = p @ truth[:3, :3].T + truth[:3, 3] + rng.normal(scale=0.05, size=p.shape)
    turns = Rotation.from_rotvec(rng.normal(scale=0.05, size=(40, 3))).as_matrix() @ truth[:3, :3]
    moved = np.einsum("bij,kj->bki", turns, p) + truth[:3, 3]
    counts = (np.linalg.norm(moved - q, axis=2) < 0.1).sum(axis=1)
    t = np.repeat(truth[:3, 3:], 40, axis=1)
    poses = ransac.pose_features(turns.transpose(1, 2, 0).astype(np.float32), t.astype(np.float32))
    features = ransac.match_features(p, q, 0.1)
    assert ransac.best_pose(poses, features, 0) == (counts.argmax(), counts.max())
    assert ransac.best_pose(poses, features, int(counts.max()) - 1) == (counts.argmax(), counts.max())
    assert ransac.best_pose(poses, features, int(counts.max())) == (0, 0)


def test_least_squares_agrees_with_scipy() -> None:
    rng = np.random.default_rng(8)
    p, q = rng.normal(size=(2, 40, 3))
    T = ransac.least_squares(p, q)
    expected, _ = Rotation.align_vectors(q - q.mean(axis=0), p - p.mean(axis=0))
    assert np.allclose(T[:3, :3], expected.as_matrix(), atol=1e-9)
    assert np.allclose(p.mean(axis=0) @ T[:3, :3].T + T[:3, 3], q.mean(axis=0))
    with pytest.raises(NoSolution, match="line"):
        ransac.least_squares(LINE, LINE)


def test_ransac_finds_one_right_match_in_twenty_if_it_tries_often_enough() -> None:
    rng = np.random.default_rng(0)
    p, q = rng.uniform(-1, 1, size=(2, 400, 3))
    truth = rigid(Rotation.random(random_state=3).as_matrix(), np.array([0.1, 0.2, 0.3]))
    q[:20] = p[:20] @ truth[:3, :3].T + truth[:3, 3]
    T, inliers = ransac.ransac(p, q, 200_000, 0.05, 0.9, np.random.default_rng(1))
    assert 20 <= inliers <= 30
    assert np.abs(T - truth).max() < 0.05
    with pytest.raises(NoSolution, match="none of 10 triples"):
        ransac.ransac(p[20:], q[20:], 10, 1e-4, 0.9, np.random.default_rng(1))


@pytest.mark.parametrize("seed", range(4))
def test_the_pose_is_the_fit_to_the_inliers_of_the_best_triple_and_to_no_other_match(seed: int) -> None:
    """Noise makes the triple's pose differ from the fit, and matches just beyond the limit would change it."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(-1, 1, size=(120, 3))
    truth = rigid(Rotation.random(random_state=seed).as_matrix(), rng.normal(size=3))
    offset = rng.normal(size=p.shape)
    length = np.where(np.arange(120) < 60, 0.01, 0.12)  # inliers of nearly every triple of the first, and never
    q = p @ truth[:3, :3].T + truth[:3, 3] + length[:, None] * offset / np.linalg.norm(offset, axis=1, keepdims=True)
    T, inliers = ransac.ransac(p, q, 20_000, 0.05, 0.9, np.random.default_rng(seed))
    assert inliers == 60
    np.testing.assert_allclose(T, ransac.least_squares(p[:60], q[:60]), atol=1e-9)
