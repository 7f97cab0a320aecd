"""The embedded data set of scans: procedural rooms seen by a depth camera, as fragments in metres with ground-truth poses."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import portable
from common.errors import unknown
from common.keys import rng
from common.kinds import DataKind
from datasets.base import Pair, PairSet
from datasets.cache import Arrays, load_or_compute
from datasets.indoor.camera import Camera
from datasets.indoor.fragments import FRAMES, Fragment, fragment, paths
from datasets.indoor.layout import KINDS, furnished
from datasets.poses import Matrix, inverse, move
from datasets.scans import cloud_at, concatenate_clouds, overlaps
from datasets.shapes.primitives import Array

_VERSION = 2
"""Part of the key of the cache, increased when the rooms change."""
FRAGMENTS = 4
"""Fragments of a scene."""
PAIRS = 3
"""Pairs of a scene."""
OVERLAPS = (0.1, 0.9)
"""Range of the overlap of a pair."""
NEAR = 0.0375
"""Distance in metres up to which two points are of the same part of the surface, as in 3DMatch."""
LEAST_POINTS = 2500
"""Points that every fragment of a scene has."""
NOISE = (1.0, 3.0)
"""Range of the factor of the sensor's noise, a choice: real noise is correlated, so that fusion removes less of it."""
_ATTEMPTS = 20
"""Rooms that are tried for a scene until one has enough pairs."""


class Rooms(PairSet):
    """Pairs of fragments of generated rooms in metres, each in the frame of its first camera; no files are needed.

    A scene is one room with its furniture, a pure function of split and number. Of its four fragments, the pairs with the
    lowest, the middle and the highest overlap between 0.1 and 0.9 are used. The source is the later fragment.

    Parameters:
        split: "test", or "train" for learned methods; no room is in both.
        scenes: number of rooms.
    """

    shuffled = False
    licence = "written for this project, under its licence (MIT)"
    where = "no files are needed: the rooms are generated"
    kind = DataKind.SCANS
    split: str = "test"
    scenes: int = 50

    def check(self) -> None:
        if self.split not in ("test", "train"):
            raise unknown("split", self.split, ("test", "train"))
        if self.scenes < 1:
            raise ValueError("scenes must be at least 1")

    def __len__(self) -> int:
        return PAIRS * self.scenes

    def pair(self, row: int) -> Pair:
        """Return a pair of a scene: row // 3 is the scene's number."""
        number, k = divmod(row, PAIRS)
        name = scene_name(self.split, number)
        arrays = self._scene(number)
        target, source = arrays["pairs"][k]
        T = relative(arrays["poses"][target], arrays["poses"][source])
        clouds = cloud_at(arrays, source), cloud_at(arrays, target)
        overlap, information = float(arrays["overlap"][k]), np.array(arrays["information"][k])
        return Pair(f"{name}/{source}-{target}", name, *clouds, T, overlap=overlap, information=information)

    def _scene(self, number: int) -> Arrays:
        """Return the arrays of a scene from the cache, or generate it."""
        name = f"rooms version {_VERSION} {self.split} {number}"
        return load_or_compute(name, [], lambda: scene_arrays(self.split, number))


def scene_name(split: str, number: int) -> str:
    """Return the name of a scene, which starts with the kind of its room.

    >>> scene_name("test", 7)
    'corridor_test_0007'
    """
    names = [name for name, kind in KINDS.items() for _ in range(kind.share)]
    return f"{names[rng('rooms', split, number, 'kind').integers(len(names))]}_{split}_{number:04d}"


def relative(target: Matrix, source: Matrix) -> Matrix:
    """Return T_target_source (4, 4) of two fragments with poses (4, 4) in the room."""
    return portable.product(inverse(target), source)


def scene_arrays(
    split: str, number: int, camera: Camera | None = None, frames: int = FRAMES, least: int = LEAST_POINTS
) -> Arrays:
    """Generate the fragments and pairs of a scene.

    Args:
        split: "train" or "test".
        number: of the scene.
        camera: by default that of the data set.
        frames: of a fragment.
        least: points that every fragment must have.

    Returns:
        `points` and `start` (see `scans.concatenate_clouds`), `poses` (4, 4, 4), `pairs` (3, 2) target and source, `overlap`
        (3,), `information` (3, 6, 6).
    """
    arrays: Arrays = {}
    for attempt in range(_ATTEMPTS):
        arrays = select_pairs(scene_fragments(split, number, attempt, camera or Camera(), frames), least)
        if len(arrays["pairs"]) == PAIRS:
            return arrays
    raise ValueError(f"scene {number} of {split}: none of {_ATTEMPTS} rooms has {PAIRS} pairs that overlap")


def scene_fragments(split: str, number: int, attempt: int, camera: Camera, frames: int) -> list[Fragment]:
    """Generate the fragments of a scene's room."""
    draw = rng("rooms", split, number, attempt)
    room = furnished(draw, KINDS[scene_name(split, number).split("_")[0]])
    triangles = room.triangles
    sensor = replace(camera, noise=camera.noise * draw.uniform(*NOISE))
    return [fragment(draw, triangles, path, sensor, frames) for path in paths(draw, room, FRAGMENTS)]


def select_pairs(fragments: list[Fragment], least: int = LEAST_POINTS) -> Arrays:
    """Return the arrays of fragments (see `scene_arrays`) with the pairs of lowest, middle and highest overlap in range."""
    clouds = [fragment.points.astype(np.float32) for fragment in fragments]
    empty = min(map(len, clouds)) < least
    pairs = [] if empty else list(combinations(range(len(clouds)), 2))
    T = [relative(fragments[target].pose, fragments[source].pose) for target, source in pairs]
    share = overlaps(clouds.__getitem__, pairs, T, NEAR)
    order = [int(k) for k in np.argsort(share, kind="stable") if OVERLAPS[0] <= share[k] <= OVERLAPS[1]]
    chosen = [order[0], order[len(order) // 2], order[-1]] if len(order) >= PAIRS else []
    return {
        **concatenate_clouds(clouds),
        "poses": np.array([fragment.pose for fragment in fragments]),
        "pairs": np.array([pairs[k] for k in chosen], dtype=np.int64).reshape(-1, 2),
        "overlap": np.array([share[k] for k in chosen]),
        "information": np.array([information(clouds[pairs[k][1]], clouds[pairs[k][0]], T[k]) for k in chosen]).reshape(
            -1, 6, 6
        ),
    }


def information(source: NDArray[Any], target: NDArray[Any], T: Matrix) -> Array:
    """Compute the matrix (6, 6) of `gt.info` for clouds (N, 3) and (M, 3): the sum of GᵀG over the matches within `NEAR`.

    G = [I | -[p]ₓ], with p the source point at the true pose T (4, 4).
    """
    from scipy.spatial import cKDTree

    moved = move(T, np.asarray(source, dtype=np.float64))
    distance, _ = cKDTree(target).query(moved, distance_upper_bound=NEAR)
    x, y, z = moved[np.isfinite(distance)].T
    zero, one = np.zeros_like(x), np.ones_like(x)
    G = np.array([[one, zero, zero, zero, z, -y], [zero, one, zero, -z, zero, x], [zero, zero, one, y, -x, zero]])
    products = G[:, :, None] * G[:, None]
    sums = portable.total(products)
    return portable.total(np.swapaxes(sums, 0, 2)) if len(x) else np.zeros((6, 6))
