"""Which columns of a table, or which axis of an array, are x, y, z."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import MalformedFile
from common.text import counted
from datasets.formats.geometry import Geometry, cloud, named, shape_text

MAX_COLUMNS = 20
"""Most columns of a table of points; wider arrays are images, matrices or features."""
MIN_NUMBERED = 10
"""Fewest rows from which a column 0, 1, 2 … is a number of rows, not a coordinate."""
_UNIT = re.compile(r"\s*[\[(].*?[\])]\s*$|[_ ](m|mm|cm|km|ft)$")
_AXIS = re.compile(
    r"(?:pos|position|coord|coords|coordinate|points?|vertex|loc|location|p|pt|world|local|scan|cartesian)?[_:.\- ]*([xyz])"
)
_NUMBERED = re.compile(r"(?:points?|coords?|coordinates?|position|pos|xyz)(?:_\w+)?[_:.\- ]?([012])")
_AXIS_LAST = re.compile(r"([xyz])[_:.\- ]?(?:coord|coords|coordinate|pos|position|axis|value|val)?")
_MAP_NAMES = {"easting": 0, "east": 0, "northing": 1, "north": 1, "elevation": 2, "height": 2, "altitude": 2, "elev": 2}


def axis_of(name: str) -> int | None:
    """Return 0, 1 or 2 for the name of an x, y or z coordinate, else None.

    >>> [axis_of(name) for name in ("X", "pos_y", "z [m]", "Points:0", "Northing", "nx", "red")]
    [0, 1, 2, 0, 1, None, None]
    """
    text = _UNIT.sub("", name.strip().strip("\"'").lower()).strip()
    if text in _MAP_NAMES:
        return _MAP_NAMES[text]
    if match := _AXIS.fullmatch(text) or _AXIS_LAST.fullmatch(text):
        return "xyz".index(match[1])
    return int(match[1]) if (match := _NUMBERED.fullmatch(text)) else None


def axes_of(names: list[str]) -> list[int] | None:
    """Return the positions of x, y and z among names; None unless each is there.

    >>> axes_of(["id", "x", "y", "z"]), axes_of(["x", "y", "intensity"])
    ([1, 2, 3], None)
    """
    axes = [axis_of(name) for name in names]
    return [axes.index(axis) for axis in range(3)] if set(axes) >= {0, 1, 2} else None


def counts_rows(column: NDArray[Any]) -> bool:
    """Tell whether a column (N,) numbers the rows from 0 or 1, in any order.

    >>> counts_rows(np.arange(1, 21)), counts_rows(np.arange(3)), counts_rows(np.arange(20) / 2)
    (True, False, False)
    """
    count = len(column)
    if count < MIN_NUMBERED or column.min() not in (0, 1):
        return False
    return bool(np.array_equal(np.sort(column), np.arange(count) + column.min()))


def from_table(table: NDArray[Any], names: list[str] | None = None, *remarks: str) -> Geometry:
    """Make a cloud of a table (N, k) of numbers.

    Args:
        table: the numbers.
        names: of the columns, if the file gives them.
        remarks: earlier remarks on the file.

    Raises:
        MalformedFile: no three columns are coordinates.
    """
    count = table.shape[1]
    axes, how = axes_of(names) if names else None, " by the header"
    if axes is None:
        if names:
            raise MalformedFile(f"has columns {', '.join(names)[:120]}, none x, y, z; name three of them x y z")
        axes, how, remarks = *_unnamed_axes(table), remarks
    others = [k for k in range(count) if k not in axes]
    labels = [names[k] if names else f"column_{k + 1}" for k in others]
    chosen = ", ".join(str(k + 1) for k in axes)
    if count > 3 or axes != [0, 1, 2]:
        remarks = (*remarks, f"columns {chosen} of {count} are x, y, z{how}")
    return cloud(table[:, axes], named(labels, table[:, others]), *remarks)


def _unnamed_axes(table: NDArray[Any]) -> tuple[list[int], str]:
    """Return the columns of x, y, z of a table without names, and what to remark on them."""
    count = table.shape[1]
    if count < 3:
        raise MalformedFile(f"has {counted(count, 'column')}, not x, y, z; export three coordinates a row")
    numbered = [k for k in range(min(count, 4)) if counts_rows(table[:, k])]
    if not numbered or numbered[0] > 2:
        return [0, 1, 2], ""
    first = numbered[0]
    if first or count < 4 or len(numbered) > 1:
        raise MalformedFile(
            f"column {first + 1} of {count} numbers the rows ({table[:, first].min():g} … {table[:, first].max():g}); "
            "remove it, or name the columns x y z in the first line"
        )
    return [1, 2, 3], "; column 1 numbers the rows"


def from_array(array: NDArray[Any], *remarks: str) -> Geometry:
    """Make a cloud of an array: (N, k), (3, N), (1, N, k), an organised cloud (H, W, k), or structured with fields x, y, z.

    Raises:
        MalformedFile: it is no cloud, or it is not clear which axis holds the points.
    """
    if array.dtype.names:
        return _from_structured(array, *remarks)
    if array.dtype.kind not in "fiu" or array.dtype.itemsize == 1:
        fits = "bytes, such as colours or labels" if array.dtype.itemsize == 1 else f"{array.dtype} values"
        raise MalformedFile(f"holds {fits} ({shape_text(array.shape)}), not coordinates of points (N, 3)")
    table = _as_table(array)
    if table.shape == array.shape:
        return from_table(table, None, *remarks)
    return from_table(
        table, None, *remarks, f"the array {shape_text(array.shape)} is read as {shape_text(table.shape)}"
    )


def _as_table(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as a table (N, k) of points.

    Raises:
        MalformedFile: it is an image, a matrix, several clouds, or ambiguous.
    """
    given, table = shape_text(array.shape), _without_long_axes(array)
    rows, columns = table.shape if table.ndim == 2 else (0, 0)
    if _is_pose(table):
        raise MalformedFile(f"holds a {given} matrix, such as a pose, not points (N, 3)")
    if columns > MAX_COLUMNS and (rows == 3 or (rows == 4 and (table[3] == 1).all())):
        return table[:3].T
    if 3 <= columns <= MAX_COLUMNS and (rows, columns) != (3, max(columns, 4)) and (rows != columns or rows == 3):
        return table
    doubt = "an image, a matrix, features or a transposed cloud" if table.ndim == 2 else "an image or several clouds"
    raise MalformedFile(f"holds an array {given}, which may be {doubt}; give points (N, 3)")


