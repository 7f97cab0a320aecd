"""Parts of buildings: stairs, door, curtain, mantel, tent."""

from __future__ import annotations

import numpy as np

from common import portable
from datasets.shapes.primitives import (
    Array,
    LabelledMesh,
    Mesh,
    Random,
    arc,
    around,
    both_sides,
    box,
    boxes,
    chance,
    columns,
    disc,
    ellipsoid,
    fan,
    join,
    loft,
    move,
    on_circle,
    one_of,
    oval,
    prism,
    revolve,
    rods,
    sheet,
    stack,
    stretch,
    tube,
    turn,
)


def stairs(rng: Random) -> LabelledMesh:
    """Build a solid or open flight, two flights with a landing, or a spiral."""
    return one_of(rng, _solid_flight, _solid_flight, _open_flight, _landing, _spiral)(rng)


def _rail(rng: Random, x: float, foot: Array) -> Mesh:
    """Build balusters on points (n, 3) of the steps, moved to x, and the hand rail over them."""
    low = move(foot * np.array([0, 1, 1]), x=x)
    high = move(low, z=rng.uniform(0.5, 0.8))
    return join(rods(low, high, 0.015), rods(high[0], high[-1], 0.03))


def _solid_flight(rng: Random) -> LabelledMesh:
    """Build steps that reach down to the floor, perhaps with a rail at one or both sides."""
    n, x = int(rng.integers(4, 14)), rng.uniform(0.3, 0.9)
    tread, rise = rng.uniform(0.2, 0.32), rng.uniform(0.14, 0.22)
    at = np.arange(n)
    parts = [boxes(columns(-x, at * tread, 0), columns(x, (at + 1) * tread, (at + 1) * rise))]
    feet = columns(0, (at + 0.5) * tread, (at + 1) * rise)
    if chance(rng, 0.5):
        rail = _rail(rng, 0.9 * x, feet)
        parts.append(rail if chance(rng, 0.5) else both_sides(rail))
    return join(*parts), "C1"


def _open_flight(rng: Random) -> LabelledMesh:
    """Build boards between two slanted beams; without a rail, symmetric under half a turn about the x axis."""
    n, x, thick = int(rng.integers(5, 14)), rng.uniform(0.3, 0.9), rng.uniform(0.03, 0.06)
    tread, rise = rng.uniform(0.22, 0.3), rng.uniform(0.15, 0.22)
    at = np.arange(n) - (n - 1) / 2
    boards = boxes(
        columns(-x, at * tread - 0.5 * tread, at * rise - thick / 2),
        columns(x, at * tread + 0.5 * tread, at * rise + thick / 2),
    )
    end, deep = 0.5 * n, 0.6 * rise
    side = np.array(
        [
            [[s, y * tread, y * rise + d] for s, d in ((0, -deep), (0.05, -deep), (0.05, deep), (0, deep))]
            for y in (-end, end)
        ]
    )
    parts = [boards, both_sides(loft(move(side, x=x)))]
    if chance(rng, 0.4):
        parts.append(both_sides(_rail(rng, x + 0.025, columns(0, at * tread, at * rise + deep))))
        return join(*parts), "C1"
    return join(*parts), "C2x"


def _landing(rng: Random) -> LabelledMesh:
    """Build two solid flights that meet at a landing, at a right angle or back to back."""
    n, x, tread, rise = int(rng.integers(4, 8)), rng.uniform(0.4, 0.7), rng.uniform(0.2, 0.3), rng.uniform(0.15, 0.2)
    at = np.arange(n)
    lower = boxes(columns(-x, at * tread, 0), columns(x, (at + 1) * tread, (at + 1) * rise))
    end, level = n * tread, (n + 1) * rise
    left, back = (-3 * x if chance(rng, 0.5) else -x), end + 2 * x
    landing = box((left, x), (end, back), (0, level))
    if left < -x:
        upper = boxes(columns(left, end - (at + 1) * tread, 0), columns(-x, end - at * tread, level + (at + 1) * rise))
    else:
        upper = boxes(columns(-x - (at + 1) * tread, end, 0), columns(-x - at * tread, back, level + (at + 1) * rise))
    return join(lower, landing, upper), "C1"


