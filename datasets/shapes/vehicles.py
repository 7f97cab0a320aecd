"""Vehicles: airplane, car."""

from __future__ import annotations

import numpy as np

from datasets.shapes.primitives import (
    Array,
    LabelledMesh,
    Mesh,
    Random,
    both_sides,
    box,
    chance,
    disc,
    join,
    loft,
    move,
    one_of,
    oval,
    revolve,
    rods,
    rounded,
    stretch,
    turn,
)


def airplane(rng: Random) -> LabelledMesh:
    """Build an airliner, a jet fighter, or a propeller plane; the nose points to -y."""
    return one_of(rng, _airliner, _airliner, _fighter, _propeller_plane)(rng), "C1"


def _fuselage(profile: Array) -> Mesh:
    """Build a body of revolution about y from rows (radius, y)."""
    return turn(revolve(profile, 20), "x", -np.pi / 2)


def wing(root: tuple[float, float], tip: tuple[float, float], span: float, rise: float, thick: float) -> Mesh:
    """Build a pair of wings. `root` and `tip` are (front, back) along y; `span` is half the width, thickness at the root."""
    section = oval(1.0, 1.0, n=12)
    ends = np.zeros((2, 12, 3))
    for row, ((front, back), x, z, t) in enumerate([(root, 0.0, 0.0, thick), (tip, span, rise, 0.4 * thick)]):
        ends[row, :, 0] = x
        ends[row, :, 1] = (front + back) / 2 + (back - front) / 2 * section[:, 0]
        ends[row, :, 2] = z + t / 2 * section[:, 1]
    return both_sides(loft(ends))


def fin(root: tuple[float, float], tip: tuple[float, float], height: float, thick: float) -> Mesh:
    """Build an upright tail fin from z = 0."""
    rows = [(root, 0.0), (tip, height)]
    corners = [[[s * thick / 2, y, z] for s, y in ((-1, a), (1, a), (1, b), (-1, b))] for (a, b), z in rows]
    return loft(np.array(corners))


def _tail(rng: Random, end: float, radius: float, scale: float) -> Mesh:
    """Build a fin and a horizontal tail at the fuselage's end; the tail sits low or on top of the fin."""
    high = rng.uniform(0.16, 0.26) * scale
    upright = move(fin((end - 0.24 * scale, end), (end - 0.06 * scale, end + 0.05 * scale), high, 0.02), z=0.5 * radius)
    flat = wing((end - 0.2 * scale, end), (end - 0.06 * scale, end + 0.03 * scale), 0.32 * scale, 0.02, 0.02)
    return join(upright, move(flat, z=0.5 * radius + (high if chance(rng, 0.3) else 0)))


def _airliner(rng: Random) -> Mesh:
    r, half = rng.uniform(0.07, 0.11), rng.uniform(0.8, 1.05)
    body = rounded([(0, -half), (0.7 * r, -half), (r, -0.8 * half), (r, 0.4 * half), (0.3 * r, 0.95 * half), (0, half)])
    span, sweep, chord = rng.uniform(0.75, 1.0), rng.uniform(0.2, 0.5), rng.uniform(0.25, 0.35)
    front = rng.uniform(-0.35, -0.15)
    wings = wing(
        (front, front + chord), (front + sweep, front + sweep + 0.3 * chord), span, rng.uniform(0.02, 0.12), 0.05
    )
    parts = [_fuselage(body), move(wings, z=-0.4 * r), _tail(rng, half, r, rng.uniform(0.9, 1.2))]
    pod = move(
        _fuselage(np.array([(0.0, -0.06), (0.045, -0.1), (0.05, 0.0), (0.03, 0.1), (0.0, 0.1)])), z=-0.4 * r - 0.05
    )
    for at in one_of(rng, (0.35,), (0.3, 0.58)):
        parts.append(both_sides(move(pod, x=at * span, y=front + at * sweep)))
    return join(*parts)


