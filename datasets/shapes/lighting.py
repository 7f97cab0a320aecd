"""Lamps."""

from __future__ import annotations

import numpy as np

from datasets.shapes.primitives import (
    Array,
    LabelledMesh,
    Mesh,
    Random,
    around,
    disc,
    join,
    loft,
    move,
    one_of,
    oval,
    revolve,
    rods,
    rounded,
    stack,
    tube,
    turn,
)


def lamp(rng: Random) -> LabelledMesh:
    """Build a floor, table, desk, arc, tripod or ceiling lamp."""
    styles = (_floor_lamp, _table_lamp, _square_lamp, _tripod, _desk_lamp, _arc_lamp, _chandelier, _pendant)
    return one_of(rng, *styles)(rng)


def shade(rng: Random, low: float, outline: Array | None = None) -> Mesh:
    """Build an open shade above z = low, narrower at the top."""
    wide, high = rng.uniform(0.16, 0.32), rng.uniform(0.18, 0.35)
    rows = [(wide, low), (wide * rng.uniform(0.4, 0.95), low + high)]
    return loft(stack(oval() if outline is None else outline, rows), caps=False)


def _foot(radius: float, pole: float, height: float) -> Mesh:
    """Build a round foot that runs into a pole of some height."""
    return revolve([(0, 0), (radius, 0), (radius, 0.02), (pole, 0.05), (pole, height), (0, height)])


def _floor_lamp(rng: Random) -> LabelledMesh:
    height = rng.uniform(1.1, 1.6)
    if rng.random() < 0.4:
        bowl = rounded([(0, height), (0.12, height), (rng.uniform(0.18, 0.3), height + rng.uniform(0.08, 0.2))])
        return join(_foot(rng.uniform(0.12, 0.2), 0.015, height), revolve(bowl)), "Cinf"
    return join(_foot(rng.uniform(0.12, 0.2), 0.015, height), shade(rng, height - 0.15)), "Cinf"


def _table_lamp(rng: Random) -> LabelledMesh:
    height = rng.uniform(0.35, 0.6)
    knots = [(r, z) for r, z in zip(rng.uniform(0.04, 0.17, 4), np.linspace(0.03, 0.8, 4) * height, strict=True)]
    body = rounded([(0.1, 0), *knots, (0.02, 0.85 * height), (0.02, height), (0, height)])
    return join(revolve([(0, 0), (0.1, 0)]), revolve(body), shade(rng, height - 0.08)), "Cinf"


def _square_lamp(rng: Random) -> LabelledMesh:
    """Build a square shade on a square foot."""
    square, height, thick = oval(power=0.0, n=24), rng.uniform(0.4, 1.3), rng.uniform(0.015, 0.08)
    rows = [(0, 0), (0.15, 0), (0.15, 0.04), (thick, 0.04), (thick, height), (0, height)]
    return join(loft(stack(square, rows), caps=False), shade(rng, height - 0.1, square)), "C4"


def _tripod(rng: Random) -> LabelledMesh:
    height = rng.uniform(0.6, 1.3)
    leg = rods([rng.uniform(0.2, 0.4), 0, 0], [0.03, 0, height], 0.02, 0.015, n=12)
    return join(around(leg, 3), disc(0.05, height - 0.03, height + 0.02), shade(rng, height)), "C3"


def _desk_lamp(rng: Random) -> LabelledMesh:
    """Build two arms with joints and a tilted head."""
    elbow = np.array([0, rng.uniform(0.1, 0.3), rng.uniform(0.3, 0.5)])
    head = np.array([0, -rng.uniform(0.1, 0.4), elbow[2] + rng.uniform(0.0, 0.3)])
    cone = revolve([(0.03, 0.1), (0.05, 0.06), (rng.uniform(0.09, 0.14), -0.08)])
    joints = turn(join(*(move(disc(0.025, -0.03, 0.03, 16), x=-p[2], y=p[1]) for p in (elbow, head))), "y", np.pi / 2)
    arms = rods(np.array([(0, 0, 0.03), elbow]), np.array([elbow, head]), 0.014)
    return join(
        disc(rng.uniform(0.1, 0.15), 0, 0.03), arms, joints, move(turn(cone, "x", rng.uniform(-0.9, -0.2)), *head)
    ), "C1"


def _arc_lamp(rng: Random) -> LabelledMesh:
    """Build a pole that bends over in an arc, with the shade hanging at its end."""
    reach, height = rng.uniform(0.4, 0.8), rng.uniform(1.1, 1.5)
    path = rounded(
        [(0, 0, 0.03), (0, 0, 0.8 * height), (0, -0.3 * reach, height), (0, -reach, height), (0, -reach, 0.85 * height)]
    )
    dome = revolve(rounded([(0.02, 0.0), (0.1, -0.01), (0.16, -0.1), (rng.uniform(0.15, 0.2), -0.16)]))
    return join(disc(0.17, 0, 0.04), tube(path, 0.014), move(dome, y=-reach, z=0.87 * height)), "C1"


def _chandelier(rng: Random) -> LabelledMesh:
    """Build curved arms with candle cups around a stem."""
    n, reach = int(rng.integers(3, 9)), rng.uniform(0.3, 0.5)
    stem = revolve(
        rounded(
            [(0, -0.35), (0.05, -0.3), (0.08, -0.2), (0.02, -0.05), (0.015, 0.4), (0.08, 0.42), (0.08, 0.45), (0, 0.45)]
        )
    )
    arm = tube(rounded([(0.03, 0, -0.2), (0.5 * reach, 0, -0.35), (reach, 0, -0.3), (reach, 0, -0.1)]), 0.014)
    cup = move(revolve([(0.0, -0.1), (0.03, -0.1), (0.07, -0.02), (rng.uniform(0.05, 0.09), 0.08)], 24), x=reach)
    return join(stem, around(join(arm, cup), n)), f"C{n}"


def _pendant(rng: Random) -> LabelledMesh:
    """Build a dome on a cord from a ceiling plate."""
    drop = rng.uniform(0.3, 0.8)
    dome = rounded([(0.03, 0.0), (rng.uniform(0.05, 0.2), -0.02), (0.2, -0.15), (rng.uniform(0.15, 0.35), -0.25)])
    plate = revolve([(0, drop), (0.07, drop), (0.07, drop - 0.03), (0.012, drop - 0.04), (0.012, 0)])
    return join(plate, revolve(dome)), "Cinf"
