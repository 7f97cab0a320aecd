"""PLY files: points with all attributes and polygons; ASCII and binary, read and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import MalformedFile
from datasets.formats.geometry import Columns, Faces, Geometry, mesh
from datasets.formats.numbers import split_lists, whitespace_numbers

MAX_HEADER = 1 << 17
"""Most bytes of a header."""
TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2", "uint16": "u2",
    "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
}  # fmt: skip
"""NumPy's type of each type of a property."""
WRITTEN = {"i1": "char", "u1": "uchar", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint", "f4": "float"}
"""Type of a written property by NumPy's type; others are written as double."""
ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
CORNERS = ("vertex_indices", "vertex_index")
"""Names of the list of a face's vertices."""


@dataclass
class Element:
    """Declaration of an element: `count` rows of properties, (name, type, type of the length if it is a list)."""

    name: str
    count: int
    properties: list[tuple[str, str, str | None]] = field(default_factory=list)

    def dtype(self, order: str, lengths: Mapping[str, int]) -> np.dtype[Any]:
        """Return the type of a row whose lists have these lengths; lengths are in fields named `#list`."""
        fields: list[Any] = []
        for name, kind, counter in self.properties:
            fields += [(f"#{name}", order + counter)] if counter else []
            fields.append((name, order + kind, (lengths[name],)) if counter else (name, order + kind))
        return np.dtype(fields)

    @property
    def lists(self) -> list[str]:
        """Names of the lists."""
        return [name for name, _, counter in self.properties if counter]


@dataclass
class Values:
    """Content of an element: scalar properties, and for each list its lengths and its values one after another."""

    columns: Columns
    lists: dict[str, tuple[NDArray[np.int64], NDArray[Any]]]


def read_ply(file: Path) -> Geometry:
    """Read points, their attributes and faces.

    Raises:
        MalformedFile: the header is damaged, or declares more or fewer values than the file holds.
    """
    data = file.read_bytes()
    order, elements, start = _header(data)
    values = _ascii(data[start:], elements) if not order else _binary(data, start, order, elements)
    if "vertex" not in values:
        raise MalformedFile(f"has no element vertex (it has {', '.join(values) or 'none'})")
    columns = {name.lower() if name.lower() in "xyz" else name: v for name, v in values["vertex"].columns.items()}
    if missing := [axis for axis in "xyz" if axis not in columns]:
        raise MalformedFile(
            f"element vertex has no property {missing[0]} (it has {', '.join(columns)[:100] or 'none'})"
        )
    points = np.column_stack([columns.pop(axis) for axis in "xyz"])
    return mesh(points, _faces(values.get("face")), columns)


def _faces(face: Values | None) -> Faces:
    """Return the polygons of the element face; none without a list of vertices."""
    name = next((n for n in CORNERS if face and n in face.lists), None)
    if face is None or name is None:
        return Faces(np.zeros(0, np.int64), np.zeros(0, np.int64))
    lengths, corners = face.lists[name]
    return Faces(lengths, corners.astype(np.int64), face.columns)


def _header(data: bytes) -> tuple[str, list[Element], int]:
    """Return the byte order (empty for ASCII), the elements, and where the values begin."""
    end = data.find(b"end_header", 0, MAX_HEADER)
    if not data.startswith(b"ply") or end < 0:
        raise MalformedFile("is no PLY file: it does not begin with a header from 'ply' to 'end_header'")
    newline = data.find(b"\n", end)
    elements: list[Element] = []
    order: str | None = None
    for line in data[:end].decode("latin-1").splitlines()[1:]:
        match line.split():
            case [] | ["comment" | "obj_info", *_]:
                pass
            case ["format", kind, _] if kind in ORDERS:
                order = ORDERS[kind]
            case ["element", name, count] if count.lstrip("-").isdigit() and len(count) < 30:
                if int(count) < 0:
                    raise MalformedFile(f"header declares {count} elements {name}")
                elements.append(Element(name, int(count)))
            case ["property", "list", counter, kind, name] if elements and {counter, kind} <= TYPES.keys():
                elements[-1].properties.append((name, TYPES[kind], TYPES[counter]))
            case ["property", kind, name] if elements and kind in TYPES:
                elements[-1].properties.append((name, TYPES[kind], None))
            case _:
                raise MalformedFile(f"header has the line '{line[:60]}', which PLY does not define")
    if order is None:
        raise MalformedFile("header has no format ascii, binary_little_endian or binary_big_endian")
    for element in elements:
        names = [name for name, *_ in element.properties]
        if len(set(names)) < len(names):
            raise MalformedFile(f"header names a property of {element.name} twice")
    return order, elements, (newline if newline >= 0 else end + 9) + 1


def _ascii(text: bytes, elements: list[Element]) -> dict[str, Values]:
    numbers = whitespace_numbers(text)
    values: dict[str, Values] = {}
    for element in elements:
        fewest = len(element.properties) * element.count
        if fewest > len(numbers):
            raise _wrong_count(element, f"{len(numbers)} numbers are left for them")
        if not element.lists:
            table, numbers = numbers[:fewest].reshape(element.count, -1), numbers[fewest:]
            columns = {name: _cast(table[:, k], kind) for k, (name, kind, _) in enumerate(element.properties)}
            values[element.name] = Values(columns, {})
        else:
            values[element.name], used = _ascii_lists(element, numbers)
            numbers = numbers[used:]
    if len(numbers):
        raise _wrong_count(elements[-1] if elements else Element("vertex", 0), f"{len(numbers)} more numbers follow")
    return values


def _cast(column: NDArray[np.float64], kind: str) -> NDArray[Any]:
    """Convert a column to the declared type; integers out of range are an error.

    Coordinates of text keep double precision: the declared type says nothing about the digits that were written.
    """
    if kind[0] == "f":
        return column
    limits = np.iinfo(kind)
    if not ((column >= limits.min) & (column <= limits.max)).all():
        raise MalformedFile(f"has a value outside {limits.min} to {limits.max}, the range of its type")
    return column.astype(kind)


def _ascii_lists(element: Element, numbers: NDArray[np.float64]) -> tuple[Values, int]:
    """Read an element with lists; return its values and how many numbers they take."""
    if len(element.properties) == 1:
        (name, _, _), split = element.properties[0], split_lists(numbers, element.count)
        if split is None:
            raise _wrong_count(element, "the file holds fewer")
        return Values({}, {name: split[:2]}), split[2]
    scalars: dict[str, list[float]] = {name: [] for name, _, counter in element.properties if not counter}
    lengths: dict[str, list[int]] = {name: [] for name in element.lists}
    content: dict[str, list[NDArray[np.float64]]] = {name: [] for name in element.lists}
    at = 0
    for _ in range(element.count):
        for name, _, counter in element.properties:
            if at >= len(numbers) or (counter and not 0 <= numbers[at] <= len(numbers) - at - 1):
                raise _wrong_count(element, "the file holds fewer")
            if counter:
                length = int(numbers[at])
                lengths[name].append(length)
                content[name].append(numbers[at + 1 : at + 1 + length])
                at += length
            else:
                scalars[name].append(float(numbers[at]))
            at += 1
    kinds = {name: kind for name, kind, _ in element.properties}
    columns = {name: _cast(np.array(v), kinds[name]) for name, v in scalars.items()}
    lists = {n: (np.array(lengths[n], np.int64), np.concatenate([*content[n], np.zeros(0)])) for n in element.lists}
    return Values(columns, lists), at


def _binary(data: bytes, start: int, order: str, elements: list[Element]) -> dict[str, Values]:
    values: dict[str, Values] = {}
    for element in elements:
        lengths = dict.fromkeys(element.lists, 0)
        least = element.dtype(order, lengths).itemsize * element.count
        if least > len(data) - start:
            raise _wrong_count(element, f"{max(len(data) - start, 0)} bytes are left for them")
        values[element.name], start = _binary_element(data, start, order, element)
    if data[start:].strip(b"\0\r\n\t "):
        last = elements[-1] if elements else Element("vertex", 0)
        raise _wrong_count(last, f"{len(data) - start} more bytes follow")
    return values


def _binary_element(data: bytes, start: int, order: str, element: Element) -> tuple[Values, int]:
    """Read an element; return its values and where it ends. Lists of one length each are read at once."""
    lengths: dict[str, int] = {}
    at = start
    for name, kind, counter in element.properties if element.count else ():
        if counter:
            if at + np.dtype(counter).itemsize > len(data):
                raise _wrong_count(element, "the file ends before")
            lengths[name] = int(np.frombuffer(data, order + counter, 1, at)[0])
            if not 0 <= lengths[name] <= len(data):
                raise MalformedFile(
                    f"element {element.name} has a list of {lengths[name]} values, more than the file holds"
                )
            at += np.dtype(counter).itemsize
        at += np.dtype(kind).itemsize * lengths.get(name, 1)
    dtype = element.dtype(order, lengths or dict.fromkeys(element.lists, 0))
    end = start + dtype.itemsize * element.count
    if end <= len(data):
        rows = np.frombuffer(data, dtype, element.count, start)
        if all((rows[f"#{name}"] == length).all() for name, length in lengths.items()):
            columns = {name: rows[name].astype(kind) for name, kind, counter in element.properties if not counter}
            sizes = {n: np.full(element.count, lengths.get(n, 0), np.int64) for n in element.lists}
            return Values(columns, {n: (sizes[n], rows[n].reshape(-1)) for n in element.lists}), end
    return _binary_lists(data, start, order, element)


def _binary_lists(data: bytes, start: int, order: str, element: Element) -> tuple[Values, int]:
    """Read an element with lists of different lengths, row by row."""
    scalars: dict[str, list[Any]] = {name: [] for name, _, counter in element.properties if not counter}
    lengths: dict[str, list[int]] = {name: [] for name in element.lists}
    content: dict[str, list[NDArray[Any]]] = {name: [] for name in element.lists}
    kinds = [(name, np.dtype(order + k), np.dtype(order + c) if c else None) for name, k, c in element.properties]
    at = start
    for _ in range(element.count):
        for name, kind, counter in kinds:
            length = 1
            if at + (counter or kind).itemsize > len(data):
                raise _wrong_count(element, "the file ends before")
            if counter:
                length = int(np.frombuffer(data, counter, 1, at)[0])
                at += counter.itemsize
                if not 0 <= length <= (len(data) - at) // kind.itemsize:
                    raise MalformedFile(
                        f"element {element.name} has a list of {length} values, more than the file holds"
                    )
                lengths[name].append(length)
            read = np.frombuffer(data, kind, length, at)
            (content[name] if counter else scalars[name]).append(read if counter else read[0])
            at += kind.itemsize * length
    columns = {name: np.array(scalars[name], kind) for name, kind, counter in kinds if not counter}
    empty = [np.zeros(0, np.int64)]
    lists = {n: (np.array(lengths[n], np.int64), np.concatenate(content[n] or empty)) for n in element.lists}
    return Values(columns, lists), at


def _wrong_count(element: Element, there: str) -> MalformedFile:
    return MalformedFile(f"header declares {element.count} elements {element.name}, but {there}")


def write_ply(
    file: Path,
    points: NDArray[np.float64],
    columns: Mapping[str, NDArray[Any]] | None = None,
    faces: Faces | None = None,
) -> None:
    """Write points (N, 3) with attributes and faces as a binary PLY.

    Coordinates are in double precision, so that map coordinates keep millimetres.
    """
    vertex = _records({**{axis: points[:, k] for k, axis in enumerate("xyz")}, **(columns or {})}, len(points))
    head = ["ply", "format binary_little_endian 1.0", *_declared("vertex", vertex)]
    if faces is None:
        file.write_bytes("\n".join([*head, "end_header", ""]).encode() + vertex.tobytes())
        return
    columns_of_faces = _records(dict(faces.columns), len(faces.sizes))
    head += [*_declared("face", columns_of_faces), "property list int int vertex_indices", "end_header", ""]
    file.write_bytes("\n".join(head).encode() + vertex.tobytes() + _face_bytes(columns_of_faces, faces))


def _records(columns: Mapping[str, NDArray[Any]], count: int) -> NDArray[Any]:
    """Return columns as a structured array (count,) of types that PLY files have."""
    kinds = {n: v.dtype.str[1:] if v.dtype.str[1:] in WRITTEN else "f8" for n, v in columns.items()}
    rows = np.zeros(count, np.dtype([(name, "<" + kind) for name, kind in kinds.items()]))
    for name, values in columns.items():
        rows[name] = values
    return rows


def _declared(name: str, rows: NDArray[Any]) -> list[str]:
    kinds = [(n, WRITTEN.get(rows.dtype[n].str[1:], "double")) for n in rows.dtype.names or ()]
    return [f"element {name} {len(rows)}", *(f"property {kind} {n}" for n, kind in kinds)]


def _face_bytes(rows: NDArray[Any], faces: Faces) -> bytes:
    """Return the bytes of faces: for each its attributes, the number of its corners, and these."""
    if len(faces.sizes) and (faces.sizes == faces.sizes[0]).all():
        fields = [*rows.dtype.descr] if rows.dtype.names else []
        table = np.zeros(len(rows), np.dtype([*fields, ("#", "<i4"), ("corners", "<i4", (int(faces.sizes[0]),))]))
        for name in rows.dtype.names or ():
            table[name] = rows[name]
        table["#"], table["corners"] = faces.sizes, faces.corners.reshape(len(rows), -1)
        return table.tobytes()
    corners = np.split(faces.corners.astype("<i4"), np.cumsum(faces.sizes)[:-1])
    sizes = faces.sizes.astype("<i4")
    attributes = [row.tobytes() for row in rows] if rows.dtype.names else [b""] * len(sizes)
    return b"".join(a + sizes[k].tobytes() + corners[k].tobytes() for k, a in enumerate(attributes))
