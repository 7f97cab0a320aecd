"""The CUDA kernel of the features: where it is not to be had, and that NVRTC compiles its source for every GPU."""

from __future__ import annotations

import ctypes
import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from methods.native import rri_cuda
from methods.nn.rri import implementation

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
"""GPUs from Turing to Blackwell."""


def nvrtc() -> str:
    """Return the path of an installed NVRTC library; skip the test without one."""
    site = Path(torch.__file__).resolve().parents[1]
    found = [file for file in sorted(site.glob("nvidia/*/lib/libnvrtc.so.*")) if "builtins" not in file.name]
    return str(found[-1]) if found else pytest.skip("the package nvidia-cuda-nvrtc is not installed")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nvrtc_compiles_the_kernel(architecture: str) -> None:
    assert rri_cuda.compile_source(nvrtc(), architecture, 20)[:4] == b"\x7fELF"


def test_a_fault_in_the_source_is_reported_with_the_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "rri.cu").write_text("no source")
    monkeypatch.setattr(rri_cuda, "SOURCE", tmp_path / "rri.cu")
    with pytest.raises(rri_cuda.CudaError, match=r"rri\.cu for sm_90: .*error"):
        rri_cuda.compile_source(nvrtc(), "sm_90", 20)


@pytest.fixture
def cuda_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "version", SimpleNamespace(cuda="13.0"))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(rri_cuda, "_nvrtc_libraries", lambda: iter(["first", "second"]))


