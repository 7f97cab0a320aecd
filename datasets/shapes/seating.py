"""Things to sit and lie on: chair, bench, sofa, stool, bed."""

from __future__ import annotations

import numpy as np

from datasets.shapes.kit import (
    Made,
    Mesh,
    Random,
    both_sides,
    box,
    boxes,
    chance,
    columns,
    corner_legs,
    join,
    loft,
    move,
    one_of,
    oval,
    rods,
    stack,
    tube,
    turn,
)


def chair(rng: Random) -> Made:
    """A seat with a back on legs, a sled or a swivel base, with or without arms."""
    x, y, seat = rng.uniform(0.21, 0.3), rng.uniform(0.2, 0.27), rng.uniform(0.38, 0.5)
    thick = rng.uniform(0.03, 0.1)
    outline = oval(x, y, one_of(rng, 0.2, 0.4, 1.0), n=32)
    parts = [loft(stack(outline, [(1, seat - thick), (1, seat)])), _chair_base(rng, x, y, seat - thick)]
    parts.append(move(turn(_chair_back(rng, x), "x", -rng.uniform(0, 0.25)), y=0.9 * y, z=seat))
    if chance(rng, 0.4):
        parts.append(_arms(x, y, seat, rng.uniform(0.16, 0.26), rng.uniform(0.015, 0.035)))
    return join(*parts), "C1"


def _chair_base(rng: Random, x: float, y: float, height: float) -> Mesh:
    """Four legs, two sled frames, or a column with a star of feet."""
    style = rng.integers(4)
    if style == 0:
        frame = np.array(
            [[0.9 * x, -0.9 * y, height], [0.9 * x, -0.9 * y, 0.02], [0.9 * x, y, 0.02], [0.9 * x, y, height]]
        )
        return both_sides(tube(frame[: one_of(rng, 3, 4)], 0.016))
    if style == 1:
        return join(rods([0, 0, 0.1], [0, 0, height], 0.035), star(5, rng.uniform(0.24, 0.32), 0.1))
    legs = corner_legs(rng, 0.85 * x, 0.85 * y, height, rng.uniform(0.03, 0.06))
    if chance(rng, 0.5):
        return legs
    bar = rng.uniform(0.3, 0.6) * height
    return join(legs, both_sides(box((0.83 * x, 0.87 * x), (-0.85 * y, 0.85 * y), (bar - 0.012, bar + 0.012))))


def star(n: int, reach: float, height: float) -> Mesh:
    """n sloping feet around a foot of a column, each ending in a small ball on the floor."""
    angle = 2 * np.pi * np.arange(n) / n
    tips = columns(reach * np.cos(angle), reach * np.sin(angle), 0.05)
    casters = boxes(tips - [0.02, 0.02, 0.05], tips + [0.02, 0.02, 0.01])
    return join(rods([0, 0, height], tips, 0.03, 0.018), casters)


def _chair_back(rng: Random, x: float) -> Mesh:
    """A back that rises from z = 0 in the plane y = 0: a panel, upright slats, or rails across."""
    high, thick = rng.uniform(0.35, 0.65), rng.uniform(0.02, 0.07)
    style = rng.integers(3)
    if style == 0:
        panel = loft(stack(oval(x, high / 2, one_of(rng, 0.2, 0.5, 0.9), n=32), [(1, -thick / 2), (1, thick / 2)]))
        return move(turn(panel, "x", np.pi / 2), z=high / 2 + rng.uniform(0, 0.1))
    posts = both_sides(box((0.88 * x, x), (-0.02, 0.02), (-0.03, high)))
    if style == 1:
        at = np.linspace(-0.75 * x, 0.75 * x, int(rng.integers(3, 8)))
        slats = boxes(columns(at - 0.012, -0.01, 0), columns(at + 0.012, 0.01, high))
        return join(posts, slats, box((-x, x), (-0.025, 0.025), (high - 0.06, high)))
    at = np.linspace(high - 0.08, rng.uniform(0.1, 0.2), int(rng.integers(2, 5)))
    return join(posts, boxes(columns(-x, -0.012, at), columns(x, 0.012, at + rng.uniform(0.04, 0.08))))


def _arms(x: float, y: float, seat: float, rise: float, thick: float) -> Mesh:
    """Arm rests at both sides of a seat with half axes x and y, each with a post in front."""
    rest = box((x - thick, x + thick), (-0.8 * y, 0.95 * y), (seat + rise, seat + rise + thick))
    post = box((x - 0.6 * thick, x + 0.6 * thick), (-0.7 * y, -0.7 * y + 1.5 * thick), (seat - 0.02, seat + rise))
    return both_sides(join(rest, post))
