"""The compiled kernel of the rotation-invariant features, `native/rri.cc`: neighbours and numbers of a point in one pass.

`methods.nn.rri` says what the numbers are, and computes them by torch where there is no kernel. `python -m methods.native.rri`
builds it ahead of a run.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from methods.core.base import Unavailable
from methods.native import build

SOURCE = build.SOURCES / "rri.cc"
OPTIONS = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi")
INSTRUCTIONS = {  # what torch calls them to the compiler's option; the kernel gains from them where a processor has them
    "avx2": "-mavx2",
    "fma3": "-mfma",
    "bmi2": "-mbmi2",
    "avx512_f": "-mavx512f",
    "avx512_bw": "-mavx512bw",
    "avx512_dq": "-mavx512dq",
    "avx512_vl": "-mavx512vl",
}
BUILT = "librri.so"
MOST = 64
"""Neighbours of a point, at most."""
ROOM = 16
"""Numbers after the planes, and after each side of the boxes, that the kernel reads, too."""
SCALES = (1e-12, 1e15)
"""Radii of clouds whose squared distances are float32 numbers of full precision."""


class Tree:
    """The k-d tree of a centred cloud (N, 3), contiguous float32 on the CPU.

    Attributes:
        radius: the largest distance from the centroid, in the cloud's unit.
    """

    def __init__(self, kernel: ctypes.CDLL, cloud: Tensor) -> None:
        self.kernel, self.size = kernel, len(cloud)
        self.planes = np.empty(4 * self.size + ROOM, dtype=np.float32)
        self.own = np.empty(self.size, dtype=np.int32)
        self.boxes = np.empty((6, (2 << kernel.rri_levels(self.size)) + ROOM), dtype=np.float32)
        self.arrays = [array.ctypes.data for array in (self.planes, self.own, self.boxes)]
        kernel.rri_build(cloud.data_ptr(), self.size, *self.arrays)
        self.radius = float(self.planes[3 * self.size : 4 * self.size].max())

    @property
    def serves(self) -> bool:
        """Whether float32 holds squared distances in the cloud's unit; not where a coordinate is not finite."""
        return SCALES[0] <= self.radius <= SCALES[1]

    def describe(self, places: slice, k: int, least: float, features: Tensor) -> None:
        """Write the features of the points at some places of the tree to their rows of a contiguous tensor (N, 4 k).

        Args:
            places: which points, in the order of the tree.
            k: neighbours, 1 to `MAX_WORKERS`, fewer than points.
            least: the length below which a direction is not defined, in the cloud's unit.
            features: where to write.
        """
        self.kernel.rri_describe(*self.arrays, self.size, places.start, places.stop, k, least, features.data_ptr())


@functools.cache
def library() -> ctypes.CDLL | None:
    """The kernel, built if it was not; None where it cannot be built or loaded."""
    try:
        kernel = ctypes.CDLL(str(build_kernel()))
    except (Unavailable, OSError):  # OSError: a cache shared with a machine of another kind
        return None
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    kernel.rri_levels.argtypes = [size]
    kernel.rri_build.argtypes = [pointer, size, pointer, pointer, pointer]
    kernel.rri_build.restype = kernel.rri_describe.restype = None
    kernel.rri_describe.argtypes = [*[pointer] * 3, *[size] * 3, ctypes.c_int, ctypes.c_float, pointer]
    return kernel


def build_kernel() -> Path:
    """The built library, see `methods.native.build.build`.

    Raises:
        Unavailable: there is no compiler, it refuses, or the cache cannot be written.
    """
    has = torch.cpu.get_capabilities()
    options = (*OPTIONS, *(option for name, option in INSTRUCTIONS.items() if has.get(name)))
    made_of = SOURCE.read_bytes(), repr(options).encode(), platform.machine().encode()

    def make(_: Path, into: Path) -> None:
        into.mkdir()
        build.compile_shared(SOURCE, into / BUILT, options, "for faster features")

    return build.build(build.folder("rri", *made_of), BUILT, make)


if __name__ == "__main__":
    try:
        print("DeepGMR's features:", build_kernel().parent)
    except Unavailable as reason:
        sys.exit(f"the kernel of DeepGMR's features is unavailable, torch computes them: {reason}")
