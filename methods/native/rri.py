"""Compiled kernel of the rotation-invariant features, `native/rri.cc`: neighbours and features of a point in one pass.

`methods.nn.rri` defines the features, and computes them with torch where the kernel is unavailable.
`python -m methods.native.rri` builds the kernel ahead of a run.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from methods.core.base import Unavailable
from methods.native import build

OPTIONS = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi")
INSTRUCTIONS = {
    "avx2": "-mavx2",
    "fma3": "-mfma",
    "bmi2": "-mbmi2",
    "avx512_f": "-mavx512f",
    "avx512_bw": "-mavx512bw",
    "avx512_dq": "-mavx512dq",
    "avx512_vl": "-mavx512vl",
}
"""Torch's name of an instruction set to the compiler's option, used if the processor has it."""
MAX_NEIGHBOURS = 64
"""Maximum k, the constant `MAX_NEIGHBOURS` of the kernel."""
PADDING = 16
"""Numbers after the planes, and after each side of the boxes, that the kernel may read; its constant `PADDING`."""
RADII = (1e-12, 1e15)
"""Range of the radii of clouds whose squared distances are float32 numbers of full precision."""


class Tree:
    """K-d tree of a centred cloud.

    Args:
        kernel: the compiled library.
        cloud: (N, 3), contiguous float32 on the CPU.

    Attributes:
        radius: the largest distance from the centroid, in the cloud's unit.
    """

    def __init__(self, kernel: ctypes.CDLL, cloud: Tensor) -> None:
        self.kernel, self.size = kernel, len(cloud)
        self.planes = np.empty(4 * self.size + PADDING, dtype=np.float32)
        self.own = np.empty(self.size, dtype=np.int32)
        self.boxes = np.empty((6, (2 << kernel.rri_levels(self.size)) + PADDING), dtype=np.float32)
        self.arrays = [array.ctypes.data for array in (self.planes, self.own, self.boxes)]
        kernel.rri_build(cloud.data_ptr(), self.size, *self.arrays)
        self.radius = float(self.planes[3 * self.size : 4 * self.size].max())

    @property
    def in_range(self) -> bool:
        """Whether float32 holds squared distances in the cloud's unit; False if a coordinate is not finite."""
        return RADII[0] <= self.radius <= RADII[1]

    def describe(self, positions: slice, k: int, least: float, features: Tensor) -> None:
        """Write the features of the points at some positions of the tree to their rows of a contiguous tensor (N, 4 k).

        Args:
            positions: of the points, in the order of the tree.
            k: neighbours, 1 to `MAX_NEIGHBOURS`, fewer than points.
            least: length below which a direction is undefined, in the cloud's unit.
            features: output.
        """
        self.kernel.rri_describe(
            *self.arrays, self.size, positions.start, positions.stop, k, least, features.data_ptr()
        )


@functools.cache
def library() -> ctypes.CDLL | None:
    """Load the kernel, after building it if necessary; None if it cannot be built or loaded."""
    kernel = build.load_library(build_kernel)
    if kernel is None:
        return None
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    kernel.rri_levels.argtypes = [size]
    kernel.rri_build.argtypes = [pointer, size, pointer, pointer, pointer]
    kernel.rri_build.restype = kernel.rri_describe.restype = None
    kernel.rri_describe.argtypes = [*[pointer] * 3, *[size] * 3, ctypes.c_int, ctypes.c_float, pointer]
    return kernel


def build_kernel() -> Path:
    """Build the library if necessary, and return its file, see `methods.native.build.build`.

    Raises:
        Unavailable: there is no compiler, it fails, or the cache cannot be written.
    """
    has = torch.cpu.get_capabilities()
    options = (*OPTIONS, *(option for name, option in INSTRUCTIONS.items() if has.get(name)))
    return build.kernel("rri", options, "for faster features")


if __name__ == "__main__":
    try:
        print("DeepGMR's features:", build_kernel().parent)
    except Unavailable as reason:
        sys.exit(f"the kernel of DeepGMR's features is unavailable, torch computes them: {reason}")
