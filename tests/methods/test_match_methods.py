"""SC2-PCR, TurboReg and MAC: planted matches, moved and scaled clouds, symmetry, and definitions by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from common.kinds import DataKind
from methods import sc2_pcr
from methods.base import NoSolution, rigid
from methods.geometry.compatibility import best_hypothesis, refined, second_order
from methods.geometry.features import FeatureMethod
from methods.mac import Mac, grown_cliques
from methods.sc2_pcr import Sc2Pcr, best_separated
from methods.turbo_reg import TurboReg
from tests.methods.clouds import pose, turned_pair
from tests.methods.geometry.test_compatibility import planted

METHODS = [Sc2Pcr, TurboReg, Mac]


def solution(method: FeatureMethod, p: np.ndarray, q: np.ndarray, tolerance: float = 0.03) -> np.ndarray:
    """Return the pose (4, 4) of the method's solver on given matches (K, 3)."""
    allowed = tolerance if isinstance(method, Sc2Pcr) else 0.5 * tolerance
    poses = method.hypotheses(p, q, allowed)  # type: ignore[attr-defined]
    return refined(best_hypothesis(poses, p, q, tolerance), p, q, tolerance)[0]


@pytest.mark.parametrize("cls", METHODS)
@pytest.mark.parametrize("correct", [200, 60, 30])
def test_the_pose_of_planted_matches_is_found_among_wrong_ones(cls: type[FeatureMethod], correct: int) -> None:
    for seed in range(3):
        p, q, T = planted(600, correct, seed)
        assert np.abs(solution(cls(), p, q) - T).max() < 5e-3


@pytest.mark.parametrize("cls", METHODS)
def test_matches_in_the_other_direction_give_the_inverse(cls: type[FeatureMethod]) -> None:
    p, q, _ = planted(400, 80)
    there, back = solution(cls(), p, q), solution(cls(), q, p)
    assert np.allclose(there @ back, np.eye(4), atol=2e-3)


@pytest.mark.parametrize("cls", METHODS)
def test_moving_a_cloud_moves_the_pose(cls: type[FeatureMethod]) -> None:
    p, q, _ = planted(400, 80)
    A = rigid(Rotation.random(random_state=4).as_matrix(), [0.5, 0.1, -0.2])
    moved = solution(cls(), p, q @ A[:3, :3].T + A[:3, 3])
    assert np.allclose(moved, A @ solution(cls(), p, q), atol=1e-3)


@pytest.mark.parametrize("cls", METHODS)
@pytest.mark.parametrize("kind", list(DataKind))
def test_clouds_are_registered_in_any_unit(cls: type[FeatureMethod], kind: DataKind) -> None:
    answers = []
    for scale in (1.0, 1000.0):
        method = cls()
        method.adapt(kind)
        method.begin(0)
        source, target, truth = turned_pair(70, n=1500, scale=scale)
        T = method.register(source, target)
        assert np.abs(T[:3, :3] - truth[:3, :3]).max() < 0.03
        answers.append(T @ np.diag([scale, scale, scale, 1.0]) / scale)
    assert np.allclose(answers[0][:3, :3], answers[1][:3, :3], atol=1e-3)


@pytest.mark.parametrize("cls", METHODS)
def test_matches_of_which_no_three_agree_are_no_solution(cls: type[FeatureMethod]) -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(-1, 1, (12, 3))
    with pytest.raises(NoSolution):
        solution(cls(), p, 50 * rng.uniform(-1, 1, (12, 3)), 1e-4)


def test_a_grown_clique_is_complete_maximal_and_holds_its_start() -> None:
    graph = np.random.default_rng(1).random((40, 40)) < 0.5
    graph = np.triu(graph, 1) | np.triu(graph, 1).T
    weights = second_order(graph)
    linked = weights > 0
    for start, members in enumerate(grown_cliques(weights, np.arange(40), 40)):
        inside = np.flatnonzero(members)
        assert members[start]
        assert all(linked[i, j] for i in inside for j in inside if i != j)
        assert not any(linked[k, inside].all() for k in np.flatnonzero(~members))
    assert grown_cliques(weights, np.arange(40), 4).sum(axis=1).max() == 4


def test_seeds_are_the_best_of_their_surroundings_first() -> None:
    points = np.array([[0.0, 0, 0], [0.01, 0, 0], [1, 0, 0], [2, 0, 0]])
    assert best_separated(np.array([0.9, 1.0, 0.2, 0.5]), points, 0.1, 4).tolist() == [1, 3, 2, 0]


def test_scans_in_a_moved_frame_give_the_same_pose() -> None:
    source, target, _ = turned_pair(50, n=2000)
    A = pose(3)
    method = Sc2Pcr()
    method.adapt(DataKind.SCANS)
    method.begin(0)
    T = method.register(source, target)
    method.begin(0)
    moved = method.register(source, (target @ A[:3, :3].T + A[:3, 3]).astype(np.float32))
    assert np.abs(moved - A @ T).max() < 0.02


