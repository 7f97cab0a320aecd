"""Compiled kernel of the learned local descriptor, `native/descriptor.cc`, for `methods.geometry.patches`.

`python -m methods.native.descriptor` builds the kernel ahead of a run.
"""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from methods.native import build

_pointer, _size, _number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
_patches = (_pointer, _size, _number, _size)
"""The cloud, its size, the radius and the maximum number of points of a patch."""
KERNEL = build.Kernel(
    "descriptor",
    ("-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-Wno-psabi"),
    (("avx2", "-mavx2"),),
    ("neighbours.h",),
    (
        ("descriptor_normals", (_pointer, _size, *_patches, _pointer)),
        ("descriptor_moments", (_pointer, _pointer, _pointer, _size, *_patches, _size, _pointer)),
    ),
    "learned descriptor",
)

Points = NDArray[np.float64]


def least_spread(kernel: ctypes.CDLL, keys: Points, support: Points, radius: float, count: int) -> Points:
    """Return the directions (K, 3) of least spread of the patches of keys (K, 3), see `methods.geometry.patches.least_spread`."""
    keys, support = (np.ascontiguousarray(points, dtype=np.float64) for points in (keys, support))
    result = np.empty_like(keys)
    cloud = support.ctypes.data, len(support), radius, count
    kernel.descriptor_normals(keys.ctypes.data, len(keys), *cloud, result.ctypes.data)
    return result


def write_moments(
    kernel: ctypes.CDLL,
    keys: Points,
    across: Points,
    axes: Points,
    support: Points,
    radius: float,
    count: int,
    result: NDArray[np.float32],
) -> None:
    """Write the moments of patches about axes, see `methods.geometry.patches.moments_about`.

    Args:
        kernel: see `KERNEL`.
        keys: (K, 3).
        across: unit vectors (K, 3) across the axes, from which directions are counted.
        axes: unit vectors (K, 3).
        support: points (N, 3) of the patches.
        radius: of a patch.
        count: maximum number of points of a patch.
        result: (K, *SUMS), whose moments of a key are contiguous.
    """
    arrays = [np.ascontiguousarray(points, dtype=np.float64) for points in (keys, across, axes, support)]
    keys_at, across_at, axes_at, cloud_at = (array.ctypes.data for array in arrays)
    stride, inner = result.strides[0] // result.itemsize, result[0] if len(result) else result
    if not inner.flags.c_contiguous or result.dtype != np.float32:
        raise ValueError("the moments of a key are not contiguous float32")
    cloud = cloud_at, len(support), radius, count
    kernel.descriptor_moments(keys_at, across_at, axes_at, len(keys), *cloud, stride, result.ctypes.data)


if __name__ == "__main__":
    KERNEL.report()
