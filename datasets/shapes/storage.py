"""Tables and storage: table, desk, bookshelf, dresser, night stand, wardrobe, tv stand, glass box."""

from __future__ import annotations

import numpy as np

from datasets.shapes.primitives import (
    Array,
    LabelledMesh,
    Mesh,
    Random,
    Span,
    around,
    both_sides,
    box,
    boxes,
    chance,
    columns,
    corner_legs,
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
    stretch,
)
from datasets.shapes.seating import star


def table(rng: Random) -> LabelledMesh:
    """Build a top, long, square, round or oval, on corner legs, a pedestal, three legs or two trestles."""
    long = rng.uniform(0.4, 1.0)
    return one_of(rng, _long_table, _long_table, _square_table, _round_table)(rng, long, rng.uniform(0.4, 0.8))


def _top(outline: Array, height: float, thick: float) -> Mesh:
    return prism(outline, height - thick, height)


def _long_table(rng: Random, long: float, height: float) -> LabelledMesh:
    """Build a long table, symmetric under half a turn about z."""
    wide, thick = long * rng.uniform(0.4, 0.75), rng.uniform(0.02, 0.06)
    top = _top(oval(long, wide, one_of(rng, 0.0, 0.3, 1.0)), height, thick)
    inset, under = rng.uniform(0.6, 0.9), height - thick
    if chance(rng, 0.3):
        post = box((inset * long - 0.04, inset * long + 0.04), (-0.06, 0.06), (0.05, under))
        foot = box((inset * long - 0.05, inset * long + 0.05), (-0.8 * wide, 0.8 * wide), (0, 0.05))
        return join(top, both_sides(join(post, foot))), "C2"
    legs = corner_legs(rng, inset * long, inset * wide, under, rng.uniform(0.04, 0.1))
    return join(top, legs, *_braces(rng, inset * long, inset * wide, under)), "C2"


def _braces(rng: Random, x: float, y: float, under: float) -> list[Mesh]:
    """Build an optional apron under the top and an optional shelf near the floor, between legs at (+-x, +-y)."""
    parts: list[Mesh] = []
    if chance(rng, 0.5):
        low = under - rng.uniform(0.05, 0.12)
        parts.append(boxes([[-x, -y, low], [-x, y - 0.02, low], [-x, -y, low], [x - 0.02, -y, low]],
                           [[x, 0.02 - y, under], [x, y, under], [0.02 - x, y, under], [x, y, under]]))  # fmt: skip
    if chance(rng, 0.25):
        z = rng.uniform(0.15, 0.4) * under
        parts.append(box((-x, x), (-y, y), (z, z + 0.025)))
    return parts


def _square_table(rng: Random, long: float, height: float) -> LabelledMesh:
    """Build a square table, symmetric under a quarter turn."""
    half, thick = 0.7 * long, rng.uniform(0.02, 0.06)
    top = _top(oval(half, half, one_of(rng, 0.0, 0.3)), height, thick)
    if chance(rng, 0.3):
        column = box((-0.06, 0.06), (-0.06, 0.06), (0.03, height - thick))
        return join(top, column, box((-0.6 * half, 0.6 * half), (-0.6 * half, 0.6 * half), (0, 0.03))), "C4"
    inset = rng.uniform(0.6, 0.9) * half
    legs = corner_legs(rng, inset, inset, height - thick, rng.uniform(0.04, 0.1))
    return join(top, legs, *_braces(rng, inset, inset, height - thick)), "C4"


def _round_table(rng: Random, long: float, height: float) -> LabelledMesh:
    """Build a round table; a pedestal keeps the top's symmetry, and legs leave that of a turn by one leg."""
    radius, thick = 0.75 * long, rng.uniform(0.02, 0.06)
    top = disc(radius, height - thick, height)
    column = rng.uniform(0.03, 0.08)
    if chance(rng, 0.4):
        foot = rounded([(0, 0), (0.6 * radius, 0), (0.6 * radius, 0.03), (column, 0.06), (column, height - thick)])
        return join(top, revolve(foot)), "Cinf"
    feet = int(rng.integers(3, 6))
    if chance(rng, 0.5):
        leg = rods([0.9 * radius, 0, 0], [0.6 * radius, 0, height - thick], 0.02, 0.03, n=12)
        return join(top, around(leg, feet)), f"C{feet}"
    post = revolve([(column, 0.1), (column, height - thick)])
    return join(top, post, around(star(1, 0.7 * radius, 0.15), feet)), f"C{feet}"


