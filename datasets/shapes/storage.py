"""Tables and storage: table, desk, bookshelf, dresser, night stand, wardrobe, tv stand, glass box."""

from __future__ import annotations

import numpy as np

from datasets.shapes.kit import (
    Array,
    Made,
    Mesh,
    Random,
    around,
    both_sides,
    box,
    boxes,
    chance,
    columns,
    corner_legs,
    disc,
    join,
    one_of,
    oval,
    prism,
    revolve,
    rods,
    rounded,
)
from datasets.shapes.seating import star


def table(rng: Random) -> Made:
    """A top, long, square, round or oval, on corner legs, a pedestal, three legs or two trestles."""
    long = rng.uniform(0.4, 1.0)
    return one_of(rng, _long_table, _long_table, _square_table, _round_table)(rng, long, rng.uniform(0.4, 0.8))


def _top(outline: Array, height: float, thick: float) -> Mesh:
    return prism(outline, height - thick, height)


def _long_table(rng: Random, long: float, height: float) -> Made:
    """Twice as symmetric as a chair: half a turn about z."""
    wide, thick = long * rng.uniform(0.4, 0.75), rng.uniform(0.02, 0.06)
    top = _top(oval(long, wide, one_of(rng, 0.0, 0.3, 1.0)), height, thick)
    inset, under = rng.uniform(0.6, 0.9), height - thick
    if chance(rng, 0.3):
        post = box((inset * long - 0.04, inset * long + 0.04), (-0.06, 0.06), (0.05, under))
        foot = box((inset * long - 0.05, inset * long + 0.05), (-0.8 * wide, 0.8 * wide), (0, 0.05))
        return join(top, both_sides(join(post, foot))), "C2"
    legs = corner_legs(rng, inset * long, inset * wide, under, rng.uniform(0.04, 0.1))
    return join(top, legs, *_braces(rng, inset * long, inset * wide, under)), "C2"


def _braces(rng: Random, x: float, y: float, under: float) -> list[Mesh]:
    """Perhaps an apron under the top and a shelf near the floor, between legs at (+-x, +-y)."""
    parts: list[Mesh] = []
    if chance(rng, 0.5):
        low = under - rng.uniform(0.05, 0.12)
        parts.append(boxes([[-x, -y, low], [-x, y - 0.02, low], [-x, -y, low], [x - 0.02, -y, low]],
                           [[x, 0.02 - y, under], [x, y, under], [0.02 - x, y, under], [x, y, under]]))  # fmt: skip
    if chance(rng, 0.25):
        z = rng.uniform(0.15, 0.4) * under
        parts.append(box((-x, x), (-y, y), (z, z + 0.025)))
    return parts


def _square_table(rng: Random, long: float, height: float) -> Made:
    """A quarter turn maps it onto itself."""
    half, thick = 0.7 * long, rng.uniform(0.02, 0.06)
    top = _top(oval(half, half, one_of(rng, 0.0, 0.3)), height, thick)
    if chance(rng, 0.3):
        column = box((-0.06, 0.06), (-0.06, 0.06), (0.03, height - thick))
        return join(top, column, box((-0.6 * half, 0.6 * half), (-0.6 * half, 0.6 * half), (0, 0.03))), "C4"
    inset = rng.uniform(0.6, 0.9) * half
    legs = corner_legs(rng, inset, inset, height - thick, rng.uniform(0.04, 0.1))
    return join(top, legs, *_braces(rng, inset, inset, height - thick)), "C4"


def _round_table(rng: Random, long: float, height: float) -> Made:
    """A pedestal keeps the round top's symmetry; legs leave a turn by one leg."""
    radius, thick = 0.75 * long, rng.uniform(0.02, 0.06)
    top = disc(radius, height - thick, height)
    column = rng.uniform(0.03, 0.08)
    if chance(rng, 0.4):
        foot = rounded([(0, 0), (0.6 * radius, 0), (0.6 * radius, 0.03), (column, 0.06), (column, height - thick)])
        return join(top, revolve(foot)), "Cinf"
    feet = int(rng.integers(3, 6))
    if chance(rng, 0.5):
        leg = rods([0.9 * radius, 0, 0], [0.6 * radius, 0, height - thick], 0.02, 0.03, n=12)
        return join(top, around(leg, feet)), f"C{feet}"
    post = revolve([(column, 0.1), (column, height - thick)])
    return join(top, post, around(star(1, 0.7 * radius, 0.15), feet)), f"C{feet}"


def bookshelf(rng: Random) -> Made:
    """Boards across an upright case in one or more columns, open or with a back, empty or with books."""
    x, y, z = rng.uniform(0.3, 0.7), rng.uniform(0.12, 0.2), rng.uniform(0.7, 1.1)
    rows, across, thick = int(rng.integers(3, 7)), int(rng.integers(1, 4)), rng.uniform(0.02, 0.04)
    levels = np.linspace(-z, z - thick, rows + 1)
    sides = np.linspace(-x, x - thick, across + 1)
    case = [
        boxes(columns(-x, -y, levels), columns(x, y, levels + thick)),
        boxes(columns(sides, -y, -z), columns(sides + thick, y, z)),
    ]
    closed, plinth = chance(rng, 0.6), chance(rng, 0.4)
    if closed:
        case.append(box((-x, x), (y, y + 0.015), (-z, z)))
    if plinth:
        case.append(box((-0.98 * x, 0.98 * x), (-0.9 * y, 0.9 * y), (-z - rng.uniform(0.08, 0.14), -z)))
    if chance(rng, 0.6):
        case.append(_books(rng, x - 2 * thick, y, levels + thick, (2 * z / rows) - thick))
        return join(*case), "C1"
    return join(*case), {(0, 0): "D2", (1, 0): "C2y", (0, 1): "C2", (1, 1): "C1"}[int(closed), int(plinth)]


def _books(rng: Random, x: float, y: float, floors: Array, room: float) -> Mesh:
    """Rows of upright books of random thickness, height and depth; each row fills a random stretch of its board."""
    n = int(rng.integers(4, 10))
    floor = np.repeat(floors[:-1], n)
    thick = rng.uniform(0.02, 0.06, (len(floors) - 1, n))
    left = rng.uniform(-x, x - thick.sum(axis=1).clip(max=2 * x))[:, None] + np.cumsum(thick, axis=1) - thick
    right = np.minimum(left + thick, x)
    left = np.minimum(left, right - 0.01)
    tall = rng.uniform(0.55, 0.95, floor.shape) * room
    deep = rng.uniform(-0.9, -0.2, floor.shape) * y
    return boxes(columns(left.ravel(), deep, floor), columns(right.ravel(), y, floor + tall))
