"""The embedded data set: names, keys, placing, the declared symmetry groups, and the primitives against closed forms."""

import hashlib
from collections import Counter

import numpy as np
import pytest
from scipy.spatial import cKDTree

from common.errors import InputError
from datasets.base import sample_triangles, triangle_areas
from datasets.shapes import primitives
from datasets.shapes40 import Shapes40
from datasets.symmetry import rotations, turn

NAMES = (
    "airplane bathtub bed bench bookshelf bottle bowl car chair cone cup curtain desk door dresser flower_pot glass_box "
    "guitar keyboard lamp laptop mantel monitor night_stand person piano plant radio range_hood sink sofa stairs stool "
    "table tent toilet tv_stand vase wardrobe xbox"
).split()
DATA = Shapes40()
CANDIDATES = "C2 C2x C2y C3 C4 C4x C4y C5 C6 C7 C8 C12".split()
DIAGONAL = np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, -1]])


def shape_of(category, number, split="train"):
    return DATA.shape(split, number * len(NAMES) + NAMES.index(category))


def to_triangles(points, triangles):
    """Exact distances (n,) of points (n, 3) to the nearest of triangles (T, 3, 3), by brute force over all pairs."""
    p = points[:, None]
    corners = [triangles[:, k][None] for k in range(3)]
    normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
    length = np.linalg.norm(normal, axis=2, keepdims=True)
    normal = normal / np.maximum(length, 1e-30)
    height = ((p - corners[0]) * normal).sum(2)
    inside = length[..., 0] > 1e-14
    nearest = np.full(height.shape, np.inf)
    for a, b in zip(corners, corners[1:] + corners[:1], strict=True):
        edge = b - a
        share = ((p - a) * edge).sum(2) / np.maximum((edge * edge).sum(2), 1e-30)
        nearest = np.minimum(nearest, np.linalg.norm(p - a - share.clip(0, 1)[..., None] * edge, axis=2))
        inside = inside & ((np.cross(edge, p - a) * normal).sum(2) >= 0)
    return np.where(inside, np.abs(height), nearest).min(axis=1)


class Surface:
    """How far a rotation takes a surface away from itself: the farthest of its rotated corners and triangle centres."""

    def __init__(self, triangles):
        self.triangles = triangles
        sample = sample_triangles(triangles, np.cumsum(triangle_areas(triangles)), 4000, np.random.default_rng(0))
        self.tree = cKDTree(sample)
        self.probes = np.unique(np.concatenate([triangles.reshape(-1, 3), triangles.mean(axis=1)]).round(6), axis=0)

        self.gap = self.tree.query(self.probes)[0].max()

    def moved_by(self, rotation):
        """The distance, exact unless it is plainly large: then a lower bound from the sample, less the sample's own gaps."""
        rotated = self.probes @ rotation.T
        far = self.tree.query(rotated)[0]
        if far.max() > 2 * self.gap + 0.02:
            return far.max() - 2 * self.gap
        return to_triangles(rotated[np.argsort(far)[-12:]], self.triangles).max()


def elements(name):
    """Rotations of a group to try: all its coset representatives, and two turns about the axis of a continuous one."""
    axis, matrices = rotations(name)
    return list(matrices[1:]) if axis is None else [turn(axis, a) @ m for a in (0.3, 2.234) for m in matrices]


def belongs(rotation, name):
    axis, matrices = rotations(name)
    rest = [rotation @ m.T for m in matrices]
    return any(np.allclose(r @ axis, axis) if axis is not None else np.allclose(r, np.eye(3)) for r in rest)


def test_names_are_modelnet40s_in_order():
    assert DATA.categories == tuple(NAMES)
    assert DATA.fixed_points is None
    assert DATA.labels("train") is None
    shape = shape_of("chair", 123)
    assert (shape.name, shape.category) == ("chair_train_000123", "chair")


def test_unknown_split_is_named():
    with pytest.raises(InputError, match=r"tset.*test"):
        DATA.shape("tset", 0)


@pytest.mark.parametrize("category", NAMES)
def test_shapes_are_placed_and_never_alike(category):
    shapes = [shape_of(category, number, split) for split in ("train", "test") for number in range(4)]
    for shape in shapes:
        areas = triangle_areas(shape.triangles)
        assert np.linalg.norm(np.average(shape.triangles.mean(axis=1), axis=0, weights=areas)) < 1e-6
        assert np.linalg.norm(shape.triangles, axis=2).max() == pytest.approx(1, abs=1e-6)
        assert np.ptp(shape.triangles.reshape(-1, 3), axis=0).min() > 0.01
    assert len({shape.triangles.tobytes() for shape in shapes}) == len(shapes)


def test_shapes_are_the_same_everywhere():
    """Committed weights and reference runs were made with these shapes: a change of any is a change of the data set."""
    whole = hashlib.sha256()
    for index in range(0, 40 * 41, 41):
        whole.update(DATA.shape("test", index).triangles.tobytes())
    assert whole.hexdigest()[:16] == "7960be0a17fe8e19"


@pytest.mark.parametrize("category", NAMES)
def test_declared_symmetry_is_exact(category):
    for number in range(2):
        shape = shape_of(category, number)
        surface = Surface(shape.triangles)
        for rotation in elements(shape.symmetry):
            assert surface.moved_by(rotation) < 0.005, (shape.name, shape.symmetry)
        for rotation in [*(rotations(name)[1][1] for name in CANDIDATES), DIAGONAL]:
            if not belongs(rotation, shape.symmetry):
                assert surface.moved_by(rotation) > 0.01, (shape.name, shape.symmetry, rotation)


