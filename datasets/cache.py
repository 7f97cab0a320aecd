"""Cache of arrays as plain `.npy` files, which later processes map into memory.

An entry is computed again if the size or time of any file that it was read from changes. It may be deleted at any time.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.files import atomic_path
from common.keys import digest

Arrays = dict[str, NDArray[Any]]
_FORMAT = 3
"""Version of the stored form, increased when it changes so that older entries are ignored."""
_STAMP = "stamp.json"
"""File of an entry with the sizes and times of the files that it was read from."""


def folder() -> Path:
    """Return the folder of the cache: $BENCH_CACHE, else `registration-bench` in the user's cache folder."""
    path = os.environ.get("BENCH_CACHE")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(path) if path else user / "registration-bench"


def load_or_compute(name: str, files: Iterable[Path], compute: Callable[[], Mapping[str, NDArray[Any]]]) -> Arrays:
    """Return arrays that are computed from files, from the cache if possible; memory-mapped and read-only.

    Args:
        name: name of the computation, with every parameter that changes its result.
        files: all files that are read.
        compute: computes the arrays, by names that are valid file names. None of them may hold objects.
    """
    stamp = _stamp(files)
    entry = folder() / digest(name, *(str(file) for file, *_ in stamp))[:32]
    stored = _load(entry, stamp)
    if stored is not None:
        return stored
    arrays = {key: np.asarray(array) for key, array in compute().items()}
    try:
        _store(entry, arrays, stamp)
    except OSError as error:
        logging.getLogger(__name__).warning("%s: the cache cannot be written (%s)", entry, error.strerror or error)
        return arrays
    return _load(entry, stamp) or arrays


def _stamp(files: Iterable[Path]) -> list[list[Any]]:
    """Return path, size and time of modification of each file."""
    stats = [(str(file.resolve()), file.stat()) for file in files]
    return [[path, stat.st_size, stat.st_mtime_ns] for path, stat in stats]


def _load(entry: Path, stamp: list[list[Any]]) -> Arrays | None:
    """Load the arrays of an entry; None if it is missing, outdated or incomplete."""
    try:
        header = json.loads((entry / _STAMP).read_text())
        if header["form"] != _FORMAT or header["files"] != stamp:
            return None
        return {name: _open(entry / f"{name}.npy") for name in header["arrays"]}
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None


def _open(file: Path) -> NDArray[Any]:
    """Map an array into memory; small ones are read, since an empty one cannot be mapped."""
    small = file.stat().st_size < 1 << 16
    array: NDArray[Any] = np.load(file, mmap_mode=None if small else "r", allow_pickle=False)
    return array


def _store(entry: Path, arrays: Arrays, stamp: list[list[Any]]) -> None:
    """Write an entry atomically, also if several processes write it at the same time."""
    with atomic_path(entry) as temporary:
        temporary.mkdir(parents=True, exist_ok=True)
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", array, allow_pickle=False)
        (temporary / _STAMP).write_text(json.dumps({"form": _FORMAT, "files": stamp, "arrays": list(arrays)}))
        shutil.rmtree(entry, ignore_errors=True)
