"""Build native code with g++ on first use, into a cache folder; of several processes, one builds."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from methods.core.base import Unavailable

SOURCES = Path(__file__).parent
"""Folder of the C++ sources."""
COMPILER = "g++"


def build_folder(name: str, *contents: bytes) -> Path:
    """Return the folder of a build, below $BENCH_CACHE or the user's cache folder.

    Args:
        name: of the build.
        contents: sources and options; their hash is part of the folder's name.

    Raises:
        Unavailable: $BENCH_CACHE is not set and the user has no home folder.
    """
    cache = os.environ.get("BENCH_CACHE")
    try:
        default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "registration-bench"
    except RuntimeError as reason:
        if not cache:
            raise Unavailable(f"no cache folder: {reason}; set BENCH_CACHE") from None
    key = hashlib.sha256(b"".join(contents)).hexdigest()[:12]
    return (Path(cache) if cache else default) / f"{name}-{key}"


def has_compiler() -> bool:
    """Return whether there is a C++ compiler."""
    return shutil.which(COMPILER) is not None


def build(target: Path, file: str, make: Callable[[Path, Path], None]) -> Path:
    """Return a file of a build; build it if it does not exist.

    The build runs once, under a lock, in a scratch folder, and is moved into place when complete.

    Args:
        target: the folder of the build, see `folder`.
        file: name of the file in it.
        make: function of a scratch folder and of the path in it of the folder to create.

    Raises:
        Unavailable: `make` raises it, or the cache folder cannot be written.
    """
    if (target / file).exists():
        return target / file
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            if not (target / file).exists():
                make(Path(scratch), Path(scratch) / "built")
                shutil.rmtree(target, ignore_errors=True)
                (Path(scratch) / "built").rename(target)
    except OSError as reason:
        raise Unavailable(
            f"{target.parent} cannot be written: {reason.strerror or reason}; set BENCH_CACHE"
        ) from reason
    return target / file


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold a lock file: of several processes, one builds and the others wait."""
    import fcntl

    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def kernel(name: str, options: tuple[str, ...], remedy: str, headers: tuple[str, ...] = ()) -> Path:
    """Build the shared library of a source `NAME.cc` if necessary, and return its file.

    Args:
        name: of the source, without ending.
        options: of the compiler. Those for this processor are a part of the folder's name, since caches may be shared.
        remedy: what the library is for, for messages: "for faster features".
        headers: names of the headers that the source includes; they lie beside it.

    Raises:
        Unavailable: there is no compiler, it fails, or the cache cannot be written.
    """
    source, file = SOURCES / f"{name}.cc", f"lib{name}.so"
    sources = [path.read_bytes() for path in (source, *(SOURCES / header for header in headers))]
    contents = *sources, repr(options).encode(), platform.machine().encode()

    def compile_kernel(_: Path, into: Path) -> None:
        into.mkdir()
        compile_shared(source, into / file, options, remedy)

    return build(build_folder(name, *contents), file, compile_kernel)


@dataclass(frozen=True)
class Kernel:
    """Compiled kernel that is built on first use.

    Attributes:
        name: of the source `NAME.cc`, see `kernel`.
        options: of the compiler.
        instructions: see `processor_options`.
        headers: that the source includes.
        functions: names of the kernel's functions, each with the types of its arguments; they return nothing.
        purpose: what it computes, for messages.
    """

    name: str
    options: tuple[str, ...]
    instructions: tuple[tuple[str, str], ...]
    headers: tuple[str, ...]
    functions: tuple[tuple[str, tuple[Any, ...]], ...]
    purpose: str

    def build(self) -> Path:
        """Build the library if necessary, and return its file, see `kernel`."""
        options = (*self.options, *processor_options(dict(self.instructions)))
        return kernel(self.name, options, f"for a faster {self.purpose}", self.headers)

    @functools.cache  # noqa: B019  a kernel lives as long as its module
    def load(self) -> ctypes.CDLL | None:
        """Load the library, after building it if necessary; None if it cannot be built or loaded."""
        loaded = load_library(self.build)
        for function, types in self.functions if loaded is not None else ():
            getattr(loaded, function).argtypes, getattr(loaded, function).restype = types, None
        return loaded

    def report(self) -> None:
        """Build the library and print where it is; exit with the reason if that fails."""
        try:
            print(f"{self.purpose}:", self.build().parent)
        except Unavailable as reason:
            sys.exit(f"the kernel of the {self.purpose} is unavailable, Python computes it: {reason}")


def processor_options(instructions: Mapping[str, str]) -> tuple[str, ...]:
    """Return the compiler's options for the instruction sets that this processor has, none where the system lists none.

    Args:
        instructions: names of instruction sets in /proc/cpuinfo, to the compiler's option.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    flags: set[str] = next((set(line.split()) for line in lines if line.startswith("flags")), set())
    return tuple(option for name, option in instructions.items() if name in flags)


def load_library(build_kernel: Callable[[], Path]) -> ctypes.CDLL | None:
    """Load a library, after building it if necessary; None if it cannot be built or loaded."""
    try:
        return ctypes.CDLL(str(build_kernel()))
    except (Unavailable, OSError):  # OSError: a cache shared with a machine of another kind
        return None


def compile_shared(source: Path, into: Path, options: tuple[str, ...], remedy: str) -> None:
    """Compile a C++17 source to a shared library.

    Caches may be shared between machines: options for this processor must be in the hash of the `folder`.

    Raises:
        Unavailable: there is no compiler, or it fails; the message ends in "install it" or "fix the compiler", and `remedy`.
    """
    if not has_compiler():
        raise Unavailable(f"no {COMPILER}; install it {remedy}")
    command = [COMPILER, "-std=c++17", "-shared", "-fPIC", str(source), "-o", str(into), *options]
    run_or_unavailable(command, f"{COMPILER} cannot compile {source.name}", f"fix the compiler {remedy}")


def run_or_unavailable(command: list[str], failure: str, remedy: str) -> None:
    """Run a command; raise `Unavailable` with the last line of its output if it fails."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        output = (result.stderr.strip() or result.stdout.strip() or f"exit code {result.returncode}").splitlines()[-1]
        raise Unavailable(f"{failure}: {output}; {remedy}")
