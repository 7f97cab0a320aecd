"""Errors of estimated poses: pure functions over batches.

Shapes: poses (..., 4, 4), points (..., n, 3), leading axes broadcast; results (...,). Lengths are in the unit of the points,
angles in degrees. T is the estimate and T_true the ground truth, both from source into target; points are of the source.

The mean square of T p - T_true p over fixed points needs only their mean and a square root of their scatter (`Moments`). One
error therefore costs a few 3 x 3 products for any number of points, and has no cancellation: exact poses give exactly 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.moments import Moments, moments
from common.rigid import inverse
from datasets import symmetry as groups

Array = NDArray[np.float64]

MEAN_DISTANCE_POINTS = 100
"""Number of leading points that `mean_distance` uses, as the released code of Yuan et al. 2020."""

COLUMNS = (
    "rmse",
    "rre_deg",
    "rte",
    "rmse_paper",
    "mean_distance",
    "rmse_coordinate",
    "mae_euler_deg",
    "rmse_symmetric",
)
"""Errors that `evaluate` computes, in the order of the columns of `trials.csv`."""


def rmse(T: Array, T_true: Array, points: NDArray[Any]) -> Array:
    """Compute the root mean square distance sqrt(mean ‖T p - T_true p‖²) of Choi, Zhou and Koltun 2015.

    >>> T = np.eye(4)
    >>> T[0, 3] = 0.3
    >>> float(rmse(T, np.eye(4), np.zeros((5, 3))))
    0.3
    """
    return rmse_of_moments(T, T_true, moments(points))


def rmse_of_moments(T: Array, T_true: Array, cloud: Moments) -> Array:
    """Compute `rmse` from the moments of the points.

    >>> T = np.diag([-1.0, -1.0, 1.0, 1.0])  # half a turn about z
    >>> points = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    >>> float(rmse_of_moments(T, np.eye(4), moments(points)))
    2.0
    """
    D = np.asarray(T, dtype=np.float64)[..., :3, :] - np.asarray(T_true, dtype=np.float64)[..., :3, :]
    spread = D[..., :3] @ cloud.root
    shift = (D[..., :3] @ cloud.mean[..., None])[..., 0] + D[..., 3]
    return np.asarray(np.sqrt((spread**2).sum(axis=(-1, -2)) + (shift**2).sum(axis=-1)))


def rmse_paper(T: Array, T_true: Array, points: NDArray[Any]) -> Array:
    """Compute (1/n) sqrt(Σ ‖T p - T_true p‖²), Eq. 20 of Yuan et al. 2020 as printed; it shrinks as 1/√n.

    >>> T = np.eye(4)
    >>> T[0, 3] = 0.3
    >>> round(float(rmse_paper(T, np.eye(4), np.zeros((9, 3)))), 6)
    0.1
    """
    return rmse(T, T_true, points) / np.sqrt(points.shape[-2])


def rmse_coordinate(T: Array, T_true: Array, points: NDArray[Any]) -> Array:
    """Compute the root mean square over points and axes, as in Wang and Solomon 2019: rmse / √3.

    >>> T = np.eye(4)
    >>> T[:3, 3] = 0.3
    >>> round(float(rmse_coordinate(T, np.eye(4), np.zeros((5, 3)))), 6)
    0.3
    """
    return rmse(T, T_true, points) / np.sqrt(3)


def mean_distance(T: Array, T_true: Array, points: NDArray[Any]) -> Array:
    """Compute mean ‖T p - T_true p‖ over the first 100 points, which the released code of Yuan et al. 2020 prints as RMSE.

    >>> T = np.diag([-1.0, -1.0, 1.0, 1.0])  # half a turn about z moves a point by twice its distance from the axis
    >>> float(mean_distance(T, np.eye(4), np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])))
    3.0
    """
    D = np.asarray(T, dtype=np.float64)[..., :3, :] - np.asarray(T_true, dtype=np.float64)[..., :3, :]
    first = np.asarray(points, dtype=np.float64)[..., :MEAN_DISTANCE_POINTS, :]
    moved = first @ np.swapaxes(D[..., :3], -1, -2) + D[..., None, :, 3]
    return np.asarray(np.sqrt((moved**2).sum(axis=-1)).mean(axis=-1))


def rre_deg(T: Array, T_true: Array) -> Array:
    """Compute the angle of R_trueᵀ R in degrees from its sine and cosine, accurate near 0 and 180 unlike arccos.

    >>> float(rre_deg(np.diag([-1.0, -1.0, 1.0, 1.0]), np.eye(4)))
    180.0
    """
    R = np.swapaxes(np.asarray(T_true)[..., :3, :3], -1, -2) @ np.asarray(T)[..., :3, :3]
    skew = np.stack([R[..., 2, 1] - R[..., 1, 2], R[..., 0, 2] - R[..., 2, 0], R[..., 1, 0] - R[..., 0, 1]], axis=-1)
    cosine = np.trace(R, axis1=-2, axis2=-1) - 1
    return np.asarray(np.degrees(np.arctan2(np.sqrt((skew**2).sum(axis=-1)), cosine)))


def rte(T: Array, T_true: Array) -> Array:
    """Compute the translation error ‖t - t_true‖.

    >>> T = np.eye(4)
    >>> T[:3, 3] = [3, 4, 0]
    >>> float(rte(T, np.eye(4)))
    5.0
    """
    return np.asarray(np.sqrt(((np.asarray(T)[..., :3, 3] - np.asarray(T_true)[..., :3, 3]) ** 2).sum(axis=-1)))


def euler_zyx_deg(T: Array) -> Array:
    """Compute the angles (..., 3) in degrees about fixed z, then y, then x (SciPy's `as_euler("zyx")`): R = Rx Ry Rz.

    >>> euler_zyx_deg(np.array([[0.0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])).tolist()  # 90° about z
    [90.0, 0.0, -0.0]
    """
    R = np.asarray(T)[..., :3, :3]
    z = np.arctan2(-R[..., 0, 1], R[..., 0, 0])
    y = np.arctan2(R[..., 0, 2], np.hypot(R[..., 0, 0], R[..., 0, 1]))
    x = np.arctan2(-R[..., 1, 2], R[..., 2, 2])
    return np.degrees(np.stack([z, y, x], axis=-1))


def mae_euler_deg(T: Array, T_true: Array) -> Array:
    """Compute the mean absolute difference of the zyx Euler angles in degrees, modulo 360, as in Wang and Solomon 2019.

    It depends on the order of the axes and is discontinuous near gimbal lock: use it for comparison with those papers only.
    Their angles stay below 45°, where the modulus has no effect.

    >>> T = np.array([[0.0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])  # 90° about z
    >>> float(mae_euler_deg(T, np.eye(4)))
    30.0
    """
    difference = np.abs(euler_zyx_deg(T) - euler_zyx_deg(T_true))
    return np.asarray(np.minimum(difference, 360 - difference).mean(axis=-1))


def rmse_symmetric(T: Array, T_true: Array, source_pose: Array, points: NDArray[Any], symmetry: str) -> Array:
    """Compute the smallest `rmse` to any equivalent true pose T_true A g A⁻¹, where g maps the object onto itself.

    Args:
        T: estimates (..., 4, 4).
        T_true: ground truth (..., 4, 4).
        source_pose: A (..., 4, 4), the pose of the source relative to the object's frame.
        points: points of the source (..., n, 3).
        symmetry: name of the object's symmetry group, see `datasets.symmetry`; for a continuous axis the best angle has a
            closed form.

    >>> half_turn = np.diag([-1.0, -1.0, 1.0, 1.0])
    >>> points = np.array([[1.0, 2.0, 0.0], [-1.0, 0.0, 1.0]])
    >>> float(rmse_symmetric(half_turn, np.eye(4), np.eye(4), points, "C2"))
    0.0
    """
    return rmse_symmetric_of_moments(T, T_true, source_pose, moments(points), symmetry)


def rmse_symmetric_of_moments(T: Array, T_true: Array, source_pose: Array, cloud: Moments, symmetry: str) -> Array:
    """Compute `rmse_symmetric` from the moments of the points.

    In the object's frame, q = A⁻¹ p, the estimate is Y = (T_true A)⁻¹ T A, and the equivalent true poses are the g alone.

    >>> half_turn = np.diag([-1.0, -1.0, 1.0, 1.0])
    >>> points = np.array([[1.0, 2.0, 0.0], [-1.0, 0.0, 1.0]])
    >>> float(rmse_symmetric_of_moments(half_turn, np.eye(4), np.eye(4), moments(points), "C2"))
    0.0
    """
    axis, matrices = groups.rotations(symmetry)
    A = np.asarray(source_pose, dtype=np.float64)
    Y = inverse(np.asarray(T_true, dtype=np.float64) @ A) @ T @ A
    to_object = np.swapaxes(A[..., :3, :3], -1, -2)
    mean = (to_object @ (cloud.mean - A[..., :3, 3])[..., None])[..., 0]
    in_object = Moments(mean, to_object @ cloud.root)
    best = np.full(np.broadcast_shapes(Y.shape[:-2], mean.shape[:-1]), np.inf)
    for matrix in matrices:
        g = np.zeros((*best.shape, 4, 4))
        g[..., :3, :3] = matrix if axis is None else _best_turn(Y, in_object, axis, matrix) @ matrix
        best = np.minimum(best, rmse_of_moments(Y, g, in_object))
    return best


def _best_turn(Y: Array, cloud: Moments, axis: Array, matrix: Array) -> Array:
    """Return the rotation (..., 3, 3) about `axis` that brings matrix @ q closest to Y q in the mean square.

    It maximises mean (Y q)·(turn w) with w = matrix @ q, which is constant + P cos θ + S sin θ.
    """
    second = cloud.root @ np.swapaxes(cloud.root, -1, -2) + cloud.mean[..., :, None] * cloud.mean[..., None, :]
    M = (Y[..., :3, :3] @ second + Y[..., :3, 3][..., None] * cloud.mean[..., None, :]) @ matrix.T
    P = np.trace(M, axis1=-2, axis2=-1) - np.einsum("i,...ij,j->...", axis, M, axis)
    skew = np.stack([M[..., 2, 1] - M[..., 1, 2], M[..., 0, 2] - M[..., 2, 0], M[..., 1, 0] - M[..., 0, 1]], axis=-1)
    return groups.turn(axis, np.arctan2(skew @ axis, P))


class Scenes(NamedTuple):
    """Ground truth and evaluation points of P problems, as far as the errors need them.

    Attributes:
        truth: T_true (P, 4, 4).
        source_pose: A (P, 4, 4), see `rmse_symmetric`.
        moments: moments of the evaluation points.
        first: the first 100 evaluation points (P, 100, 3), padded with zeros.
        size: number of evaluation points of each problem (P,).
    """

    truth: Array
    source_pose: Array
    moments: Moments
    first: NDArray[np.float32]
    size: NDArray[np.intp]

    def take(self, which: NDArray[np.intp]) -> Scenes:
        """Return the scenes with indices `which` (B,)."""
        cloud = Moments(self.moments.mean[which], self.moments.root[which])
        return Scenes(self.truth[which], self.source_pose[which], cloud, self.first[which], self.size[which])

    def put(self, start: int, part: Scenes) -> None:
        """Replace the scenes from the index `start` on by those of a part."""
        rows = slice(start, start + len(part.size))
        self.truth[rows], self.source_pose[rows], self.first[rows] = part.truth, part.source_pose, part.first
        self.moments.mean[rows], self.moments.root[rows], self.size[rows] = *part.moments, part.size


def evaluate(T: Array, which: NDArray[np.intp], scenes: Scenes, symmetry: str | None) -> dict[str, Array]:
    """Compute every error of `COLUMNS` for B poses of problems with the same symmetry group; memory stays small for any B.

    Args:
        T: estimated poses (B, 4, 4).
        which: index of each pose's problem (B,), below P.
        scenes: P problems.
        symmetry: symmetry group of the objects; None if unknown, then `rmse_symmetric` is NaN.

    Returns:
        Arrays (B,) by name.

    >>> cloud = np.zeros((1, 100, 3), dtype=np.float32)
    >>> scenes = Scenes(np.eye(4)[None], np.eye(4)[None], moments(cloud), cloud, np.array([100]))
    >>> T = np.eye(4)[None].copy()
    >>> T[0, 0, 3] = 0.5
    >>> errors = evaluate(T, np.array([0]), scenes, None)
    >>> float(errors["rmse"][0]), float(errors["rte"][0]), float(errors["rmse_symmetric"][0])
    (0.5, 0.5, nan)
    """
    errors = [_evaluate(T[chunk], scenes.take(which[chunk]), symmetry) for chunk in chunks(len(T))]
    return {name: np.concatenate([part[name] for part in errors]) for name in COLUMNS}


def chunks(count: int, size: int = 1_000) -> list[slice]:
    """Return slices of `size` that cover `count` poses, at least one; a chunk's intermediate results fit into the cache.

    >>> chunks(1500)
    [slice(0, 1000, None), slice(1000, 2000, None)]
    """
    return [slice(start, start + size) for start in range(0, max(count, 1), size)]


def _evaluate(T: Array, scenes: Scenes, symmetry: str | None) -> dict[str, Array]:
    error = rmse_of_moments(T, scenes.truth, scenes.moments)
    symmetric = (
        np.full(len(T), np.nan)
        if symmetry is None
        else rmse_symmetric_of_moments(T, scenes.truth, scenes.source_pose, scenes.moments, symmetry)
    )
    return {
        "rmse": error,
        "rre_deg": rre_deg(T, scenes.truth),
        "rte": rte(T, scenes.truth),
        "rmse_paper": error / np.sqrt(np.maximum(scenes.size, 1)),
        "mean_distance": _mean_over_first(T, scenes),
        "rmse_coordinate": error / np.sqrt(3),
        "mae_euler_deg": mae_euler_deg(T, scenes.truth),
        "rmse_symmetric": symmetric,
    }


def _mean_over_first(T: Array, scenes: Scenes) -> Array:
    """Compute `mean_distance` over the first points of each scene, at most 100."""
    D = T[:, :3, :] - scenes.truth[:, :3, :]
    parts = [
        _sum_of_distances(D[rows], scenes.first[rows], scenes.size[rows]) for rows in chunks(len(T), _CHUNK_OF_CLOUDS)
    ]
    return np.asarray(np.concatenate(parts) / np.clip(scenes.size, 1, MEAN_DISTANCE_POINTS))


_CHUNK_OF_CLOUDS = 200
"""Number of clouds of 100 points whose distances fit into the cache of a processor: twice as fast as 1 000."""


def _sum_of_distances(D: Array, first: NDArray[np.float32], size: NDArray[np.intp]) -> Array:
    """Return the sums (B,) of |D p| over the first points p (B, 100, 3), of which each cloud has `size`; D is (B, 3, 4)."""
    x, y, z = (first[..., k].astype(np.float64) for k in range(3))
    square = np.zeros(x.shape)
    for a, b, c, t in np.moveaxis(D, (1, 2), (0, 1))[..., None]:  # one coordinate at a time
        gap = a * x
        gap += b * y
        gap += c * z
        gap += t
        square += np.square(gap, out=gap)
    distance = np.sqrt(square)
    if len(size) and size.min() < MEAN_DISTANCE_POINTS:
        distance *= np.arange(MEAN_DISTANCE_POINTS) < size[:, None]
    return np.asarray(distance.sum(axis=-1))


def information_rmse(T: Array, T_true: Array, information: Array) -> Array:
    """Compute √(ξᵀ Λ ξ / Λ₀₀) of Choi, Zhou and Koltun 2015, the error of the 3DMatch benchmark, in the unit of Λ's points.

    Args:
        T: estimates (..., 4, 4).
        T_true: ground truth (..., 4, 4).
        information: Λ (..., 6, 6) of `gt.info`, the sum of GᵀG over the true correspondences, so that Λ₀₀ counts them.

    ξ consists of the translation of T_true⁻¹ T and the vector part of its unit quaternion. For small errors the result is the
    RMSE over the correspondences if Λ is of their source points and G = [I | -2 [p]×]. The files of 3DMatch have the
    target's points and no factor of 2, so that their errors are only near the RMSE; the formula is that of the benchmark.

    >>> T = np.eye(4)
    >>> T[0, 3] = 0.2
    >>> float(information_rmse(T, np.eye(4), 100 * np.eye(6)))
    0.2
    """
    E = inverse(np.asarray(T_true, dtype=np.float64)) @ T
    xi = np.concatenate([E[..., :3, 3], _quaternion_vector(E[..., :3, :3])], axis=-1)
    square = np.einsum("...i,...ij,...j->...", xi, information, xi) / information[..., 0, 0]
    return np.asarray(np.sqrt(np.maximum(square, 0)))


def _quaternion_vector(R: Array) -> Array:
    """Return the vector part (..., 3) of the unit quaternion of R with non-negative real part: sin(θ/2) times the axis."""
    from scipy.spatial.transform import Rotation

    quaternion = Rotation.from_matrix(R.reshape(-1, 3, 3)).as_quat(canonical=True)
    return np.asarray(quaternion[:, :3].reshape(*R.shape[:-2], 3))
