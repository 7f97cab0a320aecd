"""Readers of meshes and clouds in the common file formats. Libraries parse the files; this module checks the result.

PCD files are read by pypcd4, since Open3D 0.20 segfaults on one in twenty PCD files with damaged headers.
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

from common.errors import InputError, MalformedFile

Array = NDArray[np.float64]
MAX_COORDINATE = 1e12
"""Largest magnitude of a coordinate; larger ones come from damaged files, and their squares approach the limit of float32."""

# Our own error reports files that trimesh cannot read.
logging.getLogger("trimesh").addHandler(logging.NullHandler())


@dataclass(frozen=True, eq=False)
class Geometry:
    """Points (N, 3) float64, N >= 3 and finite, and triangles (T, 3, 3) if the file has faces.

    `unseen` counts rows left out because all their coordinates are NaN: depth cameras write them where they measure nothing.
    """

    points: Array
    triangles: Array | None = None
    unseen: int = 0


Reader = Callable[[Path], Geometry]
Finish = Callable[[Geometry], Geometry]


def read(file: Path, finish: Finish | None = None, reader: Reader | None = None) -> Geometry:
    """Read the mesh or cloud of a file.

    Args:
        file: its path.
        finish: applied to the result; an error that it raises is reported as a fault of the file.
        reader: reads the file; by default chosen by the suffix.

    Raises:
        InputError: the suffix is unknown, or the file is missing, a folder, empty or broken, or has non-finite points or fewer
            than three.
    """
    if file.is_dir():
        raise InputError(f"{file}: is a folder; give one file in it")
    reader = reader or READERS.get(file.suffix.lower())
    if reader is None:
        fix = "convert the file, or name text in columns x y z .xyz"
        raise InputError(f"{file}: suffix '{file.suffix}' is none of {' '.join(READERS)}; {fix}")
    if not file.is_file():
        raise InputError(f"{file}: no such file; check the path")
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if not file.stat().st_size:
                raise MalformedFile("is empty")
            geometry = _check(_drop_unmeasured(reader(file)))
            return finish(geometry) if finish else geometry
    except Exception as error:  # parsers raise any exception on damaged files
        message = " ".join(str(error).split())[:200]
        reason = message if isinstance(error, MalformedFile) else f"cannot be read ({type(error).__name__}: {message})"
        raise InputError(f"{file}: {reason}; fix or remove it") from error


def read_all(
    files: Iterable[Path], skip_bad: bool, finish: Finish | None = None, reader: Reader | None = None
) -> tuple[list[Geometry | None], list[str]]:
    """Read files; return the geometry of each, None for one that cannot be read, and the errors of those.

    Raises:
        InputError: a file cannot be read, and `skip_bad` is not set.
    """
    geometries: list[Geometry | None] = []
    errors: list[str] = []
    for file in files:
        try:
            geometries.append(read(file, finish, reader))
        except InputError as error:
            if not skip_bad:
                raise InputError(f"{error}, or give --skip-bad") from error
            geometries.append(None)
            errors.append(str(error))
    return geometries, errors


def skipped_remark(errors: list[str]) -> tuple[str, ...]:
    """Return the remark on skipped files, with their number and the first error; empty if there are none."""
    return (f"{len(errors)} files are left out, the first because of: {errors[0]}",) if errors else ()


def _drop_unmeasured(geometry: Geometry) -> Geometry:
    """Drop and count the rows of a cloud whose coordinates are all NaN."""
    if geometry.triangles is not None:
        return geometry
    unseen = np.isnan(geometry.points).all(axis=1)
    return Geometry(geometry.points[~unseen], unseen=int(np.count_nonzero(unseen))) if unseen.any() else geometry


def _check(geometry: Geometry) -> Geometry:
    """Return the geometry if it has at least three points and only finite coordinates."""
    for name, array in (("points", geometry.points), ("faces", geometry.triangles)):
        if array is not None and array.size and not np.abs(array).max() <= MAX_COORDINATE:  # also true of NaN
            raise MalformedFile(f"{name} are not finite, or beyond {MAX_COORDINATE:g}")
    if len(geometry.points) < 3:
        raise MalformedFile(f"has {len(geometry.points)} points, at least 3 are needed")
    return geometry


def _to_cloud(columns: NDArray[Any]) -> Geometry:
    """Make a cloud of the first three columns of a table (N, >= 3)."""
    table = np.asarray(columns)
    if not table.size:
        return Geometry(np.empty((0, 3)))
    if table.ndim != 2 or table.shape[1] < 3 or not np.issubdtype(table.dtype, np.number):
        raise MalformedFile(f"holds {table.dtype} {table.shape}, not numbers (points, 3)")
    return Geometry(np.ascontiguousarray(table[:, :3], dtype=np.float64))


def _read_trimesh(file: Path) -> Geometry:
    import trimesh

    text = io.BytesIO(_normalized_off(file)) if file.suffix.lower() == ".off" else file
    kind = file.suffix.lower().removeprefix(".")
    mesh: Any = trimesh.load(text, file_type=kind, process=False, skip_materials=True)  # type: ignore[arg-type]
    if isinstance(mesh, trimesh.Scene):
        mesh = mesh.to_mesh()
    points = np.asarray(mesh.vertices, dtype=np.float64).reshape(-1, 3)
    faces = np.asarray(getattr(mesh, "faces", ()), dtype=np.int64).reshape(-1, 3)
    if not len(faces):
        return Geometry(points)
    if faces.min() < 0 or faces.max() >= len(points):
        raise MalformedFile(f"a face refers to vertex {faces.max()} of {len(points)}")
    return Geometry(points, points[faces])


def _normalized_off(file: Path) -> bytes:
    """Return an OFF file with its header on a separate line; in some files of ModelNet40 the counts follow on the same line."""
    text = file.read_bytes()
    match = re.match(rb"\s*OFF\s*(?=[\d#\s])", text)
    if not match:
        first = text[:12].decode(errors="replace").splitlines() or [""]
        raise MalformedFile(f"header is '{first[0]}', not 'OFF'")
    return b"OFF\n" + text[match.end() :]


def _read_pcd(file: Path) -> Geometry:
    from pypcd4.pypcd4 import PointCloud

    cloud = PointCloud.from_path(file)
    table = cloud.numpy(("x", "y", "z"))
    if len(table) != cloud.points:
        raise MalformedFile(f"holds {len(table)} of its {cloud.points} points")
    return _to_cloud(table)


def _read_text(file: Path) -> Geometry:
    """Read columns of numbers, x, y, z first, separated by spaces, tabs, commas or semicolons; # starts a comment."""
    text = file.read_text(encoding="utf-8-sig")
    if names := re.match(r'\s*(?!nan|inf)["a-z_][^\n]*', text, re.IGNORECASE):
        raise MalformedFile(
            f"begins with '{names[0].strip()[:60]}', not numbers (a line of column names must begin with #)"
        )
    return _to_cloud(np.loadtxt(text.translate(str.maketrans(",;\t", "   ")).splitlines(), ndmin=2))


