"""Vessels: bottle, bowl, cup, vase, flower pot, cone."""

from __future__ import annotations

import numpy as np

from common import portable
from datasets.shapes.living import flowers
from datasets.shapes.primitives import (
    SIDES,
    Array,
    LabelledMesh,
    Random,
    around,
    chance,
    disc,
    hollow,
    join,
    loft,
    one_of,
    oval,
    revolve,
    rounded,
    stack,
    tube,
)


def bottle(rng: Random) -> LabelledMesh:
    """Build a body, a shoulder, a neck and a cap; round, square or flat, perhaps with a handle or a spray head."""
    radius, body, neck = rng.uniform(0.12, 0.3), rng.uniform(0.4, 0.8), rng.uniform(0.035, 0.07)
    shoulder = body + rng.uniform(0.05, 0.3)
    top = shoulder + rng.uniform(0.05, 0.3)
    waist = radius * one_of(rng, 1.0, rng.uniform(0.75, 1.1))
    smooth = rounded([(radius, 0.02), (waist, 0.5 * body), (radius, body), (neck, shoulder), (neck, top)])
    side = np.concatenate([[(0, 0), (0.95 * radius, 0)], smooth])
    lip = neck * rng.uniform(1.1, 1.5)
    cap = revolve([(0, top - 0.06), (lip, top - 0.06), (lip, top + 0.02), (0, top + 0.02)])
    style = rng.integers(10)
    if style == 0:
        grip = rounded(
            [
                (neck, 0, 0.95 * top),
                (2.2 * radius, 0, 0.9 * top),
                (1.8 * radius, 0, 0.5 * body),
                (radius, 0, 0.4 * body),
            ]
        )
        return join(revolve(side), cap, tube(grip, rng.uniform(0.02, 0.04))), "C1"
    if style == 1:
        head = [[0, -0.16, top + 0.06], [0, 0.06, top + 0.08], [0, 0.09, top + 0.02]]
        trigger = [[0, -0.08, top + 0.04], [0, -0.12, top - 0.1]]
        return join(revolve(side), cap, tube(head, 0.03), tube(trigger, 0.012)), "C1"
    if style in (2, 3):
        square, flat = oval(power=rng.uniform(0.3, 0.6)), rng.uniform(0.4, 0.7)
        outline = square if style == 2 else square * np.array([1, flat])
        return join(loft(stack(outline, side), caps=False), cap), "C4" if style == 2 else "C2"
    return join(revolve(side), cap), "Cinf"


def bowl(rng: Random) -> LabelledMesh:
    """Build an open bowl with a foot: round, with flat sides, or softly square."""
    rim, high, foot = rng.uniform(0.25, 0.5), rng.uniform(0.12, 0.32), rng.uniform(0.35, 0.6)
    curve = [(0.92 * foot * rim, 0.02), (rng.uniform(0.75, 1.05) * rim, rng.uniform(0.1, 0.4) * high), (rim, high)]
    side = hollow([(foot * rim, 0), (foot * rim, 0.02), *rounded(curve)], rng.uniform(0.015, 0.04))
    style = rng.integers(8)
    if style == 0:
        n = one_of(rng, 5, 6, 8)
        return revolve(side, n), f"C{n}"
    if style == 1:
        return loft(stack(oval(power=rng.uniform(0.35, 0.6)), side), caps=False), "C4"
    return revolve(side), "Cinf"


def cup(rng: Random) -> LabelledMesh:
    """Build a mug or a tea cup with a handle, a beaker without, a two-handled cup, or a goblet."""
    rim, high = rng.uniform(0.28, 0.42), rng.uniform(0.5, 0.95)
    if chance(rng, 0.2):
        stem, foot = rng.uniform(0.3, 0.7), rng.uniform(0.6, 0.95) * rim
        glass = rounded([(0.03, stem), (rim, stem + 0.1), (rim, stem + 0.4), (0.85 * rim, stem + 0.6)])
        return join(revolve([(0, 0), (foot, 0), (0.03, 0.05), (0.03, stem)]), revolve(hollow(glass, 0.02))), "Cinf"
    base = rng.uniform(0.55, 1.0) * rim
    side = rounded([(base, 0), (rng.uniform(0.9, 1.05) * rim, 0.3 * high), (rim, high)])
    mug = revolve(hollow(side, rng.uniform(0.02, 0.05)))
    style = rng.integers(6)
    if style == 0:
        return mug, "Cinf"
    reach = rim + rng.uniform(0.15, 0.3)
    loop = rounded(
        [(0.95 * rim, 0, 0.85 * high), (reach, 0, 0.9 * high), (reach, 0, 0.3 * high), (0.95 * rim, 0, 0.25 * high)]
    )
    handle = tube(loop, rng.uniform(0.025, 0.05))
    if style == 1:
        return join(mug, around(handle, 2)), "C2"
    if style == 2:
        plate = hollow([(0.6 * rim, -0.04), (rim, -0.02), (1.8 * rim, 0.06)], 0.02)
        return join(mug, handle, revolve(plate)), "C1"
    return join(mug, handle), "C1"


