"""RANSAC over given matches in NumPy: every triple is drawn, tested and scored, without early termination.

Open3D's RANSAC takes about 0.3 ms per pose that it scores on 1 000 matches, so 10 million iterations would take most
of an hour with good matches. Here poses are scored by one matrix product, and a pose is dropped as soon as the remaining
matches cannot raise its score above the best. The winner is the same as without dropping.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from methods.core.base import NoSolution, Pose, rigid

Points = NDArray[np.float64]
Floats = NDArray[np.float32]
BATCH = 20_000
"""Triples drawn together: small enough for the cache."""
BLOCK = 64
"""Matches scored between two checks of the bound."""


def ransac(
    p: Points, q: Points, iterations: int, distance: float, edge_ratio: float, rng: np.random.Generator
) -> tuple[Pose, int]:
    """Return the pose with the most inliers among those of random triples, refitted to the inliers; of equals, the first.

    Args:
        p: matched source points (K, 3), K >= 3, of about unit size (triples are scored in float32).
        q: their matches in the target (K, 3).
        iterations: number of triples.
        distance: a match is an inlier if ||T p - q|| is less.
        edge_ratio: minimum ratio of each edge of a triple to the matched edge, and vice versa.
        rng: random generator of the triples.

    Returns:
        T (4, 4) and the number of inliers of the winning triple.

    Raises:
        NoSolution: no triple gives a pose with 3 inliers, or these lie on a line.
    """
    order = rng.permutation(len(p))  # so that a block is a fair sample
    p, q = p[order], q[order]
    alike, matches = edges_alike(p, q, edge_ratio), match_features(p, q, distance)
    p32, q32 = p.T.astype(np.float32), q.T.astype(np.float32)
    best, winner = 2, None
    for start in range(0, iterations, BATCH):
        i, j, k = rng.integers(len(p), size=(3, min(BATCH, iterations - start)), dtype=np.int32)
        triples = np.stack([i, j, k])[:, alike[i, j] & alike[j, k] & alike[k, i]]
        R, t = triple_poses(p32[:, triples], q32[:, triples])
        first, inliers = best_pose(pose_features(R, t), matches, best)
        if inliers > best:
            best, winner = inliers, rigid(R[..., first], t[..., first])
    if winner is None:
        raise NoSolution(f"none of {iterations} triples gave a pose with 3 inliers")
    near = np.linalg.norm(p @ winner[:3, :3].T + winner[:3, 3] - q, axis=1) < distance
    return least_squares(p[near], q[near]), best


def edges_alike(p: Points, q: Points, ratio: float) -> NDArray[np.bool_]:
    """Return (K, K) whether the edge between two matches has about the same length in both clouds; False for equal points."""
    from scipy.spatial.distance import cdist

    a, b = (cdist(x, x).astype(np.float32) for x in (p, q))
    shortest, longest = np.minimum(a, b), np.maximum(a, b)
    return (shortest >= ratio * longest) & (shortest > 1e-3 * longest.max())


def triple_poses(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Compute least-squares poses R (3, 3, B), t (3, B) of triangles a to triangles b, (3 coordinates, 3 corners, B) each.

    The best rotation maps plane to plane; within the plane, the angle that maximises the sum of the dot products has a
    closed form. Triangles with almost no area are omitted.
    """
    centre_a, centre_b = a.mean(axis=1), b.mean(axis=1)
    a, b = a - centre_a[:, None], b - centre_b[:, None]
    (axes_a, area_a), (axes_b, area_b) = plane_axes(a), plane_axes(b)
    au, av = (a * axes_a[0][:, None]).sum(axis=0), (a * axes_a[1][:, None]).sum(axis=0)
    bu, bv = (b * axes_b[0][:, None]).sum(axis=0), (b * axes_b[1][:, None]).sum(axis=0)
    cosine, sine = (au * bu + av * bv).sum(axis=0), (au * bv - av * bu).sum(axis=0)
    length = np.hypot(cosine, sine)
    good = (np.minimum(area_a, area_b) > 1e-6) & (length > 0)
    cosine, sine = cosine[good] / length[good], sine[good] / length[good]
    u, v, n = axes_b[..., good]
    turned = np.stack([cosine * u + sine * v, cosine * v - sine * u, n])
    R = (turned[:, :, None] * axes_a[..., good][:, None]).sum(axis=0)
    return R, centre_b[:, good] - (R * centre_a[:, good]).sum(axis=1)


def plane_axes(triangle: Floats) -> tuple[Floats, Floats]:
    """Return orthonormal axes (3, 3 coordinates, B) of triangles (3, 3 corners, B), the normal last, and 2 x areas (B,)."""
    edge = triangle[:, 1] - triangle[:, 0]
    normal = cross(edge, triangle[:, 2] - triangle[:, 0])
    area = np.sqrt((normal**2).sum(axis=0))
    u = edge / np.maximum(np.sqrt((edge**2).sum(axis=0)), 1e-12)
    n = normal / np.maximum(area, 1e-12)
    return np.stack([u, cross(n, u), n]), area


def cross(a: Floats, b: Floats) -> Floats:
    """Compute cross products of (3, B) with (3, B); np.cross is several times slower on this layout."""
    return np.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def match_features(p: Points, q: Points, distance: float) -> Floats:
    """Return (17, K), such that `pose_features(T).T @ match_features` is ||T p - q||^2 - distance^2, negative for inliers."""
    outer = np.einsum("ki,kj->kij", q, p).reshape(-1, 9)
    constant = (p**2).sum(axis=1) + (q**2).sum(axis=1) - distance**2
    return np.hstack([-2 * outer, 2 * p, -2 * q, np.ones((len(p), 1)), constant[:, None]]).T.astype(np.float32)


def pose_features(R: Floats, t: Floats) -> Floats:
    """Return (17, B), the factor of `match_features`."""
    back, squared = (R * t[:, None]).sum(axis=0), (t**2).sum(axis=0, keepdims=True)
    return np.concatenate([R.reshape(9, -1), back, t, squared, np.ones_like(squared)])


def best_pose(poses: Floats, matches: Floats, best: int) -> tuple[int, int]:
    """Return the index of the first pose with the most inliers and their number, if more than `best`; else (0, 0).

    Args:
        poses: (17, B), see `pose_features`.
        matches: (17, K), see `match_features`.
        best: number of inliers to exceed.
    """
    alive, counts = np.arange(poses.shape[1]), np.zeros(poses.shape[1], dtype=np.int64)
    for start in range(0, matches.shape[1], BLOCK):
        block = matches[:, start : start + BLOCK]
        counts = counts + np.count_nonzero(poses[:, alive].T @ block < 0, axis=1)
        hopeful = counts + (matches.shape[1] - start - block.shape[1]) > best
        alive, counts = alive[hopeful], counts[hopeful]
    return (int(alive[counts.argmax()]), int(counts.max())) if len(alive) else (0, 0)


def least_squares(p: Points, q: Points) -> Pose:
    """Compute the least-squares pose (4, 4) of p (K, 3) to q (K, 3) (Kabsch).

    Raises:
        NoSolution: the points lie on a line, which leaves a rotation free.
    """
    p0, q0 = p.mean(axis=0), q.mean(axis=0)
    U, S, Vt = np.linalg.svd((q - q0).T @ (p - p0))
    if S[1] < 1e-9 * S[0]:
        raise NoSolution("the inliers of the best pose lie on a line")
    R = U @ np.diag([1.0, 1.0, np.linalg.det(U @ Vt)]) @ Vt
    return rigid(R, q0 - R @ p0)
