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


def kill(child, times):
    """Kill the child's process in the middle of its call, and those that take its place."""

    def strike():
        seen = set()
        while len(seen) < times:
            process = child.process
            if process is not None and process.pid not in seen and child.ready.get("status") == "ok":
                time.sleep(0.15)
                seen.add(process.pid)
                os.kill(process.pid, signal.SIGKILL)
            time.sleep(0.01)

    thread = threading.Thread(target=strike, daemon=True)
    thread.start()
    return thread


def test_a_call_survives_one_kill(child):
    thread = kill(child, 1)
    reply = child.register(CLOUD, CLOUD, 0)
    thread.join()
    assert reply["status"] == "ok"


def test_a_call_that_is_killed_twice_has_crashed(child):
    thread = kill(child, 2)
    reply = child.register(CLOUD, CLOUD, 0)
    thread.join()
    assert reply["status"] == "crash" and "SIGKILL" in reply["message"]
    assert child.register(CLOUD, CLOUD, 0)["status"] == "ok", "the next call has a process of its own"
