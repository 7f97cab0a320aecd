"""Furniture and clutter at real sizes in metres: shapes of shapes40, and pieces that rooms have and shapes40 has not."""

from __future__ import annotations

import numpy as np

from common import portable
from datasets.shapes.primitives import Mesh, Random, Span, boxes, chance, join, move, revolve, sheet, stretch, turn
from datasets.shapes40 import GENERATORS

SIZES: dict[str, Span] = {
    "bathtub": (1.5, 1.8), "bed": (1.9, 2.2), "bench": (1.1, 1.6), "bookshelf": (1.2, 2.1), "chair": (0.8, 1.15),
    "curtain": (1.6, 2.3), "desk": (1.2, 1.7), "door": (1.9, 2.1), "dresser": (0.9, 1.4), "glass_box": (0.5, 1.0),
    "guitar": (0.9, 1.1), "lamp": (1.2, 1.8), "mantel": (1.2, 1.7), "night_stand": (0.45, 0.7), "person": (1.5, 1.85),
    "piano": (1.3, 1.6), "plant": (0.5, 1.6), "range_hood": (0.6, 0.9), "sink": (0.5, 0.9), "sofa": (1.5, 2.3),
    "stairs": (1.2, 2.2), "stool": (0.45, 0.8), "table": (0.9, 1.9), "toilet": (0.7, 0.85), "tv_stand": (1.0, 1.8),
    "wardrobe": (1.7, 2.2), "bottle": (0.2, 0.35), "bowl": (0.15, 0.35), "cup": (0.1, 0.18), "flower_pot": (0.2, 0.5),
    "keyboard": (0.35, 0.5), "laptop": (0.35, 0.5), "monitor": (0.45, 0.75), "radio": (0.2, 0.45), "vase": (0.2, 0.5),
    "xbox": (0.25, 0.4), "cone": (0.3, 0.7), "tent": (0.8, 1.4),
}  # fmt: skip
"""Range of the longest side of a category's bounding box."""
_GRID = 0.01
"""Edge of the grid to which vertices are rounded: finer detail is below the sensor's noise and costs triangles."""


def shape(rng: Random, category: str) -> Mesh:
    """Build a shape of shapes40 at a real size, standing at the origin, front to -y."""
    triangles, _ = GENERATORS[category](rng)
    low, high = triangles.min(axis=(0, 1)), triangles.max(axis=(0, 1))
    scale = rng.uniform(*SIZES[category]) / (high - low).max()
    standing = (triangles - [(low[0] + high[0]) / 2, (low[1] + high[1]) / 2, low[2]]) * scale
    return coarse(standing)


def coarse(mesh: Mesh) -> Mesh:
    """Round vertices to the grid and drop the triangles that become lines or points."""
    rounded = np.round(mesh / _GRID) * _GRID + 0.0
    a, b, c = rounded[:, 0], rounded[:, 1], rounded[:, 2]
    return np.asarray(rounded[portable.norm(np.cross(b - a, c - a)) > 1e-9])


def extent(mesh: Mesh) -> tuple[float, float, float]:
    """Return the sides of the bounding box."""
    x, y, z = mesh.max(axis=(0, 1)) - mesh.min(axis=(0, 1))
    return float(x), float(y), float(z)


def filled_shelf(rng: Random) -> Mesh:
    """Build an open shelf with books and boxes on its boards, standing at the origin, front to -y."""
    width, deep, tall = rng.uniform(np.array([0.6, 0.22, 0.8]), np.array([1.4, 0.4, 2.1]))
    levels = np.linspace(0.03, tall - 0.02, int(rng.integers(3, 7)))
    low = [(-width / 2, -deep / 2, z - 0.02) for z in levels]
    high = [(width / 2, deep / 2, z) for z in levels]
    low += [(-width / 2, -deep / 2, 0), (width / 2 - 0.02, -deep / 2, 0), (-width / 2, deep / 2 - 0.01, 0)]
    high += [(-width / 2 + 0.02, deep / 2, tall), (width / 2, deep / 2, tall), (width / 2, deep / 2, tall)]
    gap = levels[1] - levels[0] - 0.03
    for z in levels[:-1]:
        x = -width / 2 + 0.03
        while x < width / 2 - 0.1:
            thick, height, inset = rng.uniform(
                np.array([0.02, 0.5 * gap, 0.0]), np.array([0.16, 0.95 * gap, 0.4 * deep])
            )
            if chance(rng, 0.75):
                low.append((x, -deep / 2 + inset, z))
                high.append((min(x + thick, width / 2 - 0.03), deep / 2 - 0.02, z + height))
            x += thick + rng.uniform(0, 0.04)
    return boxes(low, high)


