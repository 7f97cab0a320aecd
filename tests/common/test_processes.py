"""Processes that end with their parent."""

import ctypes
import os
import signal
import subprocess
import sys
import threading

import psutil
import pytest

from bench.isolation.guard import ROOT
from common import processes
from tests.bench.waiting import FAULT_S, has_ended, wait_until

PARENT = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {child!r}, str(os.getpid())], stdout=subprocess.PIPE)
print(child.pid, child.stdout.readline().decode(), flush=True)
sys.stdin.read()
"""
CHILD = """
import sys, time
from common import processes
processes.{watch}(int(sys.argv[1]))
print("ready", flush=True)
time.sleep(3600)
"""


def orphan(watch):
    """Start a process that watches its parent, kill the parent, and return the process."""
    command = [sys.executable, "-c", PARENT.format(child=CHILD.format(watch=watch))]
    parent = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(parent.stdout.readline().split()[0]))
    parent.kill()
    parent.communicate()
    return child


def test_a_process_ends_with_its_parent_by_either_means():
    for watch in ("die_with_parent", "watch"):
        child = orphan(watch)
        wait_until(lambda: has_ended(child))  # noqa: B023


def test_daemons_of_descendants_are_ended():
    text = """
from common import processes
import psutil, subprocess, sys
processes.adopt_orphans()
daemon = "import subprocess, sys; subprocess.Popen(['sleep', '3600'], start_new_session=True)"
subprocess.run([sys.executable, "-c", daemon], check=True)
found = psutil.Process().children(recursive=True)
processes.end_descendants()
print(len(found), len(psutil.wait_procs(found, timeout=60)[1]))
"""
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, timeout=FAULT_S)
    assert done.stdout.split() == (["1", "0"] if sys.platform == "linux" else done.stdout.split()), done.stderr


NESTED = """
import subprocess, sys, threading, time
inner = "import subprocess, time; subprocess.Popen(['sleep', '3600']); print(flush=True); time.sleep(3600)"
child = subprocess.Popen([sys.executable, "-c", inner], stdout=subprocess.PIPE)
thread = threading.Thread(target=lambda: [subprocess.Popen(["sleep", "3600"]), time.sleep(3600)])
thread.start()
child.stdout.readline()
print(flush=True)
"""


@pytest.mark.parametrize("has_children", [True, False])
def test_descendants_are_those_that_psutil_finds(monkeypatch, has_children):
    """They are a process started by a thread, a child, and the child's child."""
    monkeypatch.setattr(processes, "_HAS_CHILDREN", has_children and processes._HAS_CHILDREN)
    with subprocess.Popen([sys.executable, "-c", NESTED], stdout=subprocess.PIPE) as parent:
        parent.stdout.readline()
        wait_until(lambda: len(processes.descendants(parent.pid)) == 3)
        below = processes.descendants(parent.pid)
        assert {p.pid for p in below} == {p.pid for p in psutil.Process(parent.pid).children(recursive=True)}
        for process in (parent, *below):
            process.kill()
    assert processes.descendants(parent.pid) == []


@pytest.fixture
def timers(monkeypatch):
    """The timers that are made instead of real ones: they only record what is done to them."""

    class Timer:
        def __init__(self, seconds, end):
            self.seconds, self.end, self.calls, self.daemon = seconds, end, [], False
            made.append(self)

        def start(self):
            self.calls.append("start")

        def cancel(self):
            self.calls.append("cancel")

    made = []
    monkeypatch.setattr(threading, "Timer", Timer)
    return made


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_sighup_act_as_ctrl_c_and_end_the_process_after_a_while(monkeypatch, timers, number):
    """Handlers are restored after the block; a second signal starts no other timer. Packages may have changed that of Ctrl-C."""
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    both = signal.SIGTERM, signal.SIGHUP
    before = {each: signal.signal(each, signal.SIG_DFL) for each in both}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with processes.like_ctrl_c() as received:
            for _ in range(2):
                with pytest.raises(KeyboardInterrupt):
                    signal.raise_signal(number)
            assert received == [number] * 2 and timers[0].calls == ["start"] and timers[0].daemon
        assert timers[0].calls == ["start", "cancel"] and timers[0].seconds == processes.FORCED_S
        assert [signal.getsignal(each) for each in both] == [signal.SIG_DFL] * 2
        timers[0].end()
        assert codes == [128 + number]
        with processes.like_ctrl_c() as received:
            handled = []
            interrupted = signal.signal(signal.SIGINT, lambda number, frame: handled.append(number))
            signal.raise_signal(number)
            signal.signal(signal.SIGINT, interrupted)
            assert handled == received == [number], "the handler of Ctrl-C is called"
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def test_a_thread_and_a_signal_with_a_handler_are_left_alone(timers):
    def mine(*_):
        raise AssertionError

    before = signal.signal(signal.SIGHUP, mine)
    try:
        with processes.like_ctrl_c():
            assert signal.getsignal(signal.SIGHUP) is mine
        assert signal.getsignal(signal.SIGHUP) is mine
    finally:
        signal.signal(signal.SIGHUP, before)
    inside = []
    handlers = signal.getsignal(signal.SIGTERM)

    def look():
        with processes.like_ctrl_c() as received:
            inside.append((received, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert inside == [([], handlers)]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread looks")
def test_a_process_whose_parent_has_ended_before_ends_at_once():
    text = "import os, sys; from common.processes import die_with_parent; die_with_parent(os.getppid() {}); sys.exit(3)"
    for other, code in (("", 3), ("+ 1", 1)):
        done = subprocess.run([sys.executable, "-c", text.format(other)], cwd=ROOT, timeout=FAULT_S)
        assert done.returncode == code


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="glibc only")
def test_freed_memory_is_kept():
    code = """
import resource, sys
import numpy as np
from common.processes import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
def work():
    arrays = [np.ones(size) for size in (20_000, 40_000, 60_000, 90_000)]
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    faults = {
        how: int(subprocess.run([sys.executable, "-c", code, how], cwd=ROOT, capture_output=True, check=True).stdout)
        for how in ("keep", "return")
    }
    assert faults["keep"] < 20 < faults["return"]
