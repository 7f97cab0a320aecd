"""Walls with doors and windows, and what is fixed to them. Walls are built along x at y = 0, with the room at y < 0."""

from __future__ import annotations

import numpy as np

from datasets.shapes.primitives import Array, Mesh, Random, Span, boxes, chance, join, move, sheet, turn

TILE = 0.8
"""Maximum edge of the rectangles of large surfaces, in metres: the camera's candidate pixels stay few."""
_TURNS = (0.0, -np.pi / 2, np.pi, np.pi / 2)
"""Rotation about z of the walls in the north, east, south and west."""


def panel(origin: Array | Span | tuple[float, ...], first: tuple[float, ...], second: tuple[float, ...]) -> Mesh:
    """Build a rectangle from a corner along two edges, in tiles of at most `TILE`; empty if an edge is 0."""
    edges = np.array([first, second], dtype=np.float64)
    lengths = np.sqrt((edges * edges)[:, 0] + (edges * edges)[:, 1] + (edges * edges)[:, 2])
    if lengths.min() < 1e-9:
        return np.zeros((0, 3, 3))
    steps = [np.linspace(0, 1, int(np.ceil(length / TILE)) + 1) for length in lengths]
    return sheet(np.asarray(origin) + steps[0][:, None, None] * edges[0] + steps[1][None, :, None] * edges[1])


def to_side(mesh: Mesh, side: int, width: float, length: float) -> Mesh:
    """Move a mesh from the frame of a wall to a room of `width` along x and `length` along y; sides are N, E, S, W."""
    corner = ((0.0, length), (width, length), (width, 0.0), (0.0, 0.0))[side]
    return move(turn(mesh, "z", _TURNS[side]), *corner)


def wall(rng: Random, length: float, height: float, door: bool, windows: int) -> tuple[Mesh, list[Span]]:
    """Build a wall of a length and height with its openings.

    Returns:
        The mesh, and the intervals along x where no furniture may be placed, which are the doors.
    """
    openings: list[tuple[Span, Span, bool]] = []
    for is_door in [True] * door + [False] * windows:
        width = rng.uniform(0.8, 1.1) if is_door else rng.uniform(0.7, 1.8)
        start = rng.uniform(0.2, max(0.25, length - width - 0.2))
        if start + width > length - 0.1 or any(
            start < b + 0.2 and start + width > a - 0.2 for (a, b), _, _ in openings
        ):
            continue
        low = 0.0 if is_door else rng.uniform(0.7, 1.1)
        high = min(height - 0.1, 2.05 if is_door else low + rng.uniform(0.9, 1.5))
        openings.append(((start, start + width), (low, high), is_door))
    openings.sort()
    parts, at = [], 0.0
    for x, z, is_door in openings:
        parts += [_strip((at, x[0]), (0.0, height)), _strip(x, (0.0, z[0])), _strip(x, (z[1], height))]
        parts.append(_door(rng, x, z) if is_door else _window(rng, x, z))
        at = x[1]
    parts.append(_strip((at, length), (0.0, height)))
    return join(*parts), [x for x, _, is_door in openings if is_door]


def _strip(x: Span, z: Span) -> Mesh:
    return panel((x[0], 0.0, z[0]), (x[1] - x[0], 0, 0), (0, 0, z[1] - z[0]))


def _reveal(x: Span, z: Span, depth: float) -> Mesh:
    """Build the four inner faces of an opening of a wall that is `depth` thick."""
    width, height = x[1] - x[0], z[1] - z[0]
    sides = [panel((at, 0.0, z[0]), (0, depth, 0), (0, 0, height)) for at in x]
    return join(*sides, *(panel((x[0], 0.0, at), (width, 0, 0), (0, depth, 0)) for at in z))


