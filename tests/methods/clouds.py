"""Clouds, poses and pairs that several tests use."""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial.transform import Rotation

from methods.base import Method, rigid


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


def blob(n: int, seed: int = 0) -> np.ndarray:
    """An asymmetric cloud (n, 3) of about unit size."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, 3)) * [0.5, 0.3, 0.2]
    return (x + 0.2 * np.abs(x[:, [1, 2, 0]])).astype(np.float32)


def turned_pair(
    degrees: float, seed: int = 1, n: int = 600, scale: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Source, shuffled target, and the true pose of source in the target's frame."""
    rng = np.random.default_rng(seed)
    axis = rng.normal(size=3)
    R = Rotation.from_rotvec(np.deg2rad(degrees) * axis / np.linalg.norm(axis)).as_matrix()
    T = rigid(R, scale * np.array([0.2, -0.1, 0.15]))
    source = scale * lumpy(n)
    target = rng.permutation(source @ R.T + T[:3, 3])
    return source.astype(np.float32), target.astype(np.float32), T


def solve(method: Method, *clouds: np.ndarray, seed: int = 5) -> np.ndarray:
    method.begin(seed)
    return method.register(*clouds)


def tensor_pair(n: int = 40, m: int = 40, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Random clouds (2, n, 3) and (2, m, 3)."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(2, n, 3, generator=draw) * 0.4, torch.randn(2, m, 3, generator=draw) * 0.4
