"""The portable functions against those of NumPy, which are accurate, if not the same everywhere."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import keys, portable
from common.keys import rng

# Libraries compiled with -ffast-math that other tests import switch off subnormal numbers in this process.
numbers = partial(st.floats, allow_subnormal=False)
angles = numbers(-1e6, 1e6)


@given(angles)
def test_sine_and_cosine(angle):
    sine, cosine = portable.sin_cos(angle)
    assert abs(sine - np.sin(angle)) < 1e-15 and abs(cosine - np.cos(angle)) < 1e-15
    arrays = portable.sin_cos(np.array([[angle]]))
    assert [a.item() for a in arrays] == [sine, cosine] and arrays[0].shape == (1, 1)


@given(numbers(-700, 700))
def test_exponential(x):
    assert portable.exp(np.array([x])) == pytest.approx(np.exp([x]), rel=1e-15)


@given(numbers(1e-300, 1e300))
def test_logarithm(x):
    assert portable.log(np.array([x])) == pytest.approx(np.log([x]), rel=1e-15, abs=1e-300)


@given(numbers(1e-20, 1e3), numbers(0, 5))
def test_power(x, exponent):
    assert portable.power(np.array([x]), exponent) == pytest.approx(np.array([x]) ** exponent, rel=1e-13)
    assert portable.power(np.zeros(1), exponent) == 0.0**exponent


@given(numbers(-1e6, 1e6), numbers(-1e6, 1e6))
def test_angle_of_a_point(y, x):
    if x * x + y * y > 1e-280:  # the squares of less are no normal numbers
        assert portable.arctan2(y, x) == pytest.approx(np.arctan2(y + 0.0, x + 0.0), abs=1e-15)
    assert portable.arctan2(0.0, 0.0) == 0


def test_sums_and_products():
    draw = np.random.default_rng(0)
    a, b = draw.normal(size=(2, 5, 4, 4))
    np.testing.assert_allclose(portable.product(a, b), a @ b, atol=1e-14)
    np.testing.assert_allclose(portable.norm(a), np.linalg.norm(a, axis=-1))
    np.testing.assert_allclose(portable.mean(a), a.mean(axis=0))
    np.testing.assert_allclose(portable.total(a), a.sum(axis=0))
    for k in (1, 2, 3):
        left, right = a[..., :2, :k], b[..., :k, :3]
        np.testing.assert_allclose(portable.product(left, right), left @ right, atol=1e-14)
        np.testing.assert_allclose(portable.dot(a[..., :k], b[..., :k]), (a * b)[..., :k].sum(axis=-1), atol=1e-14)
    fortran = np.asfortranarray(a[0, :, :3])
    assert portable.cross(fortran, fortran).flags.fnc and portable.cross(a[0, :, :3], fortran).flags.c_contiguous


def test_normal_numbers_are_normal():
    z = rng("normal").standard_normal(200_001)
    assert len(z) == 200_001 and abs(z.mean()) < 0.01 and z.std() == pytest.approx(1, abs=0.01)
    assert (np.abs(z) < 1).mean() == pytest.approx(0.6827, abs=0.005)
    assert (np.abs(z) > 3).mean() == pytest.approx(0.0027, abs=0.0005)
    assert np.corrcoef(z[:100_000], z[100_001:])[0, 1] == pytest.approx(0, abs=0.01)
    assert rng("n").normal(3, 0, (2, 3)).tolist() == [[3, 3, 3]] * 2 and isinstance(rng("n").normal(), float)


def test_uniform_numbers_broadcast_as_numpys():
    low, high = np.array([[0.0], [10.0]]), np.array([1.0, 2.0, 3.0])
    uniform = rng("u").uniform(low, high)
    assert uniform.shape == (2, 3) and np.array_equal(uniform, low + (high - low) * rng("u").random((2, 3)))
    assert isinstance(rng("u").uniform(2, 3), float)


def test_numbers_and_arrays_give_the_same_bits():
    x = rng("bits").random(200) * 10.0 ** rng("powers").integers(-12, 3, 200)
    assert [portable.log(float(v)) for v in x] == portable.log(x).tolist()
    angles = 100 * rng("angles").random(200)
    assert [portable.sin_cos(float(v)) for v in angles] == list(
        zip(*(part.tolist() for part in portable.sin_cos(angles)), strict=True)
    )
    a, b = rng("vectors").normal(size=(2, 50, 3))
    assert np.array_equal(portable.cross(a, b), np.cross(a, b)) and np.array_equal(
        portable.cross(a, b[0]), np.cross(a, b[0])
    )


@pytest.mark.parametrize("n", [1, 3, 4, 8])
def test_few_normal_numbers_are_the_first_of_the_many(n, monkeypatch):
    few = rng("few").standard_normal(n)
    monkeypatch.setattr(keys, "FEW", 0)
    assert np.array_equal(few, rng("few").standard_normal(n))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_angles_of_points_on_the_axes_and_diagonals(scale):
    corners = [(-1, -1), (0, -1), (1, -1), (1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0)]
    for k, (x, y) in enumerate(corners, -3):
        assert portable.arctan2(scale * y, scale * x) == pytest.approx(k * np.pi / 4, abs=1e-15)
