"""A cloud and a true pose for the tests of a pair."""

import numpy as np
from scipy.spatial.transform import Rotation

from common.keys import rng

T = np.eye(4)
T[:3, :3] = Rotation.from_rotvec((0.4, -0.9, 0.3)).as_matrix()
T[:3, 3] = (3.0, -1.0, 2.0)


def blob(n=900, key=0):
    cloud = rng("pair", key).normal(size=(n, 3)) * (1.0, 0.5, 0.2)
    return cloud + 0.3 * cloud**2


def shell(n=900, key=0):
    """Return points (n, 3) of an asymmetric closed surface: unlike those of a blob, they have normals."""
    u = rng("shell", key).normal(size=(n, 3))
    u /= np.linalg.norm(u, axis=1)[:, None]
    radius = 1 + 0.4 * u[:, :1] ** 3 + 0.3 * u[:, 1:2] + 0.3 * u[:, 2:] * u[:, 1:2]
    return radius * u * (1.0, 0.7, 0.4)