def bookshelf(rng: Random) -> LabelledMesh:
    """Build boards across an upright case in one or more columns, open or with a back, empty or with books."""
    x, y, z = rng.uniform(0.3, 0.7), rng.uniform(0.12, 0.2), rng.uniform(0.7, 1.1)
    rows, across, thick = int(rng.integers(3, 7)), int(rng.integers(1, 4)), rng.uniform(0.02, 0.04)
    levels = np.linspace(-z, z - thick, rows + 1)
    sides = np.linspace(-x, x - thick, across + 1)
    case = [
        boxes(columns(-x, -y, levels), columns(x, y, levels + thick)),
        boxes(columns(sides, -y, -z), columns(sides + thick, y, z)),
    ]
    closed, plinth = chance(rng, 0.6), chance(rng, 0.4)
    if closed:
        case.append(box((-x, x), (y, y + 0.015), (-z, z)))
    if plinth:
        case.append(box((-0.98 * x, 0.98 * x), (-0.9 * y, 0.9 * y), (-z - rng.uniform(0.08, 0.14), -z)))
    if chance(rng, 0.6):
        case.append(_books(rng, x - 2 * thick, y, levels + thick, (2 * z / rows) - thick))
        return join(*case), "C1"
    return join(*case), {(0, 0): "D2", (1, 0): "C2y", (0, 1): "C2", (1, 1): "C1"}[int(closed), int(plinth)]


def _books(rng: Random, x: float, y: float, floors: Array, room: float) -> Mesh:
    """Build rows of upright books of random thickness, height and depth; each row fills a random stretch of its board."""
    n = int(rng.integers(4, 10))
    floor = np.repeat(floors[:-1], n)
    thick = rng.uniform(0.02, 0.06, (len(floors) - 1, n))
    filled = np.cumsum(thick, axis=1)
    left = rng.uniform(-x, x - filled[:, -1].clip(max=2 * x))[:, None] + filled - thick
    right = np.minimum(left + thick, x)
    left = np.minimum(left, right - 0.01)
    tall = rng.uniform(0.55, 0.95, floor.shape) * room
    deep = rng.uniform(-0.9, -0.2, floor.shape) * y
    return boxes(columns(left.ravel(), deep, floor), columns(right.ravel(), y, floor + tall))


def desk(rng: Random) -> LabelledMesh:
    """Build a top over drawers or legs, with a panel behind the knees, perhaps with a shelf on top or an angled wing."""
    x, y, height = rng.uniform(0.6, 0.9), rng.uniform(0.3, 0.42), rng.uniform(0.68, 0.78)
    under = height - rng.uniform(0.025, 0.05)
    parts = [box((-x, x), (-y, y), (under, height))]
    wide = rng.uniform(0.3, 0.45)
    for sign in one_of(rng, (1,), (-1,), (1, -1), ()):
        case = join(box((x - wide, x - 0.02), (-0.92 * y, 0.92 * y), (0.05, under)),
                    drawers((x - wide, x - 0.02), (0.05, under), -0.92 * y, int(rng.integers(2, 5)), 1, "bar"))  # fmt: skip
        parts.append(stretch(case, x=sign))
    if chance(rng, 0.5):
        parts.append(corner_legs(rng, x - 0.06, y - 0.06, under, 0.05))
    else:
        parts.append(both_sides(box((x - 0.03, x), (-0.95 * y, 0.95 * y), (0, under))))
    parts.append(box((-x, x), (0.85 * y, 0.85 * y + 0.02), (rng.uniform(0.1, 0.4), under)))
    if chance(rng, 0.3):
        high = height + rng.uniform(0.25, 0.5)
        parts.append(both_sides(box((x - 0.03, x), (0.3 * y, y), (height, high))))
        parts.append(boxes([[-x, 0.3 * y, high - 0.03], [-x, y - 0.02, height]], [[x, y, high], [x, y, high]]))
    elif chance(rng, 0.3):
        reach = y + rng.uniform(0.6, 0.9)
        parts.append(
            boxes([[x - 0.5, -reach, under], [x - 0.45, -reach, 0]], [[x, -y, height], [x - 0.05, 0.03 - reach, under]])
        )
    return join(*parts), "C1"


