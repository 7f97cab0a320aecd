"""Method processes: calls that are killed, hang or end the process, alone and in a sequence."""

import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest

from bench.isolation import process
from bench.isolation import process as process_module
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup, RegisterRequest
from common.errors import InputError
from datasets.problems import ProblemKey, make_problem
from tests.bench.command_line import PLUGINS
from tests.bench.plugins.picky import EXIT, KILL, LARGE, NAP, SLEEP
from tests.catalog import open_data, spec

CLOUD = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)


@pytest.fixture
def slow_process():
    process = MethodProcess(MethodSetup(spec("slow[seconds=0.4]", PLUGINS), "blobs"), Limits(20, 4))
    assert process.start().status == "ok"
    yield process
    process.close()


def test_a_call_survives_one_kill(slow_process):
    first = slow_process.process.pid
    striker = threading.Timer(0.15, os.kill, (first, signal.SIGKILL))
    striker.start()
    reply = slow_process.register(CLOUD, CLOUD, 0)
    striker.join()
    assert reply.status == "ok" and slow_process.process.pid != first


def test_a_call_that_is_killed_twice_has_crashed():
    slow_process = MethodProcess(MethodSetup(spec("slow[seconds=0,killed=true]", PLUGINS), "blobs"), Limits(20, 4))
    try:
        reply = slow_process.register(CLOUD, CLOUD, 0)
        assert reply.status == "crash" and "SIGKILL" in reply.message
    finally:
        slow_process.close()


def test_slow_signal_handler_does_not_delay_the_timeout():
    """In this case SimpleQueue.get of Python 3.11 waits forever, without a time-out."""
    slow_process = MethodProcess(MethodSetup(spec("slow[seconds=6]", PLUGINS), "blobs"), Limits(0.7, 4))
    before = signal.signal(signal.SIGALRM, lambda *_: time.sleep(0.2))
    try:
        assert slow_process.start().status == "ok"
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        begun = time.monotonic()
        assert slow_process.register(CLOUD, CLOUD, 0).status == "timeout" and time.monotonic() - begun < 5
    finally:
        signal.signal(signal.SIGALRM, before)
        slow_process.close()


@pytest.fixture
def picky():
    process = MethodProcess(MethodSetup(spec("picky", PLUGINS), "blobs"), Limits(3, 4))
    assert process.start().status == "ok"
    yield process
    process.close()


def calls(*firsts, points=20, requested=None):
    """Yield calls whose source begins with these numbers; append each number to `requested` when its call is."""
    for first in firsts:
        if requested is not None:
            requested.append(first)
        source = np.full((points, 3), first, dtype=np.float32)
        yield first, RegisterRequest((source,), (source,), 0)


def test_consecutive_calls_get_their_own_replies(picky):
    numbers = [1.0, 2.0, SLEEP, 3.0, EXIT, 4.0, 5.0, KILL, 6.0]
    ends = {SLEEP: "timeout", EXIT: "crash", KILL: "crash"}
    replies = list(picky.replies(calls(*numbers)))
    assert [first for first, _ in replies] == numbers
    for first, reply in replies:
        assert reply.status == ends.get(first, "ok")
        if reply.status == "ok":
            assert reply.pairs[0].pose[:3, 3].tolist() == [first] * 3


def test_next_call_is_sent_ahead_after_a_short_one(picky, monkeypatch):
    requested = []
    seen = [len(requested) for _ in picky.replies(calls(1, 2, 3, 4, requested=requested))]
    assert seen == [1, 3, 4, 4]  # how brief it is, is known after the first
    monkeypatch.setattr(process_module, "PIPELINE_BELOW_S", 0.0)
    requested.clear()
    assert [len(requested) for _ in picky.replies(calls(1, 2, 3, requested=requested))] == [1, 2, 3]


def test_clouds_larger_than_the_pipe_are_not_sent_ahead(picky):
    big = 60_000  # 720 kB a cloud
    for _, reply in picky.replies([*calls(1), *calls(2, 3, points=big), *calls(4)]):
        assert reply.status == "ok"
    hang = [*calls(1, 2), *calls(SLEEP), *calls(5, points=big)]
    begun = time.monotonic()
    assert [reply.status for _, reply in picky.replies(hang)] == ["ok", "ok", "timeout", "ok"]
    assert time.monotonic() - begun < 20  # writing never waited for the sleeper


def test_abandoned_replies_are_not_mistaken_for_others(picky):
    replies = picky.replies(calls(1, 2, 3, 4))
    next(replies), next(replies)
    replies.close()
    first, call = next(calls(9))
    assert picky.call(call).pairs[0].pose[0, 3] == first


def test_broken_input_comes_after_the_replies_before_it(picky):
    def until_broken():
        yield from calls(1, 2, 3)
        raise InputError("broken")

    replies = []
    with pytest.raises(InputError, match="broken"):
        for first, _ in picky.replies(until_broken()):
            replies.append(first)
    assert replies == [1, 2, 3]


def test_limits_hold_for_a_call_while_the_next_problem_is_generated(picky):
    """Whether a call kept to its limits must not depend on how fast the next problem is generated."""
    picky.limits = Limits(0.6, 0.2)

    def generated():
        yield from calls(1, NAP, LARGE)
        time.sleep(2.0)
        yield from calls(2)

    replies = [(first, reply.status) for first, reply in picky.replies(generated())]
    assert replies == [(1, "ok"), (NAP, "timeout"), (LARGE, "out_of_memory"), (2, "ok")]


def test_reply_counts_if_the_process_ends_before_the_next_call(picky):
    def generated():
        yield from calls(1, 2, 3)
        time.sleep(0.5)  # 3 is answered meanwhile
        os.kill(picky.process.pid, signal.SIGKILL)
        picky.process.wait()
        yield from calls(4)

    replies = [(first, reply.status) for first, reply in picky.replies(generated())]
    assert replies == [(1, "ok"), (2, "ok"), (3, "ok"), (4, "ok")]


def test_only_clouds_and_a_seed_are_sent_to_a_method(monkeypatch):
    """Inspect every object sent to the method process: none may hold the ground truth."""
    sent = []
    real = pickle.dumps
    monkeypatch.setattr(process.pickle, "dumps", lambda o, **k: (sent.append(o), real(o, **k))[1])
    from bench.execution.pool_worker import solve_problems
    from bench.storage.outcome import Phase

    problem = make_problem(open_data("blobs", None, PLUGINS), ProblemKey("blobs", "noisy", 50, 1))
    worker = MethodProcess(MethodSetup(spec("good", PLUGINS), "blobs"), Limits(20, 4))
    try:
        assert solve_problems(worker, [problem], Phase.ACCURACY, 0)[0].status == "ok"
    finally:
        worker.close()
    setup, request = sent
    assert setup == MethodSetup(spec("good", PLUGINS), "blobs")
    assert isinstance(request, RegisterRequest) and set(vars(request)) == {"sources", "targets", "seed"}
    assert request.sources[0] is problem.source and request.targets[0] is problem.target
    assert len(request.sources) == len(request.targets) == 1 and isinstance(request.seed, int)