def test_symmetric_and_asymmetric_shapes_both_are_common():
    groups = Counter(shape_of(category, number).symmetry for category in NAMES for number in range(10))
    assert 0.5 < groups["C1"] / 400 < 0.8
    assert groups["Cinf"] > 20
    assert {"C1", "C2", "C2x", "C2y", "C3", "C4", "D2", "Cinf"} <= set(groups)


def test_every_symmetry_of_a_glass_box_is_found():
    kinds = {shape_of("glass_box", number).symmetry: number for number in range(60)}
    assert set(kinds) == {"C2", "C4", "D2", "D4", "O"}
    cube = Surface(shape_of("glass_box", kinds["O"]).triangles)
    assert max(cube.moved_by(r) for r in rotations("O")[1]) < 1e-6


def closed(mesh):
    """Each edge of the triangles that have an area belongs to two of them."""
    solid = mesh[triangle_areas(mesh) > 1e-12].round(9)
    edges = np.stack([solid, np.roll(solid, -1, axis=1)], axis=2).reshape(-1, 2, 3) + 0.0
    count = Counter(tuple(sorted(map(tuple, edge))) for edge in edges.tolist())
    return set(count.values()) == {2}


@pytest.mark.parametrize(
    ("mesh", "area"),
    [
        (primitives.box((0, 1), (0, 2), (0, 3)), 22),
        (primitives.disc(1, 0, 2), 6 * np.pi),
        (primitives.revolve([(0, 0), (1, 0), (0, 1)]), np.pi * (1 + np.sqrt(2))),
        (primitives.ellipsoid(2, 2, 2, (1, 2, 3), n=48), 16 * np.pi),
        (primitives.prism(primitives.oval(1, 2, 0.0, n=16), 0, 3), 2 * 8 + 12 * 3),
        (primitives.tube([(0, 0, 0), (0, 0, 1), (0, 0, 2)], 0.5, n=48), 2.5 * np.pi),
    ],
)
def test_primitives_have_the_area_of_what_they_draw(mesh, area):
    assert triangle_areas(mesh).sum() == pytest.approx(area, rel=0.005)
    assert closed(mesh)


def test_rods_join_their_ends():
    start, end = np.array([[0, 0, 0], [1, 1, 1]]), np.array([[1, 2, 2], [1, 1, 4]])
    rods = primitives.rods(start, end, 0.1, n=48)
    assert triangle_areas(rods).sum() == pytest.approx(2 * np.pi * 0.1 * 6, rel=0.005)
    line = start[0] + np.linspace(0, 1, 5)[:, None] * (end[0] - start[0])
    assert to_triangles(line, rods) == pytest.approx(np.full(5, 0.1), rel=0.005)


PINNED = dict(
    entry.split(":")
    for entry in (
        "airplane:16f1851e bathtub:767edc6d bed:7c36e5ac bench:e30857ef bookshelf:c6b12012 bottle:9b463bba "
        "bowl:7ff22148 car:235152db chair:67834d71 cone:094c3cd0 cup:9620aa25 curtain:e083b218 desk:f780e5c0 "
        "door:164b6c06 dresser:2c011376 flower_pot:01ae76a1 glass_box:8460f5f5 guitar:9c315aea keyboard:0b5eaf56 "
        "lamp:cef1c623 laptop:6357d219 mantel:0d74f829 monitor:f4f79ec5 night_stand:b15c52e3 person:8014785d "
        "piano:32318089 plant:92216609 radio:2d9efdb7 range_hood:83fd1304 sink:5b64bd1e sofa:88b908ed stairs:c43a83af "
        "stool:7b3afcb6 table:01baff96 tent:916e4a14 toilet:f9ae9bc2 tv_stand:0cd60014 vase:224551a2 wardrobe:797ad431 "
        "xbox:cf9b7af9 "
    ).split()
)
"""The first digits of the digest of twelve train shapes of each category and their symmetries."""


@pytest.mark.parametrize("category", PINNED)
def test_shapes_are_pinned(category):
    """Committed weights were trained on them, and reference runs made with them."""
    data, shapes = Shapes40(), hashlib.sha256()
    for number in range(12):
        shape = data.shape("train", 40 * number + data.categories.index(category))
        assert (shape.name, shape.category) == (f"{category}_train_{number:06d}", category)
        shapes.update(shape.triangles.tobytes() + shape.symmetry.encode())
    assert shapes.hexdigest()[:8] == PINNED[category]
    assert list(PINNED) == list(data.categories)


RARE = {
    "airplane": (12, 13),
    "bed": (20,),
    "bottle": (14, 19),
    "cup": (26,),
    "curtain": (29,),
    "door": (17,),
    "lamp": (12, 43),
    "person": (32,),
    "stairs": (15, 21, 56),
    "stool": (15,),
    "table": (37, 51),
    "tent": (18,),
    "vase": (12, 19),
    "wardrobe": (36,),
    "xbox": (13, 14),
}
"""Numbers of further train shapes that take branches of the generators which none of the first twelve takes."""


def test_rare_shapes_are_pinned():
    data, shapes = Shapes40(), hashlib.sha256()
    for category, numbers in RARE.items():
        for number in numbers:
            shape = data.shape("train", 40 * number + data.categories.index(category))
            shapes.update(shape.triangles.tobytes() + shape.symmetry.encode())
    assert shapes.hexdigest()[:8] == "c1db8745"
