"""The TEASER++ library from Python: the user's own `teaserpp_python`, or a small shim built around the released library.

PyPI has TEASER++ 2.0 only as a wheel whose Python part stops at Python 3.10 and numpy 1. Its C++ library serves any
Python: wheel and Eigen headers are fetched with pip, verified, and `native/teaser_shim.cc` is compiled against them
into a cache folder. Nothing of it is shipped. `python -m methods.native.teaser` builds it ahead of a run.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import os
import platform
import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from methods.core.base import NoSolution, Pose, Unavailable, rigid
from methods.native import build

SHIM = build.SOURCES / "teaser_shim.cc"
FOR_CPYTHON_310 = ("--python-version", "3.10", "--implementation", "cp", "--abi", "cp310")
FOR_LINUX = (*FOR_CPYTHON_310, "--platform", "manylinux_2_28_x86_64")
WHEELS = (  # requirement, pip's options, SHA-256
    ("cmeel-teaser-plusplus==2.0", FOR_LINUX, "eb89cd7cfae25b19e82d084a73d27831d4dbd64e532aefedc44b077c17a98105"),
    ("cmeel-eigen==3.4.1", (), "0ccd7b73fe8a72e2729784253c982e75d1790e0a8c71f302eb5a1fb1dd3a8a90"),
)
LIBRARIES = ("libteaser_registration.so", "libpmc.so")
PREFIX = "cmeel.prefix"
BUILT = "libteaser_shim.so"
MEND = "install teaserpp_python from the TEASER++ sources"


def folder() -> Path:
    """Where the built library lies, see `methods.native.build.folder`."""
    return build.folder("teaser-2.0", SHIM.read_bytes(), repr(WHEELS).encode())


def check() -> None:
    """Raise `Unavailable` if there is no TEASER++ here and none can be built. Looks at files only; fetches nothing."""
    if importlib.util.find_spec("teaserpp_python") or (folder() / BUILT).exists():
        return
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise Unavailable(f"TEASER++ has no wheel for {sys.platform} {platform.machine()}; {MEND}")
    if not build.has_compiler():
        raise Unavailable(f"TEASER++ needs a C++ compiler; install g++, or {MEND}")


def prepare() -> None:
    """Load what `solve` needs; builds the shim where there is no `teaserpp_python`. Raises `Unavailable`."""
    if not importlib.util.find_spec("teaserpp_python"):
        library()


def solve(p: NDArray[np.float64], q: NDArray[np.float64], noise_bound: float, seconds: float) -> tuple[Pose, int]:
    """The pose of matched points p (K, 3) onto q (K, 3), and the size of the clique of matches it rests on.

    Args:
        p: source points.
        q: their matches in the target.
        noise_bound: the most a right match may be off, in the unit of the points.
        seconds: the most the search for the clique may take.

    Raises:
        NoSolution: the clique has fewer than 3 matches, or the library's own answer is not valid or not finite.
        Unavailable: there is no library and it cannot be built.
    """
    R, t, clique, valid = (_solve_module if importlib.util.find_spec("teaserpp_python") else _solve_shim)(
        np.ascontiguousarray(p, dtype=np.float64), np.ascontiguousarray(q, dtype=np.float64), noise_bound, seconds
    )
    if clique < 3:
        raise NoSolution(f"the largest clique of matches has {clique}; a pose needs 3")
    if not valid or not np.isfinite(R).all() or not np.isfinite(t).all():
        raise NoSolution("TEASER++ calls its own solution invalid")
    return rigid(R, t), clique


Answer = tuple[NDArray[np.float64], NDArray[np.float64], int, bool]


def _solve_module(p: NDArray[np.float64], q: NDArray[np.float64], noise_bound: float, seconds: float) -> Answer:
    """`solve` by an installed `teaserpp_python`, with the same settings as the shim."""
    import teaserpp_python

    params = teaserpp_python.RobustRegistrationSolver.Params()
    params.noise_bound, params.max_clique_time_limit = noise_bound, seconds
    params.estimate_scaling, params.rotation_cost_threshold = False, 1e-12
    solver = teaserpp_python.RobustRegistrationSolver(params)
    solver.solve(p.T, q.T)
    answer = solver.getSolution()
    return np.array(answer.rotation), np.array(answer.translation), len(solver.getInlierMaxClique()), bool(answer.valid)


def _solve_shim(p: NDArray[np.float64], q: NDArray[np.float64], noise_bound: float, seconds: float) -> Answer:
    """`solve` by the library built here."""
    pose, clique = np.full(12, np.nan), ctypes.c_int(0)
    code = library().teaser_solve(
        p.ctypes,
        q.ctypes,
        len(p),
        ctypes.c_double(noise_bound),
        ctypes.c_double(seconds),
        pose.ctypes,
        ctypes.byref(clique),
    )
    return pose[:9].reshape(3, 3), pose[9:], clique.value, code == 0


@functools.cache
def library() -> ctypes.CDLL:
    """The shim, built if it was not.

    Its clique solver asks for 12 threads, whose race makes cliques differ between runs. OpenMP reads its limit when it
    is loaded, so OMP_THREAD_LIMIT=1 belongs in the environment of the process; set here, it holds if nothing else has
    loaded the system's OpenMP before.
    """
    os.environ.setdefault("OMP_THREAD_LIMIT", "1")
    shim = ctypes.CDLL(str(build_library()))
    pointer = ctypes.c_void_p
    shim.teaser_solve.argtypes = [pointer, pointer, ctypes.c_int, ctypes.c_double, ctypes.c_double, pointer, pointer]
    return shim


def build_library() -> Path:
    """The built library, see `methods.native.build.build`.

    Raises:
        Unavailable: no platform, compiler, network or right file; says which.
    """
    check()
    return build.build(folder(), BUILT, make)


def make(work: Path, into: Path) -> None:
    """Fetch the wheels into a folder, and compile the shim against them into another."""
    for requirement, options, sha256 in WHEELS:
        unpack(fetch(requirement, options, sha256, work), work)
    compile_shim(work / PREFIX, into)


def fetch(requirement: str, options: tuple[str, ...], sha256: str, into: Path) -> Path:
    """Download one wheel with pip and verify it. Raises `Unavailable` if either fails."""
    place = into / sha256[:8]
    run = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    run = [*run, *options, "--dest", str(place), requirement]
    build.attempt(run, f"pip cannot fetch {requirement}", f"connect, or {MEND}")
    wheel = next(place.glob("*.whl"))
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != sha256:
        raise Unavailable(f"{wheel.name} has SHA-256 {found[:12]}…, not {sha256[:12]}…; use another index, or {MEND}")
    return wheel


def unpack(wheel: Path, into: Path) -> None:
    """Extract the headers and the two libraries of a wheel; zipfile keeps every member inside the folder."""
    wanted = tuple(f"{PREFIX}/lib/{name}" for name in LIBRARIES)
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name in wanted or name.startswith(f"{PREFIX}/include/"):
                archive.extract(name, into)


def compile_shim(prefix: Path, into: Path) -> None:
    """Compile the shim into a folder, beside the libraries it finds there."""
    into.mkdir()
    for name in LIBRARIES:
        shutil.copy(prefix / "lib" / name, into)
    include = ("-I", str(prefix / "include"), "-I", str(prefix / "include" / "eigen3"))
    link = ("-L", str(into), "-lteaser_registration", "-lpmc", "-Wl,-rpath,$ORIGIN")
    build.compile_shared(SHIM, into / BUILT, ("-O2", *include, *link), f"or {MEND}")


if __name__ == "__main__":
    try:
        print("TEASER++:", build_library().parent)
    except Unavailable as reason:
        sys.exit(f"teaser is unavailable: {reason}")
