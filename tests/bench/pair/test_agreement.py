"""Fit and consensus of poses."""

import numpy as np
import pytest

from bench.pair import agreement
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
