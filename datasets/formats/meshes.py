"""OFF, OBJ and STL files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.errors import MalformedFile
from common.text import counted
from datasets.formats.geometry import Columns, Faces, Geometry, mesh, named
from datasets.formats.numbers import Numbers, split_lists, whitespace_numbers

STL_HEADER, STL_TRIANGLE = 84, 50
"""Bytes of the header and of each triangle of a binary STL file."""
_OFF_HEADER = re.compile(rb"\s*(ST)?(C)?(N)?OFF\s*(?=[\d#\s-])")
_POINT_COLUMNS = {3: [], 6: ["red", "green", "blue"], 7: ["red", "green", "blue", "alpha"]}
"""Names of the numbers after x, y, z in files that give colours."""


def read_off(file: Path) -> Geometry:
    """Read an OFF file, also with the counts on the line of the header, as in some files of ModelNet40.

    Raises:
        MalformedFile: the header is damaged, or declares more vertices or faces than there are.
    """
    text = file.read_bytes()
    header = _OFF_HEADER.match(text)
    if not header:
        first = text[:12].decode("latin-1").splitlines() or [""]
        raise MalformedFile(f"header is '{first[0]}', not 'OFF'")
    body = re.sub(rb"#[^\n]*", b"", text[header.end() :])
    lines = [line for line in body.split(b"\n") if line.strip()]
    counts = whitespace_numbers(lines[0]) if lines else np.zeros(0)
    if len(counts) not in (2, 3) or (counts < 0).any() or (counts != np.round(counts)).any():
        raise MalformedFile("declares no numbers of vertices and faces after 'OFF'")
    vertices, faces = int(counts[0]), int(counts[1])
    if vertices + faces > len(lines) - 1:
        declared = f"{counted(vertices, 'vertex', 'vertices')} and {counted(faces, 'face')}"
        raise MalformedFile(f"header declares {declared}, but has {counted(len(lines) - 1, 'line')} after it")
    table = _vertex_table(lines[1 : 1 + vertices], vertices)
    sizes, corners = _off_faces(lines[1 + vertices : 1 + vertices + faces])
    names = _POINT_COLUMNS.get(table.shape[1], []) if header[2] and not header[3] else []
    return mesh(table[:, :3], Faces(sizes, corners), named(names, table[:, 3:]))


def _vertex_table(lines: list[bytes], count: int) -> Numbers:
    """Return the rows (count, >= 3) of numbers of the vertices."""
    numbers = whitespace_numbers(b" ".join(lines))
    width = len(numbers) // count if count else 3
    if width < 3 or width * count != len(numbers):
        raise MalformedFile(
            f"has {counted(len(numbers), 'number')} for {counted(count, 'vertex', 'vertices')}, not three or more each"
        )
    return numbers.reshape(count, width)


def _off_faces(lines: list[bytes]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of corners of each face, and the corners; what follows them on a line is a colour."""
    numbers = whitespace_numbers(b" ".join(lines))
    split = split_lists(numbers, len(lines))
    if split is None or split[2] != len(numbers):
        rows = [whitespace_numbers(line) for line in lines]
        if any(not len(row) or not 0 <= row[0] < len(row) for row in rows):
            raise MalformedFile("has a face with fewer corners than it declares")
        split = split_lists(np.concatenate([row[: int(row[0]) + 1] for row in rows]), len(rows))
    assert split is not None
    return split[0], _indices(split[1])


def _indices(numbers: Numbers) -> NDArray[np.int64]:
    if (numbers != np.round(numbers)).any() or (np.abs(numbers) > 2**31).any():
        raise MalformedFile("a face refers to a vertex by a number that is no index")
    return numbers.astype(np.int64)


def read_obj(file: Path) -> Geometry:
    """Read vertices, with colours if they have them, and faces of an OBJ file; materials are not opened.

    Raises:
        MalformedFile: a vertex has fewer than three numbers, or a face refers to a vertex that does not exist.
    """
    text = file.read_bytes().replace(b"\\\r\n", b" ").replace(b"\\\n", b" ")
    lines = re.findall(rb"^[ \t]*(v|f)[ \t]+([^\n#]*)", text, re.MULTILINE)
    points = [rest for kind, rest in lines if kind == b"v"]
    if not points:
        raise MalformedFile("has no line 'v x y z', so no points")
    table = _vertex_table(points, len(points))
    names = _POINT_COLUMNS.get(table.shape[1], [])
    sizes, corners = _obj_faces(lines)
    columns: Columns = named(names, table[:, 3:])
    if columns and all((v <= 1).all() for v in columns.values()):
        columns = {n: np.round(255 * v).astype(np.uint8) for n, v in columns.items()}
    return mesh(table[:, :3], Faces(sizes, corners), columns)


def _obj_faces(lines: list[tuple[bytes, bytes]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of corners of each face, and the corners from 0; negative ones count back from the last vertex."""
    faces = [re.sub(rb"/\S*", b"", rest) for kind, rest in lines if kind == b"f"]
    sizes = np.array([len(face.split()) for face in faces], dtype=np.int64)
    corners = _indices(whitespace_numbers(b" ".join(faces)))
    if len(corners) != sizes.sum():
        raise MalformedFile("has a face with a vertex that is no number")
    if (corners == 0).any():
        raise MalformedFile("a face refers to vertex 0; OBJ counts from 1")
    before = (
        np.cumsum([kind == b"v" for kind, _ in lines])[[kind == b"f" for kind, _ in lines]] if len(faces) else sizes
    )
    return sizes, np.where(corners < 0, corners + np.repeat(before, sizes), corners - 1)


def read_stl(file: Path) -> Geometry:
    """Read the triangles of an STL file, binary or ASCII.

    Raises:
        MalformedFile: the file holds more or fewer triangles than it declares.
    """
    data = file.read_bytes()
    declared = int.from_bytes(data[80:84], "little")
    if len(data) >= STL_HEADER and len(data) - STL_HEADER == declared * STL_TRIANGLE:
        rows = np.frombuffer(
            data, np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")]), offset=84
        )
        points = rows["corners"].reshape(-1, 3)
    elif data.lstrip()[:5].lower() == b"solid":
        numbers = re.findall(rb"^\s*vertex\s+(.*)$", data, re.MULTILINE | re.IGNORECASE)
        points = _vertex_table(numbers, len(numbers)) if numbers else np.zeros((0, 3))
        if len(points) % 3 or points.shape[1] != 3 or b"endsolid" not in data[-300:].lower():
            raise MalformedFile(f"ends within a facet, after {counted(len(points), 'vertex', 'vertices')}")
    else:
        there = max(len(data) - STL_HEADER, 0) / STL_TRIANGLE
        raise MalformedFile(f"header declares {declared} triangles, but the file holds {there:g}")
    count = len(points) // 3
    return mesh(points, Faces(np.full(count, 3, np.int64), np.arange(3 * count)))
