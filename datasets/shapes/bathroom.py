"""Bath and kitchen: bathtub, sink, toilet, range hood."""

from __future__ import annotations

import numpy as np

from datasets.shapes.primitives import (
    Array,
    LabelledMesh,
    Mesh,
    Random,
    both_sides,
    box,
    boxes,
    chance,
    columns,
    cushion,
    disc,
    hollow,
    join,
    loft,
    move,
    one_of,
    oval,
    revolve,
    rounded,
    stack,
    tube,
    turn,
)


def basin(outline: Array, rim: float, low: float, base: float, wall: float) -> Mesh:
    """Build a hollow trough over an outline (n, 2): scale `base` at z = low, 1 at z = rim, with a lip, and wall as a share."""
    side = rounded(
        [
            (base, low),
            (1 - 0.2 * (1 - base), low + 0.1 * (rim - low)),
            (1, rim - 0.03),
            (1 + wall, rim - 0.03),
            (1 + wall, rim),
        ]
    )
    return loft(stack(outline, hollow(side, 2 * wall)), caps=False)


def tap(height: float, reach: float, thick: float = 0.018) -> Mesh:
    """Build a swan-neck tap that rises from the origin and reaches to -y, with a lever on each side."""
    neck = rounded([(0, 0, 0), (0, 0, height), (0, -reach, height), (0, -reach, 0.65 * height)])
    levers = both_sides(
        join(disc(0.02, 0, 0.06, 12), box((-0.01, 0.07), (-0.01, 0.01), (0.06, 0.075))) + np.array([0.1, 0, 0])
    )
    return join(tube(neck, thick), levers)


def bathtub(rng: Random) -> LabelledMesh:
    """Build a tub with rounded corners or oval, bare, on four feet, or boxed in; a tap at one end breaks its symmetry."""
    x, y, rim = rng.uniform(0.7, 0.95), rng.uniform(0.33, 0.42), rng.uniform(0.4, 0.6)
    foot = rng.uniform(0.08, 0.14)
    tub = move(
        basin(oval(x, y, one_of(rng, 0.25, 0.5, 1.0), n=32), rim, 0, rng.uniform(0.65, 0.85), rng.uniform(0.03, 0.07)),
        z=foot,
    )
    parts = [tub]
    style = rng.integers(3)
    if style == 0:
        paw = tube([(0.45 * x, 0.4 * y, foot + 0.05), (0.6 * x, 0.7 * y, 0.6 * foot), (0.58 * x, 0.68 * y, 0)], 0.04)
        parts.append(both_sides(both_sides(paw), 1))
    elif style == 1:
        parts.append(box((-1.0 * x, 1.0 * x), (-y, y), (0, foot + 0.02)))
    if chance(rng, 0.4):
        return join(*parts), "C2"
    spout = turn(tap(rng.uniform(0.15, 0.3), 0.18), "z", -np.pi / 2)
    return join(*parts, move(spout, x=1.02 * x, z=foot + rim)), "C1"


def sink(rng: Random) -> LabelledMesh:
    """Build a basin with a tap: in a counter top, on a column, or on the wall; one bowl or two."""
    x, y, deep = rng.uniform(0.24, 0.36), rng.uniform(0.18, 0.25), rng.uniform(0.12, 0.2)
    bowl = basin(oval(x, y, one_of(rng, 0.3, 0.6, 1.0), n=28), 0, -deep, rng.uniform(0.5, 0.85), 0.05)
    faucet = move(tap(rng.uniform(0.15, 0.35), rng.uniform(0.12, 0.18)), y=1.2 * y)
    style = rng.integers(3)
    if style == 0:
        column = loft(stack(oval(0.1, 0.09, n=24), rounded([(1.5, -0.85), (1, -0.75), (0.8, -0.4), (1.4, -deep)])))
        shelf = cushion((-0.9 * x, 0.9 * x), (0.8 * y, 1.5 * y), (-0.1, 0))
        return join(bowl, column, shelf, faucet), "C1"
    if style == 1:
        wide, depth = 1.5 * x, rng.uniform(1.4, 1.6) * y
        low = -rng.uniform(0.5, 0.8)
        sides = both_sides(box((0.92 * wide, 0.95 * wide), (-0.95 * depth, 0.95 * depth), (low, -0.04)))
        cabinet = join(
            sides, both_sides(box((-0.95 * wide, 0.95 * wide), (0.91 * depth, 0.95 * depth), (low, -0.04)), 1)
        )
        return join(bowl, cabinet, _counter(wide, depth, x, y), faucet), "C1"
    return join(*_worktop(rng, bowl, x, y), faucet), "C1"


