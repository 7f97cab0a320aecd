"""Devices and instruments: keyboard, laptop, monitor, radio, xbox, guitar, piano."""

from __future__ import annotations

import numpy as np

from common import portable
from datasets.shapes.primitives import (
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
    join,
    loft,
    move,
    one_of,
    oval,
    prism,
    revolve,
    rods,
    rounded,
    stack,
    tube,
    turn,
)


def keys(left: float, front: float, rows: int, across: int, pitch: float, high: float) -> Mesh:
    """Build a block of keys on z = 0; rows go to +y, and each row is shifted a little as on a typewriter."""
    at, row = np.meshgrid(np.arange(across), np.arange(rows))
    x, y = left + pitch * at.ravel(), front + pitch * row.ravel()
    return boxes(columns(x, y, 0), columns(x + 0.82 * pitch, y + 0.82 * pitch, high))


def keyboard(rng: Random) -> LabelledMesh:
    """Build a wedge with a block of keys, a space bar, and perhaps arrow keys and a number pad."""
    pitch, rows, across = 0.04, int(rng.integers(4, 6)), int(rng.integers(13, 16))
    high, gap = rng.uniform(0.01, 0.025), 0.02
    blocks, right = [keys(0, pitch, rows, across, pitch, high)], across * pitch
    blocks.append(box((0.25 * right, 0.65 * right), (0, 0.82 * pitch), (0, high)))
    blocks.append(boxes(columns([0, 1.2 * pitch, right - 2.2 * pitch, right - pitch], 0, 0),
                        columns([pitch, 2.2 * pitch, right - 1.2 * pitch, right], 0.82 * pitch, high)))  # fmt: skip
    for columns_more in one_of(rng, (), (3,), (3, 4), (4,)):
        blocks.append(keys(right + gap, one_of(rng, 0.0, pitch), rows, columns_more, pitch, high))
        right += gap + columns_more * pitch
    rise, edge, back = rng.uniform(0.015, 0.05), rng.uniform(0.015, 0.04), (rows + 1) * pitch
    ends = [(-edge, 0.012), (back + edge, 0.012 + rise)]
    body = np.array(
        [[(x, y, z) for y, top in ends for z in ((0, top) if y < 0 else (top, 0))] for x in (-edge, right + edge)]
    )
    tilt = portable.arctan2(rise, back + 2 * edge)
    return join(loft(body), move(turn(join(*blocks), "x", tilt), z=0.012 + rise * edge / back)), "C1"


def laptop(rng: Random) -> LabelledMesh:
    """Build a flat base with keys and a touch pad, and a screen that leans back."""
    x, y, thick = rng.uniform(0.16, 0.2), rng.uniform(0.11, 0.14), rng.uniform(0.012, 0.03)
    base = cushion((-x, x), (-y, y), (-thick, 0), 0.5)
    pitch = 1.7 * x / 14
    block = keys(-0.85 * x, -0.15 * y, 5, 14, pitch, 0.004)
    pad = box((-0.3 * x, 0.3 * x), (-0.85 * y, -0.3 * y), (0, 0.003))
    lid, frame = rng.uniform(0.006, 0.012), rng.uniform(0.008, 0.02)
    screen = join(
        cushion((-x, x), (0, 2 * y), (0, lid), 0.5),
        both_sides(box((x - frame, x), (0.01, 2 * y), (lid, lid + 0.004))),
        boxes([[-x, 0.01, lid], [-x, 2 * y - frame, lid]], [[x, 0.01 + frame, lid + 0.004], [x, 2 * y, lid + 0.004]]),
    )
    hinge = rods([-0.7 * x, y, 0], [0.7 * x, y, 0], 0.008)
    return join(base, block, pad, hinge, move(turn(screen, "x", rng.uniform(1.1, 1.75)), y=y + 0.004, z=0.004)), "C1"


