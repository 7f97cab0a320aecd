"""Evaluation points in the database: their moments and the first of them, or all, as earlier versions stored them."""

import numpy as np
import pytest

from bench.storage import evaluation_points as stored
from common.moments import moments


@pytest.mark.parametrize("sizes", [[500, 500], [500, 60, 2, 500], [99, 100, 101], [1, 3, 1]])
def test_points_of_this_and_of_earlier_versions_give_the_same_moments(sizes):
    draw = np.random.default_rng(0)
    clouds = [draw.normal(size=(n, 3)).astype(np.float32) for n in sizes]
    new = stored.decode(*zip(*map(stored.encode, clouds), strict=True))
    old = stored.decode([cloud.tobytes() for cloud in clouds], [None] * len(clouds))
    mixed = stored.decode(
        [stored.encode(c)[0] if i % 2 else c.tobytes() for i, c in enumerate(clouds)],
        [stored.encode(c)[1] if i % 2 else None for i, c in enumerate(clouds)],
    )
    for (mean, root), first, count in (new, old, mixed):
        assert count.tolist() == sizes and first.shape == (len(sizes), 100, 3)
        assert mean.flags.writeable and root.flags.writeable
        for i, cloud in enumerate(clouds):
            expected = moments(cloud)
            np.testing.assert_allclose(mean[i], expected.mean, rtol=1e-14)
            np.testing.assert_allclose(root[i] @ root[i].T, expected.root @ expected.root.T, atol=1e-15)
            np.testing.assert_array_equal(first[i, : len(cloud)], cloud[:100])
            assert not first[i, len(cloud) :].any()


def test_a_problem_takes_a_fifth_of_the_space_of_its_points():
    points = np.ones((500, 3), np.float32)
    assert sum(map(len, stored.encode(points))) < points.nbytes / 4


def test_many_problems_have_the_bytes_of_each_alone():
    draw = np.random.default_rng(1)
    clouds = [draw.normal(size=(n, 3)).astype(np.float32) for n in (500, 2, 500, 1, 60, 500, 2)]
    assert stored.encode_all(clouds) == [stored.encode(cloud) for cloud in clouds]
    assert stored.encode_all([]) == []
