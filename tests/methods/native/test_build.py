"""Kernels and how they are built."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from methods.base import Unavailable
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


@pytest.mark.parametrize(
    ("name", "constant"),
    [("rri", "MAX_NEIGHBOURS"), ("rri", "PADDING"), ("search", "ROW"), ("search", "BLOCK")],
)
def test_sizes_of_arrays_are_those_of_the_kernel(name: str, constant: str) -> None:
    """A kernel that reads or writes beyond an array need not fail."""
    source = (build.SOURCES / f"{name}.cc").read_text(encoding="utf-8")
    (value,) = re.findall(rf"\b{constant} = (\d+)", source)
    assert getattr(importlib.import_module(f"methods.native.{name}"), constant) == int(value)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache in a folder that does not exist either."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "user" / "cache"))
    return tmp_path / "user" / "cache"


def test_builds_of_one_cache_are_made_once_each_and_whole(cache: Path) -> None:
    made = []

    def make(scratch: Path, into: Path) -> None:
        made.append(into)
        assert scratch.is_dir() and not into.exists()
        assert scratch.parent == cache, "it is moved into place, which needs one file system"
        into.mkdir()
        (into / "file").write_text("content")

    for name in ("first", "second", "first"):
        file = build.build(build.build_folder(name, b"a"), "file", make)
        assert file == build.build_folder(name, b"a") / "file" and file.read_text() == "content"
    assert len(made) == 2
    file.unlink()
    assert build.build(file.parent, "file", make).read_text() == "content"
    assert {path.suffix for path in cache.iterdir() if path.is_file()} == {".lock"}
    assert [path for path in cache.iterdir() if path.is_dir()] == [
        path for path in cache.iterdir() if (path / "file").is_file()
    ]
    assert len({build.build_folder(*key) for key in (("a", b"b"), ("a", b"c"), ("c", b"b"), ("a", b"b", b"c"))}) == 4


def test_a_failed_build_leaves_nothing_and_is_tried_again(cache: Path) -> None:
    def fail(scratch: Path, into: Path) -> None:
        into.mkdir()
        raise Unavailable("no network")

    folder = build.build_folder("name")
    for _ in range(2):
        with pytest.raises(Unavailable, match="no network"):
            build.build(folder, "file", fail)
    assert not folder.exists() and [path.suffix for path in cache.iterdir()] == [".lock"]


def test_options_are_those_of_the_instruction_sets_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = "processor : 0\nflags\t\t: fpu avx2 bmi1\n\nprocessor : 1\nflags\t\t: fpu bmi2\n"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: listed)
    assert build.processor_options({"avx2": "-mavx2", "bmi2": "-mbmi2", "fpu": "-mfpu"}) == ("-mavx2", "-mfpu")
    listed = "processor : 0\nmodel name : without a list\n"
    assert build.processor_options({"avx2": "-mavx2"}) == ()


def test_a_failed_command_is_reported_by_its_last_line() -> None:
    script = "import sys; print('out'); print({}, file=sys.stderr); sys.exit({})"
    for error, code, expected in (("'first\\nlast'", 1, "last"), ("''", 1, "out"), ("'warning'", 0, None)):
        command = [sys.executable, "-c", script.format(error, code)]
        with pytest.raises(Unavailable, match=f"^cannot: {expected}; fix$") if expected else nullcontext():
            build.run_or_unavailable(command, "cannot", "fix")
