"""Rigid poses: samplers of the ground truth and operations on points. Pure functions of a random generator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import portable
from common.errors import InputError, unknown

Matrix = NDArray[np.float64]
MAX_TRANSLATION = 0.5
"""Maximum length of a sampled translation, or magnitude of its coordinates for samplers that draw it in a box."""
MAX_REJECTIONS = 20_000
"""Maximum number of rotations drawn to find one whose angle is within the bounds."""


def axis_rotation(axis: NDArray[Any], angle_deg: float) -> Matrix:
    """Compute the rotation (3, 3) about a unit axis (3,) by an angle in degrees (Rodrigues' formula).

    >>> axis_rotation(np.array([0.0, 0.0, 1.0]), 90).round(9)
    array([[ 0., -1.,  0.],
           [ 1.,  0.,  0.],
           [ 0.,  0.,  1.]])
    """
    x, y, z = map(float, axis)
    sine, cosine = portable.sin_cos(angle_deg * portable.RADIANS)
    rest, xy, xz, yz = 1 - cosine, x * y, x * z, y * z
    return np.array(
        [
            [1 + rest * (-z * z - y * y), rest * xy - sine * z, sine * y + rest * xz],
            [sine * z + rest * xy, 1 + rest * (-z * z - x * x), rest * yz - sine * x],
            [rest * xz - sine * y, sine * x + rest * yz, 1 + rest * (-y * y - x * x)],
        ]
    )


def direction(rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw a unit vector (3,), uniform on the sphere.

    >>> from common.keys import rng
    >>> direction(rng("doc")).round(3).tolist()
    [0.945, -0.317, 0.077]
    """
    x, y, z = rng.standard_normal(3).tolist()
    length = math.sqrt(x * x + y * y + z * z)
    return np.array([x / length, y / length, z / length])


def haar(rng: np.random.Generator) -> Matrix:
    """Draw a rotation (3, 3), uniform on SO(3), from a uniform unit quaternion.

    >>> from common.keys import rng
    >>> round(angle_deg(haar(rng("doc"))), 3)
    39.165
    """
    return quaternion_rotation(rng.standard_normal(4))


def quaternion_rotation(q: NDArray[np.float64]) -> Matrix:
    """Convert a quaternion (4,) of any nonzero length, real part first, to a rotation (3, 3).

    Raises:
        ValueError: the quaternion is 0.

    >>> quaternion_rotation(np.array([1.0, 0.0, 0.0, 1.0])).round(9)
    array([[ 0., -1.,  0.],
           [ 1.,  0.,  0.],
           [ 0.,  0.,  1.]])
    """
    numbers = q.tolist()
    w, x, y, z = numbers
    length = math.sqrt(w * w + x * x + y * y + z * z)
    if length == 0:
        raise ValueError("the quaternion is 0")
    w, x, y, z = (number / length for number in numbers)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def quaternion_pose(numbers: Sequence[float]) -> Matrix:
    """Convert the seven numbers tx ty tz qx qy qz qw of trajectory files to a pose (4, 4).

    Raises:
        ValueError: there are not seven numbers, or the quaternion is 0.

    >>> quaternion_pose([1, 2, 3, 0, 0, 0, 1])
    array([[1., 0., 0., 1.],
           [0., 1., 0., 2.],
           [0., 0., 1., 3.],
           [0., 0., 0., 1.]])
    """
    tx, ty, tz, qx, qy, qz, qw = numbers
    T = np.eye(4)
    T[:3, :3] = quaternion_rotation(np.array([qw, qx, qy, qz]))
    T[:3, 3] = tx, ty, tz
    return T


def euler45(rng: np.random.Generator) -> Matrix:
    """Draw a rotation Rx Ry Rz (3, 3) with three angles U[0°, 45°], as DCP and PRNet do.

    The mean angle is 44.7°; the opposite order of the axes has 40.6°.

    >>> from common.keys import rng
    >>> round(angle_deg(euler45(rng("doc"))), 3)
    32.003
    """
    return _euler(rng, 45)


def euler180(rng: np.random.Generator) -> Matrix:
    """Draw a rotation Rx Ry Rz (3, 3) with three angles U[0°, 180°], as GeoTransformer's full range.

    >>> from common.keys import rng
    >>> round(angle_deg(euler180(rng("doc"))), 3)
    127.433
    """
    return _euler(rng, 180)


def _euler(rng: np.random.Generator, most: float) -> Matrix:
    ax, ay, az = rng.uniform(0, most, 3)
    ex, ey, ez = np.eye(3)
    return portable.product(portable.product(axis_rotation(ex, ax), axis_rotation(ey, ay)), axis_rotation(ez, az))


def angle_deg(rotation: NDArray[Any]) -> float:
    """Compute the geodesic angle in degrees of a rotation (3, 3), accurate near 0° and 180°.

    >>> round(angle_deg(axis_rotation(np.array([0.0, 0.0, 1.0]), 30)), 9)
    30.0
    """
    first, second, third = rotation.astype(np.float64).tolist()
    x, y, z = third[1] - second[2], first[2] - third[0], second[0] - first[1]
    trace = first[0] + second[1] + third[2]
    return portable.arctan2(math.sqrt(x * x + y * y + z * z), trace - 1) / portable.RADIANS


def _axis_angle(rng: np.random.Generator, low: float, high: float) -> Matrix:
    return axis_rotation(direction(rng), rng.uniform(low, high))


def _with_rejection(
    draw: Callable[[np.random.Generator], Matrix],
) -> Callable[[np.random.Generator, float, float], Matrix]:
    """Turn a sampler of rotations into one that repeats the draw until the angle is within bounds."""

    def sample(rng: np.random.Generator, low: float, high: float) -> Matrix:
        for _ in range(MAX_REJECTIONS):
            rotation = draw(rng)
            if low <= angle_deg(rotation) <= high:
                return rotation
        raise InputError(
            f"--angles {low:g} to {high:g}: this --sampler (almost) never draws such an angle; widen the bounds"
        )

    return sample


SAMPLERS: dict[str, Callable[[np.random.Generator, float, float], Matrix]] = {
    "axis_angle": _axis_angle,
    "haar": _with_rejection(haar),
    "euler45": _with_rejection(euler45),
    "euler45_box": _with_rejection(euler45),
    "euler180_box": _with_rejection(euler180),
}
"""Samplers of rotations whose angle is within bounds in degrees, by name."""


def sample_pose(sampler: str, rng: np.random.Generator, low: float = 0.0, high: float = 180.0) -> Matrix:
    """Draw a true pose (4, 4): a rotation of the named sampler; a translation of uniform direction and length U[0, 0.5].

    A sampler whose name ends in `_box` draws each coordinate of the translation from U[-0.5, 0.5], as DCP does.

    Args:
        sampler: a name of `SAMPLERS`.
        rng: random generator.
        low: lower bound of the rotation's angle in degrees.
        high: upper bound of the rotation's angle in degrees.

    Raises:
        InputError: the sampler does not exist, or cannot reach the bounds.

    >>> from common.keys import rng
    >>> T = sample_pose("haar", rng("doc"), 90, 120)
    >>> T.shape, 90 <= angle_deg(T[:3, :3]) <= 120
    ((4, 4), True)
    """
    if sampler not in SAMPLERS:
        raise unknown("sampler", sampler, SAMPLERS)
    T = np.eye(4)
    T[:3, :3] = SAMPLERS[sampler](rng, low, high)
    if sampler.endswith("_box"):
        T[:3, 3] = rng.uniform(-MAX_TRANSLATION, MAX_TRANSLATION, 3)
    else:
        T[:3, 3] = direction(rng) * rng.uniform(0, MAX_TRANSLATION)
    return T


def move(T: Matrix, points: NDArray[Any]) -> NDArray[np.float64]:
    """Apply a pose (4, 4) to points (N, 3).

    >>> move(quaternion_pose([1, 2, 3, 0, 0, 0, 1]), np.zeros((2, 3)))
    array([[1., 2., 3.],
           [1., 2., 3.]])
    """
    rows = _rotated_rows(T[:3, :3], points)
    rows += T[:3, 3:]
    return rows.T.copy()


def rotate(R: Matrix, points: NDArray[Any]) -> NDArray[np.float64]:
    """Apply a rotation (3, 3) to points (N, 3): the sum of x, y and z times its columns, in this order.

    >>> rotate(quaternion_rotation(np.array([1.0, 0.0, 0.0, 1.0])), np.array([[1.0, 0.0, 0.0]])).round(9)
    array([[0., 1., 0.]])
    """
    return _rotated_rows(R, points).T.copy()


def _rotated_rows(R: Matrix, points: NDArray[Any]) -> Matrix:
    """Return the rotated points as an array (3, N), whose long rows take less time."""
    x, y, z = np.ascontiguousarray(points.T)
    rows: Matrix = R[:, :1] * x
    rows += R[:, 1:2] * y
    rows += R[:, 2:] * z
    return rows


def inverse(T: Matrix) -> Matrix:
    """Invert a rigid pose (4, 4).

    >>> inverse(quaternion_pose([1, 2, 3, 0, 0, 0, 1]))[:3, 3]
    array([-1., -2., -3.])
    """
    inverted = np.eye(4)
    inverted[:3, :3] = T[:3, :3].T
    inverted[:3, 3] = -portable.product(T[:3, :3].T, T[:3, 3:])[:, 0]
    return inverted
