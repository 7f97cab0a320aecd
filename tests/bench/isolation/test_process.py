"""A method's process: what becomes of calls when it is killed, hangs or ends, alone and one after the other."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from bench.isolation import process as process_module
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup, RegisterRequest, Reply
from common.errors import InputError
from tests.bench.command_line import PLUGINS
from tests.bench.plugins.picky import EXIT, FORK, KILL, LARGE, NAP, SLEEP, WORDS
from tests.bench.waiting import FAULT_S, wait_until
from tests.catalog import spec

CLOUD = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)


@pytest.fixture
def child():
    process = MethodProcess(MethodSetup(spec("slow[seconds=0]", PLUGINS), "blobs"), Limits(FAULT_S, 4))
    assert process.start().status == "ok"
    yield process
    process.close()


def test_a_call_survives_one_kill(child):
    first = child.process.pid
    os.kill(first, signal.SIGSTOP)  # it gets the call, and can't answer before it is killed

    def strike():
        wait_until(lambda: child._unanswered)
        os.kill(first, signal.SIGKILL)

    striker = threading.Thread(target=strike)
    striker.start()
    reply = child.register(CLOUD, CLOUD, 0)
    striker.join()
    assert reply.status == "ok" and child.process.pid != first


@pytest.mark.parametrize("killed", [[False], [True, False], [True, True]])
def test_a_start_is_repeated_once_if_the_process_was_killed(killed, monkeypatch):
    replies = [Reply(killed=each) for each in killed]
    left = iter(replies)
    child = MethodProcess(MethodSetup(spec("slow", PLUGINS), "blobs"), Limits(FAULT_S, 4))
    monkeypatch.setattr(child, "_spawn", lambda: next(left))
    assert child.start() is replies[-1] and next(left, None) is None


def test_a_call_that_is_killed_twice_has_crashed():
    child = MethodProcess(MethodSetup(spec("slow[seconds=0,killed=true]", PLUGINS), "blobs"), Limits(FAULT_S, 4))
    try:
        reply = child.register(CLOUD, CLOUD, 0)
        assert reply.status == "crash" and "SIGKILL" in reply.message
    finally:
        child.close()


def test_a_signal_whose_handler_takes_longer_than_a_look_does_not_stretch_the_deadline():
    """Waiting for a reply must not start again with the full time-out after a signal."""
    child = MethodProcess(MethodSetup(spec("slow[seconds=60]", PLUGINS), "blobs"), Limits(0.7, 4))
    before = signal.signal(signal.SIGALRM, lambda *_: time.sleep(0.2))
    try:
        assert child.start().status == "ok"
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        reply = child.register(CLOUD, CLOUD, 0)
        assert reply.status == "timeout"
        assert reply.time_ms == 700  # ended at the deadline; a call that was let go on has its own, longer time
    finally:
        signal.signal(signal.SIGALRM, before)
        child.close()


def test_a_time_out_ends_a_call_before_the_next_look_at_its_process(monkeypatch):
    monkeypatch.setattr(process_module, "POLL_INTERVAL_S", FAULT_S)
    child = MethodProcess(MethodSetup(spec("slow[seconds=60]", PLUGINS), "blobs"), Limits(0.1, 4))
    assert child.start().status == "ok"
    begun = time.monotonic()
    assert child.register(CLOUD, CLOUD, 0).status == "timeout"
    assert time.monotonic() - begun < FAULT_S / 2


class ShortTimeout(MethodProcess):
    """A process with a short limit only for the call that never ends."""

    def _call(self, requests, timeout):
        return super()._call(requests, SHORT_TIMEOUT_S if requests[0].sources[0][0, 0] == SLEEP else timeout)


SHORT_TIMEOUT_S = 0.7


@pytest.fixture
def picky(monkeypatch):
    monkeypatch.setattr(process_module, "PIPELINE_BELOW_S", np.inf)  # each call is sent ahead, however busy the machine
    monkeypatch.setattr(process_module, "BURST_BELOW_S", 0.0)
    process = ShortTimeout(MethodSetup(spec("picky", PLUGINS), "blobs"), Limits(FAULT_S, 4))
    assert process.start().status == "ok"
    yield process
    process.close()


def calls(*firsts, points=20, pulled=None):
    """Calls whose source begins with these numbers; `pulled` records when each is generated."""
    for first in firsts:
        if pulled is not None:
            pulled.append(first)
        source = np.full((points, 3), first, dtype=np.float32)
        yield first, RegisterRequest((source,), (source,), 0)


def test_calls_that_follow_each_other_get_their_own_answers(picky):
    values = [1.0, 2.0, SLEEP, 3.0, EXIT, 4.0, 5.0, KILL, 6.0]
    ends = {SLEEP: "timeout", EXIT: "crash", KILL: "crash"}
    replies = list(picky.replies(calls(*values)))
    assert [first for first, _ in replies] == values
    for first, reply in replies:
        assert reply.status == ends.get(first, "ok")
        if reply.status == "ok":
            assert reply.pairs[0].pose[:3, 3].tolist() == [first] * 3


def test_the_next_call_is_unanswered_while_the_method_works_on_a_brief_one(picky, monkeypatch):
    pulled = []
    seen = [len(pulled) for _ in picky.replies(calls(1, 2, 3, 4, pulled=pulled))]
    assert seen == [1, 3, 4, 4]  # how brief it is, is known after the first
    monkeypatch.setattr(process_module, "PIPELINE_BELOW_S", 0.0)
    pulled.clear()
    assert [len(pulled) for _ in picky.replies(calls(1, 2, 3, pulled=pulled))] == [1, 2, 3]


@pytest.fixture
def bursts(picky, monkeypatch):
    monkeypatch.setattr(process_module, "BURST_BELOW_S", np.inf)
    monkeypatch.setattr(process_module, "BURST", 4)
    return picky


def test_brief_calls_are_drawn_in_bursts(bursts):
    pulled = []
    seen = [len(pulled) for _ in bursts.replies(calls(*range(12), pulled=pulled))]
    assert seen == [1, 6, 6, 6, 9, 9, 9, 12, 12, 12, 12, 12]  # up to four beyond the one that is awaited


def test_calls_of_a_burst_get_their_own_answers(bursts):
    values = [1.0, 2.0, 3.0, EXIT, 4.0, 5.0, 6.0, 7.0, SLEEP, 8.0, KILL, 9.0, 10.0]
    ends = {SLEEP: "timeout", EXIT: "crash", KILL: "crash"}
    replies = list(bursts.replies(calls(*values)))
    assert [(first, reply.status) for first, reply in replies] == [(first, ends.get(first, "ok")) for first in values]
    assert all(reply.pairs[0].pose[0, 3] == first for first, reply in replies if reply.status == "ok")


def test_bursts_of_large_clouds_are_short(bursts):
    pulled = []
    third = bursts._pipe_bytes // 6 // 24  # three of them fill half the pipe
    seen = [len(pulled) for _ in bursts.replies(calls(*range(6), points=third, pulled=pulled))]
    assert seen == [1, 5, 5, 6, 6, 6]


def test_clouds_that_no_pipe_holds_are_not_unanswered_ahead(picky):
    big = 60_000  # 720 kB a cloud
    for _, reply in picky.replies([*calls(1), *calls(2, 3, points=big), *calls(4)]):
        assert reply.status == "ok"
    hang = [*calls(1, 2), *calls(SLEEP), *calls(5, points=big)]
    replies = [reply for _, reply in picky.replies(hang)]
    assert [reply.status for reply in replies] == ["ok", "ok", "timeout", "ok"]
    assert replies[2].time_ms == 1e3 * SHORT_TIMEOUT_S  # writing never waited for the sleeper to end


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

    received = []
    with pytest.raises(InputError, match="broken"):
        for first, _ in picky.replies(until_broken()):
            received.append(first)
    assert received == [1, 2, 3]


def answered(child):
    """Wait until the process has answered, which nobody has read."""
    wait_until(lambda: child._replies.poll())


@pytest.mark.parametrize(("call", "limits", "status"), [
    (NAP, Limits(0.2, 4), "timeout"),
    (LARGE, Limits(FAULT_S, 0.2), "out_of_memory"),
    (LARGE, Limits(0, 0.2), "out_of_memory"),
])  # fmt: skip
def test_limits_hold_for_a_call_that_nobody_watches_while_the_next_is_drawn(picky, call, limits, status):
    """It has answered by then; whether it kept to its limits must not depend on how fast problems are drawn.

    One that breaks both has the outcome that it has where memory is watched: it may be slow since it takes so much.
    """
    usual = picky.limits

    def drawn():
        yield from calls(1, 2, call)
        answered(picky)
        picky.limits = limits
        yield from calls(3)

    received = []
    for first, reply in picky.replies(drawn()):
        received.append((first, reply.status))
        picky.limits = usual
    assert received == [(1, "ok"), (2, "ok"), (call, status), (3, "ok")]


def test_a_method_that_raises_an_error_goes_on_in_the_same_process(picky):
    first = picky.process.pid
    assert picky.register(CLOUD[:, :2], CLOUD, 0).status == "error"  # two numbers are no translation
    assert picky.process is not None and picky.process.pid == first
    assert picky.register(CLOUD, CLOUD, 0).status == "ok" and picky.process.pid == first


def test_the_end_of_a_process_is_noticed_while_one_that_it_forked_holds_the_pipe(picky):
    picky.limits = Limits(FAULT_S, 4)
    assert [picky.call(call).status for _, call in calls(FORK, 1)] == ["crash", "ok"]


def test_a_process_over_its_memory_limit_is_ended(picky):
    usual, picky.limits = picky.limits, Limits(FAULT_S, 0.001)
    ((_, call),) = calls(SLEEP)
    assert picky.call(call).status == "out_of_memory" and picky.process is None
    picky.limits = usual
    assert [picky.call(call).status for _, call in calls(1)] == ["ok"]


def test_memory_is_that_of_the_process_and_of_those_it_started(child):
    process = psutil.Process(child.process.pid)
    assert child._memory_gb() == pytest.approx(process.memory_info().rss / 1e9, rel=0.1)
    started = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    child.process, own = SimpleNamespace(pid=os.getpid()), child.process
    try:
        below = [psutil.Process(), *psutil.Process().children(recursive=True)]
        assert child._memory_gb() == pytest.approx(sum(each.memory_info().rss for each in below) / 1e9, rel=0.1)
    finally:
        child.process = own
        started.communicate()


def test_memory_counts_with_what_the_process_held_before(picky, monkeypatch):
    """As where it is watched: a call that is over before the first look must not be let off."""
    monkeypatch.setattr(process_module, "POLL_INTERVAL_S", FAULT_S)
    held = picky._memory_gb()
    picky.limits = Limits(FAULT_S, 0.32 + 0.5 * held)  # above what the call takes alone
    assert [picky.call(call).status for _, call in calls(1, LARGE, 2)] == ["ok", "out_of_memory", "ok"]


def test_an_answer_counts_though_the_process_is_gone_before_the_next_call_is_unanswered(picky):
    def drawn():
        yield from calls(1, 2, 3)
        answered(picky)
        os.kill(picky.process.pid, signal.SIGKILL)
        picky.process.wait()
        yield from calls(4)

    replies = [(first, reply.status) for first, reply in picky.replies(drawn())]
    assert replies == [(1, "ok"), (2, "ok"), (3, "ok"), (4, "ok")]


def test_the_last_words_of_a_process_are_read_however_late(picky, monkeypatch):
    def late(pipe, tail):
        time.sleep(0.5)
        read(pipe, tail)

    read = process_module._keep_tail
    monkeypatch.setattr(process_module, "_keep_tail", late)
    picky.close()
    _, call = next(calls(WORDS))
    assert picky.call(call).message == "the process ended with exit code 3 | last words"


ON_A_BROKEN_GPU = """
import sys, types
import numpy as np
from methods.base import Method


