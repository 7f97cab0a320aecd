"""What was read once and is kept as plain `.npy` files, so that the next process maps it into memory.

An entry belongs to its files: another size or time of any of them, and it is made anew. It may be deleted at any time.
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

from common.keys import digest

Arrays = dict[str, NDArray[Any]]
_FORM = 2
"""Raised when what is stored changes, so that older entries are not taken for it."""
_STAMP = "stamp.json"


def folder() -> Path:
    """Where entries lie: $BENCH_CACHE, else `registration-bench` in the user's cache folder."""
    given = os.environ.get("BENCH_CACHE")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else user / "registration-bench"


def cached(what: str, files: Iterable[Path], make: Callable[[], Mapping[str, NDArray[Any]]]) -> Arrays:
    """The arrays that `make` computes of some files, from the cache if they are there; memory-mapped, read-only.

    Args:
        what: what is computed, with every parameter that matters.
        files: all that is read.
        make: computes the arrays, by names that can be file names. None of them may hold objects.
    """
    stamp = _stamp(files)
    place = folder() / digest(what, *(str(name) for name, *_ in stamp))[:32]
    found = _load(place, stamp)
    if found is not None:
        return found
    arrays = {name: np.asarray(array) for name, array in make().items()}
    try:
        _store(place, arrays, stamp)
    except OSError as error:
        logging.getLogger(__name__).warning("%s: what was read is not kept (%s)", place, error.strerror or error)
        return arrays
    return _load(place, stamp) or arrays


def _stamp(files: Iterable[Path]) -> list[list[Any]]:
    stats = [(str(f.resolve()), f.stat()) for f in files]
    return [[name, one.st_size, one.st_mtime_ns] for name, one in stats]


def _load(place: Path, stamp: list[list[Any]]) -> Arrays | None:
    """The arrays of an entry; None if there is none, or it is of other files, or not whole."""
    try:
        said = json.loads((place / _STAMP).read_text())
        if said["form"] != _FORM or said["files"] != stamp:
            return None
        return {name: _open(place / f"{name}.npy") for name in said["arrays"]}
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None


def _open(file: Path) -> NDArray[Any]:
    """Mapped into memory, but for small arrays: an empty one can't be mapped."""
    small = file.stat().st_size < 1 << 16
    array: NDArray[Any] = np.load(file, mmap_mode=None if small else "r", allow_pickle=False)
    return array


def _store(place: Path, arrays: Arrays, stamp: list[list[Any]]) -> None:
    """Write an entry; it appears whole or not at all, also if several processes make it at a time."""
    partial = place.with_name(f"{place.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True, exist_ok=True)
        for name, array in arrays.items():
            np.save(partial / f"{name}.npy", array, allow_pickle=False)
        (partial / _STAMP).write_text(json.dumps({"form": _FORM, "files": stamp, "arrays": list(arrays)}))
        shutil.rmtree(place, ignore_errors=True)
        partial.rename(place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