def monitor(rng: Random) -> LabelledMesh:
    """Build a flat or deep screen with a raised frame on a neck and a foot."""
    x, z, deep = rng.uniform(0.22, 0.36), rng.uniform(0.15, 0.2), rng.uniform(0.015, 0.04)
    frame, low = rng.uniform(0.01, 0.03), rng.uniform(0.06, 0.14)
    panel = [box((-x, x), (-deep, deep), (-z, z)), both_sides(box((x - frame, x), (-deep - 0.012, -deep), (-z, z)))]
    panel.append(boxes(columns(-x, -deep - 0.012, [-z, z - frame]), columns(x, -deep, [frame - z, z])))
    if chance(rng, 0.3):
        tube_back = loft(
            stack(oval(x, z, 0.0, n=16), [(0.95, deep), (0.85, deep + 0.1), (0.5, deep + rng.uniform(0.2, 0.3))])
        )
        panel.append(turn(tube_back, "x", -np.pi / 2))
    foot = one_of(rng, oval(0.14, 0.1, 1.0, 32), oval(0.15, 0.1, 0.0, 32), oval(0.12, 0.12, 0.4, 32))
    neck = box((-0.03, 0.03), (deep, deep + 0.03), (-z - low, rng.uniform(-0.5, 0.3) * z))
    base = move(prism(foot, -z - low - 0.015, -z - low), y=deep + 0.02)
    tilted = turn(join(*panel), "x", -rng.uniform(0, 0.12))
    return join(tilted, neck, base), "C1"


def radio(rng: Random) -> LabelledMesh:
    """Build a case with one or two loudspeakers, a dial, knobs, a handle and an aerial."""
    x, y, z = rng.uniform(0.2, 0.35), rng.uniform(0.06, 0.11), rng.uniform(0.11, 0.17)
    case = cushion((-x, x), (-y, y), (-z, z), rng.uniform(0.05, 0.5))
    speaker = turn(
        revolve([(0, 0.01), (0.04, 0.0), (0.5 * z, 0.02), (0.62 * z, 0.03), (0.68 * z, 0.0)], 32), "x", np.pi / 2
    )
    two = x > 2 * z and chance(rng, 0.6)
    parts = [case, move(speaker, x=-x + 0.85 * z, y=-y, z=-0.15 * z)]
    if two:
        parts.append(move(speaker, x=x - 0.85 * z, y=-y, z=-0.15 * z))
    left, right = -x + 1.65 * z, (x - 1.65 * z if two else 0.92 * x)
    parts.append(box((left, right), (-y - 0.012, -y), (0.25 * z, 0.75 * z)))
    knob = turn(disc(0.02, 0, 0.03, 16), "x", np.pi / 2)
    at = np.linspace(left + 0.02, right - 0.02, int(rng.integers(2, 5)))
    parts += [move(knob, x=float(a), y=-y, z=-0.4 * z) for a in at]
    if chance(rng, 0.6):
        arch = rounded([(-0.8 * x, 0, z), (-0.75 * x, 0, 1.6 * z), (0.75 * x, 0, 1.6 * z), (0.8 * x, 0, z)])
        parts.append(tube(arch, 0.012))
    long, lean = rng.uniform(0.25, 0.5), rng.uniform(-0.3, 1.2)
    sine, cosine = portable.sin_cos(lean)
    tip = np.array([0.9 * x - long * sine, 0.7 * y, z + long * cosine])
    return join(*parts, rods([0.9 * x, 0.7 * y, z], tip, 0.005)), "C1"


def xbox(rng: Random) -> LabelledMesh:
    """Build a console: a slab with a raised X, a slab with a round vent, a waisted slab, or a tower, perhaps with a gamepad."""
    body, symmetry, reach = one_of(rng, _x_slab, _vent_slab, _waisted, _tower)(rng)
    if chance(rng, 0.5):
        return body, symmetry
    pad = turn(gamepad(rng), "z", rng.uniform(-0.5, 0.5))
    return join(body, move(pad, x=rng.uniform(-0.05, 0.05), y=-reach - rng.uniform(0.14, 0.2))), "C1"