@pytest.mark.parametrize(
    "fault", [OSError("no library"), AttributeError("no symbol"), rri_cuda.CudaError("sm_90 is not known")]
)
def test_torch_computes_where_the_kernel_is_not_to_be_had(
    cuda_build: None, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    asked = []

    def compile_source(library: str, architecture: str, k: int) -> bytes:
        asked.append((library, architecture, k))
        raise fault

    monkeypatch.setattr(rri_cuda, "compile_source", compile_source)
    assert rri_cuda.kernel.__wrapped__(torch.device("cuda:0"), 20) is None
    assert asked == [("first", "sm_90", 20), ("second", "sm_90", 20)]


def test_the_kernel_is_loaded_once_compiled(cuda_build: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rri_cuda, "compile_source", lambda library, architecture, k: library.encode())
    monkeypatch.setattr(rri_cuda, "Kernel", lambda binary, device, k: (binary, device, k))
    device = torch.device("cuda:1")
    assert rri_cuda.kernel.__wrapped__(device, 7) == (b"first", device, 7)  # type: ignore[comparison-overlap]


def test_the_cpu_and_many_neighbours_have_no_kernel(cuda_build: None) -> None:
    assert rri_cuda.kernel(torch.device("cpu"), 20) is None
    assert rri_cuda.kernel.__wrapped__(torch.device("cuda:0"), rri_cuda.MAX_NEIGHBOURS + 1) is None
    assert implementation("cuda:0", rri_cuda.MAX_NEIGHBOURS + 1) == "torch"


class Driver:
    """A driver and a compiler whose calls are written down; one of them may fail."""

    def __init__(self, fails: str = "", log: bytes = b"", binary: bytes = b"machine code") -> None:
        self.fails, self.log, self.binary, self.calls = fails, log, binary, dict[str, tuple[Any, ...]]()

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls[name] = arguments
            if name == "cuModuleLoadData":
                arguments[0]._obj.value = 11
            elif name == "cuModuleGetFunction":
                assert arguments[1].value == 11
                arguments[0]._obj.value = 22
            elif name == "nvrtcCreateProgram":
                arguments[0]._obj.value = 33
            elif name in ("nvrtcGetProgramLogSize", "nvrtcGetCUBINSize"):
                arguments[1]._obj.value = len(self.log) + 1 if "Log" in name else len(self.binary)
            elif name in ("nvrtcGetProgramLog", "nvrtcGetCUBIN"):
                content = self.log if "Log" in name else self.binary
                ctypes.memmove(arguments[1], content, len(content))
            elif name == "cuLaunchKernel":
                values = [ctypes.cast(arguments[9][i], ctypes.POINTER(ctypes.c_void_p))[0] for i in range(3)]
                self.launched = [*values, ctypes.cast(arguments[9][3], ctypes.POINTER(ctypes.c_int))[0]]
            return 7 if name == self.fails else 0

        return call


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The devices that were made the current one."""
    devices: list[object] = []
    monkeypatch.setattr(torch.cuda, "device", lambda device: devices.append(device) or nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=44))
    return devices


@pytest.mark.parametrize(("count", "size", "blocks"), [(1, 1, 1), (2, 128, 1), (3, 129, 2), (2, 256, 2)])
def test_the_kernel_is_launched_with_a_thread_for_each_point(
    on_device: list[object], monkeypatch: pytest.MonkeyPatch, count: int, size: int, blocks: int
) -> None:
    driver, device = Driver(), torch.device("cuda:1")
    monkeypatch.setattr(rri_cuda, "_driver", lambda: driver)
    kernel = rri_cuda.Kernel(b"binary", device, 3)
    assert on_device == [device] and driver.calls["cuModuleLoadData"][1] == b"binary"
    assert driver.calls["cuModuleGetFunction"][2] == b"rri"
    planes, least = torch.zeros(count, 4, size), torch.zeros(count)
    features = kernel(planes, least)
    assert features.shape == (count, size, 12) and features.dtype == torch.float32 and on_device[1:] == [planes.device]
    function, *grid_and_block, shared, stream, _, extra = driver.calls["cuLaunchKernel"]
    assert function.value == 22 and grid_and_block == [blocks, count, 1, 128, 1, 1]
    assert (shared, stream.value, extra) == (0, 44, None)
    assert driver.launched == [planes.data_ptr(), least.data_ptr(), features.data_ptr(), size]


@pytest.mark.parametrize("name", ["cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel"])
def test_a_call_of_the_driver_that_fails_is_an_error(
    on_device: list[object], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(rri_cuda, "_driver", lambda: Driver(name))
    with pytest.raises(rri_cuda.CudaError, match=f"^{name} returns 7$"):
        rri_cuda.Kernel(b"binary", torch.device("cuda:1"), 3)(torch.zeros(1, 4, 5), torch.zeros(1))


@pytest.mark.parametrize(
    "fails", ["", "nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetCUBINSize", "nvrtcGetCUBIN"]
)
def test_the_compiler_gets_the_source_and_its_options_and_is_freed(monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    nvrtc, loaded = Driver(fails, log=b"line 1: wrong"), []
    monkeypatch.setattr(ctypes, "CDLL", lambda library: loaded.append(library) or nvrtc)
    if fails:
        says = "rri.cu for sm_90: line 1: wrong" if fails == "nvrtcCompileProgram" else f"{fails} returns 7"
        with pytest.raises(rri_cuda.CudaError, match=f"^{re.escape(says)}$"):
            rri_cuda.compile_source("library", "sm_90", 20)
    else:
        assert rri_cuda.compile_source("library", "sm_90", 20) == b"machine code"
    assert loaded == ["library"]
    program, source, name, *headers = nvrtc.calls["nvrtcCreateProgram"]
    assert (source, name, headers) == (rri_cuda.SOURCE.read_bytes(), b"rri", [0, None, None])
    assert ("nvrtcDestroyProgram" in nvrtc.calls) == (fails != "nvrtcCreateProgram")
    if fails != "nvrtcCreateProgram":
        given, count, options = nvrtc.calls["nvrtcCompileProgram"]
        assert given.value == program._obj.value == nvrtc.calls["nvrtcDestroyProgram"][0]._obj.value == 33
        assert list(options) == [b"--gpu-architecture=sm_90", b"-DK=20"] and count == 2


@pytest.mark.parametrize(
    ("platform", "first", "driver"),
    [("linux", "libnvrtc.so.13", "libcuda.so.1"), ("win32", "nvrtc64_130_0.dll", "nvcuda.dll")],
)
def test_the_compiler_is_looked_for_by_name_and_then_among_installed_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, platform: str, first: str, driver: str
) -> None:
    names = ["nvidia/cu13/lib/libnvrtc.so.13", "nvidia/cu13/lib/libnvrtc.so.13.1", "nvidia/other/bin/nvrtc64_130_0.dll"]
    names += ["torch/lib/libnvrtc-abc.so.13"]
    others = ["nvidia/cu13/lib/libnvrtc-builtins.so.13", "torch/lib/libnvrtc-builtins.so.13", "torch/__init__.py"]
    for name in (*names, *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    glob = Path.glob  # in no order on some file systems
    monkeypatch.setattr(Path, "glob", lambda folder, pattern: sorted(glob(folder, pattern), reverse=True))
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "torch" / "__init__.py"))
    monkeypatch.setattr(torch, "version", SimpleNamespace(cuda="13.0"))
    monkeypatch.setattr(rri_cuda.sys, "platform", platform)
    assert list(rri_cuda._nvrtc_libraries()) == [first, *(str(tmp_path / name) for name in names)]
    monkeypatch.setattr(ctypes, "CDLL", lambda library: library)
    assert rri_cuda._driver() == driver


@pytest.mark.parametrize(
    ("device", "cuda", "k", "has"),
    [
        ("cuda:0", "13.0", 1, True),
        ("cuda:0", "13.0", 32, True),
        ("cuda:0", "13.0", 0, False),
        ("cuda:0", "13.0", 33, False),
        ("cuda:0", None, 20, False),
        ("cpu", "13.0", 20, False),
    ],
)
def test_a_cuda_device_has_a_kernel_for_1_to_32_neighbours(
    cuda_build: None, monkeypatch: pytest.MonkeyPatch, device: str, cuda: str | None, k: int, has: bool
) -> None:
    monkeypatch.setattr(torch, "version", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(rri_cuda, "compile_source", lambda *_: b"")
    monkeypatch.setattr(rri_cuda, "Kernel", lambda *_: "kernel")
    assert (rri_cuda.kernel.__wrapped__(torch.device(device), k) is not None) == has
