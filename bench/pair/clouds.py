"""Prepare two point cloud files for registration: read, convert to one unit, shift to the origin, subsample."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.pair.kind import guess_kind
from common.errors import InputError
from common.keys import rng
from common.kinds import DataKind
from common.text import clean
from datasets import formats
from datasets.base import sample_triangles, triangle_areas

Points = NDArray[np.float64]
Matrix = NDArray[np.float64]

UNIT_FACTORS = (1000.0, 100.0)
"""Ratios of sizes that indicate different units: millimetres and metres, centimetres and metres."""
REMARK_FACTOR = 3
"""Ratio of sizes above which a note suggests different units; a metre has 3.3 feet."""
NEAR_FACTOR = 1.6
"""Tolerated factor from such a ratio, since two scans of an object differ in extent."""
PREVIEW = 200_000
"""Most points used to estimate sizes and to subsample."""
EVEN_POINTS, EVEN_SHARE, MIN_EVEN = 1000, 4, 50
"""Points of which the size is taken: a quarter of those for the methods, within these limits."""
COARSE = 0.1
"""Steps of the coordinates above this share of the spacing are reported."""
SIZE_PERCENTILE = 95
"""Percentage of the points that determine a cloud's size, to ignore outliers."""


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points of a file.

    Attributes:
        file: path of the file.
        geometry: all points (P, 3), or the vertices of a mesh, with their attributes, in the target's unit.
        thin: subsampled points (N, 3) for the methods, in the same frame and unit.
        is_mesh: whether the file has faces; `thin` is then sampled from its surface.
    """

    file: Path
    geometry: formats.Geometry
    thin: Points
    is_mesh: bool

    @property
    def name(self) -> str:
        """Name of the file for texts, with U+FFFD for what UTF-8 cannot encode."""
        return clean(self.file.name)

    @property
    def whole(self) -> Points:
        """All points (P, 3)."""
        return self.geometry.points

    def scaled(self, factor: float) -> Cloud:
        """Return the cloud with its coordinates multiplied by a factor."""
        if factor == 1:
            return self
        geometry = replace(self.geometry, points=self.whole * factor, triangles=None, step=self.geometry.step * factor)
        return replace(self, geometry=geometry, thin=self.thin * factor)


@dataclass(frozen=True, eq=False)
class Scans:
    """Source and target with their scales; lengths are in the unit of the target's file.

    Attributes:
        factor: factor of the source file's coordinates.
        shifts: offsets (3,) subtracted from source and target before registration, to keep float32 precision.
        size: diameter of the smaller cloud, without its farthest 5 %.
        spacing: median distance to the nearest neighbour, of the coarser subsampled cloud.
        ratio: size of the larger cloud divided by that of the smaller.
        notes: sentences that describe how the clouds were processed.
        kind: kind of the data, to which methods adapt their settings.
    """

    source: Cloud
    target: Cloud
    factor: float
    shifts: tuple[Points, Points]
    size: float
    spacing: float
    ratio: float = 1.0
    notes: list[str] = field(default_factory=list)
    kind: DataKind = DataKind.OBJECTS

    @property
    def comparable(self) -> bool:
        """Whether the sizes are so close that the overlap says something: any small cloud overlaps a large one."""
        return self.ratio <= REMARK_FACTOR

    @property
    def near(self) -> float:
        """Distance up to which a source point overlaps the target: twice the spacing."""
        return 2 * self.spacing

    @property
    def alike(self) -> float:
        """Distance up to which two poses count as equal: 5 % of the size, but at least the spacing."""
        return max(0.05 * self.size, self.spacing)

    @property
    def alike_deg(self) -> float:
        """Largest rotation in degrees, about the source's centroid, by which poses that count as equal can differ.

        It is about the axis to which the source's points are closest; 180 if they are so close that any rotation is possible.
        """
        spread = np.linalg.eigvalsh(np.cov(self.source.thin.T, ddof=0))
        radius = float(np.sqrt(max(spread[0] + spread[1], 0.0)))
        return float(np.degrees(2 * np.arcsin(min(self.alike / (2 * radius), 1.0)))) if radius > 0 else 180.0

    def method_input(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the input of methods: source and target, subsampled and shifted, as float32."""
        pair = zip((self.source, self.target), self.shifts, strict=True)
        source, target = (np.ascontiguousarray(c.thin - shift, dtype=np.float32) for c, shift in pair)
        return source, target

    def restored(self, T: Matrix) -> Matrix:
        """Convert a pose (4, 4) between the shifted clouds to one between the clouds in their files' frames."""
        pose = np.array(T, dtype=np.float64)
        pose[:3, 3] += self.shifts[1] - T[:3, :3] @ self.shifts[0]
        return pose


