"""Numerical functions that give the same bits on every processor.

IEEE 754 requires + - * / and the square root to be correctly rounded, so a fixed order of them has one result. Sine, logarithm
and the like have no such guarantee: the C library and NumPy choose variants by the processor. Nor have sums, norms and matrix
products, whose order of summation depends on the width of vector registers and on the BLAS kernel.
"""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RADIANS = np.pi / 180
"""Radians to the degree."""

# π/2 and ln 2, each as a sum whose first parts are short enough for their products with small integers to be exact.
_HALF_PI = tuple(map(float.fromhex, ("0x1.921fb544p+0", "0x0.42d18469p-32", "0x0.898cc51701b839a2p-64")))
_LN2 = tuple(map(float.fromhex, ("0x0.b17217f7p+0", "0x0.d1cf79abc9e3b398p-32")))

# Coefficients of the power series, the highest first; the terms left out are below 1e-17 of the result.
_SIN = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(8, 0, -1))
_COS = tuple((-1) ** k / math.factorial(2 * k) for k in range(8, 0, -1))
_EXP = tuple(1 / math.factorial(k) for k in range(14, 1, -1))
_LOG = tuple(2 / (2 * k + 1) for k in range(11, 0, -1))


def _series(coefficients: tuple[float, ...], x: Any) -> Any:
    """The polynomial c[0] x^n + ... + c[-1] x by Horner's scheme."""
    value = coefficients[0] * x
    for coefficient in coefficients[1:]:
        value = (value + coefficient) * x
    return value


@overload
def sin_cos(angle: float) -> tuple[float, float]: ...
@overload
def sin_cos(angle: Array) -> tuple[Array, Array]: ...
def sin_cos(angle: Any) -> Any:
    """Sine and cosine of angles in radians below 1e6 in magnitude, to 1e-15; floats for a number, arrays for an array."""
    return _of_array(angle) if isinstance(angle, np.ndarray) else _of_number(float(angle))


def _of_number(angle: float) -> tuple[float, float]:
    turns = float(round(angle * (2 / np.pi)))
    sine, cosine = _near_zero(_reduced(angle, turns))
    return ((sine, cosine), (cosine, -sine), (-sine, -cosine), (-cosine, sine))[int(turns) % 4]


def _of_array(angle: Array) -> tuple[Array, Array]:
    turns = np.rint(angle * (2 / np.pi))
    sine, cosine = _near_zero(_reduced(angle, turns))
    quadrant = turns.astype(np.int64) % 4
    odd, lower, left = quadrant % 2 == 1, quadrant >= 2, (quadrant == 1) | (quadrant == 2)
    first, second = np.where(odd, cosine, sine), np.where(odd, sine, cosine)
    return np.where(lower, -first, first), np.where(left, -second, second)


def _reduced(angle: Any, turns: Any) -> Any:
    """What an angle is beyond that many quarter turns."""
    return ((angle - turns * _HALF_PI[0]) - turns * _HALF_PI[1]) - turns * _HALF_PI[2]


def _near_zero(angle: Any) -> tuple[Any, Any]:
    """Sine and cosine of angles of at most π/4 in magnitude."""
    square = angle * angle
    return angle + angle * _series(_SIN, square), 1 + _series(_COS, square)


def exp(x: Array) -> Array:
    """The exponential, elementwise, of numbers below 700 in magnitude."""
    halvings = np.rint(x * (1 / _LN2[0]))
    r = (x - halvings * _LN2[0]) - halvings * _LN2[1]
    return np.ldexp(1 + (r + r * _series(_EXP, r)), halvings.astype(np.int32))


def log(x: Array) -> Array:
    """The natural logarithm, elementwise, of numbers above 0."""
    mantissa, exponent = np.frexp(x)
    low = mantissa * mantissa < 0.5
    mantissa, exponent = np.where(low, 2 * mantissa, mantissa), exponent - low
    s = (mantissa - 1) / (mantissa + 1)
    return exponent * _LN2[0] + (exponent * _LN2[1] + (2 * s + s * _series(_LOG, s * s)))


def power(x: Array, exponent: float) -> Array:
    """Numbers, elementwise, of at least 0 to a power of at least 0."""
    positive = x > 0
    return np.where(positive, exp(exponent * log(np.where(positive, x, 1.0))), 0.0 if exponent else 1.0)


def arctan2(y: float, x: float) -> float:
    """The angle of (x, y) in radians, from -π to π; 0 at the origin."""
    y, x = float(y), float(x)
    radius = math.sqrt(x * x + y * y)
    if radius == 0:
        return 0.0
    ratio = min(abs(x), abs(y)) / max(abs(x), abs(y))
    angle = ratio * (np.pi / 4 + 0.273 * (1 - ratio))  # to 0.004
    angle = np.pi / 2 - angle if abs(y) > abs(x) else angle
    angle = np.pi - angle if x < 0 else angle
    angle = -angle if y < 0 else angle
    for _ in range(2):  # adds the sine of the error: it is then its cube by 6
        sine, cosine = sin_cos(angle)
        angle += (y * cosine - x * sine) / radius
    return angle


def dot(a: Array, b: Array) -> Array:
    """Inner products (...,) over the last axis of vectors, which is short, from its first to its last component."""
    products = a * b
    found: Array = products[..., 0]
    for k in range(1, products.shape[-1]):
        found = found + products[..., k]
    return found


def norm(vectors: Array) -> Array:
    """Lengths (...,) of vectors along the last axis, which is short."""
    return np.sqrt(dot(vectors, vectors))


def product(a: Array, b: Array) -> Array:
    """Matrix products (..., m, n) of small matrices (..., m, k) and (..., k, n)."""
    found = a[..., :, :1] * b[..., :1, :]
    for k in range(1, a.shape[-1]):
        found = found + a[..., :, k : k + 1] * b[..., k : k + 1, :]
    return found


def total(rows: Array) -> Array:
    """The sum of rows (n, ...), n > 0, from the first to the last."""
    found: Array = np.cumsum(rows, axis=0, dtype=np.float64)[-1]
    return found


def mean(rows: Array) -> Array:
    """The mean of rows (n, ...), n > 0."""
    return total(rows) / len(rows)
