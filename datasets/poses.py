"""Rigid poses: samplers of the true transformation, and how points move. Pure functions of a generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import portable
from common.errors import InputError, unknown

Matrix = NDArray[np.float64]
MAX_TRANSLATION = 0.5


def axis_rotation(axis: NDArray[Any], angle_deg: float) -> Matrix:
    """Rotation (3, 3) about a unit axis (3,) by an angle in degrees (Rodrigues)."""
    x, y, z = axis
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    sine, cosine = portable.sin_cos(angle_deg * portable.RADIANS)
    rotation: Matrix = np.eye(3) + sine * K + (1 - cosine) * portable.product(K, K)
    return rotation


def direction(rng: np.random.Generator) -> NDArray[np.float64]:
    """A uniform unit vector (3,)."""
    v = rng.standard_normal(3)
    unit: NDArray[np.float64] = v / portable.norm(v)
    return unit


def haar(rng: np.random.Generator) -> Matrix:
    """A rotation (3, 3) uniform on SO(3), from a uniform unit quaternion."""
    return quaternion_rotation(rng.standard_normal(4))


def quaternion_rotation(q: NDArray[np.float64]) -> Matrix:
    """The rotation (3, 3) of a quaternion (4,), the real part first, of any length but 0."""
    w, x, y, z = q / portable.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def quaternion_pose(numbers: Sequence[float]) -> Matrix:
    """The pose (4, 4) of the seven numbers tx ty tz qx qy qz qw, as files of trajectories have them.

    Raises:
        ValueError: they are not seven, or the quaternion is 0.
    """
    tx, ty, tz, qx, qy, qz, qw = numbers
    if not any((qx, qy, qz, qw)):
        raise ValueError("the quaternion is 0")
    T = np.eye(4)
    T[:3, :3] = quaternion_rotation(np.array([qw, qx, qy, qz]))
    T[:3, 3] = tx, ty, tz
    return T


def euler45(rng: np.random.Generator) -> Matrix:
    """Rotation Rx Ry Rz with each angle U[0°, 45°], the order in which DCP and PRNet compose it (mean angle 44.7°;
    the opposite order has 40.6°).
    """
    ax, ay, az = rng.uniform(0, 45, 3)
    ex, ey, ez = np.eye(3)
    return portable.product(portable.product(axis_rotation(ex, ax), axis_rotation(ey, ay)), axis_rotation(ez, az))


def angle_deg(rotation: NDArray[Any]) -> float:
    """Geodesic angle of a rotation (3, 3) in degrees, accurate near 0° and 180°."""
    skew = rotation - rotation.T
    sine = portable.norm(np.array([skew[2, 1], skew[0, 2], skew[1, 0]]))
    trace = rotation[0, 0] + rotation[1, 1] + rotation[2, 2]
    return portable.arctan2(float(sine), float(trace - 1)) / portable.RADIANS


def _axis_angle(rng: np.random.Generator, low: float, high: float) -> Matrix:
    return axis_rotation(direction(rng), rng.uniform(low, high))


def _rejected(draw: Callable[[np.random.Generator], Matrix]) -> Callable[[np.random.Generator, float, float], Matrix]:
    def sample(rng: np.random.Generator, low: float, high: float) -> Matrix:
        for _ in range(20_000):
            rotation = draw(rng)
            if low <= angle_deg(rotation) <= high:
                return rotation
        raise InputError(f"--angles {low:g} to {high:g}: this --sampler (almost) never draws such an angle")

    return sample


SAMPLERS: dict[str, Callable[[np.random.Generator, float, float], Matrix]] = {
    "axis_angle": _axis_angle,
    "haar": _rejected(haar),
    "euler45": _rejected(euler45),
}


def sample_pose(sampler: str, rng: np.random.Generator, low: float = 0.0, high: float = 180.0) -> Matrix:
    """A true pose (4, 4): rotation by the named sampler, its angle within [low, high] degrees; translation of uniform
    direction and length U[0, 0.5].
    """
    if sampler not in SAMPLERS:
        raise unknown("sampler", sampler, SAMPLERS)
    T = np.eye(4)
    T[:3, :3] = SAMPLERS[sampler](rng, low, high)
    T[:3, 3] = direction(rng) * rng.uniform(0, MAX_TRANSLATION)
    return T


def move(T: Matrix, points: NDArray[Any]) -> NDArray[np.float64]:
    """Points (N, 3) mapped by a pose (4, 4)."""
    return rotate(T[:3, :3], points) + T[:3, 3]


def rotate(R: Matrix, points: NDArray[Any]) -> NDArray[np.float64]:
    """Points (N, 3) turned by a rotation (3, 3): x times its first column, plus y times its second, plus z times its third."""
    x, y, z = np.ascontiguousarray(points.T)
    return np.stack([row[0] * x + row[1] * y + row[2] * z for row in R], axis=1)


def inverse(T: Matrix) -> Matrix:
    """The inverse (4, 4) of a rigid pose (4, 4)."""
    found = np.eye(4)
    found[:3, :3] = T[:3, :3].T
    found[:3, 3] = -portable.product(T[:3, :3].T, T[:3, 3:])[:, 0]
    return found