def _spiral(rng: Random) -> LabelledMesh:
    """Build wedges around a pole. Alone they are symmetric under half a turn about x; a taller pole or a rail ends that."""
    n, reach, rise = int(rng.integers(8, 20)), rng.uniform(0.6, 1.0), rng.uniform(0.14, 0.2)
    step = rng.uniform(0.3, 0.5)
    at = np.arange(n) - (n - 1) / 2
    edge = np.array([-0.55, -0.18, 0.18, 0.55]) * step
    wedge = np.concatenate([[[0.04, 0.0]], reach * on_circle(edge)])
    steps = join(*(turn(prism(wedge, i * rise - 0.025, i * rise + 0.025), "z", i * step) for i in at))
    half = n * rise / 2 + rng.uniform(0, 0.1)
    pole = disc(0.06, -half, half)
    if chance(rng, 0.5):
        return join(steps, pole), "C2x"
    foot = columns(*(0.95 * reach * on_circle(at * step)).T, at * rise)
    high = move(foot, z=rng.uniform(0.6, 0.9))
    return join(steps, pole, rods(foot, high, 0.012), rods(high[:-1], high[1:], 0.025)), "C1"


def door(rng: Random) -> LabelledMesh:
    """Build a slab with raised panels on both faces, one wing or two, perhaps with knobs and a frame around it."""
    x, z, thick = rng.uniform(0.38, 0.5), rng.uniform(1.0, 1.1), rng.uniform(0.02, 0.035)
    wings = one_of(rng, 1, 1, 2)
    leaf = join(box((-x, x), (-thick, thick), (-z, z)), _panels(rng, x, thick, z))
    leaves = leaf if wings == 1 else both_sides(move(leaf, x=x + 0.004))
    half = wings * x
    frame, knobs = chance(rng, 0.4), chance(rng, 0.5)
    parts = [leaves]
    if frame:
        wide, deep = rng.uniform(0.09, 0.15), rng.uniform(1.6, 2.6) * thick
        parts.append(both_sides(box((half, half + wide), (-deep, deep), (-z, z))))
        parts.append(box((-half - wide, half + wide), (-deep, deep), (z, z + wide)))
    if not knobs:
        return join(*parts), "C2" if frame else "D2"
    at = x - 0.07 if wings == 1 else 0.08
    grip = both_sides(_handle(rng, at, thick, -rng.uniform(0.06, 0.15)), 1)
    return join(*parts, grip if wings == 1 else both_sides(grip)), "C1" if wings == 1 else "C2"


def _panels(rng: Random, x: float, thick: float, z: float) -> Mesh:
    """Build a grid of raised panels, equal in height, on both faces; none for a plain slab."""
    rows, across = int(rng.integers(0, 4)), int(rng.integers(1, 3))
    if rows == 0:
        return np.empty((0, 3, 3))
    cx, cz = np.meshgrid((np.arange(across) + 0.5) / across * 2 - 1, (np.arange(rows) + 0.5) / rows * 2 - 1)
    a, b = 0.75 * x / across, 0.8 * z / rows
    front = boxes(columns(0.85 * x * cx.ravel() - a, thick, 0.9 * z * cz.ravel() - b),
                  columns(0.85 * x * cx.ravel() + a, thick + 0.02, 0.9 * z * cz.ravel() + b))  # fmt: skip
    return both_sides(front, 1)


def _handle(rng: Random, x: float, y: float, z: float) -> Mesh:
    """Build a round knob or a lever on the face y, at (x, z)."""
    if chance(rng, 0.5):
        knob = revolve([(0.012, 0), (0.012, 0.03), (0.032, 0.04), (0.032, 0.06), (0, 0.07)], 16)
        return move(turn(knob, "x", -np.pi / 2), x=x, y=y, z=z)
    return (
        box((x - 0.12, x + 0.015), (y + 0.03, y + 0.05), (z - 0.012, z + 0.012))
        if chance(rng, 0.5)
        else box((x - 0.015, x + 0.015), (y, y + 0.06), (z - 0.15, z + 0.15))
    )


def curtain(rng: Random) -> LabelledMesh:
    """Build wavy cloth, one width or two, hanging free from a rod, in regular pleats or irregular folds, or tied back."""
    x, high = rng.uniform(0.4, 0.9), rng.uniform(1.2, 1.8)
    style = rng.integers(4)
    if style == 0:
        return _pleats(rng, x, high)
    rod = turn(disc(0.018, -x - 0.08, x + 0.08, 16), "y", np.pi / 2)
    rail = [rod, both_sides(move(ellipsoid(0.035, 0.035, 0.035), x=x + 0.08))]
    tied = style == 1
    gap = rng.uniform(0.0, 0.4) * x
    left = _cloth(rng, gap, x, high, tied)
    right = stretch(_cloth(rng, gap, x, high, tied), x=-1)
    parts = [left, right]
    if chance(rng, 0.25) and not tied:
        parts = [_cloth(rng, -x, x, high, False)]
    if chance(rng, 0.3):
        parts.append(_valance(rng, x, high))
    return join(*parts, *rail), "C1"