def gamepad(rng: Random) -> Mesh:
    """Build a controller that lies on z = 0: a body with two grips, two sticks, a cross and four buttons."""
    grip = tube(
        rounded([(0.03, 0.03, 0.03), (0.075, 0.03, 0.03), (0.095, -0.03, 0.025), (0.1, -0.08, 0.02)]),
        [0.02] * 4 + [0.026] * 3 + [0.024] * 2 + [0.016],
    )
    body = cushion((-0.075, 0.075), (-0.02, 0.055), (0.01, 0.05), 0.5)
    stick = revolve([(0.006, 0.05), (0.006, 0.062), (0.014, 0.064), (0.014, 0.07), (0, 0.068)], 12)
    button = disc(0.006, 0.05, 0.057, 8)
    ring = [move(button, x=0.05 + 0.014 * c, y=0.03 + 0.014 * s) for c, s in ((1, 0), (0, 1), (-1, 0), (0, -1))]
    cross = boxes([[-0.04, -0.002, 0.05], [-0.03, -0.012, 0.05]], [[-0.01, 0.006, 0.056], [-0.02, 0.016, 0.056]])
    return join(both_sides(grip), body, move(stick, x=-0.05, y=0.03), move(stick, x=0.025, y=0.0), *ring, cross)


def _x_slab(rng: Random) -> tuple[Mesh, str, float]:
    """Build the first console: a heavy slab with an X across its top and a round badge."""
    x, y, z = rng.uniform(0.15, 0.18), rng.uniform(0.12, 0.15), rng.uniform(0.08, 0.11)
    sections = stack(oval(x, y, 0.1, n=24), [(1, 0), (0.94, 0.45 * z), (1, 0.9 * z), (0.96, z)])
    angle, long = portable.arctan2(y, x), 0.9 * float(portable.norm(np.array([x, y])))
    bar = box((-long, long), (-0.02, 0.02), (z - 0.005, z + 0.012))
    front = box((-0.8 * x, 0.4 * x), (-y - 0.006, -0.9 * y), (0.6 * z, 0.75 * z))
    badge = revolve([(0.04, z), (0.04, z + 0.016), (0.03, z + 0.022), (0, z + 0.024)], 24)
    ports = boxes(
        columns(np.linspace(-0.7, 0.1, 4) * x, -y - 0.006, 0.2 * z),
        columns(np.linspace(-0.7, 0.1, 4) * x + 0.02, -0.9 * y, 0.35 * z),
    )
    return join(loft(sections), turn(bar, "z", angle), turn(bar, "z", -angle), front, badge, ports), "C1", y


def _vent_slab(rng: Random) -> tuple[Mesh, str, float]:
    """Build a flat console, lying or standing, with a big round vent on its face."""
    x, y, z = rng.uniform(0.14, 0.17), rng.uniform(0.12, 0.14), rng.uniform(0.05, 0.07)
    radius = 0.75 * y
    rings = [
        revolve([(r, z), (r, z + 0.005), (r - 0.006, z + 0.005), (r - 0.006, z)], 32)
        for r in np.linspace(0.2, 1, 5) * radius
    ]
    slot = box((-0.7 * x, 0.2 * x), (-y - 0.004, -y), (0.55 * z, 0.62 * z))
    slab = join(cushion((-x, x), (-y, y), (0, z), 0.15), *(move(r, x=0.12 * x) for r in rings), slot)
    if chance(rng, 0.5):
        return move(turn(slab, "y", np.pi / 2), z=x), "C1", y
    return slab, "C1", y


def _waisted(rng: Random) -> tuple[Mesh, str, float]:
    """Build a standing console whose sides curve inwards, with a tray and a round button in front."""
    x, y, z = rng.uniform(0.04, 0.05), rng.uniform(0.12, 0.14), rng.uniform(0.14, 0.17)
    t = np.linspace(-1, 1, 9)
    sections = stack(oval(x, y, 0.15, n=24), np.stack([0.75 + 0.25 * t * t, z + z * t], axis=1))
    sections[..., 1] = y * np.sign(sections[..., 1]) * (np.abs(sections[..., 1]) / np.abs(sections[..., 1]).max())
    tray = box((-0.01, 0.01), (-y - 0.008, -0.9 * y), (0.9 * z, 1.8 * z))
    button = move(turn(disc(0.016, 0, 0.01, 16), "x", np.pi / 2), y=-y, z=0.35 * z)
    return join(loft(sections), tray, button), "C1", y


