"""Kinds of data, from which methods derive settings that must fit the data, such as the orientation of normals."""

from __future__ import annotations

from enum import StrEnum

from common.errors import unknown


class DataKind(StrEnum):
    """What the clouds of a pair show. It says nothing about their pose."""

    OBJECTS = "objects"
    """Whole objects, seen from all sides."""
    SCANS = "scans"
    """Scans of a scene, such as fragments of a room, which overlap in part and show it from within."""
    RANGE_IMAGES = "range_images"
    """Range images of an object, each from one viewpoint outside it."""


def data_kind(text: str) -> DataKind:
    """Return the kind of a name as given by `--kind`.

    Raises:
        InputError: there is no such kind.

    >>> data_kind("scans")
    <DataKind.SCANS: 'scans'>
    """
    if text not in tuple(DataKind):
        raise unknown("kind of data", text, tuple(DataKind))
    return DataKind(text)
