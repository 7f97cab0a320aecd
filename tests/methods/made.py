"""Clouds and poses that several tests make."""

import numpy as np
from scipy.spatial.transform import Rotation


def lumpy(n: int, seed: int = 0) -> np.ndarray:
    """Points (n, 3) of a closed surface without symmetry."""
    u = np.random.default_rng(seed).normal(size=(n, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    x, y, z = u.T
    radius = 0.6 + 0.15 * np.sin(3 * x + 1) + 0.12 * np.sin(4 * y * z) + 0.1 * x * np.cos(3 * z)
    return u * radius[:, None]


def pose(seed: int, reach: float = 0.5) -> np.ndarray:
    """A random pose (4, 4), its translation within `reach` along each axis."""
    T = np.eye(4)
    T[:3, :3] = Rotation.random(random_state=seed).as_matrix()
    T[:3, 3] = np.random.default_rng(seed).uniform(-reach, reach, 3)
    return T


def moved(T: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Points (n, 3) under a pose, as float32."""
    return (x @ T[:3, :3].T + T[:3, 3]).astype(np.float32)
