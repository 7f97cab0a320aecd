"""Living things: person, plant, and the leaves and flowers of pots."""

from __future__ import annotations

import numpy as np

from common import portable
from datasets.shapes.primitives import (
    Array,
    LabelledMesh,
    Mesh,
    Random,
    box,
    chance,
    columns,
    cushion,
    ellipsoid,
    grid_faces,
    hollow,
    join,
    loft,
    move,
    one_of,
    oval,
    rods,
    stack,
    tube,
    unit,
)

_ALONG = np.linspace(0.0, 1.0, 7)
"""Places along a leaf, as shares of its length."""
_WIDTH = portable.power(portable.sin_cos(np.pi * (0.04 + 0.96 * _ALONG))[0], 0.7)
"""Width of a leaf at these places, as a share of the largest."""


def leaves(start: Array, heading: Array, slope: Array, length: Array, width: Array, droop: Array) -> Mesh:
    """Build thin drooping leaves from `start` (n, 3) at angles `heading` (about z) and `slope` (above the ground), all (n,)."""
    along = _ALONG * length[:, None]
    (up, out), (sine, cosine) = (portable.sin_cos(angle[:, None]) for angle in (slope, heading))
    flat, rise = along * out, along * up - droop[:, None] * along * _ALONG
    middle = start[:, None] + columns(flat * cosine, flat * sine, rise)
    half = width[:, None] / 2 * _WIDTH
    side = columns(-half * sine, half * cosine, 0.25 * half)
    left, right = middle + side, middle + side * np.array([-1, -1, 1])
    strips = np.stack([left, middle, right], axis=2).reshape(len(start), -1, 3)
    return strips.take(grid_faces(len(_ALONG), 3), axis=1).reshape(-1, 3, 3)


def flowers(rng: Random, reach: tuple[float, float], floor: float, high: float) -> Mesh:
    """Build stems with leaves and a bud or an open flower on top, planted at random within (+-x, +-y)."""
    n = int(rng.integers(4, 9))
    foot = np.stack([rng.uniform(-1, 1, n) * reach[0], rng.uniform(-1, 1, n) * reach[1], np.full(n, floor)], axis=1)
    lean = rng.uniform(-0.12, 0.12, (n, 2))
    top = foot + np.column_stack([lean + 0.3 * foot[:, :2], high * rng.uniform(0.6, 1.0, n)])
    size = rng.uniform(0.03, 0.06)
    ball, m = ellipsoid(size, size, 0.7 * size, n=8), 6 * n
    heads = (top[:, None, None] + ball).reshape(-1, 3, 3)
    turns, ones = np.tile(np.arange(6) * np.pi / 3, n), np.ones(m)
    blossoms = leaves(np.repeat(top, 6, axis=0), turns, 0.3 * ones, 3 * size * ones, 1.6 * size * ones, 0 * ones)
    m = 3 * n
    low = np.repeat(foot, 3, axis=0)
    green = leaves(low, rng.uniform(0, 2 * np.pi, m), rng.uniform(0.6, 1.3, m), rng.uniform(0.4, 0.8, m) * high,
                   rng.uniform(0.04, 0.08, m), rng.uniform(0.2, 0.8, m))  # fmt: skip
    return join(rods(foot, top, 0.008, n=6), heads, blossoms, green)


def plant(rng: Random) -> LabelledMesh:
    """Build a pot with a bush, a palm, a tree with broad leaves, or upright blades."""
    rim, high = rng.uniform(0.12, 0.2), rng.uniform(0.15, 0.32)
    pot = [(rng.uniform(0.6, 1.0) * rim, 0), (rim, high)]
    outline = one_of(rng, oval(), oval(), oval(power=0.2))
    vessel = loft(stack(outline, hollow(pot, 0.02)), caps=False)
    soil = loft(stack(outline, [(0, high - 0.03), (0.9 * rim, high - 0.03)]), caps=False)
    green = one_of(rng, _bush, _palm, _tree, _blades)(rng, high - 0.03)
    return join(vessel, soil, green), "C1"


def _bush(rng: Random, floor: float) -> Mesh:
    """Build many broad leaves on thin stalks from the pot's middle."""
    n = int(rng.integers(16, 34))
    heading, slope, length = rng.uniform(0, 2 * np.pi, n), rng.uniform(0.5, 1.45, n), rng.uniform(0.2, 0.6, n)
    foot = np.tile([0.0, 0.0, floor], (n, 1))
    (up, out), (sine, cosine) = portable.sin_cos(slope), portable.sin_cos(heading)
    tip = foot + length[:, None] * columns(cosine * out, sine * out, up)
    blades = leaves(
        tip, heading, slope - 0.6, rng.uniform(0.15, 0.3, n), rng.uniform(0.1, 0.18, n), rng.uniform(0.1, 0.6, n)
    )
    return join(rods(foot, tip, 0.006, n=5), blades)


def _palm(rng: Random, floor: float) -> Mesh:
    """Build a slightly bent trunk with long drooping leaves."""
    top, bend, n = floor + rng.uniform(0.4, 0.9), rng.uniform(0.03, 0.15), int(rng.integers(9, 18))
    t = np.linspace(0, 1, 6)
    trunk = tube(np.stack([bend * t * t, 0 * t, floor + (top - floor) * t], axis=1), np.linspace(0.035, 0.02, 6))
    fronds = leaves(np.tile([bend, 0.0, top], (n, 1)), rng.uniform(0, 2 * np.pi, n), rng.uniform(0.4, 1.3, n),
                    rng.uniform(0.4, 0.7, n), rng.uniform(0.06, 0.11, n), rng.uniform(0.6, 1.2, n))  # fmt: skip
    return join(trunk, fronds)