def vase(rng: Random) -> LabelledMesh:
    """Build a tall vessel with a free profile: round, fluted, twisted, square, or with two handles."""
    high, rim = rng.uniform(0.7, 1.2), rng.uniform(0.1, 0.22)
    belly, neck = rng.uniform(0.2, 0.38), rng.uniform(0.07, 0.16)
    at = np.array([0, 0.15, rng.uniform(0.35, 0.55), 0.8, 1]) * high
    side = rounded(np.stack([[rng.uniform(0.1, 0.2), belly, belly, neck, rim], at], axis=1), 2)
    profile = hollow(side, 0.02)
    style = rng.integers(8)
    if style == 0:
        return loft(stack(oval(power=0.25), profile), caps=False), "C4"
    if style in (1, 2):
        flutes = one_of(rng, 6, 8, 12)
        wave = 1 + rng.uniform(0.05, 0.1) * portable.sin_cos(flutes * np.arange(SIDES) * 2 * np.pi / SIDES)[1]
        sections = stack(oval() * wave[:, None], profile)
        return loft(_twisted(sections, rng.uniform(0.5, 1.5) if style == 2 else 0.0), caps=False), f"C{flutes}"
    if style == 3:
        loop = rounded(
            [
                (neck, 0, 0.85 * high),
                (neck + 0.25, 0, 0.9 * high),
                (belly + 0.1, 0, 0.6 * high),
                (0.9 * belly, 0, 0.5 * high),
            ]
        )
        return join(revolve(profile), around(tube(loop, 0.022), 2)), "C2"
    return revolve(profile), "Cinf"


def _twisted(sections: Array, rate: float) -> Array:
    """Build sections (m, n, 3) each turned about z in proportion to its height."""
    angle = rate * sections[:, :1, 2]
    s, c = portable.sin_cos(angle)
    x, y = sections[..., 0], sections[..., 1]
    return np.stack([c * x - s * y, s * x + c * y, sections[..., 2]], axis=-1)


def flower_pot(rng: Random) -> LabelledMesh:
    """Build a pot with a rim, empty or with flowers: round, square, or a long window box."""
    rim, high = rng.uniform(0.2, 0.3), rng.uniform(0.25, 0.45)
    base, lip = rng.uniform(0.6, 0.85) * rim, rng.uniform(0.04, 0.1)
    side = hollow([(base, 0), (0.93 * rim, high - lip), (rim, high - lip), (1.03 * rim, high)], 0.025)
    soil = [(0, high - 0.05), (0.88 * rim, high - 0.05)]
    kind = one_of(rng, "round", "round", "round", "square", "long")
    outline = {"round": oval(), "square": oval(power=0.0), "long": oval(rng.uniform(2.0, 3.0), 1.0, 0.0)}[kind]
    parts = [loft(stack(outline, side), caps=False), loft(stack(outline, soil), caps=False)]
    if kind == "round" and chance(rng, 0.4):
        parts.append(revolve(hollow([(1.1 * base, -0.03), (1.35 * base, 0.03)], 0.015)))
    if chance(rng, 0.4):
        return join(*parts), {"round": "Cinf", "square": "C4", "long": "C2"}[kind]
    wide = np.abs(outline).max(axis=0) * 0.6 * rim
    return join(*parts, flowers(rng, (wide[0], wide[1]), high - 0.05, rng.uniform(0.2, 0.5))), "C1"


def cone(rng: Random) -> LabelledMesh:
    """Build a traffic cone on a square or round foot, perhaps with raised bands, or a bare cone, whole or cut off."""
    radius, high = rng.uniform(0.16, 0.36), rng.uniform(0.5, 0.9)
    tip = one_of(rng, 0.0, rng.uniform(0.08, 0.3)) * radius
    body = [revolve([(0, 0), (radius, 0), (tip, high), (0, high)])]
    for share in np.linspace(0.3, 0.7, int(rng.integers(0, 3))):
        low, top = (radius + (tip - radius) * s + 0.012 for s in (share - 0.08, share + 0.08))
        body.append(revolve([(low - 0.012, (share - 0.08) * high), (low, (share - 0.08) * high),
                             (top, (share + 0.08) * high), (top - 0.012, (share + 0.08) * high)]))  # fmt: skip
    style, foot = rng.integers(3), rng.uniform(1.15, 1.5) * radius
    if style == 0:
        return join(*body), "Cinf"
    if style == 1:
        return join(*body, disc(foot, -0.05, 0)), "Cinf"
    return join(*body, loft(stack(oval(foot, foot, one_of(rng, 0.0, 0.2), n=32), [(1, -0.05), (1, 0)]))), "C4"