def drawers(x: Span, z: Span, front: float, rows: int, across: int, handle: str) -> Mesh:
    """Build a grid of drawer fronts that stand 0.02 out of the plane y = front, each with a handle "knob", "bar" or "none"."""
    wide, high = (x[1] - x[0]) / across, (z[1] - z[0]) / rows
    cx = np.tile(x[0] + wide * (np.arange(across) + 0.5), rows)
    cz = np.repeat(z[0] + high * (np.arange(rows) + 0.5), across)
    gap = 0.012
    fronts = boxes(columns(cx - wide / 2 + gap, front - 0.02, cz - high / 2 + gap),
                   columns(cx + wide / 2 - gap, front, cz + high / 2 - gap))  # fmt: skip
    if handle == "none":
        return fronts
    half = (0.015, 0.015) if handle == "knob" else (0.25 * wide, 0.01)
    handles = boxes(
        columns(cx - half[0], front - 0.055, cz - half[1]), columns(cx + half[0], front - 0.02, cz + half[1])
    )
    return join(fronts, handles)


def _stand(rng: Random, x: float, y: float, high: float) -> Mesh:
    """Build legs or a plinth that carry a case, from z = -high up to 0."""
    if chance(rng, 0.5):
        return box((-0.95 * x, 0.95 * x), (-0.85 * y, 0.95 * y), (-high, 0))
    return move(corner_legs(rng, 0.88 * x, 0.85 * y, high, 0.06), z=-high)


def dresser(rng: Random) -> LabelledMesh:
    """Build rows of drawers. A bare case is symmetric under half a turn about its front's normal; feet or a top end that."""
    x, y, z = rng.uniform(0.45, 0.8), rng.uniform(0.22, 0.3), rng.uniform(0.6, 1.0)
    rows, across = int(rng.integers(3, 6)), int(rng.integers(1, 4))
    case = box((-x, x), (-y, y), (0, z))
    fronts = drawers((-x + 0.02, x - 0.02), (0.02, z - 0.02), -y, rows, across, one_of(rng, "knob", "bar", "none"))
    if chance(rng, 0.2):
        return join(case, fronts), "C2y"
    parts = [case, fronts, _stand(rng, x, y, rng.uniform(0.08, 0.25))]
    parts.append(box((-1.04 * x, 1.04 * x), (-1.12 * y, y), (z, z + 0.03)))
    if chance(rng, 0.35):
        mirror = oval(rng.uniform(0.5, 0.8) * x, 0.35, one_of(rng, 0.2, 1.0), n=32)
        upright = np.stack([mirror[:, 0], np.zeros(32), mirror[:, 1] + z + 0.4], axis=1)
        parts.append(loft(np.stack([move(upright, y=y - 0.06), move(upright, y=y - 0.02)])))
    return join(*parts), "C1"


def night_stand(rng: Random) -> LabelledMesh:
    """Build a small case with one to three drawers, often above an open shelf, on feet."""
    x, y, z = rng.uniform(0.2, 0.32), rng.uniform(0.18, 0.26), rng.uniform(0.3, 0.5)
    low, thick = one_of(rng, 0.0, 0.4 * z, 0.5 * z), 0.025
    fronts = drawers((-x + 0.01, x - 0.01), (low + 0.01, z - 0.01), -y, int(rng.integers(1, 4)) if low == 0 else 1, 1,
                     one_of(rng, "knob", "bar"))  # fmt: skip
    parts = [box((-x, x), (-y, y), (low, z)), fronts, _stand(rng, x, y, rng.uniform(0.06, 0.25))]
    if low:
        parts.append(both_sides(box((x - thick, x), (-y, y), (0, low))))
        parts.append(boxes([[-x, -y, 0], [-x, y - thick, 0]], [[x, y, thick], [x, y, low]]))
    parts.append(box((-x - 0.02, x + 0.02), (-y - 0.03, y), (z, z + 0.025)))
    return join(*parts), "C1"


