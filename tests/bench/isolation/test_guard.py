"""No process of a command outlives it, whatever ends the command and whatever session the process moved to."""

import os
import signal
import subprocess
import sys
import threading

import psutil
import pytest

from bench.isolation import guard
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup
from tests.bench.background_run import have_ended, start, wait_for
from tests.bench.waiting import FAULT_S
from tests.catalog import spec

DAEMONS = '''
import os, subprocess, sys, time
from pathlib import Path
import numpy as np
from methods.base import Method
class Daemons(Method):
    """Starts a daemon in a session of its own, and waits."""
    kind = "control"
    def register(self, source, target):
        quiet = "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL"  # an open pipe would keep `run` waiting
        daemon = f"subprocess.Popen(['sleep', '3600'], start_new_session=True, {quiet})"
        start = f"import subprocess; print({daemon}.pid)"
        done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, check=True)
        if "BENCH_TEST_GATE" in os.environ:
            (Path(os.environ["BENCH_TEST_GATE"]) / f"daemon_{done.stdout.strip()}").touch()
            time.sleep(3600)
        self.note(daemon=int(done.stdout))
        return np.eye(4)
'''


@pytest.fixture
def plugins(tmp_path):
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "daemons.py").write_text(DAEMONS)
    return folder


@pytest.mark.parametrize("variable", [guard.COMMAND, guard.CALLS])
def test_only_living_processes_with_the_mark_are_ended(monkeypatch, variable):
    """This one is the first of its file: a fault in the choice would end processes that have nothing to do with the tests."""

    class Process:
        def __init__(self, pid, environment, status=psutil.STATUS_RUNNING, error=None):
            self.pid, self.environment, self.given, self.error = pid, environment, status, error

        def environ(self):
            if self.error:
                raise self.error
            return self.environment

        def status(self):
            return self.given

        def kill(self):
            if self.pid == 7:
                raise psutil.NoSuchProcess(7)
            killed.append(self.pid)

    other = guard.CALLS if variable == guard.COMMAND else guard.COMMAND
    ours = {variable: "mark", "PATH": "/bin"}
    every = [
        *(
            Process(1 + i, given)
            for i, given in enumerate([{}, {variable: "other"}, {other: "mark"}, {"PATH": "mark"}])
        ),
        Process(os.getpid(), ours),
        Process(5, ours, psutil.STATUS_ZOMBIE),
        *(Process(6, ours, error=error) for error in (psutil.AccessDenied(6), psutil.NoSuchProcess(6), OSError())),
        Process(7, ours),
        Process(8, ours),
        Process(9, ours, psutil.STATUS_SLEEPING),
    ]
    lists, killed = [every, every[-1:], every[:6]], []
    monkeypatch.setattr(psutil, "process_iter", lambda: iter(lists.pop(0)))
    monkeypatch.setattr(psutil, "wait_procs", lambda processes, timeout: None)
    guard.end_marked(variable, "mark")
    assert killed == [8, 9, 9] and lists == []


def test_a_daemon_of_a_method_ends_with_its_process(plugins):
    import numpy as np

    process = MethodProcess(MethodSetup(spec("daemons", plugins), "blobs"), Limits(FAULT_S, 4))
    try:
        cloud = np.zeros((5, 3), np.float32)
        daemon = psutil.Process(process.register(cloud, cloud, 0).notes["daemon"])
        assert daemon.is_running()
    finally:
        process.close()
    assert have_ended([daemon])


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_every_process_ends_after_a_signal(tmp_path, plugins, number, jobs):
    """Workers, method processes and daemons; the driver by itself, with the exit code of the signal."""
    conditions = ["clean", "noisy"][:jobs]  # a task for each worker
    run = ["--methods", "daemons", "--datasets", "shapes40", "--problems", "2", "--jobs", str(jobs)]
    run += ["--conditions", *conditions]
    process = start(tmp_path, *run, plugins=plugins)
    gate = tmp_path / "gate"
    wait_for(lambda: len(list(gate.glob("daemon_*"))) == jobs, process)
    daemons = [psutil.Process(int(file.name.split("_")[1])) for file in gate.glob("daemon_*")]
    below = [*psutil.Process(process.pid).children(recursive=True), *daemons]
    process.send_signal(number)
    _, errors = process.communicate(timeout=FAULT_S)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number), errors
    assert "Traceback" not in errors and len(below) > 2 * jobs and have_ended(below)


def test_a_signal_that_is_ignored_stays_ignored():
    text = """
import os, signal
from common.processes import like_ctrl_c
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with like_ctrl_c() as signals:
    os.kill(os.getpid(), signal.SIGHUP)
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except KeyboardInterrupt:
        print(signals == [signal.SIGTERM])
"""
    done = subprocess.run([sys.executable, "-c", text], cwd=guard.ROOT, capture_output=True, text=True, timeout=FAULT_S)
    assert done.stdout == "True\n", done.stderr


def test_a_worker_watches_its_parent_once_and_the_parent_itself_does_not(monkeypatch):
    watched = []
    monkeypatch.setattr(guard, "watch", watched.append)
    monkeypatch.setattr(guard, "_guarded_by_parent", threading.Event())
    monkeypatch.setattr(guard, "_guard", None)
    guard.end_with_parent(os.getpid())
    assert watched == [] and not guard._guarded_by_parent.is_set()
    for _ in range(2):
        guard.end_with_parent(os.getppid())
    assert watched == [os.getppid()]
    monkeypatch.setattr(subprocess, "Popen", None)
    guard.start()  # a worker needs no guard
    assert guard._guard is None


def test_marks_are_random_and_as_long_as_the_one_they_replace():
    """A copy writes its mark over that of the server in the memory with which it was started."""
    marks = {guard.new_mark() for _ in range(9)}
    assert len(marks) == 9 and {len(mark) for mark in marks} == {len(guard.NO_MARK)} and guard.NO_MARK not in marks
