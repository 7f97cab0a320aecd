"""Compiled kernel of the search over poses, `native/search.cc`, and the trees that it searches.

`methods.geometry.search` defines the operations, and computes them with NumPy where the kernel is unavailable.
`python -m methods.native.search` builds the kernel ahead of a run.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from methods.core.base import Unavailable
from methods.native import build

OPTIONS = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-Wno-psabi", "-pthread")
INSTRUCTIONS = {"avx2": "-mavx2", "bmi2": "-mbmi2"}
"""Names of instruction sets in /proc/cpuinfo, to the compiler's option, used if the processor has it."""
ROW, BLOCK = 16, 4
"""Translations along each axis of a sweep, and of a block, whose best it returns; the kernel's constants."""
BLOCKS = (ROW // BLOCK) ** 3
"""Translations that a sweep returns for each rotation."""
MAX_SWEEP_POINTS = 257
"""Points of a sweep, the sum of whose penalties 16 bits hold."""

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


class Tree:
    """K-d tree of a cloud (N, 3), N ≥ 1, in the kernel's memory; freed with the object."""

    def __init__(self, kernel: ctypes.CDLL, cloud: Doubles) -> None:
        cloud = np.ascontiguousarray(cloud, dtype=np.float64)
        self.kernel = kernel
        self.handle = kernel.search_tree(cloud.ctypes.data, len(cloud))
        weakref.finalize(self, kernel.search_free, self.handle)

    def distances(self, queries: Doubles, threads: int) -> Doubles:
        """See `methods.geometry.search.Cloud.distances`."""
        queries = np.ascontiguousarray(queries, dtype=np.float64)
        values = np.empty(queries.shape[:-1])
        self.kernel.search_distances(self.handle, queries.ctypes.data, values.size, threads, values.ctypes.data)
        return values

    def field(self, cells: int, half: float, cap: float, threads: int) -> NDArray[np.uint8]:
        """See `methods.geometry.search.Cloud.field`."""
        values = np.empty((cells, cells, cells), dtype=np.uint8)
        self.kernel.search_field(self.handle, cells, half, cap, threads, values.ctypes.data)
        return values


def scores(
    kernel: ctypes.CDLL, field: NDArray[np.uint8], half: float, points: Doubles, poses: Doubles, threads: int
) -> NDArray[np.int32]:
    """See `methods.geometry.search.scores`."""
    places, rows = _float32(points), _float32(poses[:, :3])
    sums = np.empty(len(rows), dtype=np.int32)
    at = places.ctypes.data, len(places), rows.ctypes.data, len(rows)
    kernel.search_scores(field.ctypes.data, len(field), half, *at, threads, sums.ctypes.data)
    return sums


def sweep(
    kernel: ctypes.CDLL, field: NDArray[np.uint8], half: float, points: Doubles, rotations: Doubles, threads: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """See `methods.geometry.search.sweep`."""
    places, rows = _float32(points), _float32(rotations)
    sums = np.empty((len(rows), BLOCKS), dtype=np.int32)
    shifts = np.empty((len(rows), BLOCKS, 3), dtype=np.int32)
    at = places.ctypes.data, len(places), rows.ctypes.data, len(rows)
    kernel.search_sweep(field.ctypes.data, len(field), half, *at, threads, sums.ctypes.data, shifts.ctypes.data)
    return sums, shifts


def refine(
    source: Tree,
    target: Tree,
    queries: tuple[Doubles, Doubles],
    poses: Doubles,
    keep: float,
    limits: tuple[float, float],
    steps: int,
    tolerance: float,
    threads: int,
) -> Doubles:
    """See `methods.geometry.search.Pair.refine`."""
    rows = np.array(poses[:, :3], dtype=np.float64, order="C")
    settings = keep, *limits, steps, tolerance
    source.kernel.search_refine(*_pair(source, target, queries), *settings, rows.ctypes.data, len(rows), threads)
    refined = np.array(np.broadcast_to(np.eye(4), (len(rows), 4, 4)))
    refined[:, :3] = rows
    return refined


def fits(
    source: Tree,
    target: Tree,
    queries: tuple[Doubles, Doubles],
    poses: Doubles,
    keep: float,
    limit: float,
    threads: int,
) -> Doubles:
    """See `methods.geometry.search.Pair.fits`."""
    rows = np.ascontiguousarray(poses[:, :3], dtype=np.float64)
    values = np.empty((len(rows), 2, 2))
    at = rows.ctypes.data, len(rows), threads, values.ctypes.data
    source.kernel.search_fits(*_pair(source, target, queries), keep, limit, *at)
    return values


def views(
    source: Tree,
    target: Tree,
    queries: tuple[Doubles, Doubles],
    depths: tuple[Floats, Floats],
    half: float,
    poses: Doubles,
    limit: float,
    threads: int,
) -> Doubles:
    """See `methods.geometry.search.Pair.views`."""
    rows = np.ascontiguousarray(poses[:, :3], dtype=np.float64)
    shares = np.empty((len(rows), 2, 3))
    maps = depths[0].ctypes.data, depths[1].ctypes.data, len(depths[0]), half, limit
    at = rows.ctypes.data, len(rows), threads, shares.ctypes.data
    source.kernel.search_views(*_pair(source, target, queries), *maps, *at)
    return shares


def separate(kernel: ctypes.CDLL, poses: Doubles, most: int, trace: float, squared: float) -> NDArray[np.int64]:
    """See `methods.geometry.search.separate`."""
    values = np.ascontiguousarray(poses[:, :3], dtype=np.float64)
    rows = np.empty(min(most, len(poses)), dtype=np.int64)
    count = kernel.search_separate(values.ctypes.data, len(values), most, trace, squared, rows.ctypes.data)
    return rows[:count]


def _pair(source: Tree, target: Tree, queries: tuple[Doubles, Doubles]) -> tuple[int, ...]:
    """Return the arguments of the kernel for two trees and their contiguous float64 queries, which the caller keeps alive."""
    a, b = queries
    return source.handle, target.handle, a.ctypes.data, len(a), b.ctypes.data, len(b)


def _float32(values: Doubles) -> Floats:
    return np.ascontiguousarray(values, dtype=np.float32)


@functools.cache
def library() -> ctypes.CDLL | None:
    """Load the kernel, after building it if necessary; None if it cannot be built or loaded."""
    kernel = build.load_library(build_kernel)
    if kernel is None:
        return None
    pointer, size, number, real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_double
    cells, half = ctypes.c_int32, ctypes.c_float
    clouds: list[Any] = [pointer, pointer, pointer, size, pointer, size]
    kernel.search_tree.argtypes, kernel.search_tree.restype = [pointer, size], pointer
    kernel.search_free.argtypes = [pointer]
    kernel.search_distances.argtypes = [pointer, pointer, size, number, pointer]
    kernel.search_field.argtypes = [pointer, cells, half, half, number, pointer]
    kernel.search_scores.argtypes = [pointer, cells, half, pointer, size, pointer, size, number, pointer]
    kernel.search_sweep.argtypes = [pointer, cells, half, pointer, size, pointer, size, number, pointer, pointer]
    kernel.search_refine.argtypes = [*clouds, real, real, real, size, real, pointer, size, number]
    kernel.search_fits.argtypes = [*clouds, real, real, pointer, size, number, pointer]
    maps: list[Any] = [pointer, pointer, cells, half, real]
    kernel.search_views.argtypes = [*clouds, *maps, pointer, size, number, pointer]
    kernel.search_separate.argtypes, kernel.search_separate.restype = [pointer, size, size, real, real, pointer], size
    for function in ("free", "distances", "field", "scores", "sweep", "refine", "fits", "views"):
        getattr(kernel, f"search_{function}").restype = None
    return kernel


def build_kernel() -> Path:
    """Build the library if necessary, and return its file, see `methods.native.build.build`.

    Raises:
        Unavailable: there is no compiler, it fails, or the cache cannot be written.
    """
    return build.kernel("search", (*OPTIONS, *build.processor_options(INSTRUCTIONS)), "for a faster search")


if __name__ == "__main__":
    try:
        print("search over poses:", build_kernel().parent)
    except Unavailable as reason:
        sys.exit(f"the kernel of the search is unavailable, NumPy computes it: {reason}")
