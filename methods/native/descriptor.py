"""Compiled kernel of the learned local descriptor, `native/descriptor.cc`, for `methods.learned.descriptor`.

`python -m methods.native.descriptor` builds the kernel ahead of a run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from methods.native import build

_pointer, _size = ctypes.c_void_p, ctypes.c_int64
KERNEL = build.Kernel(
    "descriptor",
    ("-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-Wno-psabi"),
    (("avx2", "-mavx2"),),
    ("neighbours.h",),
    (("descriptor_pool", (_pointer, _size, _pointer, _pointer, _pointer, _size, _size, _pointer)),),
    "learned descriptor",
)
LANES, BLOCK, LEVELS = 8, 16, 4095
"""Constants of the kernel: numbers of a vector, outputs that are summed together, and the largest integer of a weight."""
MAX_WIDTH = 128
"""Maximum number of inputs of a layer: the sum of so many products of integers fits in 32 bits."""

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Layer = tuple[Floats, Floats]
"""Weights (outputs, inputs) and biases (outputs,)."""


class _Layer(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("inputs", "outputs")),
        *((name, ctypes.c_void_p) for name in ("weights", "units", "bias")),
    )


class _Scale(ctypes.Structure):
    _fields_ = (("radius", ctypes.c_double), ("first", ctypes.c_void_p), ("second", _Layer), ("third", _Layer))


def supports(widths: Sequence[int]) -> bool:
    """Return whether the kernel can compute point-wise layers of these widths."""
    return len(widths) == 3 and max(widths[:2]) <= MAX_WIDTH and all(width % BLOCK == 0 for width in widths)


def pooled(
    kernel: ctypes.CDLL,
    keys: Doubles,
    clouds: Sequence[Doubles],
    radii: Sequence[float],
    points: int,
    layers: Sequence[Sequence[Layer]],
) -> Floats:
    """Compute the maxima (K, S C) of the last point-wise layers over the patches of keys (K, 3) at S scales.

    Args:
        kernel: see `KERNEL`.
        keys: points to describe.
        clouds: the thinned cloud of each scale.
        radii: of the patches of each scale.
        points: maximum number of points of a patch.
        layers: of each scale, three; see `supports`.
    """
    kept: list[Any] = []
    scales = (_Scale * len(radii))(*(_scale(*scale, kept) for scale in zip(radii, layers, strict=True)))
    keys, joined = (np.ascontiguousarray(c, dtype=np.float64) for c in (keys, np.concatenate(clouds)))
    sizes = np.array([len(cloud) for cloud in clouds], dtype=np.int64)
    result = np.empty((len(keys), len(radii) * len(layers[0][-1][1])), dtype=np.float32)
    at = keys.ctypes.data, len(keys), joined.ctypes.data, sizes.ctypes.data, ctypes.addressof(scales), len(radii)
    kernel.descriptor_pool(*at, points, result.ctypes.data)
    return result


def _scale(radius: float, layers: Sequence[Layer], kept: list[Any]) -> _Scale:
    """Return the kernel's form of the layers of a scale; `kept` receives the arrays that it points to."""
    (weights, bias), *wide = layers
    first = np.ascontiguousarray(np.vstack([weights.T, bias]), dtype=np.float32)
    kept.append(first)
    return _Scale(radius, first.ctypes.data, *(_wide(*layer, kept) for layer in wide))


def _wide(weights: Floats, bias: Floats, kept: list[Any]) -> _Layer:
    """Return the kernel's form of a layer whose weights become integers, with a unit for each output."""
    outputs, inputs = weights.shape
    units = np.maximum(np.abs(weights).max(axis=1), np.finfo(np.float32).tiny) / LEVELS
    integers = np.rint(weights / units[:, None]).astype(np.int16)
    packed = np.ascontiguousarray(integers.reshape(outputs // LANES, LANES, inputs // 2, 2).transpose(0, 2, 1, 3))
    arrays = packed, units.astype(np.float32), np.ascontiguousarray(bias, dtype=np.float32)
    kept.extend(arrays)
    return _Layer(inputs, outputs, *(array.ctypes.data for array in arrays))


if __name__ == "__main__":
    KERNEL.report()
