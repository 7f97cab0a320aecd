"""A method's process: what becomes of calls when it is killed, hangs or ends, alone and one after the other."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from bench.isolation import process as child_module
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup, RegisterRequest
from common.errors import InputError
from tests.bench.plugins.picky import EXIT, KILL, LARGE, NAP, SLEEP
from tests.catalog import spec

PLUGINS = Path(__file__).parent / "plugins"
CLOUD = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)


@pytest.fixture
def child():
    made = MethodProcess(MethodSetup(spec("slow[seconds=0.4]", PLUGINS), "blobs"), Limits(20, 4))
    assert made.start().status == "ok"
    yield made
    made.close()


def test_a_call_survives_one_kill(child):
    first = child.process.pid
    striker = threading.Timer(0.15, os.kill, (first, signal.SIGKILL))
    striker.start()
    reply = child.register(CLOUD, CLOUD, 0)
    striker.join()
    assert reply.status == "ok" and child.process.pid != first


def test_a_call_that_is_killed_twice_has_crashed():
    child = MethodProcess(MethodSetup(spec("slow[seconds=0,killed=true]", PLUGINS), "blobs"), Limits(20, 4))
    try:
        reply = child.register(CLOUD, CLOUD, 0)
        assert reply.status == "crash" and "SIGKILL" in reply.message
    finally:
        child.close()


def test_a_signal_whose_handler_takes_longer_than_a_look_does_not_stretch_the_deadline():
    """Python 3.11's SimpleQueue.get then waits for ever, and the time-out never comes."""
    child = MethodProcess(MethodSetup(spec("slow[seconds=6]", PLUGINS), "blobs"), Limits(0.7, 4))
    before = signal.signal(signal.SIGALRM, lambda *_: time.sleep(0.2))
    try:
        assert child.start().status == "ok"
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        begun = time.monotonic()
        assert child.register(CLOUD, CLOUD, 0).status == "timeout" and time.monotonic() - begun < 5
    finally:
        signal.signal(signal.SIGALRM, before)
        child.close()


@pytest.fixture
def picky():
    made = MethodProcess(MethodSetup(spec("picky", PLUGINS), "blobs"), Limits(3, 4))
    assert made.start().status == "ok"
    yield made
    made.close()


def calls(*firsts, points=20, pulled=None):
    """Calls whose source begins with these numbers; `pulled` learns when each is asked for."""
    for first in firsts:
        if pulled is not None:
            pulled.append(first)
        source = np.full((points, 3), first, dtype=np.float32)
        yield first, RegisterRequest((source,), (source,), 0)


def test_calls_that_follow_each_other_get_their_own_answers(picky):
    asked = [1.0, 2.0, SLEEP, 3.0, EXIT, 4.0, 5.0, KILL, 6.0]
    ends = {SLEEP: "timeout", EXIT: "crash", KILL: "crash"}
    found = list(picky.replies(calls(*asked)))
    assert [first for first, _ in found] == asked
    for first, reply in found:
        assert reply.status == ends.get(first, "ok")
        if reply.status == "ok":
            assert reply.pairs[0].pose[:3, 3].tolist() == [first] * 3


def test_the_next_call_is_sent_while_the_method_works_on_a_brief_one(picky, monkeypatch):
    pulled = []
    seen = [len(pulled) for _ in picky.replies(calls(1, 2, 3, 4, pulled=pulled))]
    assert seen == [1, 3, 4, 4]  # how brief it is, is known after the first
    monkeypatch.setattr(child_module, "PIPELINE_BELOW_S", 0.0)
    pulled.clear()
    assert [len(pulled) for _ in picky.replies(calls(1, 2, 3, pulled=pulled))] == [1, 2, 3]


def test_clouds_that_no_pipe_holds_are_not_sent_ahead(picky):
    big = 60_000  # 720 kB a cloud
    for _, reply in picky.replies([*calls(1), *calls(2, 3, points=big), *calls(4)]):
        assert reply.status == "ok"
    hang = [*calls(1, 2), *calls(SLEEP), *calls(5, points=big)]
    begun = time.monotonic()
    assert [reply.status for _, reply in picky.replies(hang)] == ["ok", "ok", "timeout", "ok"]
    assert time.monotonic() - begun < 20  # writing never waited for the sleeper


def test_replies_that_nobody_waits_for_are_not_taken_for_others(picky):
    replies = picky.replies(calls(1, 2, 3, 4))
    next(replies), next(replies)
    replies.close()
    first, call = next(calls(9))
    assert picky.call(call).pairs[0].pose[0, 3] == first


def test_broken_input_comes_after_the_replies_before_it(picky):
    def until_broken():
        yield from calls(1, 2, 3)
        raise InputError("broken")

    found = []
    with pytest.raises(InputError, match="broken"):
        for first, _ in picky.replies(until_broken()):
            found.append(first)
    assert found == [1, 2, 3]


def test_limits_hold_for_a_call_that_nobody_watches_while_the_next_is_drawn(picky):
    """It may have answered by then; whether it kept to its limits must not depend on how fast problems are drawn."""
    picky.limits = Limits(0.6, 0.2)

    def drawn():
        yield from calls(1, NAP, LARGE)
        time.sleep(2.0)
        yield from calls(2)

    found = [(first, reply.status) for first, reply in picky.replies(drawn())]
    assert found == [(1, "ok"), (NAP, "timeout"), (LARGE, "out_of_memory"), (2, "ok")]


def test_an_answer_counts_though_the_process_is_gone_before_the_next_call_is_sent(picky):
    def drawn():
        yield from calls(1, 2, 3)
        time.sleep(0.5)  # 3 is answered meanwhile
        os.kill(picky.process.pid, signal.SIGKILL)
        picky.process.wait()
        yield from calls(4)

    found = [(first, reply.status) for first, reply in picky.replies(drawn())]
    assert found == [(1, "ok"), (2, "ok"), (3, "ok"), (4, "ok")]
