"""Rooms, their walls and their furniture."""

import hashlib

import numpy as np
import pytest

from common.keys import rng
from datasets.indoor import furniture
from datasets.indoor.layout import KINDS, Room, furnished
from datasets.indoor.walls import panel, to_side, wall


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_room_is_closed_and_finite(kind):
    room = furnished(rng("room", kind), KINDS[kind])
    low, high = room.triangles.min(axis=(0, 1)), room.triangles.max(axis=(0, 1))
    assert np.isfinite(room.triangles).all() and low[2] >= -0.3 and high[2] <= room.height + 0.3
    assert (low[:2] > -1.5).all() and high[0] < room.width + 1.5 and high[1] < room.length + 1.5


def test_furniture_does_not_overlap():
    room = furnished(rng("room", 3), KINDS["living"])
    boxes = np.array(room.taken)
    assert len(boxes) >= 5
    for k, (a, b, c, d, _) in enumerate(boxes):
        others = np.delete(boxes, k, axis=0)
        assert not ((a < others[:, 1]) & (b > others[:, 0]) & (c < others[:, 3]) & (d > others[:, 2])).any()


@pytest.mark.parametrize("category", ["chair", "table", "bed", "cup"])
def test_shapes_have_their_real_size_and_stand_on_the_floor(category):
    mesh = furniture.shape(rng("piece", category), category)
    low, high = furniture.SIZES[category]
    assert low - 0.03 <= max(furniture.extent(mesh)) <= high + 0.03
    assert mesh[..., 2].min() == pytest.approx(0, abs=0.011)


def test_sizes_name_categories_of_shapes40():
    pieces = {"shelf", "counter", "group"}
    used = {c for kind in KINDS.values() for c in (*kind.along, *kind.free, *kind.small)} - pieces
    assert used <= set(furniture.SIZES) <= set(furniture.GENERATORS)


def test_sides_of_a_room():
    """A panel at a wall, 0.5 m deep, is within 0.5 m of that side."""
    piece = panel((0.2, -0.5, 0), (1, 0, 0), (0, 0.5, 0))
    placed = [to_side(piece, side, 4.0, 6.0) for side in range(4)]
    assert placed[0][..., 1].min() == pytest.approx(5.5) and placed[1][..., 0].min() == pytest.approx(3.5)
    assert placed[2][..., 1].max() == pytest.approx(0.5) and placed[3][..., 0].max() == pytest.approx(0.5)


def test_a_wall_without_openings_has_its_area_and_a_door_leaves_a_hole():
    whole, doors = wall(rng("wall"), 4.0, 2.5, door=False, windows=0)
    areas = np.linalg.norm(np.cross(whole[:, 1] - whole[:, 0], whole[:, 2] - whole[:, 0]), axis=1) / 2
    assert areas.sum() == pytest.approx(10.0) and doors == []
    _, doors = wall(rng("wall"), 4.0, 2.5, door=True, windows=0)
    assert len(doors) == 1 and 0.7 < doors[0][1] - doors[0][0] < 1.2


PINNED = {
    "office": "49b9b7a6",
    "kitchen": "1c4ecf88",
    "bedroom": "7d3ce31d",
    "living": "7ab5a410",
    "bathroom": "bb4c5d44",
    "corridor": "34bd3633",
}
"""First digits of the SHA-256 of the triangles of three rooms of each kind."""


@pytest.mark.parametrize("kind", KINDS)
def test_rooms_are_pinned(kind):
    """Committed weights were trained on them, and reference runs made with them."""
    rooms = hashlib.sha256()
    for number in range(3):
        rooms.update(furnished(rng("pinned room", kind, number), KINDS[kind]).triangles.tobytes())
    assert rooms.hexdigest()[:8] == PINNED[kind]


def test_rare_rooms_are_pinned():
    """A corridor and a kitchen that take branches which none of the first three of each kind takes."""
    rooms = hashlib.sha256()
    for kind, number in (("kitchen", 17), ("corridor", 6)):
        rooms.update(furnished(rng("pinned room", kind, number), KINDS[kind]).triangles.tobytes())
    assert rooms.hexdigest()[:8] == "78f1af74"


def test_a_place_is_free_in_the_room_and_away_from_furniture_as_high_as_it():
    """A piece from 1 to 2 m along both walls, 0.8 m high, in a room of 4 x 5 x 2.5 m; a gap of 0.5 m."""
    room = Room(4.0, 5.0, 2.5)
    room.put(panel((1, 1, 0), (1, 0, 0), (0, 1, 0.8)))
    (taken,) = room.taken
    assert taken == (1, 2, 1, 2, 0.8) and len(room.parts) == 1
    for x, y, z, free in (
        *((0.5, 3, 1, True), (0.49, 3, 1, False), (3.5, 3, 1, True), (3.51, 3, 1, False)),
        *((3, 0.5, 1, True), (3, 0.49, 1, False), (3, 4.5, 1, True), (3, 4.51, 1, False)),
        *((3, 3, 2.19, True), (3, 3, 2.21, False), (1.5, 1.5, 0.94, False), (1.5, 1.5, 0.96, True)),
        *((2.49, 1.5, 0.5, False), (2.51, 1.5, 0.5, True), (0.51, 1.5, 0.5, False), (1.5, 2.49, 0.5, False)),
        *((1.5, 2.51, 0.5, True), (1.5, 0.51, 0.5, False)),
    ):
        assert room.is_free(np.array([x, y, z]), 0.5) == free, (x, y, z)
