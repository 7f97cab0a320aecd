"""Two files as two clouds a method can be given: read, brought to one unit, moved near the origin, thinned."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from common.keys import rng
from datasets import formats
from datasets.base import sample_triangles, triangle_areas

Points = NDArray[np.float64]
Matrix = NDArray[np.float64]

UNIT_FACTORS = (1000.0, 100.0)
"""Ratios of sizes that tell of two units: millimetres and metres, centimetres and metres."""
ODD_FACTOR = 3
"""A ratio of sizes that is worth a remark: a metre has 3.3 feet."""
NEAR_FACTOR = 1.6
"""How far from such a ratio the sizes may be, since two scans of a thing are not of the same extent."""
PREVIEW = 200_000
"""Points of which sizes are estimated, and of which voxels choose."""
INSIDE = 95
"""Per cent of the points that count for a cloud's size: a few strays do not."""


@dataclass(frozen=True, eq=False)
class Cloud:
    """One file.

    Attributes:
        file: where it was read.
        whole: all its points (P, 3), or its vertices if it is a mesh, in the target's unit.
        thin: the points (N, 3) that methods are given, in the same frame and unit.
        is_mesh: whether it has faces; `thin` is then sampled of its surface.
    """

    file: Path
    whole: Points
    thin: Points
    is_mesh: bool


