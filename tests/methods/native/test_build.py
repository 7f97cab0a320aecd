"""Building of native code, by the smallest kernel."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from methods.native.build import COMPILER


@pytest.mark.skipif(not shutil.which(COMPILER), reason=f"needs {COMPILER}")
def test_several_processes_build_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    run = [sys.executable, "-m", "methods.native.clique"]
    running = [subprocess.Popen(run, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = {process.communicate(timeout=300)[0].strip() for process in running}
    assert len(outputs) == 1 and [process.returncode for process in running] == [0] * 3
    assert [f for f in tmp_path.iterdir() if f.is_dir()] == [Path(outputs.pop().split(": ")[1])]
