"""Moments of point sets."""

import numpy as np

from common.moments import moments


def test_moments_give_the_mean_square_of_any_linear_map():
    draw = np.random.default_rng(0)
    points, D = draw.normal(size=(4, 50, 3)), draw.normal(size=(3, 3))
    mean, root = moments(points)
    expected = ((points @ D.T) ** 2).sum(axis=-1).mean(axis=-1)
    found = ((D @ root) ** 2).sum(axis=(-1, -2)) + ((mean @ D.T) ** 2).sum(axis=-1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