def _read_numpy(file: Path) -> Geometry:
    return _to_cloud(np.load(file, mmap_mode="r", allow_pickle=False))


def _read_npz(file: Path) -> Geometry:
    """Read the first array of shape (N, >= 3) of an .npz file."""
    with np.load(file, allow_pickle=False) as arrays:
        for name in arrays.files:
            array = arrays[name]
            if array.ndim == 2 and array.shape[1] >= 3:
                return _to_cloud(array)
        raise MalformedFile(f"holds {', '.join(arrays.files) or 'nothing'}, none of them points (N, 3)")


def _read_las(file: Path) -> Geometry:
    import laspy

    with laspy.open(file) as reader:
        size = reader.header.point_count * reader.header.point_format.size
        if size > file.stat().st_size:  # laspy would first allocate memory for all of them
            raise MalformedFile(f"header announces {reader.header.point_count} points, more than the file can hold")
        return _to_cloud(np.asarray(reader.read().xyz))


def _read_torch(file: Path) -> Geometry:
    """Read an array or tensor (N, >= 3) that `torch.save` wrote; nothing else is unpickled, so no code of the file runs."""
    import torch

    rebuild: Any = np.empty(0).__reduce__()[0]  # NumPy's function that unpickles arrays
    kinds: list[Any] = [np.ndarray, np.dtype, rebuild, *(type(np.dtype(code)) for code in ("f4", "f8"))]
    renamed = [(rebuild, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")]  # NumPy 1 and 2
    with torch.serialization.safe_globals([*kinds, *renamed]):
        content = torch.load(file, map_location="cpu", weights_only=True)
    if not isinstance(content, torch.Tensor | np.ndarray):
        raise MalformedFile(f"holds {type(content).__name__}, not an array of points (N, 3)")
    return _to_cloud(np.asarray(content))


READERS: dict[str, Reader] = {
    ".ply": _read_trimesh,
    ".obj": _read_trimesh,
    ".off": _read_trimesh,
    ".stl": _read_trimesh,
    ".pcd": _read_pcd,
    ".xyz": _read_text,
    ".txt": _read_text,
    ".npy": _read_numpy,
    ".npz": _read_npz,
    ".las": _read_las,
    ".pth": _read_torch,
}
"""Reader of each suffix."""
