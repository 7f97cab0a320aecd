"""Ctrl-C, and what a lost worker costs: work that is finished is kept, and nothing waits for what is not."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import psutil
import pytest

from bench.execution import pool_worker
from bench.isolation import interrupt
from bench.isolation.process import PIPELINE_BELOW_S, ROOT, MethodProcess
from bench.isolation.protocol import Limits, MethodSetup, PairReply, Reply
from bench.planning.tasks import (
    BATCHES_PER_WORKER,
    PROBLEMS_PER_BATCH,
    PROBLEMS_PER_TASK,
    ProblemGroup,
    Task,
    batch_tasks,
)
from common.errors import InputError
from datasets.problems import Problem, ProblemKey
from datasets.registry import DataRegistry
from methods.core.registry import MethodSpec
from tests.bench.plugins.held import GATE
from tests.bench.test_run import PLUGINS, _count
from tests.bench.waiting import FAULT_S, wait_until

ASKED = "--datasets blobs --conditions noisy --points 60 --timing-rounds 0 --timeout 3600 --out stopped".split()
"""No call times out: a run that waits for one that is stuck never ends."""
PATIENT = """
import sys
from bench.cli.main import main
from bench.isolation import interrupt
interrupt.GRACE_S = 60
sys.exit(main())
"""
"""The command line, with time for workers to hand in on a machine where a second may pass before they are given any."""


def start(folder, *asked, run=(str(ROOT / "bench.py"),)):
    """A run in a process group of its own, as a shell gives it one; `folder / "gate"` holds its calls."""
    command = [sys.executable, *run, *ASKED, *asked, "--plugins", str(PLUGINS)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    (folder / "gate").mkdir(exist_ok=True)
    env = os.environ | {"PYTHONPATH": str(ROOT), GATE: str(folder / "gate")}
    # What a shell starts in the background ignores SIGINT, and so does all that it starts, these tests and their runs.
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    return subprocess.Popen(command, cwd=folder, env=env, start_new_session=True, **heard, **pipes)


def wait_for(true, process):
    """Wait until a condition holds while a run goes on."""
    wait_until(lambda: process.poll() is not None or true())
    assert process.poll() is None, process.communicate()


def methods_below(process):
    """Processes of a method among the descendants of a run."""
    found = []
    with contextlib.suppress(psutil.Error):  # they come and go
        found = psutil.Process(process.pid).children(recursive=True)
    return [p for p in found if "bench.isolation.server" in _command(p)]


def _command(process):
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def ended(processes):
    """Whether processes end, now or after the moment that a busy machine takes for it."""
    return not psutil.wait_procs(processes, timeout=FAULT_S)[1]


@pytest.mark.parametrize("to", ["driver", "group"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_ends_a_run_whose_methods_sit_in_native_code(tmp_path, jobs, to):
    """`bad_deaf` ignores SIGINT and holds the interpreter lock. Calls before it are finished but not yet handed in."""
    asked = ["--methods", "slow[seconds=0]", "bad_deaf", "--problems", str(4 * jobs), "--jobs", str(jobs)]
    process = start(tmp_path, *asked)
    record = tmp_path / "results" / "stopped" / "record.sqlite"
    wait_for(lambda: _count(record) == 4 * jobs and list((tmp_path / "gate").glob("deaf_*")), process)
    below = methods_below(process)
    (os.kill if to == "driver" else os.killpg)(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=FAULT_S)
    assert process.returncode == 130 and "Traceback" not in said, said
    assert "continue" in said and "bench.py --datasets" in said
    assert _count(record) == 4 * jobs
    assert below and ended(below)


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_hands_in_what_workers_have_finished(tmp_path, jobs):
    """A piece of twenty calls is in the middle; its finished part is in the record, and the same command continues."""
    asked = ["--methods", "held[free=5]", "--problems", "40", "--jobs", str(jobs)]
    process = start(tmp_path, *asked, run=("-c", PATIENT))
    record, gate = tmp_path / "results" / "stopped" / "record.sqlite", tmp_path / "gate"
    wait_for(lambda: len(list(gate.glob("held_*"))) == jobs, process)
    time.sleep(0.5)  # for their workers to have read the five answers
    assert _count(record) == 0
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=FAULT_S)
    assert process.returncode == 130, said
    after = _count(record)
    assert 0 < after <= 5 * jobs
    (gate / "open").touch()
    process = start(tmp_path, *asked)
    out, said = process.communicate(timeout=FAULT_S)
    assert process.returncode == 0, said
    assert f"continuing: {after} outcomes" in out and re.search(rf"registering: {40 - after} of {40 - after}", out)


class Asked(MethodProcess):
    """A child that answers at once; time passes on its clock alone, `clock.call` seconds a problem."""

    def __init__(self, clock):
        super().__init__(MethodSetup(MethodSpec("m"), "d"), Limits(600, 8))
        self.clock = clock

    def _call(self, requests, timeout):
        n = len(requests[0].sources)
        self.clock.now += self.clock.call * n
        return Reply(pairs=[PairReply(pose=np.eye(4))] * n, time_ms=1e3 * self.clock.call * n)


@pytest.fixture
def clock(monkeypatch):
    """Time that passes by calls alone; a call takes `clock.call` seconds."""

    class Clock:
        now, call = 0.0, 1.0

        def monotonic(self):
            return self.now

    made, cloud = Clock(), np.zeros((10, 3), np.float32)
    monkeypatch.setattr(pool_worker, "time", made)
    monkeypatch.setattr(ProblemGroup, "problem", lambda _, key: Problem(key, cloud, cloud, np.eye(4), np.eye(4), {}))
    monkeypatch.setattr(pool_worker, "_process_for", lambda *_: Asked(made))
    monkeypatch.setattr(interrupt, "install_handler", lambda: None)
    return made


def piece(n=PROBLEMS_PER_TASK, batch=1):
    keys = tuple(ProblemKey("d", "noisy", 10, i) for i in range(n))
    group = ProblemGroup(DataRegistry.at().spec("shapes40"), "noisy", 10, 10, "d", keys)
    return Task(MethodSetup(MethodSpec("m"), "d"), group, keys, Limits(600, 8), batch=batch)


def solved(*load):
    return [outcome for _, some in pool_worker.solve_batch(list(load)) for outcome in some]


@pytest.mark.parametrize("call", [0.001, 0.7, 4.0, 14.9, 44.0])
def test_a_lost_worker_costs_a_minute_at_most_unless_a_single_call_takes_longer(clock, call):
    clock.call = call
    outcomes = solved(piece())
    ahead = call if call < PIPELINE_BELOW_S else 0.0  # one more was sent
    assert outcomes and clock.now <= pool_worker.FLUSH_INTERVAL_S + call + ahead + 1e-9 < 60
    assert len(outcomes) == PROBLEMS_PER_TASK or clock.now > pool_worker.FLUSH_INTERVAL_S, (
        "no less than fits is handed in"
    )


def test_a_call_is_not_cut_and_a_batch_is_one_call(clock):
    clock.call = 100.0
    assert len(solved(piece())) == 1
    clock.call = 1.0
    assert [o.batch for o in solved(piece(64, batch=32))] == [32] * 32


def test_the_pieces_of_a_load_share_the_patience_and_each_outcome_comes_with_its_piece(clock):
    load = [piece(), piece(64, batch=32), piece(3)]
    clock.call = 0.01
    found = pool_worker.solve_batch(load)
    assert [(of, [o.batch for o in some]) for of, some in found] == list(
        zip(load, ([1] * PROBLEMS_PER_TASK, [32] * 64, [1] * 3), strict=True)
    )
    clock.call = 1.0
    assert len(solved(*3 * [piece(10)])) == pool_worker.FLUSH_INTERVAL_S + 1


@pytest.mark.parametrize("call", [0.1, 1.0])
def test_data_that_break_end_a_load_but_lose_nothing_finished(clock, monkeypatch, call):
    usual = ProblemGroup.problem

    def problem(group, key):
        if key.index == 2:
            raise InputError("shape 2: damaged")
        return usual(group, key)

    monkeypatch.setattr(ProblemGroup, "problem", problem)
    clock.call = call
    outcomes = solved(piece())
    assert [o.problem for o in outcomes] == [key.id for key in piece().keys[:2]]
    with pytest.raises(InputError, match="shape 2"):
        solved(replace(piece(), keys=piece().keys[2:]))


def test_loads_hold_each_piece_once_and_one_process_and_leave_work_for_all():
    pieces = [
        Task(MethodSetup(MethodSpec(m), "d"), None, tuple(range(n)), Limits(1, 1))
        for m in "abcdefgh"
        for n in (20, 20, 5)
    ]
    for workers in (1, 2, 100):
        loads = batch_tasks(pieces, workers)
        assert [p for load in loads for p in load] == pieces
        assert all(len({p.setup for p in load}) == 1 for load in loads)
    assert len(batch_tasks(pieces, 1)) < len(pieces) == len(batch_tasks(pieces, 100))
    many = batch_tasks(pieces * 40, 2)
    assert (
        max(sum(len(p.keys) for p in load) for load in many) <= PROBLEMS_PER_BATCH
        and len(many) >= BATCHES_PER_WORKER * 2
    )
    assert batch_tasks([], 2) == []


def test_a_worker_that_was_asked_to_stop_takes_no_more(clock, monkeypatch):
    monkeypatch.setattr(interrupt, "requested", lambda: clock.now >= 3)
    assert len(solved(piece())) == 3


def test_a_call_given_up_keeps_those_before_it(clock, monkeypatch):
    given = Asked._call

    def call(child, *rest):
        if clock.now >= 2:
            raise interrupt.Interrupted
        return given(child, *rest)

    monkeypatch.setattr(Asked, "_call", call)
    assert len(solved(piece())) == 2


def test_a_grace_that_runs_out_as_the_block_ends_interrupts_nothing_after_it(monkeypatch):
    """The clock fires while the block is left: its signal must not come once the handler before is back."""
    monkeypatch.setattr(interrupt, "GRACE_S", 0.0)
    fire, fired = signal.pthread_kill, []

    def late(*to):
        wait_until(lambda: ended_block)
        time.sleep(0.1)  # the block waits for it, however long it takes
        fired.append(fire(*to))

    ended_block = []
    monkeypatch.setattr(signal, "pthread_kill", late)
    before = signal.signal(signal.SIGINT, lambda *_: pytest.fail("a signal of the clock came after the block"))
    try:
        with pytest.raises(KeyboardInterrupt), interrupt.on_interrupt(lambda: None):
            os.kill(os.getpid(), signal.SIGINT)
            ended_block.append(True)
        assert fired
        time.sleep(0.01)
    finally:
        signal.signal(signal.SIGINT, before)