def _tower(rng: Random) -> tuple[Mesh, str, float]:
    """Build a square tower with a round foot and a hollow grille on top; a front without slot and badge keeps a quarter turn."""
    half, high = rng.uniform(0.07, 0.08), rng.uniform(0.28, 0.32)
    tower = loft(stack(oval(half, half, 0.12, n=32), [(0.97, 0.01), (1, 0.015), (1, high), (0.93, high)]), caps=False)
    grille = [
        revolve([(r, high - 0.02 * (1 - r / half)), (r - 0.006, high - 0.02 * (1 - r / half))])
        for r in np.linspace(0.2, 0.9, 7) * half
    ]
    foot = revolve([(0, 0), (0.8 * half, 0), (0.8 * half, 0.012), (0, 0.012)])
    body = join(tower, *grille, foot)
    if chance(rng, 0.5):
        return body, "C4", half
    slot = box((-0.75 * half, -0.6 * half), (-half - 0.005, -half), (0.1 * high, 0.5 * high))
    badge = move(turn(disc(0.012, 0, 0.008, 16), "x", np.pi / 2), x=-0.6 * half, y=-half, z=0.9 * high)
    return join(body, slot, badge), "C1", half


def guitar(rng: Random) -> LabelledMesh:
    """Build a flat body with a waist, a neck, a head with pegs, and six strings; hollow with a hole or solid with horns."""
    electric = chance(rng, 0.4)
    lower, waist, upper = rng.uniform(0.17, 0.21), rng.uniform(0.1, 0.13), rng.uniform(0.13, 0.16)
    deep = rng.uniform(0.018, 0.025) if electric else rng.uniform(0.04, 0.06)
    half = [(0, -0.26), (0.85 * lower, -0.27), (1.15 * lower, -0.1), (0.75 * waist, 0.0), (1.1 * upper, 0.12)]
    half += (
        [(0.9 * upper, rng.uniform(0.26, 0.3)), (0.05, 0.16), (0, 0.16)]
        if electric
        else [(0.8 * upper, 0.24), (0, 0.23)]
    )
    right = rounded(half)
    outline = np.concatenate([right, right[-2:0:-1] * [-1, 1]])
    long, top = rng.uniform(0.38, 0.48), 0.16 if electric else 0.22
    parts = [turn(prism(outline, -deep, deep), "x", np.pi / 2)]
    parts.append(box((-0.025, 0.025), (-deep - 0.014, -deep + 0.012), (top - 0.1, top + long)))
    parts += _head(rng, top + long, deep)
    x = np.linspace(-0.018, 0.018, 6)
    parts.append(rods(columns(x, -deep - 0.02, -0.14), columns(x, -deep - 0.02, top + long), 0.0015, n=3))
    parts.append(box((-0.07, 0.07), (-deep - 0.018, -deep), (-0.155, -0.125)))
    if electric:
        parts.append(boxes(columns(-0.045, -deep - 0.012, [-0.08, 0.0]), columns(0.045, -deep, [-0.05, 0.03])))
    else:
        ring = revolve([(0.04, 0), (0.04, 0.004), (0.055, 0.004), (0.055, 0)], 24)
        parts.append(move(turn(ring, "x", np.pi / 2), y=-deep, z=0.06))
    return join(*parts), "C1"


def _head(rng: Random, low: float, deep: float) -> list[Mesh]:
    """Build the head above a neck, bent back, with three pegs at each side."""
    at = low + np.linspace(0.03, 0.13, 3)
    ends = [
        [(s * w, -deep + d, z) for s, d in ((-1, -0.01), (1, -0.01), (1, 0.01), (-1, 0.01))]
        for w, z in ((0.025, low), (0.04, low + 0.16))
    ]
    pegs = rods(columns(0.03, -deep, at), columns(rng.uniform(0.06, 0.075), -deep, at), 0.008)
    return [loft(np.array(ends)), both_sides(pegs)]