def _fighter(rng: Random) -> Mesh:
    r, half = rng.uniform(0.07, 0.1), rng.uniform(0.8, 1.0)
    body = rounded(
        [(0, -half), (0.5 * r, -0.7 * half), (r, -0.2 * half), (r, 0.6 * half), (0.8 * r, 0.9 * half), (0, 0.9 * half)]
    )
    span, back = rng.uniform(0.45, 0.65), rng.uniform(0.5, 0.75)
    wings = wing((-0.2, back), (back - rng.uniform(0.1, 0.3), back), span, 0.0, 0.035)
    tail = wing((0.68, 0.92), (0.85, 1.0), 0.32, 0.0, 0.02)
    parts = [stretch(_fuselage(body), x=1.3), wings, tail]
    upright = fin((0.5, 0.85), (0.75, 0.92), rng.uniform(0.2, 0.32), 0.02)
    parts.append(move(upright, z=0.5 * r) if chance(rng, 0.5) else both_sides(move(upright, x=0.9 * r, z=0.3 * r)))
    canopy = turn(revolve(rounded([(0, -0.18), (0.06, -0.05), (0.05, 0.1), (0, 0.2)]), 16), "x", -np.pi / 2)
    return join(*parts, move(canopy, y=-0.35 * half, z=0.7 * r))


def _propeller_plane(rng: Random) -> Mesh:
    r, half = rng.uniform(0.09, 0.13), rng.uniform(0.55, 0.75)
    body = rounded([(0, -half), (0.8 * r, -half), (r, -0.6 * half), (r, 0.0), (0.3 * r, 0.9 * half), (0, half)])
    span, chord, front = rng.uniform(0.75, 1.0), rng.uniform(0.2, 0.28), rng.uniform(-0.4, -0.25)
    wings = wing((front, front + chord), (front + 0.03, front + 0.8 * chord), span, rng.uniform(0, 0.08), 0.04)
    decks = one_of(rng, (-0.6 * r,), (1.1 * r,), (-0.8 * r, 2.2 * r))
    parts = [_fuselage(body), _tail(rng, half, r, 0.8), *(move(wings, z=z) for z in decks)]
    blade = box((0.0, rng.uniform(0.2, 0.28)), (-0.01, 0.01), (-0.02, 0.02))
    turns = np.arange(blades := int(rng.integers(2, 4))) * 2 * np.pi / blades + 0.5
    parts.append(move(join(*(turn(blade, "y", a) for a in turns)), y=-half - 0.02))
    wheels = both_sides(move(wheel(0.06, 0.04), x=0.18, y=front + 0.05, z=-r - 0.1))
    struts = both_sides(rods([0.03, front + 0.05, -0.5 * r], [0.18, front + 0.05, -r - 0.1], 0.012))
    return join(*parts, wheels, struts)


def wheel(radius: float, width: float) -> Mesh:
    """Build a closed wheel about the x axis at the origin."""
    return turn(disc(radius, -width / 2, width / 2, 20), "y", np.pi / 2)


def car(rng: Random) -> LabelledMesh:
    """Build a saloon, hatchback, van, pick-up or lorry on four wheels; the front is at -y."""
    wide, long = rng.uniform(0.32, 0.4), rng.uniform(0.8, 1.05)
    radius = rng.uniform(0.12, 0.16)
    body = one_of(rng, _saloon, _saloon, _van, _pickup, _lorry)(rng, wide, long, radius)
    axles = rng.uniform(0.55, 0.65) * long * np.array([-1, 1])
    tyre = move(wheel(radius, 0.12), x=wide - 0.05, z=radius)
    wheels = both_sides(join(*(move(tyre, y=y) for y in axles)))
    mirrors = both_sides(box((wide, wide + 0.06), (-0.35 * long, -0.32 * long), (3.4 * radius, 3.9 * radius)))
    return join(body, wheels, mirrors), "C1"


