"""Evaluation points of a problem as they are stored: the first of them, and the moments of all.

Every error is a function of these (`bench.evaluation.metrics`), and they take a fifth of the space of the points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.moments import Moments, moments

FIRST = 100
"""Number of leading points that are stored."""


def encode(points: NDArray[np.float32]) -> tuple[bytes, bytes]:
    """Encode points (n, 3) as the first of them, and as their number, mean and root in 13 numbers."""
    return encode_all([points])[0]


def encode_all(clouds: Sequence[NDArray[np.float32]]) -> list[tuple[bytes, bytes]]:
    """Encode the points of many problems, see `encode`; those of equal numbers of points are computed together."""
    numbers = np.zeros((len(clouds), 13))
    numbers[:, 0] = sizes = [len(cloud) for cloud in clouds]
    for size in set(sizes):
        rows = [i for i, n in enumerate(sizes) if n == size]
        mean, root = moments(np.stack([clouds[i] for i in rows]))
        numbers[rows, 1:4] = mean
        padded = np.zeros((len(rows), 3, 3))
        padded[..., : root.shape[-1]] = root
        numbers[rows, 4:] = padded.reshape(-1, 9)
    return [(cloud[:FIRST].tobytes(), row.tobytes()) for cloud, row in zip(clouds, numbers, strict=True)]


def decode(
    first: Sequence[bytes], stored: Sequence[bytes | None]
) -> tuple[Moments, NDArray[np.float32], NDArray[np.intp]]:
    """Decode the points of P problems.

    Args:
        first: leading points; all points where there are no moments, as in databases of earlier versions.
        stored: number and moments, None where they are missing.

    Returns:
        Moments; the first points (P, 100, 3), padded with zeros; and the number of points of each problem (P,).
    """
    clouds: list[NDArray[Any]] = [np.frombuffer(blob, np.float32).reshape(-1, 3) for blob in first]
    missing = np.frombuffer(encode(np.zeros((1, 3), np.float32))[1])
    numbers = np.stack([missing if blob is None else np.frombuffer(blob, np.float64) for blob in stored])
    count, mean, root = numbers[:, 0].astype(np.intp), numbers[:, 1:4].copy(), numbers[:, 4:].reshape(-1, 3, 3).copy()
    old = np.array([blob is None for blob in stored])
    count[old] = [len(clouds[i]) for i in np.flatnonzero(old)]
    for size in np.unique(count[old]):
        rows = np.flatnonzero(old & (count == size))
        part = moments(np.stack([clouds[i] for i in rows]))
        mean[rows], root[rows] = part.mean, 0
        root[rows, :, : part.root.shape[-1]] = part.root
    leading = np.zeros((len(clouds), FIRST, 3), dtype=np.float32)
    for i, cloud in enumerate(clouds):
        leading[i, : len(cloud)] = cloud[:FIRST]
    return Moments(mean, root), leading, count
