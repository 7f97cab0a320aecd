"""Runs in a background process, which tests interrupt."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys

import psutil

from bench.isolation import guard
from bench.isolation.guard import ROOT
from tests.bench.command_line import PLUGINS
from tests.bench.plugins.held import GATE
from tests.bench.waiting import FAULT_S, wait_until

ARGUMENTS = "--datasets blobs --conditions noisy --points 60 --timing-rounds 0 --timeout 3600 --out stopped".split()
"""No call times out: a run that waits for a call that never ends does not end either."""


def start(folder, *more, run=(str(ROOT / "bench.py"),), plugins=PLUGINS):
    """Start a run in its own process group, as a shell does; `folder / "gate"` holds its calls."""
    command = [sys.executable, *run, *ARGUMENTS, *more, "--plugins", str(plugins)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    (folder / "gate").mkdir(exist_ok=True)
    env = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}  # as a user has it
    env |= {"PYTHONPATH": str(ROOT), GATE: str(folder / "gate")}
    # A shell's background jobs ignore SIGINT, those of nohup SIGHUP, and so do all their descendants, such as these tests.
    default = {"preexec_fn": lambda: [signal.signal(n, signal.SIG_DFL) for n in (signal.SIGINT, signal.SIGHUP)]}
    return subprocess.Popen(command, cwd=folder, env=env, start_new_session=True, **default, **pipes)


def wait_for(condition, process):
    """Wait until a condition holds while a run continues; kill the run if it does not."""
    try:
        wait_until(lambda: process.poll() is not None or condition())
    except AssertionError:
        below = psutil.Process(process.pid).children(recursive=True)
        process.kill()  # its guard ends what its methods started
        for running in psutil.wait_procs(below, timeout=FAULT_S)[1]:
            running.kill()
        raise
    assert process.poll() is None, process.communicate()


def method_processes(process):
    """Return the method processes among the descendants of a run."""
    processes = []
    with contextlib.suppress(psutil.Error):  # they come and go
        processes = psutil.Process(process.pid).children(recursive=True)
    return [p for p in processes if is_method_process(p)]


def is_method_process(process, owner=None):
    """Return whether a process calls a method or was started by one, on behalf of a process that is given."""
    with contextlib.suppress(psutil.Error):
        variables = process.environ()
        marked = variables.get(guard.CALLS, guard.NO_MARK) != guard.NO_MARK
        own = owner is None or variables.get(guard.COMMAND) == owner
        return marked and own and process.status() != psutil.STATUS_ZOMBIE
    return False


def have_ended(processes):
    """Return whether processes end, after the delay that a busy machine may need."""
    return not psutil.wait_procs(processes, timeout=FAULT_S)[1]


def count_outcomes(record):
    """Return the number of outcomes in a results database; 0 if it does not exist yet."""
    if not record.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{record}?mode=ro", uri=True) as db:
            return db.execute("SELECT COUNT(*) FROM outcomes").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
