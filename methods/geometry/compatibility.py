"""Spatial compatibility of matches: rigid motions keep distances, so correct matches agree on the distances between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from methods.core.base import NoSolution, Pose, rigid
from methods.geometry.ransac import match_features, pose_features

Points = NDArray[np.float64]
Floats = NDArray[np.float32]

ROWS = 64
"""Rows of a matrix that are computed at once."""
REFINEMENTS = 20
"""Maximum steps of `refined`."""


class Hypotheses(NamedTuple):
    """Poses R (B, 3, 3), t (B, 3)."""

    R: NDArray[np.float64]
    t: NDArray[np.float64]


def length_differences(p: Points, q: Points) -> Floats:
    """Return (K, K) by how much the distance of two matches differs between source points p and target points q (K, 3).

    In float32, as the points are of about unit size, and a few rows at a time, so that steps find them in the cache.
    """
    (p_rows, p_columns), (q_rows, q_columns) = _factors_of_squares(p), _factors_of_squares(q)
    differences = np.empty((len(p), len(p)), dtype=np.float32)
    for start in range(0, len(p), ROWS):
        part = slice(start, start + ROWS)
        out = _roots(p_rows[part] @ p_columns)
        out -= _roots(q_rows[part] @ q_columns)
        np.abs(out, out=differences[part])
    return differences


def _factors_of_squares(points: Points) -> tuple[Floats, Floats]:
    """Return factors (K, 5) and (5, K) of the squared distances of points: |a|^2 + |b|^2 - 2 a b in one product."""
    x = (points - points.mean(axis=0)).astype(np.float32)
    squares, ones = np.einsum("ij,ij->i", x, x)[:, None], np.ones((len(x), 1), dtype=np.float32)
    return np.hstack([-2 * x, squares, ones]), np.ascontiguousarray(np.hstack([x, ones, squares]).T)


def _roots(squares: Floats) -> Floats:
    """Take the roots of squared distances in place; those that rounding made negative are 0."""
    np.maximum(squares, 0, out=squares)
    return np.sqrt(squares, out=squares)


def second_order(connected: NDArray[np.bool_]) -> Floats:
    """Return (K, K), for each two connected matches, the number of matches connected to both; 0 for others and on the diagonal.

    Args:
        connected: (K, K), symmetric; the diagonal is ignored.
    """
    from scipy.linalg.blas import ssyrk

    graph = connected.astype(np.float32, order="F")
    np.fill_diagonal(graph, 0)
    common = ssyrk(1.0, graph)  # the upper half of graph @ graph in half its time
    common *= graph
    return np.asarray(common + common.T)


def strongest(scores: Floats, count: int) -> NDArray[np.intp]:
    """Return the columns (B, count) of the highest scores of each row of (B, K), the highest first."""
    count = min(count, scores.shape[1])
    columns = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    order = np.argsort(-np.take_along_axis(scores, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)


def weighted_poses(p: NDArray[np.float64], q: NDArray[np.float64], w: NDArray[np.float64]) -> Hypotheses:
    """Compute the weighted least-squares poses of B sets of k matches (Kabsch).

    Args:
        p: source points (B, k, 3).
        q: their matches in the target (B, k, 3).
        w: weights (B, k), not all zero in any set.
    """
    w = (w / w.sum(axis=1, keepdims=True))[..., None]
    centre_p, centre_q = (w * p).sum(axis=1), (w * q).sum(axis=1)
    U, _, Vt = np.linalg.svd(np.swapaxes(w * (q - centre_q[:, None]), 1, 2) @ (p - centre_p[:, None]))
    U[..., 2] *= np.linalg.det(U @ Vt)[:, None]
    R = U @ Vt
    return Hypotheses(R, centre_q - np.einsum("bij,bj->bi", R, centre_p))


def best_hypothesis(poses: Hypotheses, p: Points, q: Points, distance: float) -> Pose:
    """Return the pose (4, 4) with the highest score over the matches p, q (K, 3), see `match_scores`; of equals, the first."""
    best = int(match_scores(poses, p, q, distance).argmax())
    return rigid(poses.R[best], poses.t[best])


def match_scores(poses: Hypotheses, p: Points, q: Points, distance: float) -> Floats:
    """Return the scores (B,) of poses over the matches p, q (K, 3).

    The score of a match falls from 1 to 0 as its squared residual grows to the squared distance, so that of two poses with
    equal numbers of inliers the more accurate one has the higher score.
    """
    features = pose_features(
        poses.R.transpose(1, 2, 0).astype(np.float32), np.ascontiguousarray(poses.t.T, dtype=np.float32)
    )
    excess = features.T @ match_features(p, q, distance)
    return np.asarray(-np.minimum(excess, 0, out=excess).sum(axis=1))


def refined(T: Pose, p: Points, q: Points, distance: float) -> tuple[Pose, int]:
    """Refit a pose (4, 4) to its inliers until they do not change; return it with their number.

    Weights fall with the residual (Geman and McClure).

    Raises:
        NoSolution: fewer than 3 matches are inliers.
    """
    before = -1
    for _ in range(REFINEMENTS):
        residuals = np.linalg.norm(p @ T[:3, :3].T + T[:3, 3] - q, axis=1)
        near = residuals < distance
        count = int(near.sum())
        if count < 3:
            raise NoSolution(f"{count} matches agree on the best pose; a pose needs 3")
        if count == before:
            break
        before = count
        weights = 1 / (1 + (residuals[near] / distance) ** 2)
        poses = weighted_poses(p[near][None], q[near][None], weights[None])
        T = rigid(poses.R[0], poses.t[0])
    return T, count


def leading_eigenvectors(matrices: NDArray[np.floating], iterations: int = 10) -> NDArray[np.floating]:
    """Return the leading eigenvectors (..., k) of symmetric matrices (..., k, k) of non-negative numbers, by power iteration."""
    v = np.ones(matrices.shape[:-1], dtype=matrices.dtype)
    for _ in range(iterations):
        v = np.matmul(matrices, v[..., None])[..., 0]
        v /= np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-12)
    return v
