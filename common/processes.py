"""Processes that end with the process that started them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time

WATCH_INTERVAL_S = 0.5
"""Interval at which a process looks whether its parent lives."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


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


def end_descendants() -> None:
    """Kill all descendants of this process."""
    import psutil

    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            process.kill()