def wardrobe(rng: Random) -> LabelledMesh:
    """Build a tall case with doors. Without feet, and with handles at mid height or none, half a turn about y is a symmetry."""
    x, y, z = rng.uniform(0.4, 0.9), rng.uniform(0.26, 0.34), rng.uniform(0.85, 1.1)
    doors = 2 * int(rng.integers(1, 3)) if x > 0.6 else 2
    case = join(
        box((-x, x), (-y, y), (-z, z)), drawers((-x + 0.01, x - 0.01), (-z + 0.02, z - 0.02), -y, 1, doors, "none")
    )
    middle = np.linspace(-x, x, doors + 1)[1::2]
    at, lift, long = (
        np.concatenate([middle - 0.05, middle + 0.05]),
        one_of(rng, 0.0, -0.12 * z),
        rng.uniform(0.08, 0.25),
    )
    handles = boxes(columns(at - 0.012, -y - 0.06, lift - long), columns(at + 0.012, -y - 0.02, lift + long))
    style = rng.integers(4)
    if style == 0:
        return case, "C2y"
    if style == 1:
        return join(case, handles), "C2y" if lift == 0.0 else "C1"
    parts = [case, handles, move(_stand(rng, x, y, rng.uniform(0.06, 0.15)), z=-z)]
    if chance(rng, 0.5):
        parts.append(box((-1.05 * x, 1.05 * x), (-1.15 * y, y), (z, z + rng.uniform(0.04, 0.12))))
    if style == 3:
        parts.append(drawers((-x + 0.01, x - 0.01), (-z + 0.03, -0.6 * z), -y - 0.02, 1, doors // 2, "bar"))
    return join(*parts), "C1"


def tv_stand(rng: Random) -> LabelledMesh:
    """Build a long low case: open boards (symmetric like a box), boards on posts, or doors and a shelf on feet."""
    x, y, z = rng.uniform(0.6, 1.0), rng.uniform(0.2, 0.28), rng.uniform(0.18, 0.3)
    thick, style = rng.uniform(0.02, 0.04), rng.integers(4)
    levels = np.array([-z, -thick / 2, z - thick])
    if style == 0:
        uprights = np.linspace(-x, x - thick, int(rng.integers(2, 5)))
        return join(boxes(columns(-x, -y, levels), columns(x, y, levels + thick)),
                    boxes(columns(uprights, -y, -z), columns(uprights + thick, y, z))), "D2"  # fmt: skip
    if style == 1:
        size = np.array([rng.uniform(0.85, 0.95), rng.uniform(0.85, 0.95), 1.0])
        shelves = boxes(columns(-x * size, -y * size, levels), columns(x * size, y * size, levels + thick))
        posts = move(corner_legs(rng, 0.75 * x, 0.75 * y, 2 * z, 0.05), z=-z)
        return join(shelves, posts), "C2"
    wing = rng.uniform(0.35, 0.6) * x
    parts = [
        both_sides(
            join(
                box((x - wing, x), (-y, y), (-z, z)),
                drawers((x - wing, x), (-z + 0.02, z - 0.02), -y, int(rng.integers(1, 4)), 1, "knob"),
            )
        )
    ]
    parts.append(boxes(columns(wing - x, -y, levels), columns(x - wing, y, levels + thick)))
    parts.append(box((-x, x), (y, y + 0.015), (-z, z)))
    parts.append(move(_stand(rng, x, y, rng.uniform(0.05, 0.18)), z=-z))
    parts.append(box((-1.03 * x, 1.03 * x), (-1.08 * y, y), (z, z + 0.03)))
    return join(*parts), "C1"


def glass_box(rng: Random) -> LabelledMesh:
    """Build thin panes: closed like a box, open on top, or a show case on a foot; long, square, or a cube."""
    x, t = rng.uniform(0.3, 0.6), rng.uniform(0.01, 0.025)
    kind = one_of(rng, "long", "long", "square", "cube")
    y = x if kind != "long" else x * rng.uniform(0.45, 0.8)
    z = x if kind == "cube" else x * rng.uniform(0.3, 0.8)
    floor = box((-x, x), (-y, y), (-z, t - z))
    walls = [both_sides(box((x - t, x), (-y, y), (-z, z))), both_sides(box((-x, x), (y - t, y), (-z, z)), 1)]
    style = rng.integers(3)
    if style == 0:
        return join(*walls, both_sides(floor, 2)), {"long": "D2", "square": "D4", "cube": "O"}[kind]
    turns = "C2" if kind == "long" else "C4"
    if style == 1:
        return join(*walls, floor), turns
    foot = rng.uniform(0.05, 0.5)
    over = 1.06 if chance(rng, 0.5) else 0.97
    base = box((-over * x, over * x), (-over * y, over * y), (-z - foot, -z))
    return join(*walls, both_sides(floor, 2), base), turns
