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


SLACK_S = 7.0
"""What more is allowed on a machine that others keep busy. Waiting for a worker's piece would take 15 s, for a call for ever."""


ARGUMENTS = "--datasets blobs --conditions noisy --points 60 --timing-rounds 0 --out stopped".split()


def limit():
    """Seconds within which a run must end."""
    return WITHIN_S + (SLACK_S if os.getloadavg()[0] > 0.7 * os.cpu_count() else 0)


def start(folder, *more, run=(str(ROOT / "bench.py"),)):
    """A run in a process group of its own, as a shell gives it one."""
    command = [sys.executable, *run, *ARGUMENTS, *more, "--plugins", str(PLUGINS)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=folder, env=env, start_new_session=True, **pipes)


def wait_until(condition, process, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.02)


def method_processes(process):
    """Processes of a method among the descendants of a run."""
    processes = []
    with contextlib.suppress(psutil.Error):  # they come and go
        processes = psutil.Process(process.pid).children(recursive=True)
    return [p for p in processes if "bench.isolation.server" in _command(p)]


def _command(process):
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def count_outcomes(record):
    if not record.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{record}?mode=ro", uri=True) as db:
            return db.execute("SELECT COUNT(*) FROM outcomes").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
