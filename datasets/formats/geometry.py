"""Geometry of a file: points, their attributes, faces, and remarks; what is left out of it, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import MalformedFile
from common.text import counted

Array = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]
"""Attributes (N,) each, by their names in PLY files."""

MAX_COORDINATE = 1e12
"""Largest magnitude of a coordinate; larger ones come from damaged files, and their squares approach the limit of float32."""
SENTINEL_SHARE = 0.1
"""Share of the rows from which one repeated point is a value for "nothing measured"; a row 0 0 0 is one if it is repeated."""
MIN_POINTS = 3
"""Fewest points of a file."""
MAX_DECIMALS = 7
"""Decimals up to which rounded coordinates are recognised."""
SAMPLE = 10_000
"""Most points in which rounded coordinates are looked for."""
SHORT_NAMES = {
    "r": "red", "g": "green", "b": "blue", "a": "alpha",
    "normal_x": "nx", "normal_y": "ny", "normal_z": "nz", "normalx": "nx", "normaly": "ny", "normalz": "nz",
    "diffuse_red": "red", "diffuse_green": "green", "diffuse_blue": "blue",
}  # fmt: skip
"""Other names of attributes, and the names that PLY files use."""


@dataclass(frozen=True, eq=False)
class Faces:
    """Polygons: `sizes` (F,) corners of each face, and the vertices at the corners (sum of sizes,) of one after another."""

    sizes: NDArray[np.int64]
    corners: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def triangles(self) -> NDArray[np.int64]:
        """Return the vertices of triangles (T, 3); a polygon becomes a fan about its first corner.

        >>> Faces(np.array([4]), np.array([5, 6, 7, 8])).triangles().tolist()
        [[5, 6, 7], [5, 7, 8]]
        """
        if (self.sizes == 3).all():
            return self.corners.reshape(-1, 3)
        per_face = np.maximum(self.sizes - 2, 0)
        first = np.repeat(np.cumsum(self.sizes) - self.sizes, per_face)
        step = np.arange(per_face.sum()) - np.repeat(np.cumsum(per_face) - per_face, per_face)
        return np.column_stack([self.corners[first], self.corners[first + step + 1], self.corners[first + step + 2]])


@dataclass(frozen=True, eq=False)
class Geometry:
    """Mesh or cloud of a file.

    Attributes:
        points: (N, 3) float64, N >= 3 and finite.
        triangles: (T, 3, 3) if the file has faces.
        columns: other attributes of the points, such as `red` or `nx`.
        faces: faces as the file has them.
        remarks: what was taken from the file and what was left out, one sentence each, without the file's name.
        step: smallest difference that the file's number format can express at its coordinates; 0 if negligible.
    """

    points: Array
    triangles: Array | None = None
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    faces: Faces | None = None
    remarks: tuple[str, ...] = ()
    step: float = 0.0


def cloud(table: NDArray[Any], columns: Mapping[str, NDArray[Any]] | None = None, *remarks: str) -> Geometry:
    """Make a cloud of coordinates (N, 3) in the type in which the file stores them."""
    return Geometry(
        np.ascontiguousarray(table, dtype=np.float64), None, columns or {}, None, remarks, coordinate_step(table)
    )


def mesh(points: NDArray[Any], faces: Faces, columns: Mapping[str, NDArray[Any]] | None = None) -> Geometry:
    """Make a mesh of points (N, 3) and faces; without faces, a cloud. Faces of one or two vertices have no area.

    Raises:
        MalformedFile: a face refers to a vertex that does not exist, or no face has three vertices.
    """
    if not len(faces.sizes):
        return cloud(points, columns)
    if len(faces.corners) and not 0 <= faces.corners.min() <= faces.corners.max() < len(points):
        wrong = faces.corners[(faces.corners < 0) | (faces.corners >= len(points))][0]
        raise MalformedFile(f"a face refers to vertex {wrong} (from 0) of {len(points)}")
    flat = int((faces.sizes < 3).sum())
    if flat == len(faces.sizes):
        raise MalformedFile("has no face of three or more vertices")
    remarks = [f"{flat} of {len(faces.sizes)} faces have fewer than three vertices and are left out"] if flat else []
    return replace(cloud(points, columns, *remarks), faces=faces)


def coordinate_step(table: NDArray[Any]) -> float:
    """Return the smallest difference between coordinates (N, 3) that their format can express; 0 if negligible.

    Of double precision, that is the last decimal place if all are rounded to the same; of single precision, the distance
    between neighbouring numbers at the largest coordinate.

    >>> coordinate_step(np.full((5, 3), 500_000.0, np.float32)), coordinate_step(np.array([[0.25, 0.5, 1.0]]))
    (0.03125, 0.01)
    """
    if not np.issubdtype(table.dtype, np.floating) or not table.size:
        return 0.0
    values = np.abs(table[:: max(1, len(table) // SAMPLE)])
    values = values[np.isfinite(values)]
    largest = float(values.max(initial=0.0))
    if table.dtype.itemsize < 8:
        return float(np.spacing(table.dtype.type(largest)))
    single = float(np.spacing(np.float32(largest))) if (values == values.astype(np.float32)).all() else 0.0
    for decimals in range(MAX_DECIMALS):
        if (np.abs(values - np.round(values, decimals)) <= 1e-15 * largest).all():
            return max(float(10.0**-decimals), single)
    return single


def checked(geometry: Geometry) -> Geometry:
    """Leave out rows in which nothing was measured, and return the geometry if it can be used.

    Raises:
        MalformedFile: coordinates are not finite, or fewer than three points are left.
    """
    given = geometry.points
    geometry = _without_sentinels(_without_nan(geometry))
    if geometry.points.size and not np.abs(geometry.points).max() <= MAX_COORDINATE:  # also true of NaN
        raise MalformedFile(_unusable(geometry.points, given))
    if len(geometry.points) < MIN_POINTS:
        left = f" ({'; '.join(geometry.remarks)})" if geometry.remarks else ""
        raise MalformedFile(f"has {counted(len(geometry.points), 'point')}, at least {MIN_POINTS} are needed{left}")
    return geometry


def _unusable(points: Array, given: Array) -> str:
    """Describe the points (N, 3) that are not finite or too far away; `given` (M, 3) has all points of the file."""
    rows = np.flatnonzero(~(np.abs(points) <= MAX_COORDINATE).all(axis=1))
    first = points[rows[0]]
    place = np.flatnonzero(((given == first) | (np.isnan(given) & np.isnan(first))).all(axis=1))[0]
    what = f"{len(rows)} of {len(given)} points are not finite, or beyond {MAX_COORDINATE:g}"
    return f"{what}; the first is point {place} (from 0): {' '.join(f'{v:g}' for v in first)}; fix or remove them"


def _without_nan(geometry: Geometry) -> Geometry:
    """Leave out the rows of a cloud whose coordinates are all NaN."""
    unseen = np.asarray(np.isnan(geometry.points).all(axis=1))
    return _left_out(geometry, unseen, "of NaN (nothing was measured there)") if unseen.any() else geometry


def _without_sentinels(geometry: Geometry) -> Geometry:
    """Leave out repeated rows 0 0 0, and any other point that a tenth of the rows repeat, unless all rows are that point."""
    points = geometry.points
    if geometry.faces is not None:  # saves time: nothing of a mesh is left out
        return geometry
    at_zero = np.asarray(~points.any(axis=1))
    if 1 < np.count_nonzero(at_zero) < len(points):
        geometry = _left_out(geometry, at_zero, "0 0 0 (nothing was measured there)")
        points = geometry.points
    repeated = _most_frequent(points)
    if repeated is not None:
        value = " ".join(f"{v:g}" for v in points[repeated][0])
        geometry = _left_out(geometry, repeated, f"{value} (a tenth or more repeat this point: nothing was measured)")
    return geometry


def _most_frequent(points: Array) -> NDArray[np.bool_] | None:
    """Return which rows (N,) are the most frequent point, if these are a tenth or more, at least 3, and not all."""
    least = max(MIN_POINTS, SENTINEL_SHARE * len(points))
    candidates = [rows for rows in _repeated(points, np.arange(len(points)), 0, least) if len(rows) < len(points)]
    if not candidates:
        return None
    is_repeated = np.zeros(len(points), dtype=np.bool_)
    is_repeated[max(candidates, key=len)] = True
    return is_repeated


def _repeated(points: Array, rows: NDArray[np.intp], axis: int, least: float) -> list[NDArray[np.intp]]:
    """Return those of the rows that are equal from an axis on, in groups of at least `least`."""
    if axis == points.shape[1]:
        return [rows]
    values, counts = np.unique(points[rows, axis], return_counts=True)
    groups = [rows[points[rows, axis] == value] for value in values[counts >= least]]
    return [repeated for group in groups for repeated in _repeated(points, group, axis + 1, least)]


def _left_out(geometry: Geometry, rows: NDArray[np.bool_], what: str) -> Geometry:
    """Leave out rows of a cloud, with a remark."""
    if geometry.faces is not None:
        return geometry
    remark = f"left out {np.count_nonzero(rows)} of {len(rows)} rows {what}"
    columns = {name: values[~rows] for name, values in geometry.columns.items()}
    return replace(geometry, points=geometry.points[~rows], columns=columns, remarks=(*geometry.remarks, remark))


def named(names: list[str], table: NDArray[Any]) -> Columns:
    """Return the columns of a table (N, k) by the names that PLY files use; colours of 0 … 255 as bytes.

    >>> named(["r", "my name"], np.array([[255.0, 0.5]]))
    {'red': array([255], dtype=uint8), 'my_name': array([0.5])}
    """
    columns: Columns = {}
    for number, name in enumerate(names):
        text = name.strip().lower()
        plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in SHORT_NAMES.get(text, text)).strip("_")
        values = table[:, number]
        is_byte = plain in ("red", "green", "blue", "alpha") and ((values >= 0) & (values <= 255)).all()
        if is_byte and (values == np.round(values)).all() and (values > 1).any():
            values = values.astype(np.uint8)
        if plain and plain not in columns and plain not in "xyz":
            columns[plain] = values
    return columns


def shape_text(shape: tuple[int, ...]) -> str:
    """Write a shape: 1500 x 3."""
    return " x ".join(map(str, shape)) or "one value"