def open_scans(files: tuple[Path, Path], points: int, factor: float | None, kind: DataKind | None = None) -> Scans:
    """Read source and target.

    Args:
        files: source and target, in any format of `datasets.formats`.
        points: most points of each cloud for the methods.
        factor: factor of the source's coordinates; None to detect different units.
        kind: kind of the data; None to guess it from the clouds.

    Raises:
        InputError: a file is unreadable, or all its points are equal.
    """
    clouds = [_cloud(file, formats.read(file), points) for file in files]
    sizes = [_size(cloud.thin) for cloud in clouds]
    for file, size in zip(files, sizes, strict=True):
        if not size > 0:
            raise InputError(f"{file}: all its points are the same; nothing to register")
    scale = unit_factor(sizes[0], sizes[1]) if factor is None else factor
    source, target = clouds[0].scaled(scale), clouds[1]
    both = (sizes[0] * scale, sizes[1])
    shifts, apart = _shifts(source.thin, target.thin, sum(both))
    spacings = [_spacing(cloud.thin) for cloud in (source, target)]
    notes = [f"{c.name}: {remark}" for c in clouds for remark in c.geometry.remarks]
    notes += _scale_notes(sizes, scale, factor)
    notes += [note for c in zip((source, target), spacings, strict=True) for note in _precision_notes(*c)]
    notes += [note for c in (source, target) for note in _subsampling_notes(c)]
    notes += [apart] if apart else []
    scans = Scans(source, target, scale, shifts, min(both), max(spacings), max(both) / min(both), notes)
    kind, reason = (kind, "--kind") if kind else guess_kind(*scans.method_input())
    notes.append(f"settings of methods are those for {kind}: {reason}")
    return replace(scans, kind=kind)


def unit_factor(source: float, target: float) -> float:
    """Return the factor that converts the source to the target's unit, from their sizes; 1 if they are similar."""
    ratio = target / source
    for factor in UNIT_FACTORS:
        for candidate in (factor, 1 / factor):
            if 1 / NEAR_FACTOR < ratio / candidate < NEAR_FACTOR:
                return candidate
    return 1.0


def guessed_unit(size: float) -> str:
    """Guess the unit from the size, for display only; point cloud files do not store their unit."""
    if 1.4 <= size <= 2.1:
        return "an object scaled to unit radius, or metres"
    if 20 < size <= 300:
        return "perhaps metres if it is a building, millimetres if an object"
    return "perhaps millimetres" if size > 300 else "perhaps metres"


def voxel_subsample(points: Points, most: int, *key: str) -> Points:
    """Subsample points (P, 3) evenly to at most `most`: one per voxel, with the smallest possible voxels.

    The choice within a voxel is random, seeded by the key. Points are not moved.
    """
    chosen = rng("thin", *key).permutation(len(points))[:PREVIEW]
    if len(points) <= most:
        return points
    shuffled = points[chosen]
    low, high = 0.0, float(np.ptp(shuffled, axis=0).max())
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if len(_one_per_voxel(shuffled, middle)) <= most else (middle, high)
    return shuffled[_one_per_voxel(shuffled, high)]


