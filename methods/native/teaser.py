"""The TEASER++ library from Python: an installed `teaserpp_python`, or a small shim built around the released library.

TEASER++ 2.0 is released as a wheel whose Python part supports Python 3.10 and numpy 1 at most. Its C++ library works with any
Python: the wheel and the Eigen headers are fetched with pip and verified, and `native/teaser_shim.cc` is compiled against them
into a cache folder. `python -m methods.native.teaser` builds it ahead of a run.
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
WHEELS = (
    ("cmeel-teaser-plusplus==2.0", FOR_LINUX, "eb89cd7cfae25b19e82d084a73d27831d4dbd64e532aefedc44b077c17a98105"),
    ("cmeel-eigen==3.4.1", (), "0ccd7b73fe8a72e2729784253c982e75d1790e0a8c71f302eb5a1fb1dd3a8a90"),
)
"""Wheels to fetch: requirement, pip's options, SHA-256."""
LIBRARIES = ("libteaser_registration.so", "libpmc.so")
PREFIX = "cmeel.prefix"
LIBRARY = "libteaser_shim.so"
REMEDY = "install teaserpp_python from the TEASER++ sources"


def library_folder() -> Path:
    """Return the folder of the built library, see `methods.native.build.build_folder`."""
    return build.build_folder("teaser-2.0", SHIM.read_bytes(), repr(WHEELS).encode())


def check() -> None:
    """Raise `Unavailable` if TEASER++ is not installed and cannot be built; looks at files only."""
    if importlib.util.find_spec("teaserpp_python") or (library_folder() / LIBRARY).exists():
        return
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise Unavailable(f"TEASER++ has no wheel for {sys.platform} {platform.machine()}; {REMEDY}")
    if not build.has_compiler():
        raise Unavailable(f"TEASER++ needs a C++ compiler; install g++, or {REMEDY}")


def prepare() -> None:
    """Load the library, after building the shim if there is no `teaserpp_python`; raise `Unavailable` if that fails."""
    if not importlib.util.find_spec("teaserpp_python"):
        library()


def solve(p: NDArray[np.float64], q: NDArray[np.float64], noise_bound: float, seconds: float) -> tuple[Pose, int]:
    """Compute the pose of matched points p (K, 3) to q (K, 3), and the size of the clique of matches it is based on.

    Args:
        p: source points.
        q: their matches in the target.
        noise_bound: maximum error of a correct match, in the unit of the points.
        seconds: time limit of the search for the clique.

    Raises:
        NoSolution: the clique has fewer than 3 matches, or the library's solution is not valid or not finite.
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


Solution = tuple[NDArray[np.float64], NDArray[np.float64], int, bool]


def _solve_module(p: NDArray[np.float64], q: NDArray[np.float64], noise_bound: float, seconds: float) -> Solution:
    """Solve with an installed `teaserpp_python`, with the same settings as the shim."""
    import teaserpp_python

    params = teaserpp_python.RobustRegistrationSolver.Params()
    params.noise_bound, params.max_clique_time_limit = noise_bound, seconds
    params.estimate_scaling, params.rotation_cost_threshold = False, 1e-12
    solver = teaserpp_python.RobustRegistrationSolver(params)
    solver.solve(p.T, q.T)
    solution = solver.getSolution()
    clique = len(solver.getInlierMaxClique())
    return np.array(solution.rotation), np.array(solution.translation), clique, bool(solution.valid)


def _solve_shim(p: NDArray[np.float64], q: NDArray[np.float64], noise_bound: float, seconds: float) -> Solution:
    """Solve with the built shim."""
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
    """Load the shim, after building it if necessary.

    Its clique solver requests 12 threads, whose race makes cliques differ between runs. OpenMP reads its limit when it
    is loaded, so OMP_THREAD_LIMIT=1 must be in the environment of the process; set here, it only has an effect if nothing
    else has loaded the system's OpenMP before.
    """
    os.environ.setdefault("OMP_THREAD_LIMIT", "1")
    shim = ctypes.CDLL(str(build_library()))
    pointer = ctypes.c_void_p
    shim.teaser_solve.argtypes = [pointer, pointer, ctypes.c_int, ctypes.c_double, ctypes.c_double, pointer, pointer]
    return shim


def build_library() -> Path:
    """Build the library if necessary, and return its file, see `methods.native.build.build`.

    Raises:
        Unavailable: the platform, compiler, network or file is missing or wrong.
    """
    check()
    return build.build(library_folder(), LIBRARY, fetch_and_compile)


def fetch_and_compile(work: Path, into: Path) -> None:
    """Fetch the wheels to a folder, and compile the shim against them to another."""
    for requirement, options, sha256 in WHEELS:
        unpack(fetch(requirement, options, sha256, work), work)
    compile_shim(work / PREFIX, into)


def fetch(requirement: str, options: tuple[str, ...], sha256: str, into: Path) -> Path:
    """Download one wheel with pip and verify it. Raises `Unavailable` if either fails."""
    downloads = into / sha256
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command = [*command, *options, "--dest", str(downloads), requirement]
    build.run_or_unavailable(command, f"pip cannot fetch {requirement}", f"connect, or {REMEDY}")
    wheel = next(downloads.glob("*.whl"))
    actual = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if actual != sha256:
        raise Unavailable(
            f"{wheel.name} has SHA-256 {actual[:12]}…, not {sha256[:12]}…; use another index, or {REMEDY}"
        )
    return wheel


def unpack(wheel: Path, into: Path) -> None:
    """Extract the headers and the two libraries of a wheel; zipfile keeps every member within the folder."""
    wanted = tuple(f"{PREFIX}/lib/{name}" for name in LIBRARIES)
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name in wanted or name.startswith(f"{PREFIX}/include/"):
                archive.extract(name, into)


def compile_shim(prefix: Path, into: Path) -> None:
    """Compile the shim to a folder, next to copies of the libraries."""
    into.mkdir()
    for name in LIBRARIES:
        shutil.copy(prefix / "lib" / name, into)
    include = ("-I", str(prefix / "include"), "-I", str(prefix / "include" / "eigen3"))
    link = ("-L", str(into), "-lteaser_registration", "-lpmc", "-Wl,-rpath,$ORIGIN")
    build.compile_shared(SHIM, into / LIBRARY, ("-O2", *include, *link), f"or {REMEDY}")


if __name__ == "__main__":
    try:
        print("TEASER++:", build_library().parent)
    except Unavailable as reason:
        sys.exit(f"teaser is unavailable: {reason}")