def _door(rng: Random, x: Span, z: Span) -> Mesh:
    """Build a door: closed, open at an angle, or missing, in its frame."""
    depth, width = rng.uniform(0.05, 0.2), x[1] - x[0]
    frame = boxes(
        [(x[0] - 0.07, -0.02, 0), (x[1], -0.02, 0), (x[0] - 0.07, -0.02, z[1])],
        [(x[0], 0.01, z[1]), (x[1] + 0.07, 0.01, z[1]), (x[1] + 0.07, 0.01, z[1] + 0.07)],
    )
    parts = [_reveal(x, z, depth), frame]
    if chance(rng, 0.85):
        leaf = boxes([(0, 0, 0.01), (0.06, -0.06, 1.0)], [(width, 0.04, z[1]), (0.18, 0.0, 1.04)])
        hinge = turn(move(leaf, -width), "z", 0.0 if chance(rng, 0.6) else rng.uniform(0.3, 1.6))
        parts.append(move(hinge, x[1], depth - 0.05))
    return join(*parts)


def _window(rng: Random, x: Span, z: Span) -> Mesh:
    """Build a window: its glass returns nothing, its bars and blinds do; a sill and often a radiator are below."""
    depth, bar, width = rng.uniform(0.05, 0.25), rng.uniform(0.03, 0.07), x[1] - x[0]
    uprights = np.linspace(x[0], x[1] - bar, int(rng.integers(2, 5)))
    low = [(u, depth - 0.05, z[0]) for u in uprights] + [(x[0], depth - 0.05, h) for h in (z[0], z[1] - bar)]
    high = [(u + bar, depth, z[1]) for u in uprights] + [(x[1], depth, h) for h in (z[0] + bar, z[1])]
    parts = [_reveal(x, z, depth), boxes(low, high)]
    sill = rng.uniform(0.05, 0.2)
    parts.append(boxes([(x[0] - 0.05, -sill, z[0] - 0.03)], [(x[1] + 0.05, 0.0, z[0])]))
    if chance(rng, 0.4):
        drop = rng.uniform(0.2, 0.9) * (z[1] - z[0])
        parts.append(panel((x[0], depth - 0.06, z[1] - drop), (width, 0, 0), (0, 0, drop)))
    if chance(rng, 0.6):
        parts.append(radiator(x[0] + 0.1 * width, x[1] - 0.1 * width, rng.uniform(0.1, 0.2), z[0] - 0.15))
    return join(*parts)


def radiator(start: float, end: float, low: float, high: float) -> Mesh:
    """Build a ribbed radiator at a wall."""
    ribs = np.linspace(start, end - 0.05, max(2, int((end - start) / 0.09)))
    zero = np.zeros_like(ribs)
    return boxes(
        np.stack([ribs, zero - 0.13, zero + low], axis=1), np.stack([ribs + 0.05, zero - 0.04, zero + high], axis=1)
    )


def fixtures(rng: Random, length: float, height: float) -> Mesh:
    """Build pictures, boards, pillars, beams and shelf boards at random places of a wall."""
    parts = []
    for _ in range(int(rng.integers(3, 10))):
        width, tall, deep = rng.uniform(np.array([0.2, 0.2, 0.01]), np.array([1.2, 0.9, 0.06]))
        kind = rng.random()
        if kind < 0.15:  # pillar
            width, tall, deep, z = rng.uniform(0.2, 0.5), height, rng.uniform(0.1, 0.4), 0.0
        elif kind < 0.25:  # beam or duct below the ceiling
            width, tall, deep, z = rng.uniform(1, 3), rng.uniform(0.15, 0.4), rng.uniform(0.1, 0.5), None
        elif kind < 0.45:  # shelf board
            tall, deep, z = 0.03, rng.uniform(0.15, 0.35), rng.uniform(1.0, 2.0)
        else:
            z = rng.uniform(1.0, 1.7)
        base = height - tall if z is None else min(z, height - tall)
        x = rng.uniform(0, max(0.1, length - width))
        parts.append(boxes([(x, -deep, base)], [(min(x + width, length), 0.0, base + tall)]))
    return join(*parts)
