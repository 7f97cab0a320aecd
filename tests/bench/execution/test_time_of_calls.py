"""What counts as the time of a call: all of it, divided by the pairs of a batch, and no more than the limit."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from bench.execution import timing
from bench.execution.pool_worker import to_outcomes
from bench.execution.progress import ProgressBar
from bench.execution.timing import TimedCall, TimingPhase
from bench.isolation import measure as measure_module
from bench.isolation import process as process_module
from bench.isolation import server
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup, PairReply, RegisterRequest, Reply, pack_reply
from bench.planning.tasks import ProblemGroup
from bench.storage.outcome import Outcome, Phase, Status
from datasets.conditions import ConditionSpec
from datasets.problems import Problem, ProblemKey
from datasets.registry import DataRegistry
from methods.base import Method
from methods.core.registry import MethodSpec
from tests.bench.command_line import PLUGINS
from tests.catalog import spec

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
        return pack_reply(self.process._answered, PROCESS_ID, self.reply)


@pytest.fixture
def process(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(process_module, "time", clock)
    started = MethodProcess(MethodSetup(MethodSpec("m"), "d"), Limits(2.0, 1.0))
    started.process = type("Running", (), {"poll": lambda self: None, "pid": PROCESS_ID})()
    sent = started._unanswered
    monkeypatch.setattr(started, "_send", lambda requests: sent or sent.append(process_module._Sent(clock.now, 0)))
    monkeypatch.setattr(started, "_memory_gb", lambda: 0.1)
    monkeypatch.setattr(started, "close", sent.clear)
    started.clock, Pipe.process = clock, started
    return started


def sent_ahead(process):
    """Let a call be sent before, to a process that was free."""
    process._free_s = -3.0
    process._unanswered.append(process_module._Sent(-3.0, 0))


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
    sent_ahead(process)
    reply = process.call(RegisterRequest([CLOUD], [CLOUD], 0))
    assert reply.status == status and reply.time_ms == ms


@pytest.mark.parametrize("ms", [-2.6e6, 1.0, 1e7, np.nan, np.inf])
def test_a_time_that_contradicts_the_clock_of_the_parent_is_replaced_by_it(process, ms):
    """As where a method replaces the clock of its process."""
    process.limits = Limits(20.0, 1.0)
    process._replies = Pipe(process.clock, 4.0, Reply(pairs=[PairReply(pose=np.eye(4))], time_ms=ms, stages={"a": ms}))
    reply = process.call(RegisterRequest([CLOUD], [CLOUD], 0))
    assert reply.status == "ok" and reply.time_ms == pytest.approx(4000, abs=60) and reply.stages == {}


@pytest.mark.parametrize("now", [0.0, 5e4])
def test_a_plausible_time_is_kept_whatever_the_clock_shows(process, now):
    process.limits, process.clock.now = Limits(20.0, 1.0), now
    reply = Reply(pairs=[PairReply(pose=np.eye(4))], time_ms=3950.0, stages={"a": 3000.0})
    process._replies = Pipe(process.clock, now + 4.0, reply)
    reply = process.call(RegisterRequest([CLOUD], [CLOUD], 0))
    assert (reply.status, reply.time_ms, reply.stages) == ("ok", 3950.0, {"a": 3000.0})


@pytest.mark.parametrize(("claims", "expected"), [
    ((1000.0, 1900.0), (1000.0, 1900.0)),
    ((1000.0, 2100.0), (1000.0, 2000.0)),
    ((3100.0, 1.0), (3000.0, 0.0)),
])  # fmt: skip
def test_calls_of_a_burst_take_no_longer_together_than_from_their_requests_to_their_replies(process, claims, expected):
    """Both replies are read at once: the second call was not made in the time between the two readings."""
    process.limits = Limits(20.0, 1.0)
    sent_ahead(process)
    sent_ahead(process)
    times = []
    for claim in claims:
        process._replies = Pipe(process.clock, 0.0, Reply(pairs=[PairReply(pose=np.eye(4))], time_ms=claim))
        times.append(process.call(RegisterRequest([CLOUD], [CLOUD], 0)).time_ms)
    assert times == pytest.approx(expected)


def test_a_call_did_not_begin_before_it_was_sent(process):
    process.limits, process._free_s = Limits(20.0, 1.0), -9.0
    process._unanswered.append(process_module._Sent(-3.0, 0))
    process._replies = Pipe(process.clock, 0.0, Reply(pairs=[PairReply(pose=np.eye(4))], time_ms=5000.0))
    assert process.call(RegisterRequest([CLOUD], [CLOUD], 0)).time_ms == 3000.0


class Database:
    """What the timing phase stores."""

    def __init__(self, done=()):
        self.values, self.outcomes, self.problems, self.done = {"warm_up_s": 2.0}, [], [], set(done)
        self.get, self.put = self.values.get, self.values.__setitem__

    def finished_keys(self, phase):
        return {key[1:] for key in self.done if key[0] == phase}

    def add_outcomes(self, outcomes, kind, group):
        self.outcomes.append((list(outcomes), kind, group))

    def add_problems(self, problems):
        self.problems += problems


class Console:
    is_terminal = False

    def print(self, *_, **__):
        pass


ONE, MANY = spec("good", PLUGINS), spec("together", PLUGINS)


def timed_group(points, condition="noisy", keys=(), skip=""):
    shapes = DataRegistry.at().spec("shapes40")
    return ProblemGroup(shapes, ConditionSpec.parse(condition), points, points, "d", keys, skip)


@pytest.fixture
def phase(monkeypatch):
    """A timing phase of two methods and two sizes, whose calls take as many seconds of a clock as they have pairs."""
    clock, made = Clock(), []
    config = SimpleNamespace(
        timing_rounds=3, angles=(0.0, 60.0, 120.0), seed=7, sampler="haar", timing_budget_s=100.0, datasets=()
    )
    phase = object.__new__(TimingPhase)
    groups, processes = [timed_group(60), timed_group(80)], {}
    for method in (ONE, MANY):
        processes[method] = SimpleNamespace(setup=MethodSetup(method, "d"), start=lambda: None, close=lambda: None)
    monkeypatch.setattr(timing, "method_setup", lambda config, method, group: method)
    monkeypatch.setattr(timing, "MethodProcess", lambda method, limits: processes[method])
    monkeypatch.setattr(TimingPhase, "_make_groups", lambda self: groups)
    config.methods, config.call_limits = (ONE, MANY), None
    phase.__init__(Database(), config, {ONE, MANY}, SimpleNamespace(console=Console(), jobs=1))
    monkeypatch.setattr(timing, "time", clock)
    monkeypatch.setattr(ProblemGroup, "problem", lambda group, key: key)

    def solve(process, problems, of, repeat):
        made.append((process.setup.method.text, problems, of, repeat))
        clock.now += len(problems)
        return [Outcome(process.setup.method.text, key.id, Status.OK, of, repeat) for key in problems]

    monkeypatch.setattr(timing.pool_worker, "solve_problems", solve)
    phase.clock, phase.made = clock, made
    return phase


def test_methods_are_timed_in_turn_first_one_pair_at_a_time_then_batches(phase):
    calls = list(phase._calls())
    sizes = [(call.method, call.round, call.group.points, len(call.keys), call.phase) for call in calls]
    single = [(m, r, n, 1, "timing") for r in range(3) for n in (60, 80) for m in (ONE, MANY)]
    assert sizes == single + [(MANY, r, n, 32, "batch") for r in range(3) for n in (60, 80)]
    for call in calls[:12]:
        bounds = [(0.0, 60.0), (60.0, 120.0)][call.round % 2]
        key = ProblemKey("shapes40", "noisy", call.group.points, call.round, 7, "test", "haar", bounds)
        assert call.keys == (key,)
    for call in calls[12:]:
        keys = [
            ProblemKey("shapes40", "noisy", call.group.points, i, 7, "test", "haar", (0.0, 120.0)) for i in range(32)
        ]
        assert call.keys == tuple(keys)


def test_a_gpu_gets_a_call_that_is_not_stored_before_each_timed_one(phase):
    """Its clocks fall while other methods are timed."""
    phase.processes[ONE].setup = MethodSetup(ONE, "d", "cuda:0")
    for method, made in ((ONE, 2), (MANY, 1)):
        call = next(call for call in phase._calls() if call.method == method)
        phase.warm.add((method, call.group.points, call.phase))
        phase.made.clear()
        assert len(phase._time(call)) == 1
        assert phase.made == [(method.text, list(call.keys), call.phase, call.round)] * made


@pytest.mark.parametrize("pairs", [1, 2, 40])
def test_real_pairs_are_timed_at_their_own_poses(phase, pairs):
    keys = tuple(ProblemKey("shapes40", "real", 60, i) for i in range(pairs))
    phase.groups[:] = [timed_group(60, "real", keys)]
    calls = list(phase._calls())
    assert [call.keys for call in calls if call.method == ONE] == [(keys[r % pairs],) for r in range(3)]
    batches = [call.keys for call in calls if call.phase == Phase.BATCH]
    assert batches == ([keys[:32]] * 3 if pairs > 1 else [])


def test_every_method_warms_up_once_per_size_and_phase_and_warm_up_is_not_timed(phase):
    calls = list(phase._calls())
    first = phase._first_calls(calls)
    assert {m: [(c.phase, c.round, c.group.points) for c in some] for m, some in first.items()} == {
        ONE: [("timing", 0, 60), ("timing", 0, 80)],
        MANY: [("timing", 0, 60), ("timing", 0, 80), ("batch", 0, 60), ("batch", 0, 80)],
    }
    for some in first.values():
        phase._start(some)
    assert phase.warm_up_s == {(ONE, "timing"): 2, (MANY, "timing"): 2, (MANY, "batch"): 64} and not phase.spent_s
    assert len(phase.warm) == 6
    outcomes = [phase._time(call) for call in calls[:3]]
    assert phase.spent_s == {(ONE, "timing"): 2, (MANY, "timing"): 1} and len(phase.made) == 9
    assert [(o[0].problem, o[0].repeat, o[0].status) for o in outcomes] == [(c.keys[0].id, 0, "ok") for c in calls[:3]]
    assert phase.database.problems == [c.keys[0] for c in calls[:3]]
    skipped = [TimedCall(ONE, 0, timed_group(9, skip="too few points"), (ProblemKey("d", "noisy", 9, 0),))]
    assert phase._first_calls(skipped) == {}
    (outcome,) = phase._time(skipped[0])
    assert (outcome.status, outcome.message, outcome.phase) == ("skipped", "too few points", "timing")


def test_a_method_is_timed_until_its_budget_is_spent(phase):
    calls = [call for call in phase._calls() if call.method == ONE]
    phase.config.timing_budget_s = 2.0
    phase._start(phase._first_calls(calls)[ONE])
    outcomes = [phase._time(call)[0] for call in calls]
    assert [o.status for o in outcomes] == ["ok"] * 3 + ["skipped"] * 3, (
        "more than two seconds are spent after three calls"
    )
    assert outcomes[3].message == "the timing budget of 2 s a method is spent" and outcomes[3].seed == 7
    assert [o.repeat for o in outcomes] == [0, 0, 1, 1, 2, 2]


def test_a_size_that_is_not_warm_is_warmed_up_before_it_is_timed_or_skipped_if_warm_up_took_too_long(phase):
    call = next(phase._calls())
    assert phase._time(call)[0].status == "ok"
    assert [repeat for _, _, _, repeat in phase.made] == [0, 0] and phase.spent_s[ONE, "timing"] == 1
    assert phase._time(call)[0].status == "ok" and len(phase.made) == 3, "now it is warm"
    phase.warm.clear()
    phase.warm_up_s[ONE, "timing"] = 101.0
    assert phase._time(call)[0].status == "skipped" and len(phase.made) == 3


@pytest.mark.parametrize("reason", ["ctrl_c", "end"])
def test_no_problem_is_generated_after_ctrl_c_or_the_end_of_the_phase(phase, monkeypatch, reason):
    call = next(phase._calls())
    assert len(phase._problems(call)) == len(call.keys)
    if reason == "end":
        phase.ended.set()
    else:
        monkeypatch.setattr(timing.interrupt, "requested", lambda: True)
    with pytest.raises(timing.interrupt.Interrupted):
        phase._problems(call)


@pytest.mark.parametrize("done", [0, 5, 17, 18])
def test_a_run_times_what_is_left_with_the_sentinel_at_start_middle_and_end(phase, monkeypatch, done):
    calls = list(phase._calls())
    phase.database.done = {(c.phase, c.method.text, c.keys[-1].id, c.round) for c in calls[:done]}
    seen = []
    monkeypatch.setattr(timing, "sentinel_ms", lambda: seen.append(len(phase.database.outcomes)) or 5.0)
    before = set(threading.enumerate())
    phase.run()
    assert set(threading.enumerate()) <= before, "the threads that start methods end with the phase"
    left = len(calls) - done
    assert len(phase.database.outcomes) == left and phase.ended.is_set()
    assert seen == sorted({0, left // 2, left - 1} if left else [])
    kinds = [(len(o), kind, group) for o, kind, group in phase.database.outcomes]
    assert kinds == [(len(c.keys), c.method.kind, ("shapes40", "noisy", c.group.points)) for c in calls[done:]]
    if left:
        assert phase.database.values["sentinel_ms"] == [5.0] * len(seen)
        assert phase.database.values["warm_up_s"] == 2.0 + sum(phase.warm_up_s.values()) > 2.0
    else:
        assert phase.database.values == {"warm_up_s": 2.0}


def test_progress_counts_every_warm_up_and_every_timed_call(phase, monkeypatch):
    bars = []

    class Bar(ProgressBar):
        """A bar that writes down what it shows."""

        def __init__(self, console, title, total):
            super().__init__(console, title, total)
            bars.append((title, total, self.steps))

        steps = property(lambda self: self.__dict__.setdefault("shown", []))

        def advance(self, n, what):
            self.steps.append((n, what))

    monkeypatch.setattr(timing, "ProgressBar", Bar)
    monkeypatch.setattr(timing, "sentinel_ms", lambda: 5.0)
    calls = list(phase._calls())
    phase.run()
    (warm_up, methods, warmed), (title, total, timed) = bars
    assert (warm_up, methods, sorted(warmed)) == ("warming up", 2, [(1, ONE.text), (1, MANY.text)])
    assert (title, total) == ("timing", len(calls))
    assert timed == [(1, f"{call.method} at {call.group.points} points") for call in calls]


def test_a_batch_of_several_sizes_is_one_call_for_each_size():
    sizes = [(5, 5), (5, 6), (5, 5), (4, 5)]
    problems = [
        Problem(ProblemKey("d", "noisy", 5, i), np.zeros((n, 3)), np.zeros((m, 3)), np.eye(4), np.eye(4), {})
        for i, (n, m) in enumerate(sizes)
    ]
    calls = []

    def call(request):
        calls.append([(len(a), len(b)) for a, b in zip(request.sources, request.targets, strict=True)])
        return Reply(pairs=[PairReply(pose=np.eye(4))] * len(request.sources), time_ms=10.0)

    process = SimpleNamespace(setup=MethodSetup(MethodSpec("m"), "d", "cuda:0", 3), call=call)
    outcomes = timing.pool_worker.solve_problems(process, problems, Phase.TIMING, 2)
    assert calls == [[(5, 5), (5, 5)], [(5, 6)], [(4, 5)]]
    assert [o.problem[-1] for o in outcomes] == ["0", "2", "1", "3"] and [o.time_ms for o in outcomes] == [5, 5, 10, 10]
    assert {(o.method, o.phase, o.repeat, o.device, o.threads) for o in outcomes} == {("m", "timing", 2, "cuda:0", 3)}


@pytest.mark.parametrize("n", [1, 3])
def test_fields_of_a_reply_reach_the_outcomes(n):
    problems = [
        Problem(ProblemKey("d", "noisy", 5, i, 4 + i), CLOUD, CLOUD, np.eye(4), np.eye(4), {}) for i in range(n)
    ]
    mirror, skew = np.diag([1.0, 1, -1, 1]), np.eye(4) + 0.1
    pairs = [PairReply(pose=np.eye(4)), PairReply(Status.NO_SOLUTION, message="none"), PairReply(pose=mirror)][:n]
    reply = Reply(pairs=pairs, time_ms=6.0, peak_mb=2.0, gpu_memory_mb=3.0, notes={"a": 1}, stages={"solve": 3.0})
    setup = MethodSetup(MethodSpec("m"), "d", "cuda:1", 2)
    outcomes = to_outcomes(setup, problems, reply, Phase.ACCURACY, 5)
    assert [o.status for o in outcomes] == ["ok", "no_solution", "invalid"][:n]
    flip = "the pose is a reflection; flip one axis so that the determinant is 1"
    assert [o.message for o in outcomes] == ["", "none", flip][:n]
    assert [o.seed for o in outcomes] == [4, 5, 6][:n] and [o.problem for o in outcomes] == [p.key.id for p in problems]
    assert [o.pose is None for o in outcomes] == [False, True, True][:n]
    for o in outcomes:
        assert (o.time_ms, o.peak_mb, o.gpu_memory_mb, o.batch) == (6.0 / n, 2.0, 3.0, n)
        assert (o.notes, o.stages, o.device, o.threads) == ({"a": 1}, {"solve": 3.0 / n}, "cuda:1", 2)
        assert (o.method, o.phase, o.repeat) == ("m", "accuracy", 5)
    for failed, status, message in [
        (Reply(Status.TIMEOUT, message="late"), "timeout", "late"),
        (Reply(Status.UNAVAILABLE, message="no package"), "skipped", "unavailable: no package"),
        (Reply(pairs=pairs + pairs), "invalid", f"register_batch returned {2 * n} results for {n} pairs"),
    ]:
        text = message if n == 1 else f"in a batch of {n}: {message}"
        got = to_outcomes(setup, problems, failed, Phase.BATCH, 0)
        assert [(o.status, o.message, o.pose) for o in got] == [(status, text, None)] * n
    (first, *_) = to_outcomes(setup, problems, Reply(pairs=[PairReply(pose=skew)] * n), Phase.BATCH, 0)
    assert first.status == "invalid" and first.message.startswith("the pose is not rigid: ")


@pytest.mark.parametrize("after", [0.0, 99.0])
def test_ctrl_c_abandons_a_call_unless_its_reply_is_there(process, monkeypatch, after):
    closed = []
    monkeypatch.setattr(process, "close", lambda: closed.append(True))
    monkeypatch.setattr(process_module.interrupt, "requested", lambda: True)
    process._replies = Pipe(process.clock, after, Reply(time_ms=1.0))
    if after:
        with pytest.raises(process_module.interrupt.Interrupted):
            process.call(RegisterRequest([CLOUD], [CLOUD], 0))
    else:
        sent_ahead(process)
        assert process.call(RegisterRequest([CLOUD], [CLOUD], 0)).time_ms == 1.0
    assert closed == ([True] if after else [])


def test_requests_keep_source_and_target_apart(process, monkeypatch):
    sent = []
    monkeypatch.setattr(process, "call", lambda request: sent.append(request) or Reply())
    source, target = np.zeros((3, 3)), np.ones((4, 3))
    process.register(source, target, 7)
    process.gaussians(source, target)
    assert (sent[0].sources, sent[0].targets, sent[0].seed) == ((source,), (target,), 7)
    assert sent[1].source is source and sent[1].target is target


def test_quick_problems_are_generated_in_the_same_thread(monkeypatch):
    threads, clock = [], iter([5.0, 5.009, 0.0, 0.01, 0.0, 0.0])

    def problem(group, key):
        threads.append(threading.current_thread() is threading.main_thread())
        return key

    monkeypatch.setattr(ProblemGroup, "problem", problem)
    monkeypatch.setattr(timing.pool_worker.time, "monotonic", lambda: next(clock))
    keys = [ProblemKey("d", "noisy", 5, i) for i in range(3)]
    task = SimpleNamespace(keys=keys, batch=1, group=timed_group(5))
    assert list(timing.pool_worker._generate_ahead([task])) == [(0, [key]) for key in keys]
    assert threads == [True, True, False]


@pytest.mark.parametrize("interrupted", [False, True])
def test_generation_ahead_has_ended_when_a_batch_ends_but_ctrl_c_does_not_wait_for_it(monkeypatch, interrupted):
    started, finish, ended = threading.Event(), threading.Event(), threading.Event()
    keys = [ProblemKey("d", "noisy", 5, i) for i in range(3)]

    def problem(group, key):
        if key.index == 1:
            started.set()
            finish.wait(0.3 if not interrupted else 30)
            ended.set()
        return key

    monkeypatch.setattr(ProblemGroup, "problem", problem)
    monkeypatch.setattr(timing.pool_worker, "AHEAD_FROM_S", 0.0)
    monkeypatch.setattr(timing.interrupt, "requested", lambda: interrupted)
    task = SimpleNamespace(keys=keys, batch=1, group=timed_group(5))
    ahead = timing.pool_worker._generate_ahead([task])
    assert next(ahead) == (0, keys[:1]) and started.wait(30)
    ahead.close()
    assert ended.is_set() != interrupted
    finish.set()


@pytest.mark.parametrize("gigabytes", [0.9, 1.1])
def test_memory_above_the_limit_ends_a_call_and_is_stated(process, monkeypatch, gigabytes):
    monkeypatch.setattr(process, "_memory_gb", lambda: gigabytes)
    process._replies = Pipe(process.clock, 0.3, Reply(time_ms=300.0))
    reply = process.call(RegisterRequest([CLOUD], [CLOUD], 0))
    assert reply.status == ("ok" if gigabytes < 1 else "out_of_memory")
    assert gigabytes < 1 or reply.message == "used 1.1 GB; the limit is 1 GB"
    late = Reply(time_ms=300.0, peak_mb=5.0, resident_mb=gigabytes * 1e9 / 2**20)
    process._replies = Pipe(process.clock, 0.0, late)
    sent_ahead(process)
    reply = process.call(RegisterRequest([CLOUD], [CLOUD], 0))
    assert (reply.status, reply.time_ms, reply.peak_mb) == ("ok" if gigabytes < 1 else "out_of_memory", 300.0, 5.0)


@pytest.mark.parametrize(("limit", "expected"), [(2.0, 600.0), (599.0, 600.0), (601.0, 601.0)])
def test_a_setup_has_ten_minutes_or_the_limit_of_a_call(monkeypatch, limit, expected):
    started, seen = MethodProcess(MethodSetup(MethodSpec("m"), "d"), Limits(limit, 1.0)), []
    started.process = object()
    monkeypatch.setattr(
        started, "_exchange", lambda requests, timeout: seen.append((requests, timeout)) or Reply(message="x")
    )
    other = MethodSetup(MethodSpec("n"), "d")
    assert started.set_up(other).message == started.ready.message == "x"
    assert seen == [([other], expected)] and started.setup is other


@pytest.mark.parametrize(("killed", "calls"), [([True, False], 2), ([True, True], 2), ([False], 1)])
def test_a_call_is_repeated_once_if_the_process_was_killed_from_outside(process, monkeypatch, killed, calls):
    replies = [Reply(Status.CRASH if k else Status.OK, killed=k) for k in killed]
    made = iter(replies)
    monkeypatch.setattr(process, "start", Reply)
    monkeypatch.setattr(process, "_exchange", lambda requests, timeout: next(made))
    assert process.call(RegisterRequest([CLOUD], [CLOUD], 0)) is replies[-1]
    assert len(list(made)) == len(killed) - calls
    monkeypatch.setattr(process, "start", lambda: Reply(Status.UNAVAILABLE, message="none"))
    assert process.call(RegisterRequest([CLOUD], [CLOUD], 0)).status == "unavailable", "without a setup no call is made"


def test_a_worker_keeps_one_process_until_another_setup_is_needed(monkeypatch):
    worker, events = timing.pool_worker, []

    class Kept:
        def __init__(self, setup, limits):
            events.append(("start", setup.domain, limits.timeout))
            self.setup = setup

        def close(self):
            events.append(("close", self.setup.domain))

    monkeypatch.setattr(worker, "MethodProcess", Kept)
    monkeypatch.setattr(worker, "_processes", {})
    one, two = (MethodSetup(MethodSpec("m"), domain) for domain in ("a", "b"))
    first = worker._process_for(one, Limits(1, 1))
    assert worker._process_for(one, Limits(2, 1)) is first and worker._process_for(two, Limits(3, 1)) is not first
    worker.close_all()
    assert events == [("start", "a", 1), ("close", "a"), ("start", "b", 3), ("close", "b")] and worker._processes == {}


def test_the_second_condition_of_the_first_data_set_is_timed_at_every_size():
    shapes = DataRegistry.at().spec("shapes40")
    config = SimpleNamespace(datasets=[shapes, None], timing_points=(64, 128, 64), problems=2, seed=3, sampler="haar")
    config.angles, config.kind, phase = (0.0, 90.0), None, object.__new__(TimingPhase)
    for texts, expected in ((["clean", "resampled", "noisy"], "resampled"), (["partial"], "partial")):
        config.conditions = [ConditionSpec.parse(text) for text in texts]
        phase.config = config
        groups = phase._make_groups()
        assert [(str(g.condition), g.points, len(g.keys)) for g in groups] == [(expected, 64, 2), (expected, 128, 2)]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_calls_follow_each_other_until_the_deadline_or_ctrl_c(monkeypatch, n):
    clock, worker = Clock(), timing.pool_worker
    monkeypatch.setattr(worker, "time", clock)
    seen = []
    for call in worker._until(float(n), iter(range(9))):
        seen.append(call)
        clock.now += 1.5
    assert seen == list(range(int(n // 1.5) + 1))
    monkeypatch.setattr(worker.interrupt, "requested", lambda: True)
    assert list(worker._until(99.0, iter(range(9)))) == [0]


@pytest.mark.parametrize(
    ("code", "ending"),
    [(0, "exit code 0"), (3, "exit code 3"), (-9, "SIGKILL"), (-11, "SIGSEGV"), (None, "exit code None")],
)
def test_the_end_of_a_process_is_described_with_its_last_three_lines(process, code, ending):
    process.process = SimpleNamespace(returncode=code, wait=lambda seconds: None)
    process._tail, process._tail_reader = bytearray(b"one\ntwo\nthree\nfour\n"), SimpleNamespace(join=lambda s: None)
    reply = process._post_mortem()
    assert (reply.status, reply.killed) == ("crash", code == -9)
    assert reply.message == f"the process ended with {ending} | two | three | four"
