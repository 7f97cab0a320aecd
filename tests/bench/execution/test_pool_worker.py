"""Pool workers: how long they keep outcomes, and what survives errors and interrupts."""

from dataclasses import replace

import numpy as np
import pytest

from bench.execution import pool_worker
from bench.isolation import interrupt
from bench.isolation.process import BURST, BURST_BELOW_S, PIPE_BYTES, PIPELINE_BELOW_S, MethodProcess
from bench.isolation.protocol import Limits, MethodSetup, PairReply, Reply
from bench.planning.tasks import (
    PROBLEMS_PER_TASK,
    ProblemGroup,
    Task,
)
from bench.storage.database import ResultsDatabase
from bench.storage.outcome import Status
from common.errors import InputError
from datasets.conditions import ConditionSpec
from datasets.problems import Problem, ProblemKey, call_seed
from datasets.registry import DataRegistry
from methods.core.registry import MethodSpec


class InstantProcess(MethodProcess):
    """Method process that replies at once; its clock advances by `clock.call` seconds per problem."""

    def __init__(self, clock):
        super().__init__(MethodSetup(MethodSpec("m"), "d"), Limits(600, 8))
        self.clock, self._pipe_bytes = clock, PIPE_BYTES

    def _call(self, requests, timeout):
        n = len(requests[0].sources)
        self.clock.now += self.clock.call * n
        return Reply(pairs=[PairReply(pose=np.eye(4))] * n, time_ms=1e3 * self.clock.call * n)


@pytest.fixture
def clock(monkeypatch):
    """Replace the time of pool workers by a clock that calls advance by `clock.call` seconds."""

    class Clock:
        now, call = 0.0, 1.0

        def monotonic(self):
            return self.now

    clock_, cloud = Clock(), np.zeros((10, 3), np.float32)
    monkeypatch.setattr(pool_worker, "time", clock_)
    monkeypatch.setattr(ProblemGroup, "problem", lambda _, key: Problem(key, cloud, cloud, np.eye(4), np.eye(4), {}))
    monkeypatch.setattr(pool_worker, "_process_for", lambda *_: InstantProcess(clock_))
    monkeypatch.setattr(interrupt, "install_handler", lambda: None)
    return clock_


def task(n=PROBLEMS_PER_TASK, batch=1):
    keys = tuple(ProblemKey("d", "noisy", 10, i) for i in range(n))
    group = ProblemGroup(DataRegistry.at().spec("shapes40"), ConditionSpec.parse("noisy"), 10, 10, "d", keys)
    return Task(MethodSetup(MethodSpec("m"), "d"), group, keys, Limits(600, 8), batch=batch)


def solved(*batch):
    return [outcome for part in pool_worker.solve_batch(list(batch)) for outcome in part.outcomes]


@pytest.mark.parametrize("call", [0.001, 0.7, 4.0, 14.9, 44.0])
def test_lost_worker_costs_at_most_a_minute_or_one_call(clock, call):
    clock.call = call
    outcomes = solved(task())
    ahead = call if call < PIPELINE_BELOW_S else 0.0  # one more was sent
    ahead *= BURST if call < BURST_BELOW_S else 1
    assert outcomes and clock.now <= pool_worker.FLUSH_INTERVAL_S + call + ahead + 1e-9 < 60
    assert len(outcomes) == PROBLEMS_PER_TASK or clock.now > pool_worker.FLUSH_INTERVAL_S, (
        "as many outcomes as fit are returned"
    )


def test_a_worker_handles_ctrl_c_before_it_solves_anything(clock, monkeypatch):
    handled = []
    monkeypatch.setattr(interrupt, "install_handler", lambda: handled.append(clock.now))
    assert solved(task(2)) and handled == [0.0]


def test_call_is_not_interrupted_and_a_batch_is_one_call(clock):
    clock.call = 100.0
    assert len(solved(task())) == 1
    clock.call = 1.0
    assert [o.batch for o in solved(task(64, batch=32))] == [32] * 32


def test_tasks_of_a_batch_share_the_flush_interval(clock):
    batch = [task(), task(64, batch=32), task(3)]
    clock.call = 0.01
    results = pool_worker.solve_batch(batch)
    assert [(part.task, [o.batch for o in part.outcomes]) for part in results] == list(
        zip(batch, ([1] * PROBLEMS_PER_TASK, [32] * 64, [1] * 3), strict=True)
    )
    clock.call = 1.0
    assert len(solved(*3 * [task(10)])) == pool_worker.FLUSH_INTERVAL_S + 1


@pytest.mark.parametrize("solves", [3, pool_worker.ROWS_AT_ONCE + 1])
@pytest.mark.parametrize("new", [False, True])
def test_a_worker_returns_what_is_stored_of_the_problems_it_solved_if_that_is_missing(clock, monkeypatch, new, solves):
    rows, clock.call = [], 0.5
    monkeypatch.setattr(ResultsDatabase, "problem_rows", lambda problems: [(p.key.id,) for p in problems])
    monkeypatch.setattr(interrupt, "requested", lambda: clock.now >= solves * clock.call)
    for part in pool_worker.solve_batch([replace(task(), new=new)]):
        rows += part.problems
        assert len(part.outcomes) == solves
    assert rows == [(key.id,) for key in task().keys[:solves]] * new


