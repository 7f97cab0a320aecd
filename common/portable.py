"""Numerical functions whose results have the same bits on every processor.

IEEE 754 requires + - * / and the square root to be correctly rounded, so a fixed order of them has one result. This does not
hold for sine, logarithm and similar functions, whose implementation the C library and NumPy choose by processor, nor for sums,
norms and matrix products, whose order of summation depends on the width of vector registers and on the BLAS kernel.
"""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RADIANS = np.pi / 180
"""Radians per degree."""

# π/2 and ln 2, each as a sum whose first parts are short enough for their products with small integers to be exact.
_HALF_PI = tuple(map(float.fromhex, ("0x1.921fb544p+0", "0x0.42d18469p-32", "0x0.898cc51701b839a2p-64")))
_LN2 = tuple(map(float.fromhex, ("0x0.b17217f7p+0", "0x0.d1cf79abc9e3b398p-32")))

# Coefficients of the power series, the highest first; the terms left out are below 1e-17 of the result.
_SIN = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(8, 0, -1))
_COS = tuple((-1) ** k / math.factorial(2 * k) for k in range(8, 0, -1))
_SIN_COS = tuple(zip(_SIN, _COS, strict=True))
_EXP = tuple(1 / math.factorial(k) for k in range(14, 1, -1))
_LOG = tuple(2 / (2 * k + 1) for k in range(11, 0, -1))


def _polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    """Evaluate the polynomial c[0] x^n + ... + c[-1] x by Horner's scheme."""
    value = coefficients[0] * x
    for coefficient in coefficients[1:]:
        value = (value + coefficient) * x
    return value


@overload
def sin_cos(angle: float) -> tuple[float, float]: ...
@overload
def sin_cos(angle: Array) -> tuple[Array, Array]: ...
def sin_cos(angle: Any) -> Any:
    """Compute sine and cosine to 1e-15 of angles in radians below 1e6 in magnitude; floats for a number, arrays for an array."""
    return _sin_cos_array(angle) if isinstance(angle, np.ndarray) else _sin_cos_number(float(angle))


def _sin_cos_number(angle: float) -> tuple[float, float]:
    turns = float(round(angle * (2 / np.pi)))
    sine, cosine = _sin_cos_near_zero(_reduce(angle, turns))
    return ((sine, cosine), (cosine, -sine), (-sine, -cosine), (-cosine, sine))[int(turns) % 4]


def _sin_cos_array(angle: Array) -> tuple[Array, Array]:
    turns = np.rint(angle * (2 / np.pi))
    sine, cosine = _sin_cos_near_zero(_reduce(angle, turns))
    quadrant = turns.astype(np.int64) % 4
    odd, lower, left = quadrant % 2 == 1, quadrant >= 2, (quadrant == 1) | (quadrant == 2)
    first, second = np.where(odd, cosine, sine), np.where(odd, sine, cosine)
    return np.where(lower, -first, first), np.where(left, -second, second)


def _reduce(angle: Any, turns: Any) -> Any:
    """Subtract a number of quarter turns from an angle."""
    return ((angle - turns * _HALF_PI[0]) - turns * _HALF_PI[1]) - turns * _HALF_PI[2]


def _sin_cos_near_zero(angle: Any) -> tuple[Any, Any]:
    """Compute sine and cosine of angles of at most π/4 in magnitude."""
    square, sine, cosine = angle * angle, 0.0, 0.0
    for of_sine, of_cosine in _SIN_COS:  # two polynomials as in `_polynomial`, in less time together
        sine, cosine = (sine + of_sine) * square, (cosine + of_cosine) * square
    return angle + angle * sine, 1 + cosine


def exp(x: Array) -> Array:
    """Compute the exponential, elementwise, of numbers below 700 in magnitude."""
    halvings = np.rint(x * (1 / _LN2[0]))
    r = (x - halvings * _LN2[0]) - halvings * _LN2[1]
    return np.ldexp(1 + (r + r * _polynomial(_EXP, r)), halvings.astype(np.int32))