def _pleats(rng: Random, x: float, high: float) -> LabelledMesh:
    """Build regular pleats. Odd about the middle: half a turn about z. Even: half a turn about y."""
    folds, deep = int(rng.integers(5, 12)), rng.uniform(0.03, 0.07)
    u = np.linspace(-1, 1, 16 * folds + 1)
    odd = chance(rng, 0.5)
    sine, cosine = portable.sin_cos(folds * np.pi * u)
    y = deep * (sine if odd else cosine)
    grid = np.stack([columns(x * u, y, z) for z in (-high / 2, high / 2)])
    return sheet(grid), "C2" if odd else "C2y"


def _cloth(rng: Random, start: float, stop: float, high: float, tied: bool) -> Mesh:
    """Build irregular folds between two x, from z = 0 down; if tied, drawn to the outer edge at two thirds of the way."""
    u = np.linspace(0, 1, 61)
    s = np.linspace(0, 1, 11)[:, None]
    waves = rng.uniform(4, 9) * np.array([1.0, 0.6, 1.7])
    phase, size = rng.uniform(0, 2 * np.pi, 3), rng.uniform(0.3, 1.0, 3) * 0.035
    y = portable.dot(size, portable.sin_cos(2 * np.pi * waves * u[:, None] + phase)[0]) * (0.6 + 0.6 * s)
    waist = (s - 0.62) / 0.22
    squeeze = 1 - (0.7 * portable.exp(-waist * waist) if tied else rng.uniform(-0.05, 0.1) * s)
    x = stop - (stop - start) * squeeze * (1 - u)
    return sheet(np.stack(np.broadcast_arrays(x, y, -high * s), axis=-1))


def _valance(rng: Random, x: float, high: float) -> Mesh:
    """Build a short strip of cloth with a scalloped edge in front of the rod."""
    u = np.linspace(-1, 1, 49)
    drop = rng.uniform(0.1, 0.2) * high * (0.8 + 0.2 * np.abs(portable.sin_cos(1.5 * np.pi * u)[0]))
    y = -0.08 + 0.015 * portable.sin_cos(14 * np.pi * u)[0]
    return sheet(np.stack([columns(x * u, y, 0.03), columns(x * u, y, -drop)]))


def mantel(rng: Random) -> LabelledMesh:
    """Build a chimney piece: two pillars, a lintel and a shelf around an opening, perhaps with a hearth, a back or a breast."""
    x, high, deep = rng.uniform(0.6, 0.9), rng.uniform(0.9, 1.2), rng.uniform(0.12, 0.22)
    pillar, lintel = rng.uniform(0.14, 0.24), rng.uniform(0.15, 0.28)
    top = high + rng.uniform(0.04, 0.08)
    parts = [
        both_sides(box((x - pillar, x), (-deep, deep), (0, high - lintel))),
        box((-x, x), (-deep, deep), (high - lintel, high)),
    ]
    over = np.array([0.04, 0.08, 0.13])[: int(rng.integers(1, 4))]
    step = (top - high) / len(over)
    rise = high + step * np.arange(len(over))
    parts.append(boxes(columns(-x - over, -deep - over, rise), columns(x + over, deep, rise + step)))
    parts.append(both_sides(boxes([[x - pillar - 0.02, -deep - 0.02, 0], [x - 0.8 * pillar, -deep - 0.02, 0.15]],
                                  [[x + 0.02, deep, 0.12], [x - 0.2 * pillar, -deep, high - lintel - 0.05]])))  # fmt: skip
    if chance(rng, 0.6):
        parts.append(box((pillar - x, x - pillar), (deep - 0.02, deep), (0, high - lintel)))
    if chance(rng, 0.5):
        parts.append(box((-x - 0.05, x + 0.05), (-deep - rng.uniform(0.25, 0.4), deep), (-0.06, 0)))
    if chance(rng, 0.3):
        width = rng.uniform(0.6, 0.9) * x
        parts.append(box((-width, width), (0.0, deep), (top, top + rng.uniform(0.4, 0.8))))
    return join(*parts), "C1"


def tent(rng: Random) -> LabelledMesh:
    """Build a ridge tent, a dome, a wigwam, a tunnel, or a roof on four poles."""
    return one_of(rng, _ridge_tent, _ridge_tent, _dome_tent, _wigwam, _pavilion)(rng)


