"""LAS files, versions 1.0 to 1.4, uncompressed."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np

from common.errors import MalformedFile
from datasets.formats.geometry import Columns, Geometry, cloud

LEAST_HEADER = 227
"""Bytes of the header of versions 1.0 to 1.2."""
SIZES = {0: 20, 1: 28, 2: 26, 3: 34, 4: 57, 5: 63, 6: 30, 7: 36, 8: 38, 9: 59, 10: 67}
"""Fewest bytes of a point by its format."""
COLOURS = {2: 20, 3: 28, 5: 28, 7: 30, 8: 30, 10: 30}
"""Place of red, green and blue in a point by its format."""
CLASSES = {True: 15, False: 16}
"""Place of the classification, by whether the format is below 6."""


def read_las(file: Path) -> Geometry:
    """Read x, y, z, intensity, classification and colours.

    Raises:
        MalformedFile: the header is damaged, or declares more points than the file holds.
    """
    data = file.read_bytes()
    if not data.startswith(b"LASF") or len(data) < LEAST_HEADER:
        raise MalformedFile("is no LAS file: its header is incomplete")
    start, records = struct.unpack_from("<II", data, 96)
    format_id, size = struct.unpack_from("<BH", data, 104)
    count = _count(data)
    if format_id & 0x80 or format_id & 0x40:
        raise MalformedFile("is compressed (LAZ); convert it to LAS")
    if format_id not in SIZES or size < SIZES[format_id]:
        raise MalformedFile(f"header declares point format {format_id} of {size} bytes, which LAS does not define")
    if records > len(data) // 54:
        raise MalformedFile(f"header declares {records} variable length records, more than the file can hold")
    if not LEAST_HEADER <= start <= len(data) or count * size > len(data) - start:
        there = max(len(data) - start, 0) // size
        raise MalformedFile(f"header declares {count} points from byte {start}, but the file holds {there}")
    if data[25] < 3 and data[start + count * size :].strip(b"\0"):
        raise MalformedFile(f"header declares {count} points, but {len(data) - start - count * size} more bytes follow")
    return _scaled_points(
        data[start : start + count * size], count, size, format_id, np.array(struct.unpack_from("<6d", data, 131))
    )


def _count(data: bytes) -> int:
    """Return the number of points: 64 bits from version 1.4 on, unless it is 0."""
    count = int(struct.unpack_from("<I", data, 107)[0])
    if data[25] >= 4 and len(data) >= 375:
        return int(struct.unpack_from("<Q", data, 247)[0]) or count
    return count


def _scaled_points(
    body: bytes, count: int, size: int, format_id: int, transform: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> Geometry:
    """Return the cloud of point records; `transform` has the scales and the offsets (6,)."""
    scale, offset = transform[:3], transform[3:]
    if not (np.isfinite(transform).all() and (scale != 0).all()):
        raise MalformedFile(f"header has scales {' '.join(f'{s:g}' for s in scale)}, not finite numbers above 0")
    rows = np.frombuffer(body, np.uint8).reshape(count, size)

    def column(place: int, kind: str) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
        return np.ascontiguousarray(rows[:, place : place + np.dtype(kind).itemsize]).view(kind).reshape(-1)

    points = np.column_stack([column(4 * k, "<i4") for k in range(3)]) * scale + offset
    columns: Columns = {"intensity": column(12, "<u2"), "classification": column(CLASSES[format_id < 6], "u1")}
    if place := COLOURS.get(format_id):
        columns |= {name: column(place + 2 * k, "<u2") for k, name in enumerate(("red", "green", "blue"))}
    return replace(cloud(points, columns), step=float(np.abs(scale).max()))
