"""The embedded data set: 40 parametric categories with the names of ModelNet40, endless and without a download."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from common.errors import unknown
from common.keys import rng
from datasets.base import DataSet, MeshShape, centred_in_unit_sphere
from datasets.shapes import bathroom, buildings, devices, lighting, living, seating, storage, vehicles, vessels
from datasets.shapes.primitives import LabelledMesh, Random

GENERATORS: dict[str, Callable[[Random], LabelledMesh]] = {
    "airplane": vehicles.airplane,
    "bathtub": bathroom.bathtub,
    "bed": seating.bed,
    "bench": seating.bench,
    "bookshelf": storage.bookshelf,
    "bottle": vessels.bottle,
    "bowl": vessels.bowl,
    "car": vehicles.car,
    "chair": seating.chair,
    "cone": vessels.cone,
    "cup": vessels.cup,
    "curtain": buildings.curtain,
    "desk": storage.desk,
    "door": buildings.door,
    "dresser": storage.dresser,
    "flower_pot": vessels.flower_pot,
    "glass_box": storage.glass_box,
    "guitar": devices.guitar,
    "keyboard": devices.keyboard,
    "lamp": lighting.lamp,
    "laptop": devices.laptop,
    "mantel": buildings.mantel,
    "monitor": devices.monitor,
    "night_stand": storage.night_stand,
    "person": living.person,
    "piano": devices.piano,
    "plant": living.plant,
    "radio": devices.radio,
    "range_hood": bathroom.range_hood,
    "sink": bathroom.sink,
    "sofa": seating.sofa,
    "stairs": buildings.stairs,
    "stool": seating.stool,
    "table": storage.table,
    "tent": buildings.tent,
    "toilet": bathroom.toilet,
    "tv_stand": storage.tv_stand,
    "vase": vessels.vase,
    "wardrobe": storage.wardrobe,
    "xbox": devices.xbox,
}
"""Generator of each category."""


class Shapes40(DataSet):
    """Random parametric shapes of 40 categories, endless; each is a pure function of split, category and number.

    The number is index // 40. Train and test shapes have different keys, so no shape is in both. Each shape declares its exact
    proper rotational symmetry.
    """

    licence = "written for this project, under its licence (MIT)"
    where = "no files are needed: the shapes are generated"
    categories = tuple(GENERATORS)

    def labels(self, split: str) -> None:
        """Return None: the splits are endless."""
        if split not in ("train", "test"):
            raise unknown("split", split, ("train", "test"))

    def shape(self, split: str, index: int) -> MeshShape:
        """Return the shape of an index >= 0, centred at its surface's centroid, in the unit sphere."""
        self.labels(split)
        number, label = divmod(index, len(self.categories))
        category = self.categories[label]
        triangles, symmetry = GENERATORS[category](rng("shapes40", split, category, number))
        normalized = centred_in_unit_sphere(triangles)
        normalized *= 2**24
        np.rint(normalized, out=normalized)
        normalized *= 1 / 2**24
        normalized += 0.0  # turns -0 into +0: which of them NumPy's maximum returns depends on the processor
        return MeshShape(f"{category}_{split}_{number:06d}", category, normalized, symmetry)
