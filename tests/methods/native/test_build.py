"""Kernels and how they are built."""

from __future__ import annotations

import hashlib
import importlib
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

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


@pytest.mark.parametrize("bench", ["/bench", ""])
@pytest.mark.parametrize("xdg", ["/xdg", ""])
@pytest.mark.parametrize("home", [True, False])
def test_builds_are_below_the_folder_of_the_benchmark_or_the_cache_of_the_user(
    monkeypatch: pytest.MonkeyPatch, bench: str, xdg: str, home: bool
) -> None:
    def home_folder() -> Path:
        if not home:
            raise RuntimeError("no home")
        return Path("/home/user")

    monkeypatch.setenv("BENCH_CACHE", bench)
    monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    monkeypatch.setattr(Path, "home", home_folder)
    if not (bench or xdg or home):
        with pytest.raises(Unavailable, match="no cache folder: no home; set BENCH_CACHE"):
            build.build_folder("name", b"ab")
        return
    folder = build.build_folder("name", b"a", b"b")
    parent = Path(bench) if bench else Path(xdg or "/home/user/.cache") / "registration-bench"
    assert folder == parent / f"name-{hashlib.sha256(b'ab').hexdigest()[:12]}"


def test_a_library_is_compiled_from_its_source_with_the_options_in_its_key(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], failure: str, remedy: str) -> None:
        commands.append([*command, failure, remedy])
        Path(command[command.index("-o") + 1]).write_text("library")

    monkeypatch.setattr(build, "run_or_unavailable", run)
    monkeypatch.setattr(build.shutil, "which", lambda name: name == "g++" or None)
    file = build.kernel("clique", ("-O3", "-x"), "for speed")
    assert file.read_text() == "library" and file.name == "libclique.so" and file.parent.parent == cache
    *start, source, out, into, first, second, failure, remedy = commands[0]
    assert start == ["g++", "-std=c++17", "-shared", "-fPIC"] and source == str(build.SOURCES / "clique.cc")
    assert (out, Path(into).name, first, second) == ("-o", "libclique.so", "-O3", "-x")
    assert (failure, remedy) == ("g++ cannot compile clique.cc", "fix the compiler for speed")
    others = [("clique", ("-O3",), ()), ("fpfh", ("-O3", "-x"), ()), ("clique", ("-O3", "-x"), ("neighbours.h",))]
    files = {build.kernel(name, options, "", headers) for name, options, headers in others}
    monkeypatch.setattr(build.platform, "machine", lambda: "other")
    assert len({file, *files, build.kernel("clique", ("-O3", "-x"), "")}) == 5 == len(commands)
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    with pytest.raises(Unavailable, match=r"no g\+\+; install it for speed"):
        build.compile_shared(Path("a.cc"), Path("b.so"), (), "for speed")


def test_a_kernel_has_the_types_of_its_functions_and_reports_where_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[tuple[object, ...]] = []
    functions = SimpleNamespace(one=SimpleNamespace(restype=1), two=SimpleNamespace(restype=1))
    monkeypatch.setattr(build, "processor_options", lambda instructions: tuple(instructions.values()))
    monkeypatch.setattr(build, "kernel", lambda *parts: given.append(parts) or Path("/folder/lib.so"))
    monkeypatch.setattr(build.ctypes, "CDLL", lambda name: functions if name == "/folder/lib.so" else None)
    types = (("one", (int, float)), ("two", ()))
    made = build.Kernel("name", ("-a",), (("avx", "-b"),), ("h.h",), types, "sum")
    assert made.load() is functions and made.load() is functions and len(given) == 1
    assert given[0] == ("name", ("-a", "-b"), "for a faster sum", ("h.h",))
    assert functions.one.argtypes == (int, float) and functions.two.argtypes == ()
    assert functions.one.restype is functions.two.restype is None
    made.report()
    assert capsys.readouterr().out == "sum: /folder\n"

    def fail(*_: object) -> Path:
        raise Unavailable("no compiler")

    monkeypatch.setattr(build, "kernel", fail)
    assert build.Kernel("other", (), (), (), types, "sum").load() is None
    with pytest.raises(SystemExit, match="the kernel of the sum is unavailable, Python computes it: no compiler"):
        made.report()


@pytest.mark.parametrize(
    ("code", "out", "error", "says"),
    [(1, "a\nb", "c\nd\n", "d"), (2, "a\nb\n", " \n", "b"), (3, "", "", "exit code 3"), (0, "a", "b", None)],
)
def test_the_last_line_of_a_failed_command_is_its_reason(
    monkeypatch: pytest.MonkeyPatch, code: int, out: str, error: str, says: str | None
) -> None:
    done = subprocess.CompletedProcess([], code, out, error)
    calls: list[object] = []
    monkeypatch.setattr(build.subprocess, "run", lambda *given, **how: calls.append((given, how)) or done)
    with pytest.raises(Unavailable, match=f"^cannot: {says}; fix$") if says else nullcontext():
        build.run_or_unavailable(["x"], "cannot", "fix")
    assert calls == [((["x"],), {"capture_output": True, "text": True, "check": False})]
