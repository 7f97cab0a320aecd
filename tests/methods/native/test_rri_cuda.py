"""The CUDA kernel of the features: where it is not to be had, and that NVRTC compiles its source for every GPU."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

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
