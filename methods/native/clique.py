"""Compiled search for the largest clique of matches that keep their distances, `native/clique.cc`.

`python -m methods.native.clique` builds the kernel ahead of a run.
"""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from methods.native import build

_pointer, _real = ctypes.c_void_p, ctypes.c_double
KERNEL = build.Kernel(
    "clique",
    ("-O3", "-fno-math-errno", "-ffp-contract=off"),
    (),
    (),
    (("clique_largest", (_pointer, _pointer, ctypes.c_int64, _real, _real, _pointer, _pointer)),),
    "clique of matches",
)


def largest_clique(
    p: NDArray[np.float64], q: NDArray[np.float64], tolerance: float, seconds: float
) -> NDArray[np.int32] | None:
    """Return the rows of the largest set of matches whose pairwise distances are equal in both clouds; None without a compiler.

    Args:
        p: source points (K, 3).
        q: their matches in the target (K, 3).
        tolerance: maximum difference of two distances.
        seconds: time limit, after which the largest set so far is returned.
    """
    kernel = KERNEL.load()
    if kernel is None:
        return None
    p, q = (np.ascontiguousarray(points, dtype=np.float64) for points in (p, q))
    rows, count = np.empty(len(p), dtype=np.int32), ctypes.c_int32()
    at = rows.ctypes.data, ctypes.addressof(count)
    kernel.clique_largest(p.ctypes.data, q.ctypes.data, len(p), tolerance, seconds, *at)
    return rows[: count.value]


if __name__ == "__main__":
    KERNEL.report()
