"""The controls score what theory says they score."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from methods.base import NoSolution, rigid
from methods.identity import Identity
from methods.index_match import IndexMatch
from methods.random_pose import RandomPose

CLOUD = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
TRUTH = rigid(Rotation.random(random_state=1).as_matrix(), np.array([0.3, -0.2, 0.1]))
MOVED = (CLOUD @ TRUTH[:3, :3].T + TRUTH[:3, 3]).astype(np.float32)


def angle(R: np.ndarray) -> float:
    return float(np.rad2deg(Rotation.from_matrix(R).magnitude()))


def test_identity_is_the_identity_even_where_centroids_differ() -> None:
    assert np.array_equal(Identity().register(CLOUD, MOVED), np.eye(4))


def test_random_pose_is_haar_and_matches_centroids() -> None:
    method, angles = RandomPose(), []
    for seed in range(2000):
        method.begin(seed)
        T = method.register(CLOUD, MOVED)
        angles.append(angle(T[:3, :3]))
    assert np.allclose(T[:3, :3] @ CLOUD.mean(axis=0) + T[:3, 3], MOVED.mean(axis=0), atol=1e-5)
    assert np.mean(angles) == pytest.approx(90 + 360 / np.pi**2, abs=3 * 34 / np.sqrt(2000))  # 126.5 degrees
    method.begin(1999)
    assert method.register(CLOUD, MOVED).tobytes() == T.tobytes()


def test_index_match_is_exact_only_if_the_order_leaks() -> None:
    shuffled = np.random.default_rng(1).permutation(MOVED)
    assert np.allclose(IndexMatch().register(CLOUD, MOVED), TRUTH, atol=1e-5)
    assert np.allclose(IndexMatch().register(CLOUD, MOVED[:150]), TRUTH, atol=1e-5)
    errors = [
        angle(TRUTH[:3, :3].T @ IndexMatch().register(CLOUD, np.random.default_rng(k).permutation(shuffled))[:3, :3])
        for k in range(60)
    ]
    assert np.mean(np.array(errors) < 30) < 0.1


@pytest.mark.parametrize("method", [RandomPose(), IndexMatch()])
def test_clouds_that_fix_no_pose_are_refused(method: RandomPose | IndexMatch) -> None:
    for bad in (CLOUD[:0], CLOUD[:2], np.full_like(CLOUD, np.nan)):
        with pytest.raises(NoSolution):
            method.register(bad, MOVED)
