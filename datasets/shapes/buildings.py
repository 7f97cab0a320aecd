"""Parts of buildings: stairs, door, curtain, mantel, tent."""

from __future__ import annotations

import numpy as np

from datasets.shapes.kit import (
    Array,
    Made,
    Mesh,
    Random,
    both_sides,
    box,
    boxes,
    chance,
    columns,
    disc,
    join,
    loft,
    one_of,
    prism,
    rods,
    turn,
)


def stairs(rng: Random) -> Made:
    """A solid or open flight, two flights with a landing, or a spiral."""
    return one_of(rng, _solid_flight, _solid_flight, _open_flight, _landing, _spiral)(rng)


def _rail(rng: Random, x: float, foot: Array) -> Mesh:
    """Balusters on points (n, 3) of the steps, moved to x, and the hand rail over them."""
    low = foot * [0, 1, 1] + [x, 0, 0]
    high = low + [0, 0, rng.uniform(0.5, 0.8)]
    return join(rods(low, high, 0.015), rods(high[0], high[-1], 0.03))


def _solid_flight(rng: Random) -> Made:
    """Steps that reach down to the floor, perhaps with a rail at one or both sides."""
    n, x = int(rng.integers(4, 14)), rng.uniform(0.3, 0.9)
    tread, rise = rng.uniform(0.2, 0.32), rng.uniform(0.14, 0.22)
    at = np.arange(n)
    parts = [boxes(columns(-x, at * tread, 0), columns(x, (at + 1) * tread, (at + 1) * rise))]
    feet = columns(0, (at + 0.5) * tread, (at + 1) * rise)
    if chance(rng, 0.5):
        rail = _rail(rng, 0.9 * x, feet)
        parts.append(rail if chance(rng, 0.5) else both_sides(rail))
    return join(*parts), "C1"


def _open_flight(rng: Random) -> Made:
    """Boards between two slanted beams: half a turn about the x axis maps it onto itself unless there is a rail."""
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
    parts = [boards, both_sides(loft(side + [x, 0, 0]))]
    if chance(rng, 0.4):
        parts.append(both_sides(_rail(rng, x + 0.025, columns(0, at * tread, at * rise + deep))))
        return join(*parts), "C1"
    return join(*parts), "C2x"


def _landing(rng: Random) -> Made:
    """Two solid flights that meet at a landing, at a right angle or back to back."""
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


def _spiral(rng: Random) -> Made:
    """Wedges around a pole. Alone they are symmetric under half a turn about x; a taller pole or a rail ends that."""
    n, reach, rise = int(rng.integers(8, 20)), rng.uniform(0.6, 1.0), rng.uniform(0.14, 0.2)
    step = rng.uniform(0.3, 0.5)
    at = np.arange(n) - (n - 1) / 2
    edge = np.array([-0.55, -0.18, 0.18, 0.55]) * step
    wedge = np.concatenate([[[0.04, 0.0]], reach * np.stack([np.cos(edge), np.sin(edge)], axis=1)])
    steps = join(*(turn(prism(wedge, i * rise - 0.025, i * rise + 0.025), "z", i * step) for i in at))
    half = n * rise / 2 + rng.uniform(0, 0.1)
    pole = disc(0.06, -half, half)
    if chance(rng, 0.5):
        return join(steps, pole), "C2x"
    foot = columns(0.95 * reach * np.cos(at * step), 0.95 * reach * np.sin(at * step), at * rise)
    high = foot + [0, 0, rng.uniform(0.6, 0.9)]
    return join(steps, pole, rods(foot, high, 0.012), rods(high[:-1], high[1:], 0.025)), "C1"
