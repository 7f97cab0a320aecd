"""Rotation-invariant features by their definition."""

from __future__ import annotations

import math

import numpy as np


def by_definition(cloud: np.ndarray, k: int) -> np.ndarray:
    """Compute RRI features (n, 4k) of a cloud point by point, with the angle from every neighbour to every other."""
    x = cloud - cloud.mean(0)
    rows = []
    for i, p in enumerate(x):
        near = sorted((j for j in range(len(x)) if j != i), key=lambda j: np.linalg.norm(x[j] - p))[:k]
        normal = p / np.linalg.norm(p)
        flat = np.array([x[j] - (x[j] @ normal) * normal for j in near])
        turn = np.arctan2(np.cross(flat[:, None], flat) @ normal, flat @ flat.T) % (2 * math.pi)
        np.fill_diagonal(turn, np.inf)  # a neighbour is not the next one of itself
        angle = [math.acos(np.clip(normal @ x[j] / np.linalg.norm(x[j]), -1, 1)) for j in near]
        rows.append([np.linalg.norm(p)] * k + [np.linalg.norm(x[j]) for j in near] + angle + [*turn.min(axis=1)])
    return np.array(rows)