def piano(rng: Random) -> LabelledMesh:
    """Build an upright, or a grand with its lid up."""
    return one_of(rng, _upright, _grand)(rng), "C1"


def _clavier(x: float, front: float, back: float, z: float) -> Mesh:
    """Build white keys as one row with gaps and black keys in groups of two and three, from y = front to back."""
    n = 28
    pitch = 2 * x / n
    left = -x + pitch * np.arange(n)
    white = boxes(columns(left + 0.1 * pitch, front, z), columns(left + 0.9 * pitch, back, z + 0.02))
    black = left[np.isin(np.arange(n) % 7, (0, 1, 3, 4, 5))] + pitch
    return join(
        white,
        boxes(
            columns(black - 0.3 * pitch, front + 0.4 * (back - front), z), columns(black + 0.3 * pitch, back, z + 0.035)
        ),
    )


def _upright(rng: Random) -> Mesh:
    """Build a tall case with a key bed in front on two legs, a music desk, and pedals."""
    x, y, high, bed = rng.uniform(0.68, 0.78), rng.uniform(0.15, 0.2), rng.uniform(1.0, 1.3), rng.uniform(0.6, 0.7)
    reach = y + rng.uniform(0.25, 0.32)
    parts = [box((-x, x), (-y, y), (0.04, high)), box((-x - 0.03, x + 0.03), (-y - 0.04, y), (high, high + 0.03))]
    parts.append(box((-x, x), (-reach, -y), (bed - 0.08, bed)))
    parts.append(both_sides(box((x - 0.06, x), (-reach, -y), (bed, bed + 0.12))))
    parts.append(_clavier(x - 0.07, -reach + 0.03, -y - 0.08, bed))
    parts.append(both_sides(box((x - 0.07, x - 0.01), (-reach + 0.01, -reach + 0.07), (0, bed - 0.08))))
    parts.append(turn(box((-0.35, 0.35), (-0.01, 0.01), (0, 0.25)), "x", -0.3) + np.array([0, -y - 0.09, bed + 0.15]))
    parts.append(boxes(columns([-0.1, -0.02, 0.06], -y - 0.1, 0.05), columns([-0.06, 0.02, 0.1], -y, 0.07)))
    return join(*parts)


def _grand(rng: Random) -> Mesh:
    """Build a wing-shaped case on three legs, keys in front, the lid propped open."""
    x, long, low = rng.uniform(0.68, 0.78), rng.uniform(1.2, 1.8), 0.62
    rim = rounded(
        [
            (x, 0.0),
            (x, 0.45 * long),
            (0.1 * x, 0.6 * long),
            (0.1 * x, long),
            (-0.9 * x, long),
            (-x, 0.7 * long),
            (-x, 0.0),
        ]
    )
    parts = [prism(rim, low, low + 0.3)]
    lid = move(turn(move(prism(rim, 0, 0.02), x=x), "y", -rng.uniform(0.4, 0.8)), x=-x, z=low + 0.32)
    parts += [lid, rods([0.7 * x, 0.3 * long, low + 0.3], [0.4 * x, 0.3 * long, low + 0.32 + 0.9 * x], 0.012)]
    parts.append(box((-x, x), (-0.3, 0), (low, low + 0.1)))
    parts.append(both_sides(box((x - 0.06, x), (-0.3, 0.0), (low + 0.1, low + 0.22))))
    parts.append(_clavier(x - 0.07, -0.28, -0.05, low + 0.1))
    feet = np.array([(0.85 * x, 0.0), (-0.85 * x, 0.0), (-0.4 * x, 0.85 * long)])
    parts.append(rods(columns(feet[:, 0], feet[:, 1], low), columns(feet[:, 0], feet[:, 1], 0), 0.06, 0.035, n=12))
    parts.append(boxes([[-0.1, 0.05, 0.05], [-0.08, 0.08, 0.08]], [[0.1, 0.12, 0.1], [0.08, 0.12, low]]))
    return join(*parts)
