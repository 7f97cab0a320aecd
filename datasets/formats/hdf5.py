"""Arrays of an HDF5 file. Only what the file itself holds is read: no links, and no data in other files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import MalformedFile
from datasets.formats.geometry import shape_text

MIN_BYTES = 800_000_000
"""Bytes of arrays that are always allowed."""
MAX_RATIO = 4
"""Most bytes of arrays beyond that, as a multiple of the file's size."""
MAX_DEFLATE_RATIO = 1100
"""More than gzip can compress."""


def read_hdf5(file: Path, *names: str) -> dict[str, NDArray[Any]]:
    """Read the arrays at the top of an HDF5 file.

    Args:
        file: its path.
        names: arrays to read, those that are there. Groups are left out.

    Raises:
        MalformedFile: the file is damaged, refers to other files, or declares more data than it can hold.
    """
    import h5py

    try:
        with h5py.File(file, "r") as handle:
            present = list(handle)
            chosen = [name for name in present if name in names]
            sets = {name: _checked(handle, name) for name in chosen}
            sets = {name: data for name, data in sets.items() if data is not None}
            total, most = sum(data.nbytes for data in sets.values()), max(MIN_BYTES, MAX_RATIO * file.stat().st_size)
            if total > most:
                raise MalformedFile(
                    f"declares {total / 1e9:.1f} GB of arrays, more than the {most / 1e9:g} GB that are read"
                )
            return {name: _values(data) for name, data in sets.items()} | {"#names": np.array(present, dtype=np.str_)}
    except (OSError, RuntimeError, KeyError) as error:
        raise MalformedFile("not a complete HDF5 file") from error


def _checked(handle: Any, name: str) -> Any:
    """Return an array of the file if it is stored there completely; None for a group.

    Raises:
        MalformedFile: it is a link, virtual, external, or incomplete.
    """
    import h5py

    link = handle.get(name, getlink=True)
    if not isinstance(link, h5py.HardLink):
        place = getattr(link, "filename", "") or getattr(link, "path", "")
        raise MalformedFile(f"field '{name}' is a link to {place[:60]}, which is not followed; store the data itself")
    data = handle[name]
    if not isinstance(data, h5py.Dataset):
        return None
    if data.is_virtual or data.external:
        raise MalformedFile(
            f"field '{name}' takes its data from other files, which are not read; store the data itself"
        )
    stored, declared = data.id.get_storage_size(), data.nbytes
    is_text = data.dtype.kind == "O"
    fewest = declared / MAX_DEFLATE_RATIO if data.chunks or is_text else declared
    if stored < fewest:
        raise MalformedFile(
            f"field '{name}' declares {shape_text(data.shape)} values, but holds {stored} bytes of them"
        )
    return data


def _values(data: Any) -> NDArray[Any]:
    """Read an array; texts become an array of strings."""
    if data.dtype.kind == "O":
        return np.array(data.asstr()[...], dtype=np.str_)
    values = np.asarray(data[...])
    if values.dtype.kind not in "biufS":
        raise MalformedFile(f"field '{data.name.lstrip('/')}' holds {values.dtype} values, not numbers or text")
    return values
