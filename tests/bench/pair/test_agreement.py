"""Fit and consensus of poses."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bench.pair import agreement
from bench.pair.families import START
from tests.bench.pair.synthetic_pair import T, blob


def fit(share, trimmed=0.1):
    return agreement.Fit(share, share, trimmed, trimmed)


def test_consensus_counts_families_not_methods():
    near, far = np.eye(4), T
    poses = np.array([far, far, far, near, near])
    agree = agreement.agreement(poses, blob())
    fits = [fit(0.9)] * 3 + [fit(0.5), fit(0.6)]
    families = ["a", "a", "a", "c", "d"]
    group = agreement.consensus(families, agree.distance, fits, 0.1)
    assert group.members == (3, 4) and group.witnesses == 2 and group.best == 4
    other = agreement.rival(families, agree.distance, fits, 0.1, group)
    assert other.members == (0, 1, 2) and other.witnesses == 1
    assert agree.angle_deg[0, 3] == pytest.approx(np.degrees(np.linalg.norm((0.4, -0.9, 0.3))))
    assert agreement.consensus([], np.zeros((0, 0)), [], 0.1) is None


def test_of_equal_overlaps_the_smaller_residual_is_best():
    level = agreement.consensus(["a", "b", "c"], np.zeros((3, 3)), [fit(0.999, 2.0), fit(0.995, 1.0), fit(0.8)], 0.1)
    assert level.best == 1, "a few points more do not make up for a worse fit"
    assert agreement.rival(["a", "b", "c"], np.zeros((3, 3)), [fit(0.9)] * 3, 0.1, level) is None


def test_fits_against_brute_force():
    source, target = blob(80, 1), blob(90, 2)
    result = agreement.fits(T[None], source, target, 2.0)[0]
    moved = source @ T[:3, :3].T + T[:3, 3]
    distances = np.linalg.norm(moved[:, None] - target[None], axis=2)
    nearest, backward = distances.min(axis=1), distances.min(axis=0)
    assert result.share == (nearest < 2).mean() > 0 and result.target_share == (backward < 2).mean()
    assert result.residual == pytest.approx(np.median(nearest[nearest < 2]))
    trimmed = np.sort(nearest)[:32].mean() / 2 + np.sort(backward)[:36].mean() / 2
    assert result.trimmed == pytest.approx(trimmed)


def test_poses_are_compared_on_the_source_by_brute_force():
    source = blob(60, 4) + 3
    poses = np.array([np.eye(4), T, np.linalg.inv(T), T @ T])
    ours = agreement.agreement(poses, source)
    moved = [source @ p[:3, :3].T + p[:3, 3] for p in poses]
    for i, j in np.ndindex(4, 4):
        between = Rotation.from_matrix(poses[i][:3, :3].T @ poses[j][:3, :3]).magnitude()
        assert ours.angle_deg[i, j] == pytest.approx(np.degrees(between), abs=1e-6)
        assert ours.shift[i, j] == pytest.approx(np.linalg.norm(moved[i].mean(axis=0) - moved[j].mean(axis=0)))
        assert ours.distance[i, j] == pytest.approx(np.sqrt(((moved[i] - moved[j]) ** 2).sum(axis=1).mean()))


@pytest.mark.parametrize("seed", range(6))
def test_the_strongest_group_and_its_rival_by_brute_force(seed):
    draw = np.random.default_rng(seed)
    places = draw.integers(0, 4, 9) + draw.uniform(0, 0.3, 9)
    distance = np.abs(places[:, None] - places)
    families = [str(f) for f in draw.choice(["start", "a", "b", "c"], 9)]
    fits = [agreement.Fit(*draw.uniform(0, 1, 4)) for _ in range(9)]
    group = agreement.consensus(families, distance, fits, 0.4)

    def rank(rows):
        searched = {families[i] for i in rows} - {START}
        return max(len(searched), 1), max((fits[i].share + fits[i].target_share) / 2 for i in rows)

    def groups(allowed):
        return [tuple(j for j in allowed if distance[i, j] <= 0.4) for i in allowed]

    expected = max(groups(range(9)), key=rank)
    assert rank(group.members) == rank(expected) and group.witnesses == rank(expected)[0]
    largest = rank(group.members)[1]
    near = [i for i in group.members if (fits[i].share + fits[i].target_share) / 2 >= largest - 0.01]
    assert group.best == min(near, key=lambda i: fits[i].trimmed)
    rest = [i for i in range(9) if all(distance[i, j] > 0.4 for j in group.members)]
    other = agreement.rival(families, distance, fits, 0.4, group)
    assert (other is None) == (not rest)
    if other:
        assert rank(other.members) == max(map(rank, groups(rest))) and set(other.members) <= set(rest)


def test_poses_that_differ_by_the_limit_agree():
    group = agreement.consensus(["a", "b"], np.array([[0, 0.5], [0.5, 0]]), [fit(0.9)] * 2, 0.5)
    assert group.members == (0, 1) and group.witnesses == 2
    apart = np.array([[0, 0.5, 2], [0.5, 0, 2], [2, 2, 0]])
    alone = agreement.Consensus((0,), 1, 0)
    assert agreement.rival(["a", "b", "c"], apart, [fit(0.9)] * 3, 0.5, alone).members == (2,)
    apart[1, 2] = apart[2, 1] = 0.5
    assert agreement.rival(["a", "b", "c"], apart, [fit(0.9)] * 3, 0.5, agreement.Consensus((0,), 1, 0)).members == (2,)
    two = np.array([[0, 2, 2], [2, 0, 0.5], [2, 0.5, 0]])
    assert agreement.rival(["a", "b", "c"], two, [fit(0.9)] * 3, 0.5, alone).members == (1, 2)


def test_points_without_a_partner_have_no_residual():
    far = agreement.fits(np.eye(4)[None], blob(20, 1), blob(20, 2) + 100, 1.0)[0]
    assert np.isnan(far.residual) and (far.share, far.target_share, far.overlap) == (0, 0, 0)
