"""Things to sit and lie on: chair, bench, sofa, stool, bed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from datasets.shapes.primitives import (
    SIDES,
    LabelledMesh,
    Mesh,
    Random,
    around,
    both_sides,
    box,
    boxes,
    chance,
    columns,
    corner_legs,
    cushion,
    join,
    loft,
    move,
    on_circle,
    one_of,
    oval,
    revolve,
    rods,
    rounded,
    stack,
    tube,
    turn,
)


def chair(rng: Random) -> LabelledMesh:
    """Build a seat with a back on legs, a sled or a swivel base, with or without arms."""
    x, y, seat = rng.uniform(0.21, 0.3), rng.uniform(0.2, 0.27), rng.uniform(0.38, 0.5)
    thick = rng.uniform(0.03, 0.1)
    roundness = one_of(rng, 0.2, 0.4, 1.0)
    outline = oval(x, y, roundness, n=32)
    inset = 0.62 if roundness == 1.0 else 0.9
    parts = [loft(stack(outline, [(1, seat - thick), (1, seat)])), _chair_base(rng, inset * x, inset * y, seat - thick)]
    parts.append(move(turn(_chair_back(rng, inset * x), "x", -rng.uniform(0, 0.25)), y=inset * y, z=seat))
    if chance(rng, 0.4):
        parts.append(_arms(inset * x, inset * y, seat, rng.uniform(0.16, 0.26), rng.uniform(0.015, 0.035)))
    return join(*parts), "C1"


def _chair_base(rng: Random, x: float, y: float, height: float) -> Mesh:
    """Build four legs, two sled frames, or a column with a star of feet."""
    style = rng.integers(4)
    if style == 0:
        frame = np.array([(x, -y, height), (x, -y, 0.02), (x, 1.1 * y, 0.02), (x, 1.0 * y, height)])
        return both_sides(tube(rounded(frame[: one_of(rng, 3, 4)]), 0.016))
    if style == 1:
        return join(rods([0, 0, 0.1], [0, 0, height], 0.035), star(5, rng.uniform(0.24, 0.32), 0.1))
    legs = corner_legs(rng, 0.95 * x, 0.95 * y, height, rng.uniform(0.03, 0.06))
    if chance(rng, 0.5):
        return legs
    bar = rng.uniform(0.3, 0.6) * height
    return join(legs, both_sides(box((0.93 * x, 0.97 * x), (-0.95 * y, 0.95 * y), (bar - 0.012, bar + 0.012))))


def star(n: int, reach: float, height: float) -> Mesh:
    """n sloping feet around a foot of a column, each ending in a small ball on the floor."""
    angle = 2 * np.pi * np.arange(n) / n
    tips = columns(*(reach * on_circle(angle)).T, 0.05)
    casters = boxes(tips - [0.02, 0.02, 0.05], columns(tips[:, 0] + 0.02, tips[:, 1] + 0.02, 0.06))
    return join(rods([0, 0, height], tips, 0.03, 0.018), casters)


def _chair_back(rng: Random, x: float) -> Mesh:
    """Build a back that rises from z = 0 in the plane y = 0: a panel, upright slats, or rails across."""
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
    """Build arm rests at both sides of a seat with half axes x and y, each with a post in front."""
    rest = box((x - thick, x + thick), (-0.8 * y, 0.95 * y), (seat + rise, seat + rise + thick))
    post = box((x - 0.6 * thick, x + 0.6 * thick), (-0.7 * y, -0.7 * y + 1.5 * thick), (seat - 0.02, seat + rise))
    return both_sides(join(rest, post))


def bench(rng: Random) -> LabelledMesh:
    """Build a long seat on two supports; without a back half a turn about z maps it onto itself."""
    x, y, seat = rng.uniform(0.6, 0.95), rng.uniform(0.17, 0.25), rng.uniform(0.36, 0.48)
    thick = rng.uniform(0.03, 0.06)
    parts = [_boards(rng, x, y, seat - thick, seat), _bench_feet(rng, x * rng.uniform(0.65, 0.9), y, seat - thick)]
    if chance(rng, 0.4):
        return join(*parts), "C2"
    high = rng.uniform(0.3, 0.45)
    posts = both_sides(box((0.72 * x, 0.8 * x), (-high, high / 2), (-0.05, -0.02)))
    back = join(_boards(rng, x, high / 2, -0.02, 0.02), posts)
    parts.append(move(turn(back, "x", np.pi / 2 - rng.uniform(0.05, 0.25)), y=0.95 * y, z=seat + 0.65 * high))
    if chance(rng, 0.5):
        parts.append(_arms(0.95 * x, y, seat, rng.uniform(0.15, 0.22), 0.04))
    return join(*parts), "C1"


def _boards(rng: Random, x: float, y: float, low: float, high: float) -> Mesh:
    """Build one to five boards along x that fill a rectangle with half sides x and y."""
    n = int(rng.integers(1, 6))
    at = np.linspace(-y, y, n + 1)[:-1]
    return boxes(columns(-x, at + 0.008, low), columns(x, at + 2 * y / n - 0.008, high))


def _bench_feet(rng: Random, x: float, y: float, height: float) -> Mesh:
    """Build two slabs, two T frames, or four legs below a long seat."""
    style = rng.integers(3)
    if style == 0:
        return both_sides(box((x - 0.04, x + 0.04), (-0.9 * y, 0.9 * y), (0, height)))
    if style == 1:
        foot = box((x - 0.03, x + 0.03), (-0.95 * y, 0.95 * y), (0, 0.05))
        return both_sides(join(foot, box((x - 0.03, x + 0.03), (-0.3 * y, 0.3 * y), (0.05, height))))
    return corner_legs(rng, x, 0.75 * y, height, rng.uniform(0.05, 0.08))


def sofa(rng: Random) -> LabelledMesh:
    """Build cushions between two arms in front of a back, perhaps with a long seat at one side."""
    seats, wide = int(rng.integers(2, 4)), rng.uniform(0.55, 0.7)
    x, deep, seat = seats * wide / 2, rng.uniform(0.75, 0.95), rng.uniform(0.38, 0.46)
    arm, back, foot = rng.uniform(0.1, 0.22), rng.uniform(0.7, 0.9), rng.uniform(0.03, 0.14)
    edge = np.linspace(-x, x, seats + 1)
    parts = [cushion((a, b), (0.02, deep - 0.15), (seat - 0.15, seat)) for a, b in pairwise(edge)]
    parts += [cushion((a, b), (deep - 0.28, deep - 0.08), (seat, back + 0.06), 0.5) for a, b in pairwise(edge)]
    parts.append(box((-x, x), (0.04, deep), (foot, seat - 0.15)))
    parts.append(cushion((-x - arm, x + arm), (deep - 0.15, deep), (foot, back)))
    parts.append(
        both_sides(cushion((x, x + arm), (0, deep), (foot, seat + rng.uniform(0.08, 0.24)), rng.uniform(0.2, 0.7)))
    )
    parts.append(move(corner_legs(rng, x, 0.4 * deep, foot + 0.01, 0.06), y=0.5 * deep))
    if chance(rng, 0.3):
        parts.append(cushion((edge[-2], x), (-rng.uniform(0.4, 0.7), 0.02), (foot, seat)))
    return join(*parts), "C1"


def stool(rng: Random) -> LabelledMesh:
    """Build a seat without a back: round, square or long, on legs or on a column."""
    radius, height, thick = rng.uniform(0.15, 0.22), rng.uniform(0.4, 0.8), rng.uniform(0.03, 0.09)
    under = height - thick
    if chance(rng, 0.35):
        return _angular_stool(rng, radius, under, thick)
    bulge = rounded([(0, under), (radius, under), (radius, height), (0, height)], one_of(rng, 0, 3))
    if chance(rng, 0.35):
        foot = [(0, 0), (0.9 * radius, 0), (0.9 * radius, 0.02), (0.03, 0.06), (0.03, under)]
        return join(revolve(bulge), revolve(foot)), "Cinf"
    legs, spread, thin = int(rng.integers(3, 5)), rng.uniform(1.0, 1.3), rng.uniform(0.012, 0.025)
    leg = rods([spread * radius, 0, 0], [0.75 * radius, 0, under], thin, n=12)
    share = rng.uniform(0.25, 0.5)
    reach = radius * (spread + share * (0.75 - spread))
    ring = revolve(np.array([reach, share * under]) + 0.012 * _RING, SIDES)
    return join(revolve(bulge), around(leg, legs), ring), f"C{legs}"


_RING = np.array([(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0), (1.0, 0.0)])


def _angular_stool(rng: Random, radius: float, under: float, thick: float) -> LabelledMesh:
    """Build a square (a quarter turn) or long (half a turn) stool, with rails between the legs."""
    long = one_of(rng, 1.0, rng.uniform(1.25, 1.7))
    x, bar = long * radius, rng.uniform(0.2, 0.5) * under
    seat = loft(stack(oval(x, radius, one_of(rng, 0.0, 0.3), n=32), [(1, under), (1, under + thick)]))
    legs = corner_legs(rng, 0.85 * x, 0.85 * radius, under, rng.uniform(0.03, 0.05))
    rails = join(
        both_sides(box((0.85 * x - 0.01, 0.85 * x + 0.01), (-0.85 * radius, 0.85 * radius), (bar, bar + 0.03))),
        both_sides(box((-0.85 * x, 0.85 * x), (0.85 * radius - 0.01, 0.85 * radius + 0.01), (bar, bar + 0.03)), 1),
    )
    return join(seat, legs, rails), "C4" if long == 1.0 else "C2"


def bed(rng: Random) -> LabelledMesh:
    """Build a mattress with pillows in a frame with a headboard, or two of them above each other."""
    x, y, low = rng.uniform(0.45, 0.95), rng.uniform(0.95, 1.1), rng.uniform(0.15, 0.35)
    parts = [_berth(rng, x, y, low), corner_legs(rng, x - 0.05, y - 0.05, low, rng.uniform(0.06, 0.1))]
    if x < 0.6 and chance(rng, 0.7):
        return join(*parts, *_bunk(rng, x, y, low)), "C1"
    head, foot = low + rng.uniform(0.45, 0.9), low + rng.uniform(0.0, 0.4)
    outline = oval(x + 0.03, head - 0.1, one_of(rng, 0.0, 0.3, 0.6), n=32)
    upper = np.stack([outline[:, 0], np.maximum(outline[:, 1], 0)], axis=1)
    board = turn(loft(stack(upper, [(1, -y - 0.06), (1, -y)])), "x", np.pi / 2)
    parts.append(move(board, z=0.1))
    parts.append(box((-x - 0.02, x + 0.02), (-y - 0.05, -y), (0.05, foot + 0.05)))
    return join(*parts), "C1"


def _berth(rng: Random, x: float, y: float, low: float) -> Mesh:
    """Build a frame, a mattress and one or two pillows at the head (+y), above z = low."""
    frame = box((-x, x), (-y, y), (low, low + 0.12))
    mattress = cushion((-x + 0.02, x - 0.02), (-y + 0.02, y - 0.02), (low + 0.1, low + rng.uniform(0.25, 0.36)))
    top = low + 0.25
    pillow = cushion((-0.28, 0.28), (y - 0.5, y - 0.12), (top, top + 0.18), 0.9)
    return join(frame, mattress, both_sides(move(pillow, x=x / 2)) if x > 0.65 else pillow)


def _bunk(rng: Random, x: float, y: float, low: float) -> list[Mesh]:
    """Build an upper berth on four posts, with rails and a ladder."""
    upper = low + rng.uniform(0.8, 1.0)
    post = both_sides(both_sides(box((x - 0.03, x + 0.03), (y - 0.03, y + 0.03), (0, upper + 0.5)), 0), 1)
    rail = both_sides(box((x - 0.015, x + 0.015), (-0.4 * y, y), (upper + 0.4, upper + 0.48)))
    ends = both_sides(box((-x, x), (y - 0.015, y + 0.015), (upper + 0.3, upper + 0.48)), 1)
    at = np.linspace(0.2, upper, 6)
    foot = columns(x + 0.06, np.array([-0.85, -0.5]) * y, 0)
    rungs = rods(columns(x + 0.06, -0.85 * y, at), columns(x + 0.06, -0.5 * y, at), 0.018)
    beams = rods(foot, move(foot, z=upper + 0.4), 0.022)
    return [_berth(rng, x, y, upper), post, rail, ends, rungs, beams]
