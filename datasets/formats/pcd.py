"""PCD files as PCL, older versions of it, and drivers of scanners write them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import MalformedFile
from datasets.formats.geometry import SHORT_NAMES, Columns, Geometry, cloud
from datasets.formats.numbers import whitespace_numbers

MAX_HEADER = 1 << 16
"""Most bytes of a header."""
MAX_FIELD = 1 << 20
"""Most bytes of a field of one point."""
MAX_LZF_RATIO = 140
"""More than LZF can compress: 264 bytes to 2."""
_KINDS = {"F": "f", "I": "i", "U": "u"}


@dataclass(frozen=True)
class Field:
    """A field of each point: `count` values of `kind` (a NumPy type), which may be none."""

    name: str
    kind: str
    count: int

    @property
    def bytes(self) -> int:
        """Bytes in a row."""
        return np.dtype(self.kind).itemsize * self.count


@dataclass(frozen=True)
class Header:
    """Header of a PCD file; `start` is where the data begins."""

    fields: list[Field]
    points: int
    encoding: str
    start: int

    @property
    def row(self) -> int:
        """Bytes of a point."""
        return sum(f.bytes for f in self.fields)


def read_pcd(file: Path) -> Geometry:
    """Read x, y, z and the other fields of each point.

    Versions .5 to .7 are read; COUNT may be missing (1 each) or 0, fields `_` are padding, and HEIGHT and POINTS may be missing.

    Raises:
        MalformedFile: the header is damaged, or declares more points than the file holds.
    """
    data = file.read_bytes()
    header = _header(data)
    body = data[header.start :]
    if header.encoding == "ascii":
        columns = _ascii(body, header)
    elif header.encoding == "binary":
        columns = _binary(body, header)
    else:
        columns = _compressed(body, header)
    if missing := [axis for axis in "xyz" if axis not in columns]:
        raise MalformedFile(f"has no field {missing[0]} (it has {', '.join(columns)[:100] or 'none'})")
    points = np.column_stack([columns.pop(axis) for axis in "xyz"])
    return cloud(points, _attributes(columns))


def _header(data: bytes) -> Header:
    """Parse the lines up to DATA."""
    entries: dict[str, list[str]] = {}
    start = 0
    while "DATA" not in entries:
        end = data.find(b"\n", start, MAX_HEADER)
        if end < 0:
            raise MalformedFile("is no PCD file: its header has no line DATA")
        words = data[start:end].decode("latin-1").split()
        start = end + 1
        if words and not words[0].startswith("#"):
            entries[words[0].upper()] = words[1:]
    names = entries.get("FIELDS") or entries.get("COLUMNS")
    if not names:
        raise MalformedFile("header has no line FIELDS x y z")
    encoding = " ".join(entries["DATA"]).lower()
    if encoding not in ("ascii", "binary", "binary_compressed"):
        raise MalformedFile(f"header has DATA {encoding[:40]}, not ascii, binary or binary_compressed")
    return Header(_fields(names, entries), _point_count(entries), encoding, start)


def _fields(names: list[str], entries: dict[str, list[str]]) -> list[Field]:
    """Return the fields of the lines FIELDS, SIZE, TYPE and COUNT."""
    sizes = _whole("SIZE", entries.get("SIZE", ["4"] * len(names)), len(names))
    counts = _whole("COUNT", entries.get("COUNT", ["1"] * len(names)), len(names))
    kinds = [kind.upper() for kind in entries.get("TYPE", ["F"] * len(names))]
    if len(kinds) != len(names):
        raise MalformedFile(f"header has TYPE of {len(kinds)} fields, but FIELDS of {len(names)}")
    fields = []
    for name, size, kind, count in zip(names, sizes, kinds, counts, strict=True):
        allowed = (4, 8) if kind == "F" else (1, 2, 4, 8)
        if kind not in _KINDS or size not in allowed or count * size > MAX_FIELD:
            raise MalformedFile(f"header declares field {name[:20]} as {count} values of TYPE {kind} and SIZE {size}")
        fields.append(Field(name, f"<{_KINDS[kind]}{size}", count))
    return fields


def _whole(name: str, words: list[str], expected: int) -> list[int]:
    """Return the whole numbers >= 0 of a line of the header."""
    if len(words) != expected:
        raise MalformedFile(f"header has {name} of {len(words)} fields, but {expected} are expected")
    for word in words:
        if not (word.isascii() and word.isdigit() and len(word) < 25):
            raise MalformedFile(f"header has {name} {word[:25]}, not a whole number from 0")
    return [int(word) for word in words]


def _point_count(entries: dict[str, list[str]]) -> int:
    """Return the number of points, from POINTS, or WIDTH and HEIGHT."""
    width = _whole("WIDTH", entries["WIDTH"], 1)[0] if "WIDTH" in entries else None
    height = _whole("HEIGHT", entries["HEIGHT"], 1)[0] if "HEIGHT" in entries else 1
    points = _whole("POINTS", entries["POINTS"], 1)[0] if "POINTS" in entries else None
    if width is None and points is None:
        raise MalformedFile("header has neither WIDTH nor POINTS")
    if width is not None and points is not None and width * height != points:
        raise MalformedFile(f"header has WIDTH {width} x HEIGHT {height}, but POINTS {points}")
    return points if points is not None else (width or 0) * height


def _too_few(header: Header, there: str) -> MalformedFile:
    return MalformedFile(f"header declares {header.points} points of {header.row} bytes, but {there}")


def _ascii(body: bytes, header: Header) -> Columns:
    numbers, width = whitespace_numbers(body), sum(f.count for f in header.fields)
    if len(numbers) != width * header.points or not width:
        raise MalformedFile(
            f"header declares {header.points} points of {width} numbers, but the file holds {len(numbers)} numbers"
        )
    table = numbers.reshape(header.points, width)
    columns: Columns = {}
    at = 0
    for field in header.fields:
        values = table[:, at : at + field.count]
        is_packed = field.name.lower() in ("rgb", "rgba") and field.kind == "<f4"
        _add(columns, field, values.astype(np.float32) if is_packed else values)
        at += field.count
    return columns


def _binary(body: bytes, header: Header) -> Columns:
    if header.row * header.points > len(body) or not header.row:
        raise _too_few(header, f"{len(body)} bytes follow")
    if body[header.row * header.points :].strip(b"\0\r\n "):
        raise _too_few(header, f"{len(body)} bytes follow, which is more")
    rows = np.frombuffer(body, np.uint8, header.row * header.points).reshape(header.points, header.row)
    columns: Columns = {}
    at = 0
    for field in header.fields:
        part = np.ascontiguousarray(rows[:, at : at + field.bytes])
        _add(columns, field, part.view(field.kind) if field.count else part)
        at += field.bytes
    return columns


def _compressed(body: bytes, header: Header) -> Columns:
    import lzf

    packed, unpacked = (int.from_bytes(body[k : k + 4], "little") for k in (0, 4))
    if unpacked != header.row * header.points or len(body) < 8:
        raise _too_few(header, f"its data unpacks to {unpacked} bytes")
    if packed > len(body) - 8 or unpacked > MAX_LZF_RATIO * packed:
        raise _too_few(header, f"{len(body) - 8} bytes of compressed data follow, not {packed}")
    content = lzf.decompress(body[8 : 8 + packed], unpacked) if packed else b""
    if content is None or len(content) != unpacked:
        raise MalformedFile("holds damaged compressed data")
    columns: Columns = {}
    at = 0
    for field in header.fields:
        size = field.bytes * header.points
        if field.count:
            _add(
                columns,
                field,
                np.frombuffer(content, field.kind, field.count * header.points, at).reshape(-1, field.count),
            )
        at += size
    return columns


def _add(columns: Columns, field: Field, values: NDArray[Any]) -> None:
    """Add a field (N, count) as one column for each of its values; padding is left out."""
    if field.name == "_" or not field.count:
        return
    name = field.name.lower() if field.name in ("X", "Y", "Z") else field.name
    for k in range(min(field.count, 64)):
        key = name if field.count == 1 else f"{name}_{k}"
        if key in columns:
            raise MalformedFile(f"header names field {name} twice")
        columns[key] = values[:, k]


def _attributes(columns: Columns) -> Columns:
    """Return the other fields by the names of PLY files, packed colours as red, green and blue."""
    attributes: Columns = {}
    for name, values in columns.items():
        if name in ("rgb", "rgba") and values.dtype.itemsize in (4, 8):
            packed = values.view(np.uint32) if values.dtype == np.float32 else np.nan_to_num(values).astype(np.int64)
            channels = [("red", 16), ("green", 8), ("blue", 0), *([("alpha", 24)] if name == "rgba" else [])]
            attributes |= {channel: (packed >> shift & 255).astype(np.uint8) for channel, shift in channels}
        else:
            attributes[SHORT_NAMES.get(name, name)] = values
    return attributes
