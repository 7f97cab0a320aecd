"""Rotation-invariant features by their definition."""

from __future__ import annotations

import math

import numpy as np


def by_definition(cloud: np.ndarray, k: int) -> np.ndarray:
    """Compute RRI features (n, 4k) of a cloud point by point and neighbour by neighbour."""
    x = cloud - cloud.mean(0)
    rows = []
    for i, p in enumerate(x):
        near = sorted((j for j in range(len(x)) if j != i), key=lambda j: np.linalg.norm(x[j] - p))[:k]
        normal = p / np.linalg.norm(p)
        flat = [x[j] - (x[j] @ normal) * normal for j in near]

        def turn(a: np.ndarray, b: np.ndarray, n: np.ndarray = normal) -> float:
            return math.atan2(float(np.cross(a, b) @ n), float(a @ b)) % (2 * math.pi)

        angle = [math.acos(np.clip(normal @ x[j] / np.linalg.norm(x[j]), -1, 1)) for j in near]
        gap = [min(turn(a, b) for m, b in enumerate(flat) if m != r) for r, a in enumerate(flat)]
        rows.append([np.linalg.norm(p)] * k + [np.linalg.norm(x[j]) for j in near] + angle + gap)
    return np.array(rows)
