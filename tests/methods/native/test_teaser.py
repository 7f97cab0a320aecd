"""The TEASER++ library: solutions, and its build."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
import sys
import zipfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from methods.base import NoSolution, Unavailable, rigid
from methods.native import teaser as native
from methods.teaser import Teaser
from tests.methods.clouds import pose, turned_pair


@pytest.fixture(scope="module")
def teaser() -> Teaser:
    method = Teaser()
    try:
        method.setup("cpu", 0, "shapes40")
    except Unavailable as reason:
        pytest.skip(f"TEASER++ cannot be had here: {reason}")
    return method


def test_most_matches_wrong_and_still_the_least_squares_pose_of_the_right_ones(teaser: Teaser) -> None:
    rng = np.random.default_rng(0)
    p, q = rng.uniform(-1, 1, size=(2, 300, 3))
    truth = rigid(Rotation.random(random_state=3).as_matrix(), np.array([0.1, 0.2, 0.3]))
    q[:60] = p[:60] @ truth[:3, :3].T + truth[:3, 3] + rng.uniform(-0.002, 0.002, size=(60, 3))
    T, clique = native.solve(p, q, 0.01, 5.0)
    kabsch, _ = Rotation.align_vectors(q[:60] - q[:60].mean(axis=0), p[:60] - p[:60].mean(axis=0))
    assert 60 <= clique <= 65
    assert np.abs(T[:3, :3] - kabsch.as_matrix()).max() < 3e-3
    assert np.abs(T - truth).max() < 5e-3


def test_no_agreeing_matches_is_no_solution(teaser: Teaser) -> None:
    p, q = np.random.default_rng(0).uniform(-1, 1, size=(2, 12, 3))
    with pytest.raises(NoSolution):
        native.solve(p, q, 1e-6, 1.0)
    source, target, _ = turned_pair(40)
    for bad in (source[:0], source[:2], np.full_like(source, np.nan)):
        with pytest.raises(NoSolution):
            teaser.register(bad, target)


IDENTITY, ORIGIN = np.eye(3), np.zeros(3)


@pytest.mark.parametrize(("solution", "match"), [
    ((IDENTITY, ORIGIN, 3, True), None),
    ((IDENTITY, ORIGIN, 2, True), "has 2; a pose needs 3"),
    ((IDENTITY, ORIGIN, 3, False), "invalid"),
    ((np.where(IDENTITY > 0, 1, np.inf), ORIGIN, 3, True), "invalid"),
    ((IDENTITY, np.array([0, 0, np.nan]), 3, True), "invalid"),
])  # fmt: skip
def test_only_valid_finite_solutions_of_three_matches_are_poses(
    monkeypatch: pytest.MonkeyPatch, solution: native.Solution, match: str | None
) -> None:
    monkeypatch.setattr(native, "_solve_shim", lambda *_: solution)
    monkeypatch.setattr(native, "_solve_module", lambda *_: solution)
    with pytest.raises(NoSolution, match=match) if match else nullcontext():
        T, clique = native.solve(ORIGIN[None], ORIGIN[None], 0.1, 1.0)
        assert np.array_equal(T, np.eye(4)) and clique == 3


def test_an_installed_module_is_used_with_the_settings_of_the_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    truth, given = pose(2), []

    class Solver:
        Params = SimpleNamespace

        def __init__(self, params: SimpleNamespace) -> None:
            given.append(vars(params))

        def solve(self, *clouds: np.ndarray) -> None:
            given.extend(clouds)

        def getSolution(self) -> SimpleNamespace:
            return SimpleNamespace(rotation=truth[:3, :3], translation=truth[:3, 3], valid=True)

        def getInlierMaxClique(self) -> list[int]:
            return [4, 2, 7, 1]

    monkeypatch.setitem(sys.modules, "teaserpp_python", SimpleNamespace(RobustRegistrationSolver=Solver))
    monkeypatch.setattr(native.importlib.util, "find_spec", lambda name: name == "teaserpp_python")
    p, q = np.random.default_rng(0).normal(size=(2, 9, 3))
    native.prepare()  # builds nothing
    T, clique = native.solve(p, q, 0.02, 3.0)
    assert np.array_equal(T, truth) and clique == 4
    known = {"noise_bound": 0.02, "clique_seconds": 3.0, "false": False}
    lines = re.findall(r"params\.(\w+) = (\S+);", native.SHIM.read_text(encoding="utf-8"))
    assert given[0] == {name: known[value] if value in known else float(value) for name, value in lines}
    assert np.array_equal(given[1], p.T) and np.array_equal(given[2], q.T)


def test_it_prints_nothing(teaser: Teaser, capfd: pytest.CaptureFixture[str]) -> None:
    teaser.register(*turned_pair(40)[:2])
    assert capfd.readouterr().out == ""


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache and no teaserpp_python."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(native.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(native.sys, "platform", "linux")
    monkeypatch.setattr(native.platform, "machine", lambda: "x86_64")
    return tmp_path


def test_without_compiler_or_platform_it_is_unavailable_with_a_mend(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native.shutil, "which", lambda name: None)
    with pytest.raises(Unavailable, match=r"install g\+\+"):
        Teaser.check_available()
    monkeypatch.setattr(native.platform, "machine", lambda: "aarch64")
    with pytest.raises(Unavailable, match="no wheel for linux aarch64"):
        Teaser.check_available()


def test_without_network_or_with_another_file_it_is_unavailable_and_leaves_nothing(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native.shutil, "which", lambda name: "/usr/bin/g++")

    def refuse(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "a warning\nERROR: no connection")

    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(
        Unavailable, match=r"pip cannot fetch cmeel-teaser-plusplus==2\.0: ERROR: no connection; connect"
    ):
        native.build_library()

    def forge(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        place = Path(command[command.index("--dest") + 1])
        place.mkdir()
        (place / "x.whl").write_bytes(b"not it")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", forge)
    with pytest.raises(Unavailable, match=r"x\.whl has SHA-256"):
        native.build_library()
    assert not native.library_folder().exists() and not list(bare.glob("tmp*"))


def test_unpacking_stays_in_its_folder(tmp_path: Path) -> None:
    wheel = tmp_path / "w.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{native.PREFIX}/include/a.h", "1")
        archive.writestr(f"{native.PREFIX}/include/../../../escaped.h", "2")
        archive.writestr("other.py", "3")
        for library in ("libother.so", *native.LIBRARIES):
            archive.writestr(f"{native.PREFIX}/lib/{library}", library)
    assert native.PREFIX == "cmeel.prefix", "that of every wheel of cmeel"
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for *_, digest in native.WHEELS)
    native.unpack(wheel, tmp_path / "out" / "in")
    assert {f.name for f in tmp_path.rglob("*.h")} == {"a.h", "escaped.h"}
    assert all((tmp_path / "out" / "in") in f.parents for f in tmp_path.rglob("*.h"))
    assert not list(tmp_path.rglob("other.py"))
    libraries = {file.name: file.read_text() for file in (tmp_path / "out" / "in" / native.PREFIX / "lib").iterdir()}
    assert libraries == {name: name for name in native.LIBRARIES}


def test_the_shim_is_compiled_beside_copies_of_the_libraries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls = []
    monkeypatch.setattr(native.build, "compile_shared", lambda *arguments: calls.append(arguments))
    (tmp_path / "prefix" / "lib").mkdir(parents=True)
    for name in native.LIBRARIES:
        (tmp_path / "prefix" / "lib" / name).write_text(name)
    native.compile_shim(tmp_path / "prefix", tmp_path / "built")
    assert {file.name: file.read_text() for file in (tmp_path / "built").iterdir()} == {
        name: name for name in native.LIBRARIES
    }
    ((source, into, options, _),) = calls
    assert (source, into) == (native.SHIM, tmp_path / "built" / native.LIBRARY)
    assert {str(tmp_path / "prefix" / "include"), str(tmp_path / "built"), "-Wl,-rpath,$ORIGIN"} < {*options}


def test_the_command_says_where_or_why() -> None:
    done = subprocess.run([sys.executable, "-m", "methods.native.teaser"], capture_output=True, text=True, timeout=300)
    assert (
        native.LIBRARY in {f.name for f in Path(done.stdout.strip().removeprefix("TEASER++: ")).iterdir()}
        if done.returncode == 0
        else ("teaser is unavailable" in done.stderr)
    )


def test_the_installed_package_gets_the_settings_of_the_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    """It solves for columns of points, with a known scale."""
    given: list[SimpleNamespace] = []
    p, q = np.random.default_rng(0).normal(size=(2, 9, 3))

    class Solver:
        Params = SimpleNamespace

        def __init__(self, params: SimpleNamespace) -> None:
            given.append(params)

        def solve(self, source: np.ndarray, target: np.ndarray) -> None:
            assert np.array_equal(source, p.T) and np.array_equal(target, q.T)

        def getSolution(self) -> SimpleNamespace:
            return SimpleNamespace(rotation=np.eye(3) * 2, translation=np.arange(3), valid=1)

        def getInlierMaxClique(self) -> list[int]:
            return [3, 1, 4, 1, 5]

    monkeypatch.setitem(sys.modules, "teaserpp_python", SimpleNamespace(RobustRegistrationSolver=Solver))
    R, t, clique, valid = native._solve_module(p, q, 0.25, 7.0)
    expected = {"noise_bound": 0.25, "max_clique_time_limit": 7.0}
    assert vars(given[0]) == expected | {"estimate_scaling": False, "rotation_cost_threshold": 1e-12}
    assert R.tolist() == (2 * np.eye(3)).tolist() and t.tolist() == [0, 1, 2] and (clique, valid) == (5, True)


@pytest.mark.parametrize("code", [0, 1])
def test_the_shim_gets_both_clouds_and_its_twelve_numbers_are_a_pose(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    p, q = np.random.default_rng(0).normal(size=(2, 9, 3))
    given: list[object] = []

    def teaser_solve(source, target, count, noise, seconds, out, clique):  # type: ignore[no-untyped-def]
        given.extend([source.data == p.ctypes.data, target.data == q.ctypes.data, count, noise.value, seconds.value])
        assert np.isnan(np.ctypeslib.as_array(ctypes.cast(out.data, ctypes.POINTER(ctypes.c_double)), (12,))).all()
        values = (ctypes.c_double * 12)(*range(12))
        ctypes.memmove(out.data, values, 96)
        assert clique._obj.value == 0
        clique._obj.value = 5
        return code

    monkeypatch.setattr(native, "library", lambda: SimpleNamespace(teaser_solve=teaser_solve))
    R, t, clique, valid = native._solve_shim(p, q, 0.25, 7.0)
    assert given == [True, True, 9, 0.25, 7.0]
    assert R.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]] and t.tolist() == [9, 10, 11]
    assert (clique, valid) == (5, code == 0)


@pytest.mark.parametrize("limit", [None, "4"])
def test_the_library_is_limited_to_one_thread_before_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch, limit: str | None
) -> None:
    loaded: list[object] = []
    shim = SimpleNamespace(teaser_solve=SimpleNamespace())
    if limit:
        monkeypatch.setenv("OMP_THREAD_LIMIT", limit)
    else:
        monkeypatch.setenv("OMP_THREAD_LIMIT", "")
        monkeypatch.delenv("OMP_THREAD_LIMIT")
    monkeypatch.setattr(
        native.ctypes, "CDLL", lambda name: loaded.extend([name, os.environ.get("OMP_THREAD_LIMIT")]) or shim
    )
    monkeypatch.setattr(native, "build_library", lambda: Path("/folder/lib.so"))
    assert native.library.__wrapped__() is shim and loaded == ["/folder/lib.so", limit or "1"]
    pointer, number = ctypes.c_void_p, ctypes.c_double
    assert shim.teaser_solve.argtypes == [pointer, pointer, ctypes.c_int, number, number, pointer, pointer]


@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize("system", [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "x86_64")])
@pytest.mark.parametrize("compiler", [False, True])
def test_the_library_is_available_if_it_is_there_or_can_be_built(
    bare: Path, monkeypatch: pytest.MonkeyPatch, installed: bool, built: bool, system: tuple[str, str], compiler: bool
) -> None:
    monkeypatch.setattr(
        native.importlib.util, "find_spec", lambda name: (installed and name == "teaserpp_python") or None
    )
    monkeypatch.setattr(native.sys, "platform", system[0])
    monkeypatch.setattr(native.platform, "machine", lambda: system[1])
    monkeypatch.setattr(native.build, "has_compiler", lambda: compiler)
    loaded: list[bool] = []
    monkeypatch.setattr(native, "library", lambda: loaded.append(True))
    if built:
        native.library_folder().mkdir(parents=True)
        (native.library_folder() / native.LIBRARY).touch()
    right = system == ("linux", "x86_64")
    with nullcontext() if installed or built or (right and compiler) else pytest.raises(Unavailable) as caught:
        native.check()
    if caught:
        says = "TEASER++ needs a C++ compiler" if right else f"TEASER++ has no wheel for {' '.join(system)}; install"
        assert str(caught.value).startswith(says)
    native.prepare()
    assert loaded == [True] * (not installed)


def test_the_wheels_are_fetched_verified_and_compiled_against(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By pip, each into a separate folder; only a wheel with the digest that is known is unpacked."""
    commands, steps = [], []
    contents = {wheel[0]: wheel[0].encode() for wheel in native.WHEELS}
    wheels = [(name, options, hashlib.sha256(contents[name]).hexdigest()) for name, options, _ in native.WHEELS]

    def run(command: list[str], failure: str, remedy: str) -> None:
        commands.append((command, failure))
        folder = Path(command[command.index("--dest") + 1])
        folder.mkdir()
        (folder / "a.whl").write_bytes(contents[command[-1]])

    monkeypatch.setattr(native, "WHEELS", tuple(wheels))
    monkeypatch.setattr(native.build, "has_compiler", lambda: True)
    monkeypatch.setattr(native.build, "run_or_unavailable", run)
    monkeypatch.setattr(native, "unpack", lambda wheel, into: steps.append((wheel.read_bytes(), into)))
    monkeypatch.setattr(
        native,
        "compile_shim",
        lambda prefix, into: (into.mkdir(), (into / native.LIBRARY).touch(), steps.append(prefix)),
    )
    file = native.build_library()
    assert file == native.library_folder() / native.LIBRARY and file.exists()
    work = steps[0][1]
    assert steps == [*((contents[name], work) for name, *_ in wheels), work / native.PREFIX]
    for (command, failure), (name, options, digest) in zip(commands, wheels, strict=True):
        start = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        assert command == [*start, *options, "--dest", str(work / digest), name]
        assert failure == f"pip cannot fetch {name}"
    folders = {native.library_folder()}
    monkeypatch.setattr(native, "WHEELS", ())
    folders.add(native.library_folder())
    (bare / "shim.cc").write_text("other")
    monkeypatch.setattr(native, "SHIM", bare / "shim.cc")
    folders.add(native.library_folder())
    assert len(folders) == 3 and all(folder.name.startswith("teaser-2.0-") for folder in folders)
