"""Furnished rooms: triangles (T, 3, 3) in metres with z up, and the places where a camera can be."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from datasets.indoor.furniture import carton, counter, extent, filled_shelf, flight, heap, shape
from datasets.indoor.walls import fixtures, panel, to_side, wall
from datasets.shapes.primitives import Array, Mesh, Random, Span, chance, join, move, one_of, turn

TABLES = ("desk", "table", "dresser", "night_stand", "tv_stand", "bench")
"""Categories with clutter on their tops."""


@dataclass(frozen=True)
class Kind:
    """Kind of room.

    Attributes:
        width, length: ranges of the floor's sides.
        along: categories at the walls; "shelf" and "counter" are pieces of `furniture`.
        free: categories in the open; "group" is a table with equal chairs.
        small: categories on tops.
        many: range of the number of pieces at the walls.
        share: relative number of such rooms.
    """

    width: Span
    length: Span
    along: tuple[str, ...]
    free: tuple[str, ...]
    small: tuple[str, ...]
    many: tuple[int, int] = (12, 24)
    share: int = 2


KINDS: dict[str, Kind] = {
    "office": Kind(
        (3, 5.5), (3, 6.5), ("desk", "desk", "shelf", "wardrobe", "dresser", "bookshelf", "plant"),
        ("chair", "chair", "group", "stool", "desk"), ("monitor", "keyboard", "laptop", "cup", "radio", "flower_pot"),
    ),
    "kitchen": Kind(
        (2.5, 4.5), (2.8, 5), ("counter", "counter", "wardrobe", "shelf", "table", "range_hood"),
        ("group", "stool", "chair"), ("bottle", "bowl", "cup", "vase", "radio", "xbox"),
    ),
    "bedroom": Kind(
        (3, 4.5), (3, 5), ("bed", "night_stand", "wardrobe", "dresser", "desk", "curtain", "shelf", "lamp"),
        ("chair", "stool", "person"), ("vase", "cup", "laptop", "radio", "flower_pot", "bottle"),
    ),
    "living": Kind(
        (3.5, 6), (3.5, 6.5), ("sofa", "tv_stand", "bookshelf", "piano", "mantel", "plant", "lamp", "shelf", "sofa"),
        ("group", "table", "sofa", "chair", "guitar", "person"), ("monitor", "vase", "bowl", "bottle", "xbox", "laptop"),
    ),
    "bathroom": Kind(
        (1.9, 3), (2.2, 3.5), ("bathtub", "toilet", "sink", "night_stand", "curtain", "shelf"),
        ("stool",), ("bottle", "cup", "bowl", "vase"), (6, 14), 1,
    ),
    "corridor": Kind(
        (1.4, 2.3), (5, 9), ("bench", "shelf", "plant", "stairs", "wardrobe"), ("chair",), ("cup", "vase"), (1, 8), 1,
    ),
}  # fmt: skip
"""Kinds of rooms by name."""


@dataclass
class Room:
    """Room under construction, then complete.

    Attributes:
        width, length, height: sides along x, y and z.
        parts: meshes.
        taken: rectangles (x0, x1, y0, y1, top) of the floor that furniture covers, with its height.
    """

    width: float
    length: float
    height: float
    parts: list[Mesh] = field(default_factory=list)
    taken: list[tuple[float, float, float, float, float]] = field(default_factory=list)

    @property
    def triangles(self) -> Mesh:
        """All triangles (T, 3, 3)."""
        return join(*self.parts)

    def has_space_for(self, mesh: Mesh, gap: float = 0.02) -> bool:
        """Return whether a mesh is inside the room and its bounding box meets no other piece."""
        (x0, y0, _), (x1, y1, _) = mesh.min(axis=(0, 1)), mesh.max(axis=(0, 1))
        inside = x0 > -0.01 and y0 > -0.01 and x1 < self.width + 0.01 and y1 < self.length + 0.01
        return inside and not any(
            x0 < b + gap and x1 > a - gap and y0 < d + gap and y1 > c - gap for a, b, c, d, _ in self.taken
        )

    def put(self, mesh: Mesh) -> None:
        """Add a piece that covers the floor."""
        (x0, y0, _), (x1, y1, z1) = mesh.min(axis=(0, 1)), mesh.max(axis=(0, 1))
        self.parts.append(mesh)
        self.taken.append((float(x0), float(x1), float(y0), float(y1), float(z1)))

    def is_free(self, place: Array, gap: float) -> bool:
        """Return whether a place (3,) is in the room and at least `gap` from its walls and from all furniture as high as it."""
        x, y, z = place.tolist()
        inside = gap <= x <= self.width - gap and gap <= y <= self.length - gap and z <= self.height - 0.3
        return inside and not any(
            a - gap < x < b + gap and c - gap < y < d + gap and z < top + 0.15 for a, b, c, d, top in self.taken
        )


def furnished(rng: Random, kind: Kind) -> Room:
    """Build a room of a kind."""
    room = Room(rng.uniform(*kind.width), rng.uniform(*kind.length), rng.uniform(2.3, 3.1))
    for z in (0.0, room.height):
        room.parts.append(panel((0, 0, z), (room.width, 0, 0), (0, room.length, 0)))
    doors = _walls(rng, room)
    for _ in range(int(rng.integers(kind.many[0], kind.many[1] + 1))):
        _at_wall(rng, room, kind, one_of(rng, *kind.along), doors)
    for _ in range(int(rng.integers(kind.many[0] // 3, kind.many[1] // 2 + 1))):
        _in_the_open(rng, room, kind, one_of(rng, *kind.free))
    for _ in range(int(rng.integers(2, 15))):
        _try(rng, room, one_of(rng, carton, heap)(rng))
    return room


def _walls(rng: Random, room: Room) -> dict[int, list[Span]]:
    """Add the walls; return the doors of each side."""
    doors: dict[int, list[Span]] = {}
    for side in range(4):
        length = (room.width, room.length)[side % 2]
        mesh, doors[side] = wall(rng, length, room.height, chance(rng, 0.45), int(rng.integers(0, 3)))
        room.parts += [
            to_side(part, side, room.width, room.length) for part in (mesh, fixtures(rng, length, room.height))
        ]
    return doors


def _at_wall(rng: Random, room: Room, kind: Kind, category: str, doors: dict[int, list[Span]]) -> None:
    """Try to place a piece with its back to a wall, with clutter on its top."""
    mesh = _piece(rng, category)
    wide, deep, tall = extent(mesh)
    for _ in range(10):
        side = int(rng.integers(4))
        length = (room.width, room.length)[side % 2]
        if wide > length:
            continue
        x = rng.uniform(0, length - wide)
        if any(x < end and x + wide > start for start, end in doors[side]):
            continue
        low = mesh.min(axis=(0, 1))
        lift = 1.5 if category == "range_hood" else 0.0
        local = move(mesh, x - low[0], -deep - low[1] - rng.uniform(0, 0.05), lift)
        placed = to_side(local, side, room.width, room.length)
        if room.has_space_for(placed):
            room.put(placed)
            if category in TABLES or category == "counter":
                _clutter(rng, room, kind, placed, 0.9 if category == "counter" else tall)
            return


def _piece(rng: Random, category: str) -> Mesh:
    """Build a piece of furniture by its category."""
    if category == "shelf":
        return filled_shelf(rng)
    if category == "counter":
        return counter(rng, rng.uniform(1.2, 3.0))
    if category == "stairs" and chance(rng, 0.5):
        return flight(rng)
    return shape(rng, category)


def _in_the_open(rng: Random, room: Room, kind: Kind, category: str) -> None:
    """Try to place a piece somewhere on the floor, or a table with equal chairs around it."""
    if category != "group":
        mesh = shape(rng, category)
        placed = _try(rng, room, mesh)
        if placed is not None and category in TABLES:
            _clutter(rng, room, kind, placed, extent(mesh)[2])
        return
    table, chair = shape(rng, "table"), shape(rng, one_of(rng, "chair", "chair", "stool"))
    wide, deep, tall = extent(table)
    parts = [table]
    for _ in range(int(rng.integers(2, 6))):
        side = int(rng.integers(4))
        away = (deep, wide, deep, wide)[side] / 2 + rng.uniform(-0.1, 0.25)
        along = rng.uniform(-0.4, 0.4) * (wide, deep, wide, deep)[side]
        seat = move(turn(chair, "z", rng.uniform(-0.3, 0.3)), along, away)
        parts.append(turn(seat, "z", side * np.pi / 2))
    placed = _try(rng, room, join(*parts))
    if placed is not None:
        _clutter(rng, room, kind, placed[: len(table)], tall)


def _try(rng: Random, room: Room, mesh: Mesh) -> Mesh | None:
    """Place a mesh at a random free spot and angle; return it there, None if there is none."""
    for _ in range(10):
        turned = turn(mesh, "z", rng.uniform(0, 2 * np.pi))
        placed = move(turned, rng.uniform(0.2, room.width - 0.2), rng.uniform(0.2, room.length - 0.2))
        if room.has_space_for(placed):
            room.put(placed)
            return placed
    return None


def _clutter(rng: Random, room: Room, kind: Kind, table: Mesh, top: float) -> None:
    """Put small things on a table of a height."""
    (x0, y0, _), (x1, y1, _) = table.min(axis=(0, 1)), table.max(axis=(0, 1))
    for _ in range(int(rng.integers(3, 14))):
        source = rng.random()
        thing = shape(rng, one_of(rng, *kind.small)) if source < 0.65 else (carton(rng) if source < 0.85 else heap(rng))
        size = extent(thing)
        if size[0] > x1 - x0 or size[1] > y1 - y0 or size[2] > 0.8:
            continue
        x = rng.uniform(x0 + size[0] / 2, x1 - size[0] / 2)
        y = rng.uniform(y0 + size[1] / 2, y1 - size[1] / 2)
        room.parts.append(move(turn(thing, "z", rng.uniform(0, 2 * np.pi)), x, y, top))
