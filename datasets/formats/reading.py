"""Read one file or many: choose the reader by the suffix, report faults with the file's name."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from common.errors import InputError, MalformedFile
from datasets.formats.arrays import read_npy, read_npz
from datasets.formats.geometry import Geometry
from datasets.formats.las import read_las
from datasets.formats.limited import read_geometry, with_fix
from datasets.formats.meshes import read_obj, read_off, read_stl
from datasets.formats.pcd import read_pcd
from datasets.formats.ply import read_ply
from datasets.formats.text import NoTable, read_text

Reader = Callable[[Path], Geometry]
Finish = Callable[[Geometry], Geometry]

READERS: dict[str, Reader] = {
    ".ply": read_ply,
    ".pcd": read_pcd,
    ".obj": read_obj,
    ".off": read_off,
    ".stl": read_stl,
    ".xyz": read_text,
    ".txt": read_text,
    ".pts": read_text,
    ".csv": read_text,
    ".asc": read_text,
    ".npy": read_npy,
    ".npz": read_npz,
    ".las": read_las,
}
"""Reader of each suffix."""
FIX = "fix or remove it"
"""Fix of a file whose fault suggests none."""
QUIET_S, TERMINAL_INTERVAL_S, LOG_INTERVAL_S = 2.0, 0.2, 20.0
"""Seconds until the progress of reading is shown, and between two updates in a terminal and in a log."""


class NoPoints(InputError):
    """A text file without rows of numbers. A folder of data may hold such files, so they are left out there."""


def read(file: Path, finish: Finish | None = None, reader: Reader | None = None) -> Geometry:
    """Read the mesh or cloud of a file.

    Args:
        file: its path.
        finish: applied to the result; an error that it raises is reported as a fault of the file.
        reader: function of a module that reads the file; by default chosen by the suffix.

    Raises:
        InputError: the suffix is unknown, or the file is missing, a folder, empty or broken, or has non-finite points or fewer
            than three; `NoPoints` if it is a text without numbers.
    """
    if file.is_dir():
        raise InputError(f"{file}: is a folder; give one file in it")
    reader = reader or READERS.get(file.suffix.lower())
    if reader is None:
        fix = "convert the file, or name text in columns x y z .xyz"
        raise InputError(f"{file}: suffix '{file.suffix}' is none of {' '.join(READERS)}; {fix}")
    if not file.is_file():
        fault = "not a regular file; give a file on disk" if file.exists() else "no such file; check the path"
        raise InputError(f"{file}: {fault}")
    try:
        if not file.stat().st_size:
            raise MalformedFile("is empty")
        geometry = read_geometry(reader, file)
        return finish(geometry) if finish else geometry
    except NoTable as error:
        raise NoPoints(f"{file}: {with_fix(error, FIX)}") from error
    except ValueError as error:
        raise InputError(f"{file}: {with_fix(error, FIX)}") from error


class Readings(NamedTuple):
    """Result of `read_all`.

    Attributes:
        geometries: of each file; None for one that cannot be read.
        errors: of the files that cannot be read.
        no_points: errors of text files without rows of numbers (descriptions, lists of names).
    """

    geometries: list[Geometry | None]
    errors: list[str]
    no_points: list[str]


def read_all(
    files: Iterable[Path], skip_bad: bool, finish: Finish | None = None, reader: Reader | None = None
) -> Readings:
    """Read files. Text files without rows of numbers are always left out. Progress is shown on standard error.

    Raises:
        InputError: a file cannot be read, and `skip_bad` is not set.
    """
    readings = Readings([], [], [])
    for file in _with_progress(list(files)):
        geometry = None
        try:
            geometry = read(file, finish, reader)
        except NoPoints as error:
            readings.no_points.append(str(error))
        except InputError as error:
            if not skip_bad:
                raise InputError(f"{error}, or give --skip-bad") from error
            readings.errors.append(str(error))
        readings.geometries.append(geometry)
    return readings


def visible(files: Iterable[Path], top: Path) -> list[Path]:
    """Return the files below a folder, in order, without hidden ones and those of hidden folders (`._a.ply`, `__MACOSX`)."""
    shown = []
    for file in sorted(files):
        parts = file.relative_to(top).parts
        if not any(part.startswith((".", "__MACOSX")) for part in parts):
            shown.append(file)
    return shown


def _with_progress(files: list[Path]) -> Iterator[Path]:
    """Yield files, and write how many were read to standard error if that takes more than a few seconds."""
    start, in_terminal = time.monotonic(), sys.stderr.isatty()
    due = start + QUIET_S
    for number, file in enumerate(files):
        if time.monotonic() >= due:
            line = f"reading {file.parent}: {number} of {len(files)} files"
            print(f"\r{line}" if in_terminal else line, end="" if in_terminal else "\n", file=sys.stderr, flush=True)
            due = time.monotonic() + (TERMINAL_INTERVAL_S if in_terminal else LOG_INTERVAL_S)
        yield file
    if in_terminal and due > start + QUIET_S:
        print(file=sys.stderr)


def skipped_remark(errors: list[str]) -> tuple[str, ...]:
    """Return the remark on skipped files, with their number and the first error; empty if there are none."""
    files = "1 file is" if len(errors) == 1 else f"{len(errors)} files are"
    return (f"{files} left out, the first because of: {errors[0]}",) if errors else ()


def summarized(remarks: Iterable[tuple[str, str]]) -> list[str]:
    """Return one line for remarks that differ in numbers only, with how many files they concern and the first of them.

    Args:
        remarks: name of a file and a remark on it.

    >>> summarized([("a", "left out 2 rows"), ("b", "left out 3 rows"), ("c", "is odd")])
    ['2 files, the first a: left out 2 rows', '1 file, c: is odd']
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, remark in remarks:
        groups.setdefault(re.sub(r"[\d.]+", "", remark), []).append((name, remark))
    counted = [(len(group), *group[0]) for group in groups.values()]
    return [f"{f'{n} files, the first ' if n > 1 else '1 file, '}{name}: {remark}" for n, name, remark in counted]
