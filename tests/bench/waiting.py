"""How tests wait for another process: for an event, with a limit that only a fault reaches."""

import time

import psutil

FAULT_S = 120.0
"""Seconds after which what a test waits for counts as lost; a busy machine needs a hundredth of it."""


def wait_until(true, seconds=FAULT_S):
    """Wait until a condition holds; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "what was waited for does not come"
        time.sleep(0.01)


def has_ended(process):
    """Return whether a process has ended; it may vanish between two looks at it."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
