"""How processes end: with the process that started them, and on signals."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psutil

WATCH_INTERVAL_S = 0.5
"""Interval at which a process looks whether its parent lives."""
FORCED_S = 1.8
"""Seconds after SIGTERM or SIGHUP until a command ends in whatever state it is; what it stored is complete."""
_HAS_CHILDREN = Path("/proc/thread-self/children").exists()
KEPT_BYTES = 1 << 26
"""Freed bytes that `keep_freed_memory` lets a process keep."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def die_with_parent(parent: int) -> None:
    """End this process with its parent: on Linux with the thread that started it, even inside native code.

    Args:
        parent: id of the parent when it started this process.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before
            os._exit(1)
    else:
        watch(parent)


def watch(parent: int) -> None:
    """Start a thread that ends this process once its parent is not the given one any more."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_INTERVAL_S)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, such as daemons (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def keep_freed_memory() -> None:
    """Let this process keep up to `KEPT_BYTES` of freed memory (glibc).

    Otherwise arrays of some 100 kB return their pages to the system when they are freed, and the next ones fetch them again.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES // 16)
        libc.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


def descendants(pid: int) -> list[psutil.Process]:
    """Return all descendants of a process, none if it ended; on Linux without reading the other processes of the machine."""
    import psutil

    if not _HAS_CHILDREN:
        try:
            return psutil.Process(pid).children(recursive=True)
        except psutil.Error:
            return []
    below: list[psutil.Process] = []
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop())
        waiting += children
        for child in children:
            with contextlib.suppress(psutil.Error):
                below.append(psutil.Process(child))
    return below


def _children(pid: int) -> list[int]:
    """Return the ids of the processes that a process and its threads started (Linux)."""
    ids: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                ids += map(int, (thread / "children").read_text().split())
    return ids


def end_descendants() -> None:
    """Kill all descendants of this process."""
    import psutil

    for process in descendants(os.getpid()):
        with contextlib.suppress(psutil.Error):
            process.kill()


@contextlib.contextmanager
def like_ctrl_c() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP within the block act as Ctrl-C; yield a list to which the number of the signal is added.

    If the block does not end within `FORCED_S` after the signal, this process ends at once. A signal that is ignored, as SIGHUP
    below nohup, stays ignored.
    """
    received: list[int] = []
    forced = threading.Timer(FORCED_S, lambda: os._exit(128 + received[0]))
    forced.daemon = True

    def handler(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) == 1:
            forced.start()
        current = signal.getsignal(signal.SIGINT)
        (current if callable(current) else signal.default_int_handler)(number, frame)

    previous: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            if signal.getsignal(number) is signal.SIG_DFL:
                previous[number] = signal.signal(number, handler)
    try:
        yield received
    finally:
        forced.cancel()
        for number, before in previous.items():
            signal.signal(number, before)
