"""CUDA kernel of the rotation-invariant features, `native/rri.cu`, compiled at run time by NVRTC.

CUDA builds of torch bring NVRTC, and no CUDA toolkit is needed. Where NVRTC or the driver is missing, torch computes the features
(`methods.nn.rri_batched`).
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from methods.native import build

SOURCE = build.SOURCES / "rri.cu"
NAME = b"rri"
BLOCK = 128
"""Points per block of threads."""
MAX_NEIGHBOURS = 32
"""Maximum k: with more, the lists of a thread no longer fit into registers."""


class CudaError(Exception):
    """Raised if a function of NVRTC or of the driver fails."""


class Kernel:
    """The compiled kernel on one device.

    Args:
        binary: machine code for the device.
        device: the device, whose context exists.
        k: number of neighbours it was compiled for.
    """

    def __init__(self, binary: bytes, device: torch.device, k: int) -> None:
        self.k, self.driver = k, _driver()
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        with torch.cuda.device(device):
            _raise_on_failure("cuModuleLoadData", self.driver.cuModuleLoadData(ctypes.byref(module), binary))
            status = self.driver.cuModuleGetFunction(ctypes.byref(self.function), module, NAME)
            _raise_on_failure("cuModuleGetFunction", status)

    def __call__(self, planes: Tensor, least: Tensor) -> Tensor:
        """Compute features (B, N, 4k) of planes (B, 4, N) and least lengths (B,), float32 and contiguous on the device."""
        count, _, size = planes.shape
        features = planes.new_empty(count, size, 4 * self.k)
        pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (planes, least, features)]
        values = [*pointers, ctypes.c_int(size)]
        arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        with torch.cuda.device(planes.device):
            stream = ctypes.c_void_p(torch.cuda.current_stream(planes.device).cuda_stream)
            grid = (-(-size // BLOCK), count, 1)
            launched = self.driver.cuLaunchKernel(self.function, *grid, BLOCK, 1, 1, 0, stream, arguments, None)
        _raise_on_failure("cuLaunchKernel", launched)
        return features


@functools.cache
def kernel(device: torch.device, k: int) -> Kernel | None:
    """Return the kernel for k neighbours on a device; None where it cannot be compiled or loaded."""
    if device.type != "cuda" or torch.version.cuda is None or not 1 <= k <= MAX_NEIGHBOURS:
        return None
    major, minor = torch.cuda.get_device_capability(device)
    for library in _nvrtc_libraries():
        try:
            return Kernel(compile_source(library, f"sm_{major}{minor}", k), device, k)
        except (OSError, AttributeError, CudaError):  # another version of NVRTC may know the device
            continue
    return None


def compile_source(library: str, architecture: str, k: int) -> bytes:
    """Compile the kernel to machine code by an NVRTC library.

    Args:
        library: name or path of the library.
        architecture: such as `sm_90`.
        k: number of neighbours.

    Raises:
        OSError: the library cannot be loaded.
        CudaError: the compiler fails; the message has its log.
    """
    nvrtc = ctypes.CDLL(library)
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE.read_bytes(), NAME, 0, None, None)
    _raise_on_failure("nvrtcCreateProgram", status)
    try:
        options = [option.encode() for option in (f"--gpu-architecture={architecture}", f"-DK={k}")]
        compiled = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        if compiled:
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            raise CudaError(f"{SOURCE.name} for {architecture}: {log.value.decode(errors='replace')}")
        _raise_on_failure("nvrtcGetCUBINSize", nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
        binary = ctypes.create_string_buffer(size.value)
        _raise_on_failure("nvrtcGetCUBIN", nvrtc.nvrtcGetCUBIN(program, binary))
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return binary.raw


def _nvrtc_libraries() -> Iterator[str]:
    """Yield names and paths of NVRTC libraries: one that is loaded or on the path, then those that packages have installed."""
    major = str(torch.version.cuda).split(".")[0]
    yield f"nvrtc64_{major}0_0.dll" if sys.platform == "win32" else f"libnvrtc.so.{major}"
    site = Path(torch.__file__).resolve().parents[1]
    for pattern in ("nvidia/*/lib/libnvrtc.so.*", "nvidia/*/bin/nvrtc64_*.dll", "torch/lib/*nvrtc*"):
        yield from (str(file) for file in sorted(site.glob(pattern)) if "builtins" not in file.name)


def _driver() -> Any:
    """Load the library of the GPU's driver."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def _raise_on_failure(name: str, status: int) -> None:
    """Raise `CudaError` if a function returned anything but success."""
    if status:
        raise CudaError(f"{name} returns {status}")
