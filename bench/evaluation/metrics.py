"""Errors of estimated poses: pure functions over batches.

Shapes: poses (..., 4, 4), points (..., n, 3), leading axes broadcast; results (...,). Lengths are in the unit of the points,
angles in degrees. T is the estimate and T_true the truth, both from source into target; points are of the source.

The mean square of T p - T_true p over fixed points needs only their mean and a square root of their scatter (`Moments`), so
one error costs a few 3 x 3 products whatever the number of points, and nothing cancels: exact poses give exactly 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from datasets import symmetry as groups

Array = NDArray[np.float64]

RIGID_TOLERANCE = 1e-4
"""How far RᵀR may be from the identity, entry by entry, before an answer counts as no rigid motion."""

MEAN_DISTANCE_POINTS = 100
"""`mean_distance` looks at the first 100 points, as the released code of Yuan et al. 2020 does."""

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
"""What `evaluate` computes, in the order of the columns of `trials.csv`."""


class Moments(NamedTuple):
    """Mean (..., 3) and root (..., 3, k) of point sets: root @ rootᵀ is the scatter about the mean, divided by n."""

    mean: Array
    root: Array


def moments(points: NDArray[Any]) -> Moments:
    """Moments of points (..., n, 3); the root comes from a QR factorisation, so flat and collinear sets are fine."""
    points = np.asarray(points, dtype=np.float64)
    mean = np.einsum("...ni->...i", points) / points.shape[-2]  # four times as fast as `mean` where rows are short
    upper = np.linalg.qr((points - mean[..., None, :]) / np.sqrt(points.shape[-2]), mode="r")
    return Moments(mean, np.swapaxes(upper, -1, -2))


def is_rigid(T: NDArray[Any], tol: float = RIGID_TOLERANCE) -> NDArray[np.bool_]:
    """Whether each matrix (..., 4, 4) is finite, has the last row 0 0 0 1, and a rotation (no reflection) within tol."""
    T = np.asarray(T, dtype=np.float64)
    finite = np.isfinite(T).all(axis=(-1, -2))
    safe = np.where(finite[..., None, None], T, np.eye(4))
    bounded = np.abs(safe[..., :3, :3]).max(axis=(-1, -2)) < 2
    R = np.where(bounded[..., None, None], safe[..., :3, :3], 0.0)
    orthogonal = np.abs(np.swapaxes(R, -1, -2) @ R - np.eye(3)).max(axis=(-1, -2)) <= tol
    affine = np.abs(safe[..., 3, :] - [0, 0, 0, 1]).max(axis=-1) <= tol
    return np.asarray(finite & orthogonal & affine & (np.linalg.det(R) > 0))


def rmse(T: Array, T_true: Array, points: NDArray[Any]) -> Array:
    """sqrt(mean ‖T p - T_true p‖²), the error of Choi, Zhou and Koltun 2015; recall is the share below a threshold."""
    return rmse_of_moments(T, T_true, moments(points))


def rmse_of_moments(T: Array, T_true: Array, of: Moments) -> Array:
    """`rmse` from the moments of the points."""
    D = np.asarray(T, dtype=np.float64)[..., :3, :] - np.asarray(T_true, dtype=np.float64)[..., :3, :]
    spread = D[..., :3] @ of.root
    shift = (D[..., :3] @ of.mean[..., None])[..., 0] + D[..., 3]
    return np.asarray(np.sqrt((spread**2).sum(axis=(-1, -2)) + (shift**2).sum(axis=-1)))


def rmse_paper(T: Array, T_true: Array, points: NDArray[Any]) -> Array:
    """(1/n) sqrt(Σ ‖T p - T_true p‖²), Eq. 20 of Yuan et al. 2020 as printed. It shrinks as 1/√n."""
    return rmse(T, T_true, points) / np.sqrt(points.shape[-2])


def rmse_coordinate(T: Array, T_true: Array, points: NDArray[Any]) -> Array:
    """sqrt(mean over points and axes of the squared difference), as Wang and Solomon 2019 count: rmse / √3."""
    return rmse(T, T_true, points) / np.sqrt(3)


def mean_distance(T: Array, T_true: Array, points: NDArray[Any]) -> Array:
    """mean ‖T p - T_true p‖ over the first 100 points: what the released code of Yuan et al. 2020 prints as RMSE."""
    D = np.asarray(T, dtype=np.float64)[..., :3, :] - np.asarray(T_true, dtype=np.float64)[..., :3, :]
    first = np.asarray(points, dtype=np.float64)[..., :MEAN_DISTANCE_POINTS, :]
    moved = first @ np.swapaxes(D[..., :3], -1, -2) + D[..., None, :, 3]
    return np.asarray(np.sqrt((moved**2).sum(axis=-1)).mean(axis=-1))


def rre_deg(T: Array, T_true: Array) -> Array:
    """Angle in degrees of R_trueᵀ R, from its sine and cosine: accurate near 0 and near 180, unlike arccos."""
    R = np.swapaxes(np.asarray(T_true)[..., :3, :3], -1, -2) @ np.asarray(T)[..., :3, :3]
    skew = np.stack([R[..., 2, 1] - R[..., 1, 2], R[..., 0, 2] - R[..., 2, 0], R[..., 1, 0] - R[..., 0, 1]], axis=-1)
    cosine = np.trace(R, axis1=-2, axis2=-1) - 1
    return np.asarray(np.degrees(np.arctan2(np.sqrt((skew**2).sum(axis=-1)), cosine)))


def rte(T: Array, T_true: Array) -> Array:
    """‖t - t_true‖."""
    return np.asarray(np.sqrt(((np.asarray(T)[..., :3, 3] - np.asarray(T_true)[..., :3, 3]) ** 2).sum(axis=-1)))


def euler_zyx_deg(T: Array) -> Array:
    """Angles (..., 3) in degrees about fixed z, then y, then x (SciPy's `as_euler("zyx")`): R = Rx Ry Rz."""
    R = np.asarray(T)[..., :3, :3]
    z = np.arctan2(-R[..., 0, 1], R[..., 0, 0])
    y = np.arctan2(R[..., 0, 2], np.hypot(R[..., 0, 0], R[..., 0, 1]))
    x = np.arctan2(-R[..., 1, 2], R[..., 2, 2])
    return np.degrees(np.stack([z, y, x], axis=-1))


def mae_euler_deg(T: Array, T_true: Array) -> Array:
    """Mean absolute difference of the zyx Euler angles in degrees, as in Wang and Solomon 2019, the short way round.

    It depends on the order of the axes and jumps near gimbal lock: kept for comparison with those papers only. Their
    angles stay below 45°, where taking the short way round changes nothing.
    """
    difference = np.abs(euler_zyx_deg(T) - euler_zyx_deg(T_true))
    return np.asarray(np.minimum(difference, 360 - difference).mean(axis=-1))


def rmse_symmetric(T: Array, T_true: Array, source_pose: Array, points: NDArray[Any], symmetry: str) -> Array:
    """The least `rmse` against any truth T_true A g A⁻¹, g a rotation that maps the object onto itself.

    Args:
        T: estimates (..., 4, 4).
        T_true: truths (..., 4, 4).
        source_pose: A (..., 4, 4), the source's pose from the object's own frame.
        points: points of the source (..., n, 3).
        symmetry: name of the object's group, see `datasets.symmetry`. About a continuous axis the best angle has a closed form.
    """
    return rmse_symmetric_of_moments(T, T_true, source_pose, moments(points), symmetry)


def rmse_symmetric_of_moments(T: Array, T_true: Array, source_pose: Array, of: Moments, symmetry: str) -> Array:
    """`rmse_symmetric` from the moments of the points.

    All is seen from the object's frame, q = A⁻¹ p: the estimate is Y = (T_true A)⁻¹ T A, and a truth is g alone.
    """
    axis, matrices = groups.rotations(symmetry)
    A = np.asarray(source_pose, dtype=np.float64)
    Y = _inverse(np.asarray(T_true, dtype=np.float64) @ A) @ T @ A
    back = np.swapaxes(A[..., :3, :3], -1, -2)
    mean = (back @ (of.mean - A[..., :3, 3])[..., None])[..., 0]
    seen = Moments(mean, back @ of.root)
    best = np.full(np.broadcast_shapes(Y.shape[:-2], mean.shape[:-1]), np.inf)
    for matrix in matrices:
        g = np.zeros((*best.shape, 4, 4))
        g[..., :3, :3] = matrix if axis is None else _best_turn(Y, seen, axis, matrix) @ matrix
        best = np.minimum(best, rmse_of_moments(Y, g, seen))
    return best


def _best_turn(Y: Array, of: Moments, axis: Array, matrix: Array) -> Array:
    """The turn (..., 3, 3) about axis that brings matrix @ q nearest to Y q in the mean square.

    It maximises mean (Y q)·(turn w), w = matrix @ q, which is constant + P cos θ + S sin θ.
    """
    second = of.root @ np.swapaxes(of.root, -1, -2) + of.mean[..., :, None] * of.mean[..., None, :]
    M = (Y[..., :3, :3] @ second + Y[..., :3, 3][..., None] * of.mean[..., None, :]) @ matrix.T
    P = np.trace(M, axis1=-2, axis2=-1) - np.einsum("i,...ij,j->...", axis, M, axis)
    skew = np.stack([M[..., 2, 1] - M[..., 1, 2], M[..., 0, 2] - M[..., 2, 0], M[..., 1, 0] - M[..., 0, 1]], axis=-1)
    return groups.turn(axis, np.arctan2(skew @ axis, P))


def _inverse(T: Array) -> Array:
    """Inverse of rigid matrices (..., 4, 4)."""
    inverse = np.zeros_like(T)
    back = np.swapaxes(T[..., :3, :3], -1, -2)
    inverse[..., :3, :3] = back
    inverse[..., :3, 3] = -(back @ T[..., :3, 3, None])[..., 0]
    inverse[..., 3, 3] = 1
    return inverse


class Scenes(NamedTuple):
    """P problems as their errors see them.

    Attributes:
        truth: T_true (P, 4, 4).
        source_pose: A (P, 4, 4), see `rmse_symmetric`.
        of: moments of the evaluation points.
        first: the first 100 evaluation points (P, 100, 3), zeros where there are fewer.
        size: how many evaluation points each has (P,).
    """

    truth: Array
    source_pose: Array
    of: Moments
    first: NDArray[np.float32]
    size: NDArray[np.intp]

    def take(self, which: NDArray[np.intp]) -> Scenes:
        """The scenes with those rows (B,)."""
        of = Moments(self.of.mean[which], self.of.root[which])
        return Scenes(self.truth[which], self.source_pose[which], of, self.first[which], self.size[which])


def evaluate(T: Array, which: NDArray[np.intp], scenes: Scenes, symmetry: str | None) -> dict[str, Array]:
    """Every column of `COLUMNS` for B answers to problems of one symmetry.

    Args:
        T: answers (B, 4, 4).
        which: the problem of each answer (B,), indices below P.
        scenes: P problems.
        symmetry: group of the objects; None where it is not known, and then `rmse_symmetric` is NaN.

    Returns:
        Arrays (B,). Memory stays small for any B.
    """
    found = [_evaluate(T[part], scenes.take(which[part]), symmetry) for part in pieces(len(T))]
    return {name: np.concatenate([piece[name] for piece in found]) for name in COLUMNS}


def pieces(count: int) -> list[slice]:
    """Slices of 1 000 that cover so many poses, one at least: what is computed of so few stays in the processor's cache."""
    return [slice(start, start + 1_000) for start in range(0, max(count, 1), 1_000)]


def _evaluate(T: Array, of: Scenes, symmetry: str | None) -> dict[str, Array]:
    error = rmse_of_moments(T, of.truth, of.of)
    symmetric = (
        np.full(len(T), np.nan)
        if symmetry is None
        else rmse_symmetric_of_moments(T, of.truth, of.source_pose, of.of, symmetry)
    )
    return {
        "rmse": error,
        "rre_deg": rre_deg(T, of.truth),
        "rte": rte(T, of.truth),
        "rmse_paper": error / np.sqrt(np.maximum(of.size, 1)),
        "mean_distance": _mean_over_first(T, of),
        "rmse_coordinate": error / np.sqrt(3),
        "mae_euler_deg": mae_euler_deg(T, of.truth),
        "rmse_symmetric": symmetric,
    }


def _mean_over_first(T: Array, of: Scenes) -> Array:
    """`mean_distance` over the first points of each scene, as many as it has up to 100."""
    D = T[:, :3, :] - of.truth[:, :3, :]
    x, y, z = (of.first[..., k].astype(np.float64) for k in range(3))
    square = np.zeros(x.shape)
    for a, b, c, t in np.moveaxis(D, (1, 2), (0, 1))[..., None]:  # one coordinate of the gap at a time: small and fast
        gap = a * x
        gap += b * y
        gap += c * z
        gap += t
        square += np.square(gap, out=gap)
    far = np.sqrt(square)
    if len(T) and of.size.min() < MEAN_DISTANCE_POINTS:
        far *= np.arange(MEAN_DISTANCE_POINTS) < of.size[:, None]
    return np.asarray(far.sum(axis=-1) / np.clip(of.size, 1, MEAN_DISTANCE_POINTS))


def information_rmse(T: Array, T_true: Array, information: Array) -> Array:
    """√(ξᵀ Λ ξ / Λ₀₀) of Choi, Zhou and Koltun 2015, the error of the 3DMatch benchmark, in the unit of Λ's points.

    Args:
        T: estimates (..., 4, 4).
        T_true: truths (..., 4, 4).
        information: Λ (..., 6, 6) of `gt.info`, the sum of GᵀG over the true correspondences, so that Λ₀₀ counts them.

    ξ of T_true⁻¹ T is its translation and the vector part of its unit quaternion (half the turn): the order and scale that Λ
    is written in. For small errors it is the RMSE over the correspondences.
    """
    E = _inverse(np.asarray(T_true, dtype=np.float64)) @ T
    xi = np.concatenate([E[..., :3, 3], _quaternion_vector(E[..., :3, :3])], axis=-1)
    square = np.einsum("...i,...ij,...j->...", xi, information, xi) / information[..., 0, 0]
    return np.asarray(np.sqrt(np.maximum(square, 0)))


def _quaternion_vector(R: Array) -> Array:
    """Vector part (..., 3) of the unit quaternion of R with a real part that is not negative: sin(θ/2) times the axis."""
    from scipy.spatial.transform import Rotation

    quaternion = Rotation.from_matrix(R.reshape(-1, 3, 3)).as_quat(canonical=True)
    return np.asarray(quaternion[:, :3].reshape(*R.shape[:-2], 3))