@dataclass(frozen=True, eq=False)
class Scans:
    """Source and target with what was found of them; lengths are in the target file's unit.

    Attributes:
        factor: what the source file's coordinates were multiplied by.
        shifts: what is subtracted from source and target (3,) each before methods see them; keeps digits of float32.
        size: diameter of the smaller cloud, without its farthest 5 %.
        spacing: median distance from a point to its nearest neighbour, of the coarser of the thinned clouds.
        notes: what was done to the clouds, in words.
    """

    source: Cloud
    target: Cloud
    factor: float
    shifts: tuple[Points, Points]
    size: float
    spacing: float
    notes: list[str] = field(default_factory=list)

    @property
    def near(self) -> float:
        """The distance up to which a source point counts as overlapping: twice the spacing."""
        return 2 * self.spacing

    @property
    def alike(self) -> float:
        """The mean distance up to which two poses count as the same: 5 % of the size, but not below the spacing."""
        return max(0.05 * self.size, self.spacing)

    def given(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """What a method is given: thinned and shifted, float32."""
        pair = zip((self.source, self.target), self.shifts, strict=True)
        source, target = (np.ascontiguousarray(c.thin - shift, dtype=np.float32) for c, shift in pair)
        return source, target

    def restored(self, T: Matrix) -> Matrix:
        """The pose (4, 4) between the clouds in their files' frames, from one between the clouds as given."""
        back = np.array(T, dtype=np.float64)
        back[:3, 3] += self.shifts[1] - T[:3, :3] @ self.shifts[0]
        return back


def open_scans(files: tuple[Path, Path], points: int, factor: float | None) -> Scans:
    """Read source and target.

    Args:
        files: source and target, in any format `datasets.formats` reads.
        points: the most points of each that methods are given.
        factor: multiply the source's coordinates by this; None to find out whether the units differ.

    Raises:
        InputError: a file does not read, or all points of one are equal.
    """
    found = [formats.read(file) for file in files]
    sizes = [_size(g.points) for g in found]
    for file, size in zip(files, sizes, strict=True):
        if not size > 0:
            raise InputError(f"{file}: all its points are the same; nothing to register")
    scale = unit_factor(sizes[0], sizes[1]) if factor is None else factor
    grown = (formats.Geometry(found[0].points * scale, _times(found[0].triangles, scale)), found[1])
    clouds = [_cloud(f, g, points) for f, g in zip(files, grown, strict=True)]
    size = min(sizes[0] * scale, sizes[1])
    notes = _sized(sizes, scale, factor)
    for file, geometry in zip(files, found, strict=True):
        if geometry.unseen:
            notes.append(f"{file.name}: rows of NaN, where a scanner saw nothing, are left out ({geometry.unseen})")
    notes += [note for c in clouds for note in _format_size(c)]
    shifts, apart = _shifts(clouds[0].thin, clouds[1].thin, sizes[0] * scale + sizes[1])
    notes += [apart] if apart else []
    spacing = max(_spacing(c.thin) for c in clouds)
    return Scans(clouds[0], clouds[1], scale, shifts, size, spacing, notes)


def unit_factor(source: float, target: float) -> float:
    """What the source must be multiplied by so that both are in one unit, from their sizes: 1 unless they are far apart."""
    ratio = target / source
    for factor in UNIT_FACTORS:
        for candidate in (factor, 1 / factor):
            if 1 / NEAR_FACTOR < ratio / candidate < NEAR_FACTOR:
                return candidate
    return 1.0


def guessed_unit(size: float) -> str:
    """What unit a size hints at. A file of points does not tell its unit; this is a guess, and nothing depends on it."""
    if 1.4 <= size <= 2.1:
        return "an object scaled to unit radius, or metres"
    if 20 < size <= 300:
        return "perhaps metres if it is a building, millimetres if an object"
    return "perhaps millimetres" if size > 300 else "perhaps metres"


def thinned(points: Points, most: int, *key: str) -> Points:
    """At most `most` of the points (P, 3), evenly spread: one a voxel, the voxels as small as can be.

    Which point of a voxel is left depends on the key alone. No point is moved.
    """
    chosen = rng("thin", *key).permutation(len(points))[:PREVIEW]
    if len(points) <= most:
        return points
    mixed = points[chosen]
    low, high = 0.0, float(np.ptp(mixed, axis=0).max())
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if len(_one_a_voxel(mixed, middle)) <= most else (middle, high)
    return mixed[_one_a_voxel(mixed, high)]


def _one_a_voxel(points: Points, edge: float) -> NDArray[np.intp]:
    """The first point of every occupied voxel, in the order of the points."""
    cells = np.floor((points - points.min(axis=0)) / max(edge, 1e-300)).clip(max=2**20).astype(np.int64)
    keys = (cells[:, 0] << 42) | (cells[:, 1] << 21) | cells[:, 2]
    return np.sort(np.unique(keys, return_index=True)[1])


def _cloud(file: Path, found: formats.Geometry, points: int) -> Cloud:
    """Thinned; a mesh is sampled of its surface, since its vertices are where its faces are small."""
    faces = found.triangles
    if faces is None or not (areas := np.cumsum(triangle_areas(faces)))[-1] > 0:
        return Cloud(file, found.points, thinned(found.points, points, file.name), False)
    surface = sample_triangles(faces, areas, 4 * points, rng("surface", file.name))
    return Cloud(file, found.points, thinned(surface, points, file.name), True)


def _format_size(cloud: Cloud) -> list[str]:
    if cloud.is_mesh:
        return [f"{cloud.file.name} is a mesh: {len(cloud.thin)} points were sampled of its surface"]
    if len(cloud.thin) < len(cloud.whole):
        told = (
            f"{cloud.file.name} has {len(cloud.whole)} points: {len(cloud.thin)} of them, evenly spread, are registered"
        )
        return [told]
    return []


def _shifts(source: Points, target: Points, both: float) -> tuple[tuple[Points, Points], str]:
    """One shift for both clouds, so that where they lie to each other stays; two if they are too far apart for that."""
    centres = source.mean(axis=0), target.mean(axis=0)
    if np.linalg.norm(centres[0] - centres[1]) <= both:
        return (centres[1], centres[1]), ""
    return centres, "the clouds lie apart; methods are given each about its own centroid"


def _size(points: Any) -> float:
    """Twice the radius about the centroid that holds 95 % of the points."""
    some = points[:: max(1, len(points) // PREVIEW)]
    return 2 * float(np.percentile(np.linalg.norm(some - some.mean(axis=0), axis=1), INSIDE))


def _spacing(points: Points) -> float:
    """Median distance to the nearest other point; equal points count once."""
    from scipy.spatial import cKDTree

    distinct = np.unique(points, axis=0)
    distance = np.asarray(cKDTree(distinct).query(distinct, 2)[0])
    return float(np.median(distance[:, 1]))


def _times(triangles: Points | None, factor: float) -> Points | None:
    return None if triangles is None else triangles * factor


def _sized(sizes: list[float], scale: float, factor: float | None) -> list[str]:
    """What to tell of the clouds' sizes: by what the source was multiplied and why, or that its unit may be another."""
    across = f"it is {sizes[0]:.3g} across and the target {sizes[1]:.3g}"
    if scale != 1:
        why = f"{across}, as if in other units (--scale 1 keeps it)" if factor is None else "--scale"
        return [f"the source's coordinates were multiplied by {scale:g}: {why}"]
    if factor is None and not 1 / ODD_FACTOR < sizes[1] / sizes[0] < ODD_FACTOR:
        return [f"the source may be in another unit than the target: {across} (--scale FACTOR multiplies it)"]
    return []