def _ridge_tent(rng: Random) -> LabelledMesh:
    """Build two slanted sides over a ridge. Ends closed alike: half a turn about z; one end open, with its flaps out: none."""
    x, y, high, wall = rng.uniform(0.6, 0.9), rng.uniform(0.8, 1.2), rng.uniform(0.8, 1.2), rng.uniform(0.0, 0.3)
    gable = np.array([(-x, 0), (-x, wall), (0, high), (x, wall), (x, 0)])
    ends = np.stack([np.insert(gable, 1, end, axis=1) for end in (-y, y)])
    roof = join(sheet(ends), box((-x, x), (-y, y), (-0.02, 0)))
    back = fan(ends[1])
    if chance(rng, 0.4):
        return join(roof, back, fan(ends[0])), "C2"
    reach, spread = rng.uniform(0.2, 0.5), rng.uniform(0.1, 0.3)
    flap = np.array(
        [
            [
                [(x, -y, 0), (x, -y, wall), (0, -y, high)],
                [(x + spread, -y - reach, 0), (x, -y - reach, wall), (0.05, -y, high)],
            ]
        ]
    )[0]
    poles = rods([[0, -y, 0], [0, y, 0]], [[0, -y, high + 0.06], [0, y, high + 0.06]], 0.02)
    return join(roof, back, both_sides(sheet(flap)), poles), "C1"


def _dome_tent(rng: Random) -> LabelledMesh:
    """Build a dome over a polygon, its poles standing out as ribs; a porch ends its symmetry."""
    sides, radius, high = one_of(rng, 4, 6, 8), rng.uniform(0.8, 1.1), rng.uniform(0.6, 0.9)
    t = np.linspace(0, np.pi / 2, 9)
    profile = on_circle(t) * np.array([radius, high])
    skin = revolve([(0, 0), *profile], sides)
    rib = tube(np.stack([1.01 * profile[:, 0], 0 * t, 1.01 * profile[:, 1]], axis=1), 0.02, n=6)
    dome = join(skin, around(rib, sides))
    if chance(rng, 0.4):
        return dome, f"C{sides}"
    arch = arc(0.0, np.pi, 13)
    porch = [
        columns(0.45 * arch[:, 0], y, 0.7 * high * arch[:, 1])
        for y in (-0.5 * radius, -radius - rng.uniform(0.15, 0.35))
    ]
    return join(dome, sheet(np.stack(porch))), "C1"


def _wigwam(rng: Random) -> LabelledMesh:
    """Build a pyramid of cloth whose poles cross above its top; a door flap ends its symmetry."""
    sides, radius, high = one_of(rng, 4, 5, 6, 8), rng.uniform(0.6, 0.9), rng.uniform(1.2, 1.7)
    cloth = revolve([(radius, 0), (0.06 * radius, high)], sides)
    pole = rods([radius, 0, 0], [-0.12 * radius, 0, 1.13 * high], 0.018, n=6)
    if chance(rng, 0.5):
        return join(cloth, around(pole, sides)), f"C{sides}"
    flap = np.array(
        [
            [(-0.05, -0.5 * radius, 0.5 * high), (0.05, -0.5 * radius, 0.5 * high)],
            [(-0.3, -1.15 * radius, 0), (0.3, -1.15 * radius, 0)],
        ]
    )
    return join(cloth, around(pole, sides), sheet(flap)), "C1"


def _pavilion(rng: Random) -> LabelledMesh:
    """Build a pointed roof with a hanging border on four poles, square or long; a back wall ends its symmetry."""
    x, wall, peak = rng.uniform(0.8, 1.1), rng.uniform(0.9, 1.2), rng.uniform(0.35, 0.7)
    long = one_of(rng, 1.0, rng.uniform(0.6, 0.85))
    square = oval(x, long * x, 0.0, n=16)
    roof = loft(stack(square, [(1, wall - 0.15), (1, wall), (0.3, wall + 0.6 * peak), (0, wall + peak)]), caps=False)
    post = rods([0.95 * x, 0.95 * long * x, 0], [0.95 * x, 0.95 * long * x, wall], 0.025, n=8)
    parts = [roof, both_sides(both_sides(post), 1)]
    if chance(rng, 0.3):
        return join(*parts, box((-0.95 * x, 0.95 * x), (0.95 * long * x, 0.95 * long * x + 0.01), (0, wall))), "C1"
    return join(*parts), "C4" if long == 1.0 else "C2"