class Broken(Method):
    '''Stand-in for a GPU whose context is lost by a cloud of one point.'''

    devices = ("cpu", "cuda")

    def setup(self, device, seed, domain):
        self.note(device=device)
        self.state["cuda"] = types.SimpleNamespace(
            is_initialized=lambda: True,
            reset_peak_memory_stats=lambda device: None,
            memory_allocated=lambda device: 0,
            max_memory_allocated=lambda device: 0,
            synchronize=lambda device: None,
        )
        sys.modules["torch"] = types.SimpleNamespace(cuda=self.state["cuda"])

    def register(self, source, target):
        def lost(device):
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

        if len(source) == 1:
            self.state["cuda"].synchronize = lost
        if len(source) == 2:
            raise RuntimeError("CUDA out of memory")
        return np.eye(4)
"""


def test_a_process_whose_gpu_fails_every_call_is_replaced(tmp_path):
    """Only the call that lost the context fails, and those sent ahead of it are answered by the next process."""
    (tmp_path / "broken.py").write_text(ON_A_BROKEN_GPU)
    child = MethodProcess(MethodSetup(spec("broken", tmp_path), "blobs", "cuda:0"), Limits(FAULT_S, 4))
    try:
        assert child.start().notes == {"device": "cuda:0"}
        first = child.process.pid
        sizes = [3, 2, 1, 4, 5]
        replies = list(child.replies((n, RegisterRequest((CLOUD[:n],), (CLOUD,), 0)) for n in sizes))
        assert [reply.status for _, reply in replies] == ["ok", "error", "error", "ok", "ok"]
        assert "illegal memory access" in replies[2][1].message and child.process.pid != first
    finally:
        child.close()


def test_the_server_is_started_apart_from_the_command(monkeypatch):
    """It reads and writes nothing but its pipes, starts in the repository, and signals for the command do not reach it."""
    made = []
    monkeypatch.setattr(process_module, "_can_fork", lambda setup: False)
    monkeypatch.setattr(subprocess, "Popen", lambda command, **how: made.append((command, how)))
    monkeypatch.setenv(process_module.fork_server.ADDRESSES, "somewhere")
    setup = MethodSetup(spec("pca"), "blobs", threads=3)
    process = MethodProcess(setup, Limits(1, 1))
    process._mark = "mark"
    process._started((40, 41))
    ((command, how),) = made
    assert command == [sys.executable, "-m", process_module.SERVER, "40", "41", str(os.getpid())]
    environment = how.pop("env")
    assert how == {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.PIPE,
        "cwd": process_module.guard.ROOT,
        "pass_fds": (40, 41),
        "start_new_session": True,
    }
    assert environment[process_module.guard.CALLS] == "mark" and environment["OMP_NUM_THREADS"] == "3"
    assert environment.keys() >= os.environ.keys() - {process_module.fork_server.ADDRESSES}
    assert process_module.fork_server.ADDRESSES not in environment


def test_requests_are_sent_ahead_while_half_of_the_pipe_is_free(monkeypatch):
    """The first one, which is being read, does not count; its size is that of the others after its reply."""
    monkeypatch.setattr(process_module, "pack_request", lambda number, size: bytes([number]) * size)
    process, sent = MethodProcess.__new__(MethodProcess), []
    process._answered, process._unanswered, process._pipe_bytes = 3, deque(), 100
    process._requests = SimpleNamespace(send_bytes=sent.append)
    sizes = [60, 20, 25, 10, 40]
    for _ in range(2):
        process._send(sizes)
        assert sent == [bytes([3]) * 60, bytes([4]) * 20, bytes([5]) * 25]
    process._answered = 4
    process._unanswered.popleft()
    process._send(sizes[1:])
    assert sent[3:] == [bytes([6]) * 10] and [one.size for one in process._unanswered] == [20, 25, 10]
    process._unanswered.clear()
    process._answered = 7
    process._send(sizes[4:])
    assert sent[4:] == [bytes([7]) * 40]
