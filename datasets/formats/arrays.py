"""NumPy files: .npy, and the member of an .npz that holds the points. Pickled objects are not opened."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from common.errors import MalformedFile
from common.text import join_names
from datasets.formats.geometry import Columns, Geometry, cloud, named, shape_text
from datasets.formats.tables import MAX_COLUMNS, POINT_NAMES, axes_of, from_array

MAX_UNPACKED = 400_000_000
"""Most bytes that a member of an .npz may unpack to."""
HEADER_BYTES = 10_000
"""Most characters of the header of an array, as NumPy reads by default."""
ATTRIBUTES = {
    "colors": "rgb", "colours": "rgb", "color": "rgb", "colour": "rgb", "rgb": "rgb", "normals": "n", "normal": "n",
}  # fmt: skip
"""Members (N, 3) that describe the points, and what they are."""
_COLUMN_NAMES = {"rgb": ["red", "green", "blue"], "n": ["nx", "ny", "nz"]}


def read_npy(file: Path) -> Geometry:
    """Read the array of a .npy file."""
    with file.open("rb") as handle:
        return from_array(_array(handle, file.stat().st_size))


def read_npz(file: Path) -> Geometry:
    """Read the points of an .npz file: a member named like points, else the only one that can be points.

    Raises:
        MalformedFile: no member or several can be points, or one unpacks to more than `MAX_UNPACKED` bytes.
    """
    with zipfile.ZipFile(file) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist() if not info.is_dir()}
        heads = {name: _head_of(archive, info) for name, info in members.items()}
        by_name = {name.lower(): name for name in members}
        preferred = [by_name[name] for name in POINT_NAMES if name in by_name]
        if not preferred and (axes := axes_of(list(members))):
            names = [list(members)[k] for k in axes]
            points = np.column_stack([_member(archive, members[n]).reshape(-1) for n in names])
            return cloud(points, None, f"members `{'`, `'.join(names)}` of {len(members)} are x, y, z")
        name = _chosen(preferred, heads)
        array = _member(archive, members[name])
        remark = f"took `{name}` ({shape_text(array.shape)}) of {len(members)} members"
        try:
            geometry = from_array(array, *([remark] if len(members) > 1 else []))
        except MalformedFile as error:
            raise MalformedFile(f"member `{name}` {error}") from error
        beside = {key: _member(archive, members[key]) for key in members if key.lower() in ATTRIBUTES}
        return cloud(geometry.points, {**geometry.columns, **_beside(beside, len(geometry.points))}, *geometry.remarks)


def _beside(arrays: dict[str, NDArray[Any]], count: int) -> Columns:
    """Return the colours and normals (N, 3) among the other members as columns."""
    columns: Columns = {}
    for name, array in arrays.items():
        if array.shape == (count, 3) and array.dtype.kind in "fiu":
            columns |= named(_COLUMN_NAMES[ATTRIBUTES[name.lower()]], array)
    return columns


def _chosen(preferred: list[str], heads: dict[str, tuple[int, ...] | None]) -> str:
    """Return the name of the member with the points.

    Raises:
        MalformedFile: there is none, or it is ambiguous.
    """
    present = [f"{n} ({shape_text(shape)})" if shape is not None else n for n, shape in heads.items()]
    held = join_names(present, 8) or "nothing"
    for name in preferred:
        if heads[name] is not None and len(heads[name] or ()) > 1:
            return name
    possible = [n for n, shape in heads.items() if shape and n.lower() not in ATTRIBUTES and _may_be_points(shape)]
    if len(possible) == 1:
        return possible[0]
    if not possible:
        raise MalformedFile(f"holds {held}, none of them points (N, 3); save them as `points`")
    raise MalformedFile(f"holds {held}, of which several may be points; save one of them as `points`")


def _may_be_points(shape: tuple[int, ...]) -> bool:
    """Tell whether an array of this shape can hold points: 3 to `MAX_COLUMNS` columns or rows, and no pose."""
    long = [n for n in shape if n > 1]
    return len(long) == 2 and 3 <= min(long) <= MAX_COLUMNS and tuple(long) not in ((3, 3), (3, 4), (4, 4))


def _head_of(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[int, ...] | None:
    """Return the shape of a member; None if it is no array of numbers, (N,) for a structured array of N rows."""
    if not info.filename.endswith(".npy"):
        return None
    with archive.open(info) as handle:
        shape, _, dtype = _header(handle)
    if dtype.names:
        return (*shape, len(dtype.names))
    return shape if dtype.kind in "fiub" else None


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """Read a member.

    Raises:
        MalformedFile: it declares more than `MAX_UNPACKED` bytes, or its size is not that of its array.
    """
    if info.file_size > MAX_UNPACKED:
        raise MalformedFile(
            f"member `{info.filename}` unpacks to {info.file_size / 1e9:.1f} GB, at most {MAX_UNPACKED / 1e9:g} GB "
            "are read; save fewer points"
        )
    with archive.open(info) as handle:
        return _array(io.BytesIO(handle.read(info.file_size)), info.file_size)


def _header(handle: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of an array: shape, whether the first axis runs fastest, and type.

    Raises:
        MalformedFile: it is damaged, or the array holds Python objects.
    """
    try:
        version = np.lib.format.read_magic(handle)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(handle, max_header_size=HEADER_BYTES)
    except Exception as error:  # ast.literal_eval raises many kinds of errors
        raise MalformedFile("has a damaged header of a NumPy array") from error
    if dtype.hasobject:
        raise MalformedFile("holds Python objects (pickle), which are not opened; save numbers")
    if any(n < 0 for n in shape):
        raise MalformedFile(f"declares an array {shape_text(shape)}")
    return shape, fortran, dtype


def _array(handle: IO[bytes], size: int) -> NDArray[Any]:
    """Read an array from a handle on `size` bytes.

    Raises:
        MalformedFile: the header declares more or fewer bytes than there are.
    """
    shape, fortran, dtype = _header(handle)
    declared, there = math.prod(shape) * dtype.itemsize, size - handle.tell()
    if declared != there:
        raise MalformedFile(f"declares an array {shape_text(shape)} of {declared} bytes, but holds {there}")
    return np.frombuffer(handle.read(there), dtype).reshape(shape, order="F" if fortran else "C")
