"""Fit and consensus of poses."""

import numpy as np
import pytest

from bench.pair import agreement
from tests.bench.pair.synthetic_pair import T, blob


def test_consensus_counts_different_methods_not_refinements():
    near, far = np.eye(4), T
    poses = np.array([far, far, far, near, near])
    agree = agreement.agreement(poses, blob())
    fits = [agreement.Fit(0.9, 0.1)] * 3 + [agreement.Fit(0.5, 0.1), agreement.Fit(0.6, 0.1)]
    group = agreement.consensus(["a", "a+b", "a[x=1]", "c", "d"], agree.distance, fits, 0.1)
    assert group.members == (3, 4) and group.independent == 2 and group.best == 4
    assert agree.angle_deg[0, 3] == pytest.approx(np.degrees(np.linalg.norm((0.4, -0.9, 0.3))))
    assert agreement.consensus([], np.zeros((0, 0)), [], 0.1) is None
    level = agreement.consensus(
        ["a", "b", "c"],
        np.zeros((3, 3)),
        [agreement.Fit(0.999, 2.0), agreement.Fit(0.995, 1.0), agreement.Fit(0.8, 0.1)],
        0.1,
    )
    assert level.best == 1, "a few points more do not make up for a worse fit"


def test_fits_against_brute_force():
    source, target = blob(80, 1), blob(90, 2)
    fit = agreement.fits(T[None], source, target, 2.0)[0]
    moved = source @ T[:3, :3].T + T[:3, 3]
    nearest = np.linalg.norm(moved[:, None] - target[None], axis=2).min(axis=1)
    assert fit.share == (nearest < 2).mean() > 0 and fit.residual == pytest.approx(np.median(nearest[nearest < 2]))
