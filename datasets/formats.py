"""Reading a mesh or a cloud from any of the usual files. The libraries parse; here is chosen, checked and complained.

PCD is read by pypcd4, not Open3D: Open3D 0.20's reader segfaults on one in twenty PCD files with damaged headers.
"""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError

Array = NDArray[np.float64]
LARGEST = 1e12
"""Coordinates beyond are no lengths but damage; their squares would leave float32."""


# What trimesh logs of a file that it can't read is told by our own error.
logging.getLogger("trimesh").addHandler(logging.NullHandler())


@dataclass(frozen=True, eq=False)
class Geometry:
    """Points (N, 3) float64, N >= 3 and finite, and triangles (T, 3, 3) where the file has faces.

    `unseen` counts rows left out because all their coordinates are NaN: so depth cameras write where they saw nothing.
    """

    points: Array
    triangles: Array | None = None
    unseen: int = 0


Reader = Callable[[Path], Geometry]
Finish = Callable[[Geometry], Geometry]


def read(file: Path, finish: Finish | None = None, reader: Reader | None = None) -> Geometry:
    """The mesh or cloud of a file.

    Args:
        file: its path.
        finish: what is done with it; a ValueError there is a fault of the file, too.
        reader: what reads it; chosen by the suffix if not given.

    Raises:
        InputError: an unknown suffix, or the file is missing, a folder, empty or broken, or has non-finite or under three points.
    """
    if file.is_dir():
        raise InputError(f"{file}: is a folder; give one file in it")
    reader = reader or READERS.get(file.suffix.lower())
    if reader is None:
        mend = "convert the file, or name text in columns x y z .xyz"
        raise InputError(f"{file}: suffix '{file.suffix}' is none of {' '.join(READERS)}; {mend}")
    if not file.is_file():
        raise InputError(f"{file}: no such file")
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if not file.stat().st_size:
                raise MalformedFile("is empty")
            found = _checked(_seen(reader(file)))
            return finish(found) if finish else found
    except Exception as error:  # what a parser throws at damage is anything
        said = " ".join(str(error).split())[:200]
        what = said if isinstance(error, MalformedFile) else f"does not read ({type(error).__name__}: {said})"
        raise InputError(f"{file}: {what}; mend or remove it") from error


class MalformedFile(ValueError):
    """What is wrong with the content of a file that reads."""


def read_all(
    files: Iterable[Path], skip_bad: bool, finish: Finish | None = None, reader: Reader | None = None
) -> tuple[list[Geometry | None], list[str]]:
    """Every file's geometry as `read` gives it, None for one that does not read, and why those do not.

    Raises:
        InputError: a file does not read, and `skip_bad` is not set.
    """
    found: list[Geometry | None] = []
    bad: list[str] = []
    for file in files:
        try:
            found.append(read(file, finish, reader))
        except InputError as error:
            if not skip_bad:
                raise InputError(f"{error}, or give --skip-bad") from error
            found.append(None)
            bad.append(str(error))
    return found, bad


def bad_remark(bad: list[str]) -> tuple[str, ...]:
    """What a run says of files left out: how many, and the first."""
    return (f"{len(bad)} files are left out, the first because of: {bad[0]}",) if bad else ()


def _seen(found: Geometry) -> Geometry:
    """A cloud without the rows that are no points."""
    if found.triangles is not None:
        return found
    unseen = np.isnan(found.points).all(axis=1)
    return Geometry(found.points[~unseen], unseen=int(np.count_nonzero(unseen))) if unseen.any() else found


def _checked(found: Geometry) -> Geometry:
    for what, array in (("points", found.points), ("faces", found.triangles)):
        if array is not None and array.size and not np.abs(array).max() <= LARGEST:  # also true of NaN
            raise MalformedFile(f"{what} are not finite, or beyond {LARGEST:g}")
    if len(found.points) < 3:
        raise MalformedFile(f"has {len(found.points)} points, 3 are the least")
    return found


