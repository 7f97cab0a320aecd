"""Estimate the viewpoint of a scan from its normals, so that they can be oriented without knowing the sensor's position.

A sensor sees few surfaces at a grazing angle. The estimate is the candidate from which the surfaces are seen least obliquely; it
moves with the cloud, unlike the origin of its frame.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]

RADII = (0.25, 0.5, 0.8, 1.1, 1.5, 2.0, 3.0)
"""Distances of the candidates from the centroid, relative to the cloud's extent."""
DIRECTIONS = 80
"""Candidates at each distance."""
GRAZING = 0.3
"""Cosine between ray and normal above which a surface counts as fully visible."""
MOST_POINTS = 600
"""Maximum number of points that rate the candidates."""


def viewpoint(points: Points, normals: Points) -> Points:
    """Estimate the viewpoint (3,) of points (N, 3) with unit normals (N, 3) of any sign."""
    rows = np.linspace(0, len(points) - 1, min(len(points), MOST_POINTS)).astype(np.intp)
    centre = points.mean(axis=0)
    near, axes = points[rows] - centre, normals[rows]
    extent = np.sqrt(np.mean(np.einsum("ij,ij->i", near, near)))
    candidates = np.concatenate([np.zeros((1, 3)), *(r * extent * directions(DIRECTIONS) for r in RADII)])
    # the cosine of a ray from candidate c to point p is (c - p) . n / |c - p|
    heights = candidates @ axes.T - np.einsum("ij,ij->i", near, axes)
    squares = (candidates**2).sum(axis=1)[:, None] + (near**2).sum(axis=1) - 2 * candidates @ near.T
    cosines = np.abs(heights) / np.sqrt(squares.clip(1e-12 * extent**2))
    visible = np.minimum(cosines, GRAZING).mean(axis=1)
    return np.asarray(centre + candidates[visible.argmax()])


def directions(count: int) -> Points:
    """Return unit vectors (count, 3), evenly distributed on the sphere (Fibonacci)."""
    height = 1 - (2 * np.arange(count) + 1) / count
    angle = np.pi * (1 + 5**0.5) * (np.arange(count) + 0.5)
    radius = np.sqrt(1 - height**2)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=1)