def _worktop(rng: Random, bowl: Mesh, x: float, y: float) -> list[Mesh]:
    """Build one bowl or two with half axes x and y, let into a flat board."""
    twin, wide = chance(rng, 0.5), rng.uniform(1.3, 2.0) * x
    edge = 2.1 * x if twin else 0.97 * x
    wide += 1.15 * x if twin else 0
    bowls = (
        [move(bowl, x=-1.15 * x), move(bowl, x=1.15 * x), box((-0.2 * x, 0.2 * x), (-y, y), (-0.04, 0))]
        if twin
        else [bowl]
    )
    board = both_sides(box((-wide, wide), (0.97 * y, 1.5 * y), (-0.04, 0)), 1)
    return [*bowls, board, both_sides(box((edge, wide), (-0.97 * y, 0.97 * y), (-0.04, 0)))]


def _counter(wide: float, depth: float, x: float, y: float) -> Mesh:
    """Build a top with a hole for a bowl with half axes x and y: four boards around it."""
    sides = both_sides(box((0.95 * x, wide), (-depth, depth), (-0.04, 0)))
    return join(sides, both_sides(box((-0.95 * x, 0.95 * x), (0.95 * y, depth), (-0.04, 0)), 1))


def toilet(rng: Random) -> LabelledMesh:
    """Build a bowl on a foot with a seat, a lid up or down, and a tank behind."""
    x, y, rim = rng.uniform(0.17, 0.21), rng.uniform(0.23, 0.29), rng.uniform(0.36, 0.44)
    egg = oval(x, y, 0.9, n=32)
    side = rounded([(0.62, 0), (0.5, 0.1), (0.55, 0.5 * rim), (1, 0.75 * rim), (1, rim)])
    bowl = loft(stack(egg, hollow(side, 0.2)), caps=False)
    seat = loft(
        stack(egg, [(0.72, rim + 0.01), (1.06, rim + 0.01), (1.06, rim + 0.035), (0.72, rim + 0.035)]), caps=False
    )
    lid = loft(stack(egg * 1.04, [(1, 0), (1, 0.025)]))
    if chance(rng, 0.5):
        lid = move(turn(move(lid, y=-y), "x", -rng.uniform(1.45, 1.75)), y=0.95 * y, z=rim + 0.04)
    else:
        lid = move(lid, z=rim + 0.04)
    wide, deep, top = rng.uniform(0.18, 0.24), rng.uniform(0.15, 0.2), rim + rng.uniform(0.32, 0.42)
    tank = [
        cushion((-wide, wide), (y + 0.01, y + deep), (rim - 0.02, top)),
        box((-wide - 0.015, wide + 0.015), (y, y + deep + 0.01), (top, top + 0.035)),
    ]
    stem = box((-0.5 * x, 0.5 * x), (0.5 * y, y + 0.9 * deep), (0, rim - 0.02))
    button = move(disc(0.025, 0, 0.02, 12), y=y + deep / 2, z=top + 0.035)
    return join(bowl, seat, lid, *tank, stem, button), "C1"


def range_hood(rng: Random) -> LabelledMesh:
    """Build a chimney over a hood: on a wall, free above an island, or a round one."""
    x, y, high = rng.uniform(0.35, 0.5), rng.uniform(0.22, 0.32), rng.uniform(0.15, 0.35)
    lip, pipe, top = rng.uniform(0.04, 0.08), rng.uniform(0.09, 0.15), high + rng.uniform(0.4, 0.7)
    style = rng.integers(5)
    if style == 0:
        side = [(x, 0), (x, lip), (pipe, high), (pipe, top), (0, top)]
        return join(revolve(side), revolve([(0, 0.02), (x, 0.02)])), "Cinf"
    if style == 1:
        square, long = chance(rng, 0.5), rng.uniform(0.6, 0.8)
        outline = oval(1, 1 if square else long, 0.0, n=16)
        side = [(0, 0.02), (x, 0.02), (x, 0), (x, lip), (pipe, high), (pipe, top), (0, top)]
        return loft(stack(outline, side), caps=False), "C4" if square else "C2"
    return join(_wall_hood(rng, x, y, high, lip), box((-pipe, pipe), (y - 1.6 * pipe, y), (high - 0.02, top))), "C1"


def _wall_hood(rng: Random, x: float, y: float, high: float, lip: float) -> Mesh:
    """Build a hood with a flush back at y: a pyramid, a curved canopy, or a slanted box, with a strip of buttons."""
    square = oval(1, 1, 0.0, n=16)
    levels = np.array([(1, 0), (1, lip), (0.3, high)])
    if chance(rng, 0.5):
        levels = rounded([(1, 0), (1, lip), (0.4, lip + 0.02), (0.3, high)], 2)
    sections = stack(square, levels) * np.array([x, y, 1])
    sections[..., 1] += y * (1 - levels[:, :1])
    at = np.linspace(-0.1, 0.1, 4)
    buttons = boxes(columns(at - 0.012, -y - 0.012, lip / 2 - 0.01), columns(at + 0.012, -y, lip / 2 + 0.01))
    return join(loft(sections), buttons)