@overload
def log(x: float) -> float: ...
@overload
def log(x: Array) -> Array: ...
def log(x: Any) -> Any:
    """Compute the natural logarithm of numbers above 0; a float for a number, elementwise for an array."""
    return _log_array(x) if isinstance(x, np.ndarray) else _log_number(float(x))


def _log_number(x: float) -> float:
    mantissa, exponent = math.frexp(x)
    if mantissa * mantissa < 0.5:
        mantissa, exponent = 2 * mantissa, exponent - 1
    return _log_near_one(mantissa, exponent)


def _log_array(x: Array) -> Array:
    mantissa, exponent = np.frexp(x)
    low = mantissa * mantissa < 0.5
    return np.asarray(_log_near_one(np.where(low, 2 * mantissa, mantissa), exponent - low))


def _log_near_one(mantissa: Any, exponent: Any) -> Any:
    """Compute the logarithm of mantissa x 2^exponent with a mantissa from √½ to √2."""
    s = (mantissa - 1) / (mantissa + 1)
    return exponent * _LN2[0] + (exponent * _LN2[1] + (2 * s + s * _polynomial(_LOG, s * s)))


def power(x: Array, exponent: float) -> Array:
    """Raise numbers of at least 0, elementwise, to a power of at least 0."""
    positive = x > 0
    return np.where(positive, exp(exponent * log(np.where(positive, x, 1.0))), 0.0 if exponent else 1.0)


def arctan2(y: float, x: float) -> float:
    """Return the angle of (x, y) in radians, from -π to π; 0 at the origin."""
    y, x = float(y), float(x)
    radius = math.sqrt(x * x + y * y)
    if radius == 0:
        return 0.0
    ratio = min(abs(x), abs(y)) / max(abs(x), abs(y))
    angle = ratio * (np.pi / 4 + 0.273 * (1 - ratio))  # to 0.004
    angle = np.pi / 2 - angle if abs(y) > abs(x) else angle
    angle = np.pi - angle if x < 0 else angle
    angle = -angle if y < 0 else angle
    for _ in range(2):  # adding the sine of the error leaves its cube over 6
        sine, cosine = sin_cos(angle)
        angle += (y * cosine - x * sine) / radius
    return angle


def dot(a: Array, b: Array) -> Array:
    """Compute inner products (...,) over the short last axis of vectors, summed from the first component to the last."""
    products = a * b
    sums: Array = products[..., 0]
    for k in range(1, products.shape[-1]):
        sums = sums + products[..., k]
    return sums


def cross(a: Array, b: Array) -> Array:
    """Compute cross products (..., 3) of vectors (..., 3); faster than `numpy.cross`, with the same bits."""
    x, y, z = a[..., 0], a[..., 1], a[..., 2]
    u, v, w = b[..., 0], b[..., 1], b[..., 2]
    first = y * w - z * v
    vectors = np.empty((*first.shape, 3), order="F" if a.flags.fnc else "C")
    vectors[..., 0], vectors[..., 1], vectors[..., 2] = first, z * u - x * w, x * v - y * u
    return vectors


def norm(vectors: Array) -> Array:
    """Compute lengths (...,) of vectors along their short last axis."""
    return np.sqrt(dot(vectors, vectors))


def product(a: Array, b: Array) -> Array:
    """Multiply small matrices (..., m, k) and (..., k, n) to (..., m, n)."""
    products = a[..., :, :, None] * b[..., None, :, :]
    sums: Array = products[..., 0, :]
    for k in range(1, a.shape[-1]):
        sums = sums + products[..., k, :]
    return sums


def total(rows: Array) -> Array:
    """Sum rows (n, ...), n > 0, from the first to the last."""
    last: Array = rows.cumsum(axis=0, dtype=np.float64)[-1]
    return last


def mean(rows: Array) -> Array:
    """Compute the mean of rows (n, ...), n > 0."""
    return total(rows) / len(rows)