@pytest.mark.parametrize(("kind", "usual"), [(DataKind.OBJECTS, sc2_pcr.SETS), (DataKind.SCANS, sc2_pcr.VERIFIED)])
def test_sets_have_the_given_sizes_and_the_usual_ones_otherwise(
    monkeypatch: pytest.MonkeyPatch, kind: DataKind, usual: sc2_pcr.Sets
) -> None:
    """With learned features of scans, poses are verified, and the usual sets are smaller; what is given counts in both cases."""
    sizes: list[int] = []
    strongest = sc2_pcr.strongest  # type: ignore[attr-defined]
    monkeypatch.setattr(sc2_pcr, "strongest", lambda scores, count: (sizes.append(count), strongest(scores, count))[1])
    p = np.random.default_rng(0).normal(size=(50, 3))
    for given, expected in ((None, [usual.wide, usual.narrow]), (25, [25, usual.narrow])):
        method = sc2_pcr.Sc2Pcr(features="learned", wide=given)
        monkeypatch.setattr(type(method), "data_kind", kind)
        method.hypotheses(p, p, 0.1)
        assert sizes == expected
        sizes.clear()


def random_weights(seed: int, n: int = 30) -> np.ndarray:
    graph = np.random.default_rng(seed).random((n, n)) < 0.4
    return second_order(np.triu(graph, 1) | np.triu(graph, 1).T)


@pytest.mark.parametrize("largest", [3, 5, 30])
def test_the_match_with_the_highest_weights_to_all_members_joins_a_clique(largest: int) -> None:
    weights = random_weights(2) + np.random.default_rng(0).uniform(0, 0.1)
    weights *= weights > 0.2
    for start, ours in enumerate(grown_cliques(weights, np.arange(30), largest)):
        members = [start]
        while len(members) < largest:
            sums = [
                sum(weights[k, m] for m in members) if all(weights[k, m] > 0 for m in members) else 0 for k in range(30)
            ]
            if max(sums) == 0:
                break
            members.append(int(np.argmax(sums)))
        assert np.flatnonzero(ours).tolist() == sorted(members)


def test_cliques_are_grown_from_the_best_matches_and_weighted_by_their_strength() -> None:
    """The distances of matches agree to a fraction of the tolerance; each set of three or more gives a weighted pose."""
    p, q, _ = planted(80, 40)
    method, tolerance = Mac(cliques=12, largest=9, strictness=0.4), 0.05
    apart = np.abs(cdist(p, p) - cdist(q, q))
    weights = second_order(apart < 0.4 * tolerance)
    strength = weights.sum(axis=1)
    starts = np.argsort(-strength, kind="stable")[:12]
    sets = {tuple(np.flatnonzero(row)) for row in grown_cliques(weights, starts, 9)}
    poses = method.hypotheses(p, q, tolerance)
    expected = []
    for chosen in (list(members) for members in sets if len(members) >= 3):
        w = strength[chosen]
        a, b = np.average(p[chosen], axis=0, weights=w), np.average(q[chosen], axis=0, weights=w)
        R = Rotation.align_vectors(q[chosen] - b, p[chosen] - a, weights=w)[0].as_matrix()
        expected.append(np.c_[R, b - R @ a])
    ours = [np.c_[R, t] for R, t in zip(*poses, strict=True)]
    assert len(ours) == len(expected) > 1
    apart = np.abs(np.array(ours)[:, None] - np.array(expected)).max(axis=(2, 3))
    assert apart.min(axis=1).max() < 1e-4


@pytest.mark.parametrize(("pivots", "triangles"), [(3, 1), (5, 2), (10_000, 2)])
def test_triangles_complete_the_strongest_pairs_by_the_strongest_thirds(pivots: int, triangles: int) -> None:
    p, q, _ = planted(24, 10)
    method, tolerance = TurboReg(strictness=0.6, pivots=pivots, triangles=triangles), 0.05
    weights = second_order(np.abs(cdist(p, p) - cdist(q, q)) < 0.6 * tolerance)
    pairs = sorted(((weights[i, j], i, j) for i in range(24) for j in range(i) if weights[i, j] > 0), reverse=True)
    least = pairs[: min(pivots, len(pairs))][-1][0]
    poses = method.hypotheses(p, q, tolerance)
    allowed, certain = [], []
    for weight, i, j in (pair for pair in pairs if pair[0] >= least):
        both = np.where((weights[i] > 0) & (weights[j] > 0), weights[i] + weights[j], 0)
        bound = np.sort(both)[-triangles]
        thirds = np.flatnonzero(both >= max(bound, 1e-9))
        found = []
        for k in thirds:
            corners = [i, j, int(k)]
            a, b = p[corners].mean(axis=0), q[corners].mean(axis=0)
            R = Rotation.align_vectors(q[corners] - b, p[corners] - a)[0].as_matrix()
            found.append(np.c_[R, b - R @ a])
        allowed += found
        certain += found if weight > least and len(thirds) <= triangles else []
    ours = [np.c_[R, t] for R, t in zip(*poses, strict=True)]
    assert len(ours) <= triangles * min(pivots, len(pairs))
    apart = np.abs(np.array(ours)[:, None] - np.array(allowed)).max(axis=(2, 3))
    assert apart.min(axis=1).max() < 1e-4
    for other in certain:
        assert min(np.abs(one - other).max() for one in ours) < 1e-4