def _one_per_voxel(points: Points, edge: float) -> NDArray[np.intp]:
    """Return the index of the first point of every occupied voxel, in the order of the points."""
    cells = np.floor((points - points.min(axis=0)) / max(edge, 1e-300)).clip(max=2**20).astype(np.int64)
    keys = (cells[:, 0] << 42) | (cells[:, 1] << 21) | cells[:, 2]
    return np.sort(np.unique(keys, return_index=True)[1])


def _cloud(file: Path, geometry: formats.Geometry, points: int) -> Cloud:
    """Subsample a file's points; sample a mesh from its surface, since its vertices are unevenly distributed."""
    faces = geometry.triangles
    if faces is None or not (areas := np.cumsum(triangle_areas(faces)))[-1] > 0:
        return Cloud(file, geometry, voxel_subsample(geometry.points, points, file.name), False)
    surface = sample_triangles(faces, areas, 4 * points, rng("surface", file.name))
    return Cloud(file, geometry, voxel_subsample(surface, points, file.name), True)


def _subsampling_notes(cloud: Cloud) -> list[str]:
    if cloud.is_mesh:
        return [f"{cloud.name} is a mesh: {len(cloud.thin)} points were sampled from its surface"]
    if len(cloud.thin) < len(cloud.whole):
        note = (
            f"{cloud.name} has {len(cloud.whole)} points: {len(cloud.thin)} of them, evenly distributed, are registered"
        )
        return [note]
    return []


def _shifts(source: Points, target: Points, both: float) -> tuple[tuple[Points, Points], str]:
    """Return one shift for both clouds, which keeps their relative pose, or two if they are too far apart."""
    centres = source.mean(axis=0), target.mean(axis=0)
    if np.linalg.norm(centres[0] - centres[1]) <= both:
        return (centres[1], centres[1]), ""
    return centres, "the clouds are far apart; each is centred at its centroid for the methods"


def _size(points: Points) -> float:
    """Return twice the radius about the centroid that contains 95 % of the points, of which one per voxel counts.

    Otherwise a spot that was scanned more densely than the rest would determine the size.
    """
    even = voxel_subsample(points, min(EVEN_POINTS, max(len(points) // EVEN_SHARE, MIN_EVEN)), "size")
    return 2 * float(np.percentile(np.linalg.norm(even - even.mean(axis=0), axis=1), SIZE_PERCENTILE))


def _spacing(points: Points) -> float:
    """Return the median distance to the nearest other point; equal points count once."""
    from scipy.spatial import cKDTree

    distinct = np.unique(points, axis=0)
    distance = np.asarray(cKDTree(distinct).query(distinct, 2)[0])
    return float(np.median(distance[:, 1]))


def _precision_notes(cloud: Cloud, spacing: float) -> list[str]:
    """Return a note if the number format of the file is too coarse for the distances between its points."""
    step = cloud.geometry.step
    if cloud.is_mesh or step <= COARSE * spacing:
        return []
    return [
        f"{cloud.name}: its coordinates have steps of {step:.3g}, larger than a tenth of the distance between "
        f"neighbours ({spacing:.3g}); save them in double precision, or relative to a point near them"
    ]


def _scale_notes(sizes: list[float], scale: float, factor: float | None) -> list[str]:
    """Return a note on the factor of the source and its reason, or on possibly different units."""
    across = f"it is {sizes[0]:.3g} across and the target {sizes[1]:.3g}"
    if scale != 1:
        why = f"{across}, as if in other units (--scale 1 keeps it)" if factor is None else "--scale"
        return [f"the source's coordinates were multiplied by {scale:g}: {why}"]
    if factor is None and not 1 / REMARK_FACTOR < sizes[1] / sizes[0] < REMARK_FACTOR:
        return [f"the source may be in another unit than the target: {across} (--scale FACTOR multiplies it)"]
    return []