def _tree(rng: Random, floor: float) -> Mesh:
    """Build an upright stem with leaves all along."""
    n, high = int(rng.integers(14, 30)), rng.uniform(0.6, 1.1)
    z = floor + np.sort(rng.uniform(0.25, 1.0, n)) * high
    start = columns(np.zeros(n), np.zeros(n), z)
    heading = np.arange(n) * 2.4 + rng.uniform(-0.4, 0.4, n)
    green = leaves(
        start,
        heading,
        rng.uniform(0.1, 0.9, n),
        rng.uniform(0.2, 0.4, n),
        rng.uniform(0.1, 0.16, n),
        rng.uniform(0.2, 0.7, n),
    )
    return join(rods([0, 0, floor], [0, 0, z[-1] + 0.02], 0.02, 0.008), green)


def _blades(rng: Random, floor: float) -> Mesh:
    """Build narrow upright leaves, as of a snake plant or a grass."""
    n = int(rng.integers(10, 24))
    start = np.column_stack([rng.uniform(-0.07, 0.07, (n, 2)), np.full(n, floor)])
    width = rng.uniform(0.03, 0.1)
    return leaves(start, rng.uniform(0, 2 * np.pi, n), rng.uniform(1.0, 1.5, n), rng.uniform(0.4, 0.9, n),
                  width * rng.uniform(0.7, 1.2, n), rng.uniform(0.0, 0.4, n))  # fmt: skip


def person(rng: Random) -> LabelledMesh:
    """Build a standing, walking, waving or sitting figure with head, trunk, limbs, hands and feet; it looks to -y."""
    hip, shoulder, broad = rng.uniform(0.11, 0.15), rng.uniform(0.17, 0.22), rng.uniform(0.8, 1.2)
    leg = rng.uniform(0.78, 0.92)
    neck = leg + rng.uniform(0.5, 0.58)
    rows = [
        (0.75 * hip, leg - 0.08),
        (hip, leg),
        (0.85 * hip, leg + 0.2),
        (0.95 * shoulder, neck - 0.12),
        (0.5 * shoulder, neck),
    ]
    trunk = loft(stack(oval(1.0, 0.55 * broad, 0.8, n=20), rows))
    head = ellipsoid(0.075, 0.095, 0.115, (0, -0.01, neck + 0.16))
    parts = [trunk, head, rods([0, 0, neck - 0.02], [0, 0, neck + 0.1], 0.05)]
    parts += _legs(rng, 0.6 * hip, leg, 0.065 * broad)
    parts += _hands(rng, shoulder, neck - 0.07, 0.042 * broad)
    if chance(rng, 0.3):
        parts.append(ellipsoid(0.09, 0.11, 0.09, (0, 0.02, neck + 0.2)))
    return join(*parts), "C1"


def _limb(points: list[Array], thick: float) -> Mesh:
    """Build two tapered bones with round joints through three points."""
    a, b, c = points
    bones = rods([a, b], [b, c], [thick, 0.8 * thick], [0.8 * thick, 0.6 * thick], n=10)
    ball = ellipsoid(1.02 * thick, 1.02 * thick, 1.02 * thick, n=8)
    return join(bones, ball + a, 0.82 * ball + b)


def _legs(rng: Random, x: float, leg: float, thick: float) -> list[Mesh]:
    """Build both legs with feet; one stride forward and one back, or both bent to sit on a block."""
    parts, sits, stride = [], chance(rng, 0.2), rng.uniform(-0.25, 0.25)
    for sign in (-1, 1):
        top, step = np.array([sign * x, 0.0, leg - 0.05]), sign * stride
        knee = top + ([0, -0.42, 0.02] if sits else [sign * 0.02, -0.6 * abs(step) - 0.02, -0.43])
        foot = knee + ([0, -0.05, -0.4] if sits else [sign * 0.02, step + 0.6 * abs(step), 0.08 - knee[2]])
        parts.append(_limb([top, knee, foot], thick))
        parts.append(
            cushion(
                (foot[0] - 0.045, foot[0] + 0.045),
                (foot[1] - 0.18, foot[1] + 0.06),
                (foot[2] - 0.08, foot[2] + 0.02),
                0.8,
            )
        )
    if sits:
        parts.append(box((-0.22, 0.22), (-0.3, 0.2), (leg - 0.45, leg - 0.12)))
    return parts


def _hands(rng: Random, x: float, z: float, thick: float) -> list[Mesh]:
    """Build both arms, hanging, spread, raised, or swung forward, each side on its own."""
    parts = []
    for sign in (-1, 1):
        top = np.array([sign * x, 0.0, z])
        swing, lift = rng.uniform(-0.5, 0.8), one_of(rng, 0.15, 0.15, 0.3, 1.5, 2.5)
        sine, cosine = portable.sin_cos(lift)
        upper = np.array([sign * sine, -portable.sin_cos(swing)[0] * 0.4, -cosine])
        elbow = top + 0.29 * unit(upper)
        lower = move(upper, y=-rng.uniform(0.0, 0.9), z=0.2)
        hand = elbow + 0.27 * unit(lower)
        parts += [_limb([top, elbow, hand], thick), ellipsoid(0.035, 0.045, 0.05, hand, n=8)]
    return parts
