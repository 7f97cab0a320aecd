"""Rooms, their walls and their furniture."""

import hashlib

import numpy as np
import pytest

from common.keys import rng
from datasets.indoor import furniture
from datasets.indoor.layout import KINDS, furnished
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
