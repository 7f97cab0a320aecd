"""Moments of point sets."""

import numpy as np
import pytest

from common.moments import moments


@pytest.mark.parametrize("count", [1, 2, 3, 4, 50])
def test_moments_give_the_mean_square_of_any_linear_map(count):
    draw = np.random.default_rng(0)
    points, D = draw.normal(size=(4, count, 3)), draw.normal(size=(3, 3))
    mean, root = moments(points)
    expected = ((points @ D.T) ** 2).sum(axis=-1).mean(axis=-1)
    covariances = np.stack([np.cov(cloud.T, bias=True).reshape(3, 3) for cloud in points])
    np.testing.assert_allclose(root @ np.swapaxes(root, 1, 2), covariances, atol=1e-12)
    found = ((D @ root) ** 2).sum(axis=(-1, -2)) + ((mean @ D.T) ** 2).sum(axis=-1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
