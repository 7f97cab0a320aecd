"""Kernels and how they are built."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from methods.native import build


@pytest.mark.skipif(not build.has_compiler(), reason="there is no compiler")
def test_several_processes_build_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    run = [sys.executable, "-m", "methods.native.clique"]
    running = [subprocess.Popen(run, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = {process.communicate(timeout=300)[0].strip() for process in running}
    assert len(outputs) == 1 and [process.returncode for process in running] == [0] * 3
    assert [f for f in tmp_path.iterdir() if f.is_dir()] == [Path(outputs.pop().split(": ")[1])]


@pytest.mark.skipif(not build.has_compiler(), reason="there is no compiler")
@pytest.mark.parametrize("name", ["clique", "descriptor", "fpfh", "rri", "search"])
def test_a_compiler_is_enough_for_every_kernel(name: str) -> None:
    """One that cannot be built is replaced by slower code without a word, also in the tests of the kernel."""
    module = importlib.import_module(f"methods.native.{name}")
    assert (module.KERNEL.load if hasattr(module, "KERNEL") else module.library)() is not None
