"""Compiled kernel of FPFH features, `native/fpfh.cc`, for `methods.geometry.fpfh`.

`python -m methods.native.fpfh` builds the kernel ahead of a run.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from methods.core.base import Unavailable
from methods.native import build

OPTIONS = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-Wno-psabi", "-pthread")
INSTRUCTIONS = {"avx2": "-mavx2"}
"""Names of instruction sets in /proc/cpuinfo, to the compiler's option, used if the processor has it."""
SIZE = 33
"""Numbers of a feature; the kernel's constant `SIZE`."""

Doubles = NDArray[np.float64]


def fpfh_features(
    kernel: ctypes.CDLL, points: Doubles, normals: Doubles, radius: float, neighbours: int, threads: int
) -> Doubles:
    """See `methods.geometry.fpfh.fpfh_features`."""
    points, normals = (np.ascontiguousarray(values, dtype=np.float64) for values in (points, normals))
    features = np.empty((len(points), SIZE))
    at = points.ctypes.data, normals.ctypes.data, len(points)
    kernel.fpfh_describe(*at, radius, neighbours, threads, features.ctypes.data)
    return features


@functools.cache
def library() -> ctypes.CDLL | None:
    """Load the kernel, after building it if necessary; None if it cannot be built or loaded."""
    kernel = build.load_library(build_kernel)
    if kernel is None:
        return None
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    kernel.fpfh_describe.argtypes = [pointer, pointer, size, ctypes.c_double, size, ctypes.c_int, pointer]
    kernel.fpfh_describe.restype = None
    return kernel


def build_kernel() -> Path:
    """Build the library if necessary, and return its file, see `methods.native.build.kernel`."""
    return build.kernel(
        "fpfh", (*OPTIONS, *build.processor_options(INSTRUCTIONS)), "for faster features", ("neighbours.h",)
    )


if __name__ == "__main__":
    try:
        print("FPFH features:", build_kernel().parent)
    except Unavailable as reason:
        sys.exit(f"the kernel of FPFH features is unavailable, Open3D computes them: {reason}")