def _without_long_axes(array: NDArray[Any]) -> NDArray[Any]:
    """Drop axes of length 1 before the last, and join the rows of an organised cloud (H, W, 3 or more)."""
    if array.ndim > 2:
        array = array.reshape([n for k, n in enumerate(array.shape) if n > 1 or k == array.ndim - 1])
    is_image = array.ndim == 3 and array.shape[2] in (3, 4, 6) and array.dtype.kind == "f"
    if is_image and array.shape[1] < 8 * array.shape[0]:  # otherwise rather a batch of clouds
        return array.reshape(-1, array.shape[2])
    return array


def _is_pose(array: NDArray[Any]) -> bool:
    """Tell whether an array is a matrix (3, 3), (3, 4) or (4, 4) with a rotation."""
    if array.shape not in ((3, 3), (3, 4), (4, 4)):
        return False
    rotation = array[:3, :3].astype(np.float64)
    with np.errstate(all="ignore"):
        is_rotation = bool(np.abs(rotation @ rotation.T - np.eye(3)).max() < 0.05)
    return is_rotation or (array.shape == (4, 4) and bool((array[3] == (0, 0, 0, 1)).all()))


def _from_structured(array: NDArray[Any], *remarks: str) -> Geometry:
    """Make a cloud of a structured array with the fields x, y, z."""
    names = list(array.dtype.names or ())
    array = array.reshape(-1)
    scalar = [n for n in names if array.dtype[n].shape == () and array.dtype[n].kind in "fiub"]
    axes = axes_of(scalar)
    if axes is None:
        for name in names:
            if array.dtype[name].shape == (3,) and name.lower() in POINT_NAMES:
                return cloud(array[name], None, *remarks, f"field `{name}` is x, y, z")
        raise MalformedFile(f"has fields {', '.join(names)[:120]}, none x, y, z")
    chosen = [scalar[k] for k in axes]
    others = {n: array[n] for n in scalar if n not in chosen}
    columns = {k: v for n, values in others.items() for k, v in named([n], values[:, None]).items()}
    points = np.column_stack([array[n] for n in chosen])
    more = (f"fields {', '.join(chosen)} of {len(names)} are x, y, z",) if others else ()
    return cloud(points, columns, *remarks, *more)


POINT_NAMES = (
    "points", "xyz", "pos", "coords", "coord", "pcd", "pc", "cloud", "point_cloud", "pointcloud", "point", "pts",
    "vertices", "verts", "vertex", "positions", "position", "coordinates", "locations", "points3d", "p", "v", "pcl",
)  # fmt: skip
"""Names of arrays that hold points, the surest first."""
