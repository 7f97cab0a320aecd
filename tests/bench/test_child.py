"""A method's process that is killed from outside: the call is made once more, and then it counts."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from bench.child import Child, Limits, Setting

PLUGINS = Path(__file__).parent / "plugins"
CLOUD = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)


@pytest.fixture
def child():
    made = Child(Setting("slow[seconds=0.4]", "blobs", plugins=PLUGINS), Limits(20, 4))
    assert made.start()["status"] == "ok"
    yield made
    made.close()


def test_a_call_survives_one_kill(child):
    first = child.process.pid
    striker = threading.Timer(0.15, os.kill, (first, signal.SIGKILL))
    striker.start()
    reply = child.register(CLOUD, CLOUD, 0)
    striker.join()
    assert reply["status"] == "ok" and child.process.pid != first


def test_a_call_that_is_killed_twice_has_crashed():
    child = Child(Setting("slow[seconds=0,killed=true]", "blobs", plugins=PLUGINS), Limits(20, 4))
    try:
        reply = child.register(CLOUD, CLOUD, 0)
        assert reply["status"] == "crash" and "SIGKILL" in reply["message"]
    finally:
        child.close()


def test_a_signal_whose_handler_takes_longer_than_a_look_does_not_stretch_the_deadline():
    """Python 3.11's SimpleQueue.get then waits for ever, and the time-out never comes."""
    child = Child(Setting("slow[seconds=6]", "blobs", plugins=PLUGINS), Limits(0.7, 4))
    before = signal.signal(signal.SIGALRM, lambda *_: time.sleep(0.2))
    try:
        assert child.start()["status"] == "ok"
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        begun = time.monotonic()
        assert child.register(CLOUD, CLOUD, 0)["status"] == "timeout" and time.monotonic() - begun < 5
    finally:
        signal.signal(signal.SIGALRM, before)
        child.close()
