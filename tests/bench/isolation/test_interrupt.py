"""Ctrl-C during a run: finished outcomes are stored, and the run ends at once."""

import os
import re
import signal
import sqlite3
import time

import psutil
import pytest

from bench.planning.tasks import (
    PROBLEMS_PER_TASK,
)
from tests.bench.background_run import count_outcomes, limit, method_processes, start, wait_until

PATIENT = """
import sys
from bench.cli.main import main
from bench.isolation import interrupt
interrupt.GRACE_S = 15
sys.exit(main())
"""
"""The command line, with time for workers to return their outcomes on a busy machine."""


@pytest.mark.parametrize("to", ["driver", "group"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_ends_a_run_with_methods_in_native_code(tmp_path, jobs, to):
    """`bad_deaf` ignores SIGINT and holds the interpreter lock. Slow calls before it are finished but not yet returned."""
    arguments = ["--methods", "slow[seconds=0.2]", "bad_deaf", "--problems", str(4 * jobs), "--jobs", str(jobs)]
    process = start(tmp_path, *arguments)
    record = tmp_path / "results" / "stopped" / "record.sqlite"
    wait_until(lambda: count_outcomes(record) == 4 * jobs, process)
    time.sleep(1.5)  # bad_deaf's process starts, and gets stuck
    children = method_processes(process)
    begun = time.monotonic()
    (os.kill if to == "driver" else os.killpg)(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    spent = time.monotonic() - begun
    assert process.returncode == 130 and "Traceback" not in errors, errors
    assert spent < limit(), f"{spent:.2f} s"
    assert "continue" in errors and "bench.py --datasets" in errors
    assert count_outcomes(record) == 4 * jobs
    psutil.wait_procs(children, timeout=5)
    assert not [p for p in children if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_stores_finished_outcomes_of_workers(tmp_path, jobs):
    """The finished part of a task of twenty calls of 0.2 s is stored, and the same command continues."""
    arguments = ["--methods", "slow[seconds=0.2]", "--problems", "40", "--jobs", str(jobs)]
    process = start(tmp_path, *arguments, run=("-c", PATIENT))
    record = tmp_path / "results" / "stopped" / "record.sqlite"
    wait_until(lambda: is_set_up(record) and method_processes(process), process)
    time.sleep(4)
    before = count_outcomes(record)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    after = count_outcomes(record)
    assert 0 < after < 40 and (after > before or before >= PROBLEMS_PER_TASK)
    process = start(tmp_path, *arguments)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert f"continuing: {after} outcomes" in out and re.search(rf"registering: {40 - after} of {40 - after}", out)


def is_set_up(record):
    """Return whether the problems are generated and the methods were set up, so that workers start."""
    try:
        with sqlite3.connect(f"file:{record}?mode=ro", uri=True) as db:
            return bool(db.execute("SELECT 1 FROM meta WHERE key = 'run'").fetchall())
    except sqlite3.OperationalError:
        return False