def _cloud(columns: NDArray[Any]) -> Geometry:
    """The first three columns of a table (N, >= 3)."""
    table = np.asarray(columns)
    if not table.size:
        return Geometry(np.empty((0, 3)))
    if table.ndim != 2 or table.shape[1] < 3 or not np.issubdtype(table.dtype, np.number):
        raise MalformedFile(f"holds {table.dtype} {table.shape}, not numbers (points, 3)")
    return Geometry(np.ascontiguousarray(table[:, :3], dtype=np.float64))


def _trimesh(file: Path) -> Geometry:
    import trimesh

    text = io.BytesIO(_off(file)) if file.suffix.lower() == ".off" else file
    kind = file.suffix.lower().removeprefix(".")
    made: Any = trimesh.load(text, file_type=kind, process=False, skip_materials=True)  # type: ignore[arg-type]
    if isinstance(made, trimesh.Scene):
        made = made.to_mesh()
    points = np.asarray(made.vertices, dtype=np.float64).reshape(-1, 3)
    faces = np.asarray(getattr(made, "faces", ()), dtype=np.int64).reshape(-1, 3)
    if not len(faces):
        return Geometry(points)
    if faces.min() < 0 or faces.max() >= len(points):
        raise MalformedFile(f"a face names vertex {faces.max()} of {len(points)}")
    return Geometry(points, points[faces])


def _off(file: Path) -> bytes:
    """An OFF file whose header line stands alone: in some of ModelNet40's it runs into the counts."""
    text = file.read_bytes()
    match = re.match(rb"\s*OFF\s*(?=[\d#\s])", text)
    if not match:
        first = text[:12].decode(errors="replace").splitlines() or [""]
        raise MalformedFile(f"header is '{first[0]}', not 'OFF'")
    return b"OFF\n" + text[match.end() :]


def _pcd(file: Path) -> Geometry:
    from pypcd4.pypcd4 import PointCloud

    cloud = PointCloud.from_path(file)
    table = cloud.numpy(("x", "y", "z"))
    if len(table) != cloud.points:
        raise MalformedFile(f"holds {len(table)} of its {cloud.points} points")
    return _cloud(table)


def _text(file: Path) -> Geometry:
    """Numbers in columns, separated by spaces, tabs, commas or semicolons; x, y, z first; # starts a comment."""
    text = file.read_text(encoding="utf-8-sig")
    if names := re.match(r'\s*(?!nan|inf)["a-z_][^\n]*', text, re.IGNORECASE):
        raise MalformedFile(
            f"begins with '{names[0].strip()[:60]}', not numbers (a line of column names has to begin with #)"
        )
    return _cloud(np.loadtxt(text.translate(str.maketrans(",;\t", "   ")).splitlines(), ndmin=2))


def _numpy(file: Path) -> Geometry:
    return _cloud(np.load(file, mmap_mode="r", allow_pickle=False))


def _archive(file: Path) -> Geometry:
    """The first array of shape (N, >= 3) of an .npz file."""
    with np.load(file, allow_pickle=False) as arrays:
        for name in arrays.files:
            array = arrays[name]
            if array.ndim == 2 and array.shape[1] >= 3:
                return _cloud(array)
        raise MalformedFile(f"holds {', '.join(arrays.files) or 'nothing'}, none of them points (N, 3)")


def _las(file: Path) -> Geometry:
    import laspy

    with laspy.open(file) as reader:
        told = reader.header.point_count * reader.header.point_format.size
        if told > file.stat().st_size:  # laspy would make room for all of them first
            raise MalformedFile(f"tells of {reader.header.point_count} points, more than it can hold")
        return _cloud(np.asarray(reader.read().xyz))


READERS: dict[str, Reader] = {
    ".ply": _trimesh,
    ".obj": _trimesh,
    ".off": _trimesh,
    ".stl": _trimesh,
    ".pcd": _pcd,
    ".xyz": _text,
    ".txt": _text,
    ".npy": _numpy,
    ".npz": _archive,
    ".las": _las,
}
"""Suffix to reader."""