def _shell(side: list[tuple[float, float, float]], wide: float, floor: float) -> Mesh:
    """Build a body from cross sections along y, each row (y, height, width at the top as a share of the width)."""
    sections = np.empty((len(side), 24, 3))
    for row, (y, top, lean) in enumerate(side):
        ring = oval(1, 1, 0.35, n=24)
        up = (ring[:, 1] + 1) / 2
        sections[row, :, 0] = wide * ring[:, 0] * (1 + (lean - 1) * up)
        sections[row, :, 1] = y
        sections[row, :, 2] = floor + up * (top - floor)
    return loft(sections)


def _saloon(rng: Random, wide: float, long: float, radius: float) -> Mesh:
    """Build a low hood and tail around a cabin with slanted windows; without a tail it is a hatchback."""
    belt = radius * rng.uniform(2.8, 3.3)
    roof, screen = belt + rng.uniform(0.18, 0.3), rng.uniform(-0.45, -0.3) * long
    back, tail = rng.uniform(0.3, 0.5) * long, rng.uniform(0.6, 0.95) * long
    lower = [
        (-long, 0.75 * belt, 0.8),
        (-0.93 * long, 0.85 * belt, 0.9),
        (screen, belt, 0.95),
        (0.8 * long, belt, 0.95),
        (long, 0.9 * belt, 0.85),
    ]
    cabin = [(screen, belt, 0.9), (screen + 0.22 * long, roof, 0.72), (back, roof, 0.72), (tail, belt, 0.9)]
    return join(_shell(lower, wide, 0.8 * radius), _shell(cabin, wide, 0.9 * belt))


def _van(rng: Random, wide: float, long: float, radius: float) -> Mesh:
    """Build one tall box with a slanted front, short hood or none."""
    roof, hood = radius * rng.uniform(4.8, 6.5), radius * rng.uniform(2.8, 3.6)
    screen = rng.uniform(0.7, 0.95)
    side = [(-long, 0.85 * hood, 0.9), (-screen * long, hood, 0.95), (-(screen - 0.25) * long, roof, 0.85)]
    return _shell([*side, (0.95 * long, roof, 0.85), (long, 0.95 * roof, 0.85)], wide, 0.8 * radius)


def _pickup(rng: Random, wide: float, long: float, radius: float) -> Mesh:
    """Build a hood, a cabin, and an open bed with thin walls."""
    belt, floor = radius * 3.2, 1.0 * radius
    roof, cut = belt + rng.uniform(0.2, 0.28), rng.uniform(0.05, 0.25) * long
    front = [(-long, 0.8 * belt, 0.9), (-0.9 * long, 0.92 * belt, 0.95), (cut, belt, 0.95)]
    cabin = [(-0.5 * long, belt, 0.9), (-0.28 * long, roof, 0.75), (cut - 0.1 * long, roof, 0.75), (cut, belt, 0.9)]
    bed = [
        box((-wide, wide), (cut, long), (floor, 1.6 * floor)),
        box((-wide, wide), (long - 0.03, long), (floor, belt)),
    ]
    walls = both_sides(box((wide - 0.03, wide), (cut, long), (floor, belt)))
    return join(_shell(front, wide, floor), _shell(cabin, wide, 0.9 * belt), *bed, walls)


def _lorry(rng: Random, wide: float, long: float, radius: float) -> Mesh:
    """Build a cab in front of a load box."""
    roof, cut = radius * rng.uniform(4.5, 5.5), rng.uniform(-0.55, -0.4) * long
    cab = [(-long, 0.6 * roof, 0.95), (-0.95 * long, 0.65 * roof, 0.95), (-0.85 * long, roof, 0.9), (cut, roof, 0.9)]
    load = box((-1.05 * wide, 1.05 * wide), (cut + 0.04, long), (1.6 * radius, roof * rng.uniform(1.0, 1.35)))
    chassis = box((-0.7 * wide, 0.7 * wide), (-0.9 * long, 0.98 * long), (radius, 1.6 * radius))
    return join(_shell(cab, wide, 0.9 * radius), load, chassis)
