"""The CUDA kernel of the features, compiled by g++ for tests, with the interface of `methods.native.rri_cuda.Kernel`."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import pytest
import torch
from torch import Tensor

from methods.base import Unavailable
from methods.native import build, rri_cuda
from tests.emulated_gpu import OnGpu

SHIM = Path(__file__).with_name("rri_cuda_shim.cc")


class KernelOnHost:
    """The kernel for k neighbours; tensors are of the host or of the emulated GPU, which counts one launch."""

    def __init__(self, k: int) -> None:
        self.k, self.run = k, _compiled(k)

    def __call__(self, planes: Tensor, least: Tensor) -> Tensor:
        assert planes.dtype == least.dtype == torch.float32 and planes.is_contiguous() and least.is_contiguous()
        count, _, size = planes.shape
        features = planes.new_empty(count, size, 4 * self.k)
        inner = [x.inner if isinstance(x, OnGpu) else x for x in (planes, least, features)]
        if not inner[0].is_meta:
            self.run(*(ctypes.c_void_p(x.data_ptr()) for x in inner), size, count, rri_cuda.BLOCK)
        if isinstance(features, OnGpu):
            features.counts.wrote("rri", features)
        return features


@functools.cache
def _compiled(k: int) -> ctypes._NamedFuncPointer:
    options = ("-O2", f"-DK={k}", f"-I{rri_cuda.SOURCE.parent}", "-Wno-unknown-pragmas")

    def make(_: Path, folder: Path) -> None:
        folder.mkdir()
        build.compile_shared(SHIM, folder / "shim.so", options, "for the test of the CUDA kernel")

    contents = SHIM.read_bytes(), rri_cuda.SOURCE.read_bytes(), repr(options[:2]).encode()
    try:
        file = build.build(build.build_folder("rri-cuda-shim", *contents), "shim.so", make)
    except Unavailable as reason:
        pytest.skip(f"the kernel cannot be compiled for the host: {reason}")
    return ctypes.CDLL(str(file)).run
