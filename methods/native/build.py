"""What is compiled here: built once by g++ into a cache folder of its own, of several processes by one; never shipped."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from methods.core.base import Unavailable

SOURCES = Path(__file__).parent
COMPILER = "g++"


def folder(name: str, *made_of: bytes) -> Path:
    """Where something built lies: below $BENCH_CACHE or the user's cache folder, by name and a hash of what it is made of.

    Raises:
        Unavailable: there is no $BENCH_CACHE, and the user has no home.
    """
    asked = os.environ.get("BENCH_CACHE")
    try:
        default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "registration-bench"
    except RuntimeError as reason:
        if not asked:
            raise Unavailable(f"no cache folder: {reason}; set BENCH_CACHE") from None
    key = hashlib.sha256(b"".join(made_of)).hexdigest()[:12]
    return (Path(asked) if asked else default) / f"{name}-{key}"


def has_compiler() -> bool:
    """Whether there is a C++ compiler."""
    return shutil.which(COMPILER) is not None


def build(done: Path, file: str, make: Callable[[Path, Path], None]) -> Path:
    """The file of that name in the folder `done`; if it is not there, `make` makes the folder.

    It is made once, under a lock, in a scratch folder, and moved into place when complete.

    Args:
        done: the folder; see `folder`.
        file: what must lie in it.
        make: is given a scratch folder and the path, in it, of the folder to make.

    Raises:
        Unavailable: `make` raises it, or the cache folder cannot be written.
    """
    if (done / file).exists():
        return done / file
    try:
        done.parent.mkdir(parents=True, exist_ok=True)
        with _locked(done.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=done.parent) as scratch:
            if not (done / file).exists():
                make(Path(scratch), Path(scratch) / "built")
                shutil.rmtree(done, ignore_errors=True)
                (Path(scratch) / "built").rename(done)
    except OSError as reason:
        raise Unavailable(f"{done.parent} cannot be written: {reason.strerror or reason}; set BENCH_CACHE") from reason
    return done / file


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold a lock file: of several processes, one builds and the others wait."""
    import fcntl

    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def compile_shared(source: Path, into: Path, options: tuple[str, ...], mend: str) -> None:
    """Compile a C++17 source into a shared library.

    Caches may be shared: options for this machine's processor must be in the hash of the `folder`.

    Raises:
        Unavailable: there is no compiler, or it refuses; ends in "mend the compiler" or "install it", and `mend`.
    """
    if not has_compiler():
        raise Unavailable(f"no {COMPILER}; install it {mend}")
    command = [COMPILER, "-std=c++17", "-shared", "-fPIC", str(source), "-o", str(into), *options]
    attempt(command, f"{COMPILER} cannot compile {source.name}", f"mend the compiler {mend}")


def attempt(command: list[str], failure: str, mend: str) -> None:
    """Run a command; if it fails raise `Unavailable` with the last line it said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise Unavailable(f"{failure}: {said}; {mend}")
