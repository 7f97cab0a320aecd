"""Choice among poses by the descriptors of all points, on planted clouds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from common.kinds import DataKind
from methods.base import NoSolution, rigid
from methods.geometry.compatibility import Hypotheses, best_hypothesis
from methods.geometry.learned_matches import Described
from methods.geometry.verification import ALIKE, agreement, best_verified
from methods.sc2_pcr import Sc2Pcr

RNG = np.random.default_rng(0)
TRUE = rigid(Rotation.random(random_state=1).as_matrix(), [0.2, -0.1, 0.3])
WRONG = rigid(Rotation.random(random_state=2).as_matrix(), [0.0, 0.2, -0.3])


def described(points: np.ndarray, descriptors: np.ndarray) -> Described:
    return Described(np.arange(len(points)), points, descriptors.astype(np.float32))


@pytest.fixture
def clouds() -> tuple[Described, Described]:
    """A cloud and itself at the true pose, with the same random descriptors."""
    points, descriptors = RNG.uniform(-1, 1, (500, 3)), RNG.normal(size=(500, 32))
    descriptors /= np.linalg.norm(descriptors, axis=1)[:, None]
    return described(points, descriptors), described(points @ TRUE[:3, :3].T + TRUE[:3, 3], descriptors)


def matches(right: int, wrong: int) -> tuple[np.ndarray, np.ndarray]:
    """Matches (K, 3) of which so many follow the true pose, and so many the wrong one."""
    p = RNG.uniform(-1, 1, (right + wrong, 3))
    q = p @ TRUE[:3, :3].T + TRUE[:3, 3]
    q[right:] = p[right:] @ WRONG[:3, :3].T + WRONG[:3, 3]
    return p, q


def poses(*T: np.ndarray) -> Hypotheses:
    return Hypotheses(np.array([t[:3, :3] for t in T]), np.array([t[:3, 3] for t in T]))


def test_descriptors_outvote_a_wrong_pose_with_more_matches(clouds: tuple[Described, Described]) -> None:
    p, q = matches(20, 30)
    proposed = poses(WRONG, TRUE)
    assert np.allclose(best_hypothesis(proposed, p, q, 0.05), WRONG)
    T, inliers = best_verified(proposed, p, q, 0.05, *clouds)
    assert np.allclose(T, TRUE) and inliers == 20


def test_without_any_agreement_the_matches_decide(clouds: tuple[Described, Described]) -> None:
    p, q = matches(20, 30)
    source, target = clouds
    opposite = target._replace(descriptors=-target.descriptors)
    assert np.allclose(best_verified(poses(TRUE, WRONG), p, q, 0.05, source, opposite)[0], WRONG)


def test_agreement_counts_equal_descriptors_and_is_negative_for_unlike_ones(
    clouds: tuple[Described, Described],
) -> None:
    source, target = clouds
    tree = cKDTree(target.points)
    assert agreement(TRUE, source, target, tree, 0.01) == pytest.approx(500 * (1 - ALIKE), rel=1e-5)
    assert agreement(TRUE, source, target._replace(descriptors=-target.descriptors), tree, 0.01) < 0
    assert agreement(rigid(np.eye(3), [9, 9, 9]), source, target, tree, 0.01) == 0


def test_poses_without_three_inliers_are_no_solution(clouds: tuple[Described, Described]) -> None:
    p, q = matches(10, 0)
    with pytest.raises(NoSolution, match="a pose needs 3"):
        best_verified(poses(rigid(np.eye(3), [9, 9, 9])), p, q, 0.05, *clouds)


def test_only_learned_features_of_partial_scans_are_verified() -> None:
    learned, fpfh = Sc2Pcr(features="learned"), Sc2Pcr()
    assert not learned.verifies
    for method in (learned, fpfh):
        method.adapt(DataKind.SCANS)
    assert learned.verifies and not fpfh.verifies
