"""End every process that a command started, however the command ends and whatever sessions they moved to.

Each command that starts processes has a guard: a process that waits for the end of the command, by a pipe that only the command
holds open, and then ends whatever the command left. Processes are found by an environment variable, which every descendant
inherits, daemons that left their session and their parent included.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from common.processes import watch

if TYPE_CHECKING:
    import psutil

COMMAND, CALLS = "BENCH_COMMAND_ID", "BENCH_METHOD_PROCESS_ID"
"""Environment variables that mark the processes of a command, and those that a method's process started."""
NO_MARK = "0" * 32
"""Value of `CALLS` in a process that is copied for methods, as long as a mark."""
GRACE_S = 0.7
"""Seconds in which processes may end by themselves after their command has ended."""
PATIENCE_S = 5.0
"""Seconds in which processes that appear while others are ended are ended, too."""
ROOT = Path(__file__).resolve().parents[2]

_guard: subprocess.Popen[bytes] | None = None
_guarded_by_parent = threading.Event()


def new_mark() -> str:
    """Return a random mark."""
    return secrets.token_hex(len(NO_MARK) // 2)


def start() -> None:
    """Start the guard of this process, once; a worker of a guarded command needs none."""
    global _guard
    if _guard is not None or _guarded_by_parent.is_set():
        return
    os.environ.pop(COMMAND, None)  # the guard must not carry the mark, nor that of a command around this one
    mark = new_mark()
    _guard = subprocess.Popen(
        [sys.executable, "-m", "bench.isolation.guard", mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        start_new_session=True,  # signals for the command do not reach it
    )
    os.environ[COMMAND] = mark


def end_with_parent(parent: int) -> None:
    """Let a worker process end soon after its parent, which is guarded.

    Args:
        parent: id of the process that started this one; nothing is done in that process itself.
    """
    if parent != os.getpid() and not _guarded_by_parent.is_set():
        _guarded_by_parent.set()
        watch(parent)


def end_marked(variable: str, mark: str) -> None:
    """End all processes with a mark in their environment, also those that appear meanwhile."""
    import psutil

    deadline = time.monotonic() + PATIENCE_S
    while (processes := list(_marked(variable, mark))) and time.monotonic() < deadline:
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, timeout=0.1)


def _marked(variable: str, mark: str) -> Iterator[psutil.Process]:
    """Yield the processes with a mark, except this one."""
    import psutil

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError, ValueError):  # of other users, ended, or in between
            marked = process.pid != os.getpid() and process.environ().get(variable) == mark
            if marked and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def _main(mark: str) -> None:
    """Wait until the command has ended, then end what it left."""
    sys.stdin.buffer.read()
    deadline = time.monotonic() + GRACE_S
    while next(_marked(COMMAND, mark), None) is not None and time.monotonic() < deadline:
        time.sleep(0.1)
    end_marked(COMMAND, mark)


if __name__ == "__main__":
    _main(sys.argv[1])
