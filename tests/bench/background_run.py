"""Runs in a background process, which tests interrupt."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import time

import psutil

from bench.isolation.process import ROOT
from tests.bench.command_line import PLUGINS

WITHIN_S = 1.0
"""Seconds within which a run must end."""


SLACK_S = 7.0
"""Additional seconds on a busy machine. Waiting for a worker's task would take 15 s, and for a call forever."""


ARGUMENTS = "--datasets blobs --conditions noisy --points 60 --timing-rounds 0 --out stopped".split()


def limit():
    """Return the seconds within which a run must end on this machine."""
    return WITHIN_S + (SLACK_S if os.getloadavg()[0] > 0.7 * os.cpu_count() else 0)


def start(folder, *more, run=(str(ROOT / "bench.py"),)):
    """Start a run in its own process group, as a shell does."""
    command = [sys.executable, *run, *ARGUMENTS, *more, "--plugins", str(PLUGINS)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=folder, env=env, start_new_session=True, **pipes)


def wait_until(condition, process, seconds=120):
    """Wait until a condition holds while a process runs."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.02)


def method_processes(process):
    """Return the method processes among the descendants of a run."""
    processes = []
    with contextlib.suppress(psutil.Error):  # they come and go
        processes = psutil.Process(process.pid).children(recursive=True)
    return [p for p in processes if "bench.isolation.server" in _command(p)]


def _command(process):
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def count_outcomes(record):
    """Return the number of outcomes in a results database; 0 if it does not exist yet."""
    if not record.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{record}?mode=ro", uri=True) as db:
            return db.execute("SELECT COUNT(*) FROM outcomes").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