@pytest.mark.parametrize("call", [0.1, 1.0])
def test_broken_data_end_a_batch_but_keep_finished_outcomes(clock, monkeypatch, call):
    usual = ProblemGroup.problem

    def problem(group, key):
        if key.index == 2:
            raise InputError("shape 2: damaged")
        return usual(group, key)

    monkeypatch.setattr(ProblemGroup, "problem", problem)
    clock.call = call
    keys = task().keys
    for parts in ([keys], [keys[:1], keys[1:]], [keys[:2], keys[2:]]):
        outcomes = solved(*(replace(task(), keys=part) for part in parts))
        assert [o.problem for o in outcomes] == [key.id for key in keys[:2]]
    with pytest.raises(InputError, match="shape 2"):
        solved(replace(task(), keys=task().keys[2:]))


def test_interrupted_worker_starts_no_more_calls(clock, monkeypatch):
    monkeypatch.setattr(interrupt, "requested", lambda: clock.now >= 3)
    assert len(solved(task())) == 3


def test_abandoned_call_keeps_the_outcomes_before_it(clock, monkeypatch):
    given = InstantProcess._call

    def call(process, *rest):
        if clock.now >= 2:
            raise interrupt.Interrupted
        return given(process, *rest)

    monkeypatch.setattr(InstantProcess, "_call", call)
    assert len(solved(task())) == 2


@pytest.mark.parametrize("repeat", [0, 2])
def test_a_call_gets_its_clouds_in_order_and_the_seed_of_its_first_problem(repeat):
    clouds = [np.full((4, 3), i, np.float32) for i in range(6)]
    problems = [
        Problem(ProblemKey("d", "noisy", 4, i), clouds[i], clouds[i + 3], np.eye(4), np.eye(4), {}) for i in range(3)
    ]
    request = pool_worker._request(MethodSetup(MethodSpec("m"), "d"), problems, repeat)
    assert request.seed == call_seed(problems[0], "m", repeat) != call_seed(problems[-1], "m", repeat)
    assert [cloud[0, 0] for cloud in (*request.sources, *request.targets)] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("status", "shift", "expected"), [("ok", 1.0, "ok"), ("ok", 1e9, "invalid"), ("no_solution", 1e9, "no_solution")]
)
def test_a_pose_that_moves_the_source_absurdly_far_is_invalid(status, shift, expected):
    """Each pose of a batch is compared with its own clouds."""
    pose, small, large = np.eye(4), np.ones((3, 3), np.float32), np.full((3, 3), 1e9, np.float32)
    pose[0, 3] = shift
    reply = Reply(pairs=[PairReply(Status(status), pose=pose)] * 2)
    first, second = pool_worker.validate_reply(reply, [(small, small), (large, small)])
    assert (first.status, second.status) == (expected, status)
    assert ("translation" in first.message) == (expected == "invalid")


@pytest.mark.parametrize("parent", [None, 7])
def test_a_worker_of_this_machine_ends_with_its_parent_and_keeps_its_memory(clock, monkeypatch, parent):
    done = []
    monkeypatch.setattr(pool_worker.guard, "end_with_parent", lambda pid: done.append(pid))
    monkeypatch.setattr(pool_worker, "keep_freed_memory", lambda: done.append("memory"))
    assert pool_worker.solve_batch([task(1)], parent) and done == ([] if parent is None else [7, "memory"])


def test_a_batch_is_solved_by_the_process_of_its_first_task_and_empty_parts_are_left_out(clock, monkeypatch):
    asked, usual = [], pool_worker._process_for
    monkeypatch.setattr(pool_worker, "_process_for", lambda *given: asked.append(given) or usual(*given))
    first, second = replace(task(2), limits=Limits(5, 6)), task(20)
    monkeypatch.setattr(interrupt, "requested", lambda: clock.now >= 2)
    assert [part.task for part in pool_worker.solve_batch([first, second])] == [first]
    assert asked == [(first.setup, first.limits)]


@pytest.mark.parametrize("sizes", [(1,), (3, 1, 4)])
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_problems_are_generated_task_by_task_in_batches(monkeypatch, sizes, batch):
    monkeypatch.setattr(ProblemGroup, "problem", lambda _, key: key)
    tasks = [task(n, batch=batch) for n in sizes]
    parts = list(pool_worker._generate_ahead(tasks))
    expected = [
        (i, list(t.keys[first : first + batch])) for i, t in enumerate(tasks) for first in range(0, len(t.keys), batch)
    ]
    assert parts == expected
    cloud = np.zeros((2, 3), np.float32)
    problems = [Problem(k, cloud[: 1 + k.index % 2], cloud, np.eye(4), np.eye(4), {}) for k in task(3).keys]
    calls = list(pool_worker._calls([replace(tasks[0], repeat=2)], [(0, problems)]))
    assert [what for what, _ in calls] == [(0, [problems[0], problems[2]]), (0, [problems[1]])]
    assert [request.seed for _, request in calls] == [call_seed(p, "m", 2) for p in problems[:2]]