def counter(rng: Random, length: float) -> Mesh:
    """Build a kitchen counter of a length with doors, handles, wall cabinets and a hood, from x = 0, at a wall at y = 0."""
    deep, tall, unit = 0.6, rng.uniform(0.82, 0.95), rng.uniform(0.4, 0.7)
    count = max(1, int(length / unit))
    low = [(0.0, -deep + 0.03, 0.1), (0.0, -deep - 0.02, tall - 0.04)]
    high = [(count * unit, 0.0, tall - 0.04), (count * unit, 0.0, tall)]
    base = rng.uniform(1.35, 1.5)
    for k in range(count):
        x = k * unit
        low += [(x + 0.01, -deep, 0.12), (x + 0.1, -deep - 0.03, tall - 0.12)]
        high += [(x + unit - 0.01, -deep + 0.03, tall - 0.06), (x + unit - 0.1, -deep, tall - 0.1)]
        if chance(rng, 0.7):
            low.append((x + 0.005, -rng.uniform(0.3, 0.38), base))
            high.append((x + unit - 0.005, 0.0, base + 0.7))
    parts = [boxes(low, high)]
    if chance(rng, 0.6):
        parts.append(move(shape(rng, "sink"), rng.uniform(0.3, max(0.35, count * unit - 0.3)), -0.3, tall - 0.2))
    return join(*parts)


def heap(rng: Random) -> Mesh:
    """Build a bumpy mound, as of clothes, a bag or a cushion, standing at the origin."""
    rows, columns = 9, 16
    bumps = rng.uniform(-1, 1, (rows, columns))
    smooth = bumps
    for axis in (0, 1):
        smooth = (np.roll(smooth, 1, axis) + 2 * smooth + np.roll(smooth, -1, axis)) / 4
    profile = portable.sin_cos(np.linspace(0, np.pi / 2, rows))
    angle = portable.sin_cos(2 * np.pi * np.arange(columns) / columns)
    radius = 1 + 0.5 * smooth
    x = radius * profile[0][:, None] * angle[1]
    y = radius * profile[0][:, None] * angle[0]
    z = radius * profile[1][:, None]
    grid = np.stack([x, y, np.maximum(z, 0.0)], axis=2)
    closed = np.concatenate([grid, grid[:, :1]], axis=1)
    wide, deep, tall = rng.uniform(np.array([0.1, 0.1, 0.08]), np.array([0.4, 0.35, 0.35]))
    return stretch(sheet(closed), wide, deep, tall)


def carton(rng: Random) -> Mesh:
    """Build a closed box or a bin, standing at the origin."""
    x, y, z = rng.uniform(0.08, 0.55, 3)
    if chance(rng, 0.25):
        radius = rng.uniform(0.1, 0.2)
        return coarse(
            revolve([(0, 0), (0.8 * radius, 0), (radius, 2.2 * radius), (0.95 * radius, 2.2 * radius), (0, 0.05)], 16)
        )
    return turn(boxes([(-x / 2, -y / 2, 0)], [(x / 2, y / 2, z)]), "z", rng.uniform(0, np.pi))


def flight(rng: Random) -> Mesh:
    """Build a straight flight of stairs that rises towards +y, against a wall at y = 0."""
    steps, rise, going, width = int(rng.integers(4, 11)), 0.17, 0.27, rng.uniform(0.8, 1.2)
    k = np.arange(steps)
    zero = np.zeros(steps)
    low = np.stack([zero, (k - steps) * going, zero], axis=1)
    high = np.stack([zero + width, (k - steps + 1) * going, (k + 1) * rise], axis=1)
    return boxes(low, high)
