"""What counts as the time of a call: all of it, divided by the pairs of a batch, and no more than the limit."""

import pickle

import numpy as np
import pytest

from bench.execution.pool_worker import to_outcomes
from bench.isolation import measure as measure_module
from bench.isolation import process as process_module
from bench.isolation import server
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Answer, Limits, MethodSetup, PairReply, RegisterRequest, Reply
from bench.storage.outcome import Phase
from datasets.problems import Problem, ProblemKey
from methods.base import Method
from methods.core.registry import MethodSpec

CLOUD = np.zeros((5, 3), np.float32)
PROCESS_ID = 7


class Clock:
    """Time that passes only when something sleeps."""

    now = 0.0

    def monotonic(self):
        return self.now

    perf_counter = monotonic


@pytest.mark.parametrize("n", [1, 2, 32])
def test_time_and_stages_of_a_batch_are_divided_by_its_pairs(n):
    problems = [Problem(ProblemKey("d", "noisy", 5, i), CLOUD, CLOUD, np.eye(4), np.eye(4), {}) for i in range(n)]
    reply = Reply(pairs=[PairReply(pose=np.eye(4))] * n, time_ms=960.0, stages={"solve": 480.0}, peak_mb=7.0)
    outcomes = to_outcomes(MethodSetup(MethodSpec("m"), "d"), problems, reply, Phase.BATCH, 0)
    assert [(o.time_ms, o.stages["solve"], o.peak_mb, o.batch) for o in outcomes] == [(960 / n, 480 / n, 7.0, n)] * n


def test_the_time_of_a_call_includes_every_stage(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(measure_module, "time", clock)
    monkeypatch.setattr("methods.core.base.time", clock)

    class Staged(Method):
        """Spend a known time in two stages and between them."""

        def register(self, source, target):
            for name, seconds in (("features", 2.0), ("solve", 3.0), ("features", 1.0)):
                clock.now += 0.5
                with self.stage(name):
                    clock.now += seconds
            return np.eye(4)

    reply = server.register(Staged(), "cpu", RegisterRequest([CLOUD], [CLOUD], 0))
    assert reply.time_ms == pytest.approx(7500) and reply.stages == pytest.approx({"features": 3000, "solve": 3000})


class Pipe:
    """A pipe whose reply comes after some seconds of the clock."""

    def __init__(self, clock, after, reply):
        self.clock, self.after, self.reply = clock, after, reply

    def poll(self, seconds=0.0):
        self.clock.now = max(self.clock.now, min(self.clock.now + seconds, self.after))
        return self.clock.now >= self.after

    def recv_bytes(self, most):
        return pickle.dumps(Answer(0, PROCESS_ID, self.reply))


@pytest.fixture
def process(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(process_module, "time", clock)
    started = MethodProcess(MethodSetup(MethodSpec("m"), "d"), Limits(2.0, 1.0))
    started.process = type("Running", (), {"poll": lambda self: None, "pid": PROCESS_ID})()
    monkeypatch.setattr(started, "_send", lambda requests: None)
    monkeypatch.setattr(started, "_memory_gb", lambda: 0.1)
    monkeypatch.setattr(started, "close", lambda: None)
    started.clock = clock
    return started


@pytest.mark.parametrize(
    ("pairs", "seconds", "status"), [(1, 1.9, "ok"), (1, 2.2, "timeout"), (3, 5.9, "ok"), (3, 6.2, "timeout")]
)
def test_the_limit_ends_a_call_at_that_time_and_no_later(process, pairs, seconds, status):
    process._replies = Pipe(process.clock, seconds, Reply(time_ms=1e3 * seconds))
    reply = process.call(RegisterRequest([CLOUD] * pairs, [CLOUD] * pairs, 0))
    assert reply.status == status and process.clock.now == pytest.approx(min(seconds, 2.0 * pairs), abs=0.06)


@pytest.mark.parametrize(("ms", "status"), [(1999.0, "ok"), (2001.0, "timeout")])
def test_a_reply_that_waited_is_judged_by_its_own_time(process, ms, status):
    process._replies = Pipe(process.clock, 0.0, Reply(time_ms=ms))
    process._unanswered, process._last_reply = 1, -3.0  # sent ahead
    reply = process.call(RegisterRequest([CLOUD], [CLOUD], 0))
    assert reply.status == status and reply.time_ms == ms


@pytest.mark.parametrize("ms", [-2.6e6, 1.0, 1e7, np.nan, np.inf])
def test_a_time_that_contradicts_the_clock_of_the_parent_is_replaced_by_it(process, ms):
    """As where a method replaces the clock of its process."""
    process.limits = Limits(20.0, 1.0)
    process._replies = Pipe(process.clock, 4.0, Reply(pairs=[PairReply(pose=np.eye(4))], time_ms=ms, stages={"a": ms}))
    reply = process.call(RegisterRequest([CLOUD], [CLOUD], 0))
    assert reply.status == "ok" and reply.time_ms == pytest.approx(4000, abs=60) and reply.stages == {}
