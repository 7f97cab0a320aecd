"""Information matrices in every order and sense, for centroids along each axis."""

import numpy as np
import pytest

from common.errors import InputError
from common.keys import rng
from datasets.information import cross_matrix, information_of, standard_order

SENSE = np.array([1, 1, 1, -1, -1, -1])


def points_about(centre):
    """Points (30, 3) with exactly this centroid."""
    points = rng("about", *centre).normal(size=(30, 3))
    return points - points.mean(axis=0) + centre


def test_the_cross_matrix_is_numpy_s_product():
    v, w = rng("cross").normal(size=(2, 3))
    np.testing.assert_allclose(cross_matrix(v) @ w, np.cross(v, w))


@pytest.mark.parametrize("centre", [*np.eye(3).tolist(), *(-np.eye(3)).tolist(), [1.0, -2.0, 3.0]])
@pytest.mark.parametrize("rotation_first", [False, True])
@pytest.mark.parametrize("opposite", [False, True])
def test_either_order_and_sense_becomes_the_one_of_3dmatch(centre, rotation_first, opposite):
    """The centroid may be that of the source or of the target; the other one is far from both senses."""
    points = points_about(np.array(centre))
    expected = information_of(points)
    given = expected * SENSE[:, None] * SENSE if opposite else expected
    given = np.roll(given, 3, axis=(0, 1)) if rotation_first else given
    far = np.cross(centre, [0.3, 0.5, 0.7]) * 9
    for centroids in ([centre, far], [far, centre]):
        np.testing.assert_allclose(standard_order(given, np.array(centroids), "x"), expected, atol=1e-9)


def test_a_matrix_without_a_count_is_refused():
    information = information_of(points_about(np.ones(3)))
    for change in (2.1e-6, -2.1e-6):
        wrong = information.copy()
        wrong[0, 1] += change * 30
        with pytest.raises(InputError, match="x has no block n I"):
            standard_order(wrong, np.ones((2, 3)), "x")
        near = information.copy()
        near[0, 1] += change * 30 / 3
        standard_order(near, np.ones((2, 3)), "x")
    with pytest.raises(InputError):
        standard_order(-np.eye(6), np.ones((2, 3)), "x")
