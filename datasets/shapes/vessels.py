"""Vessels: bottle, bowl, cup, vase, flower pot, cone."""

from __future__ import annotations

import numpy as np

from datasets.shapes.kit import (
    Made,
    Random,
    join,
    loft,
    one_of,
    oval,
    revolve,
    rounded,
    stack,
    tube,
)


def bottle(rng: Random) -> Made:
    """A body, a shoulder, a neck and a cap; round, square or flat, perhaps with a handle or a spray head."""
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
