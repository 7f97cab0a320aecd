"""Pool worker: generate a task's problems, run the method in its subprocess, validate the poses."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bench.isolation import guard, interrupt
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup, PairReply, Points, RegisterRequest, Reply
from bench.planning.tasks import Task
from bench.storage.database import ResultsDatabase, Row
from bench.storage.environment import machine, machine_facts
from bench.storage.outcome import Outcome, Phase, Status
from bench.storage.pose import pose_fault, translation_fault
from bench.storage.run_json import weights_of
from common.errors import InputError
from datasets.problems import Problem, call_seed

FLUSH_INTERVAL_S = 15.0
"""A worker returns its outcomes at least this often, or after one call if that takes longer."""

T = TypeVar("T")

_processes: dict[MethodSetup, MethodProcess] = {}
_lock = threading.Lock()  # a Dask worker may have several threads


@dataclass
class Solved:
    """What a worker returns of a task: outcomes, and the rows of their problems if the task is `new`."""

    task: Task
    outcomes: list[Outcome] = field(default_factory=list)
    problems: list[Row] = field(default_factory=list)

    def extend(self, problems: list[Problem], reply: Reply) -> None:
        """Add the outcomes of a call on problems."""
        self.outcomes += to_outcomes(self.task.setup, problems, reply, Phase.ACCURACY, self.task.repeat)
        if self.task.new:
            self.problems += ResultsDatabase.problem_rows(problems)


def solve_batch(tasks: list[Task], parent: int | None = None) -> list[Solved]:
    """Return the outcomes of tasks: of all their problems, or of those solved before the flush interval or Ctrl-C.

    Args:
        tasks: of one method.
        parent: id of the process with which this worker ends; None if another program manages the workers.

    Raises:
        InputError: the first problem, or the method's input, is broken. If a later problem is broken, the outcomes before
            it are returned; the remaining tasks, run again, begin with it.
    """
    interrupt.install_handler()
    if parent is not None:
        guard.end_with_parent(parent)
    solved = [Solved(task) for task in tasks]
    try:
        with _lock, contextlib.suppress(interrupt.Interrupted), contextlib.closing(_generate_ahead(tasks)) as generated:
            process = _process_for(tasks[0].setup, tasks[0].limits)
            calls = _until(time.monotonic() + FLUSH_INTERVAL_S, _calls(tasks, generated))
            with contextlib.closing(process.replies(calls)) as replies:
                for (number, problems), reply in replies:
                    solved[number].extend(problems, reply)
    except InputError:
        if not any(part.outcomes for part in solved):
            raise
    return [part for part in solved if part.outcomes]


def _calls(
    tasks: list[Task], generated: Iterable[tuple[int, list[Problem]]]
) -> Iterator[tuple[tuple[int, list[Problem]], RegisterRequest]]:
    """Yield the calls on problems, each with the task's number and its problems."""
    for number, problems in generated:
        for group in _same_sizes(problems):
            yield (number, group), _request(tasks[number].setup, group, tasks[number].repeat)


def _until(deadline: float, calls: Iterable[T]) -> Iterator[T]:
    """Yield one call, and more until the deadline or until Ctrl-C."""
    for call in calls:
        yield call
        if interrupt.requested() or time.monotonic() > deadline:
            return


def _generate_ahead(tasks: list[Task]) -> Generator[tuple[int, list[Problem]]]:
    """Yield the problems of tasks batch by batch with the task's number; generate the next while a method works."""

    def generate(number: int, task: Task, first: int) -> tuple[int, list[Problem]]:
        keys = task.keys[first : first + task.batch]
        return number, [task.group.problem(key) for key in keys]

    pool, pending = ThreadPoolExecutor(1), None
    try:
        for number, task in enumerate(tasks):
            for first in range(0, len(task.keys), task.batch):
                previous, pending = pending, pool.submit(generate, number, task, first)
                if previous:
                    yield previous.result()
        if pending:
            yield pending.result()
    finally:
        pool.shutdown(wait=not interrupt.requested(), cancel_futures=True)


def solve_problems(process: MethodProcess, problems: list[Problem], phase: Phase, repeat: int) -> list[Outcome]:
    """Run a method on problems. Pairs whose clouds have equal sizes are registered in one call."""
    setup, outcomes = process.setup, list[Outcome]()
    for group in _same_sizes(problems):
        reply = process.call(_request(setup, group, repeat))
        outcomes += to_outcomes(setup, group, reply, phase, repeat)
    return outcomes


def _same_sizes(problems: list[Problem]) -> list[list[Problem]]:
    """Group problems by the sizes of their clouds."""
    groups: dict[tuple[int, int], list[Problem]] = {}
    for problem in problems:
        groups.setdefault((len(problem.source), len(problem.target)), []).append(problem)
    return list(groups.values())


def _request(setup: MethodSetup, problems: list[Problem], repeat: int) -> RegisterRequest:
    """Build the request for problems, with the seed of the first. Only clouds and a seed leave this process."""
    seed = call_seed(problems[0], setup.method.text, repeat)
    return RegisterRequest([p.source for p in problems], [p.target for p in problems], seed)


def to_outcomes(setup: MethodSetup, problems: list[Problem], reply: Reply, phase: Phase, repeat: int) -> list[Outcome]:
    """Convert the reply to a call into one outcome per problem; a failed call fails each of its problems.

    Raises:
        InputError: the method's input is wrong.
    """
    n = len(problems)
    return [
        Outcome(
            setup.method.text,
            problem.key.id,
            pair.status,
            phase,
            repeat,
            problem.key.seed,
            pair.pose,
            time_ms=reply.time_ms / n,
            peak_mb=reply.peak_mb,
            message=pair.message,
            device=setup.device,
            threads=setup.threads,
            batch=n,
            stages={name: ms / n for name, ms in reply.stages.items()},
            notes=reply.notes,
            gpu_memory_mb=reply.gpu_memory_mb,
            machine=machine(),
        )
        for problem, pair in zip(problems, validate_reply(reply, [(p.source, p.target) for p in problems]), strict=True)
    ]


def validate_reply(reply: Reply, pairs: Sequence[tuple[Points, Points]]) -> list[PairReply]:
    """Return the validated result of each pair: `invalid` where the pose is not rigid or not plausible, `skipped` if unavailable.

    Args:
        reply: of the call.
        pairs: clouds (N, 3) and (M, 3) of each pair.

    Raises:
        InputError: the method's input is wrong.
    """
    status, message, n = reply.status, reply.message, len(pairs)
    if status == Status.INPUT:
        raise InputError(message)
    if status == Status.UNAVAILABLE:
        status, message = Status.SKIPPED, f"unavailable: {message}"
    if status == Status.OK and len(reply.pairs) != n:
        status, message = Status.INVALID, f"register_batch returned {len(reply.pairs)} results for {n} pairs"
    if status != Status.OK:
        return [PairReply(status, message=message if n == 1 else f"in a batch of {n}: {message}")] * n
    return [_validate_pair(pair, *clouds) for pair, clouds in zip(reply.pairs, pairs, strict=True)]


def _validate_pair(pair: PairReply, source: Points, target: Points) -> PairReply:
    fault = None
    if pair.status == Status.OK:
        fault = pose_fault(pair.pose) or translation_fault(pair.pose, source, target)
    return PairReply(Status.INVALID, message=fault) if fault else pair


def worker_facts(setups: list[MethodSetup], limits: Limits) -> dict[str, Any]:
    """Return machine, code and weights of this worker: hashes of the source files by method, and of weights by setup."""
    with _lock:
        weights = {f"{s.method} on {s.domain}": weights_of(_process_for(s, limits).set_up(s).notes) for s in setups}
        close_all()
    code = {setup.method.text: setup.method.source_hashes() for setup in setups}
    return {"machine": {machine(): machine_facts()}, "code": code, "weights": weights}


def _process_for(setup: MethodSetup, limits: Limits) -> MethodProcess:
    """Return the warm process of a setup; end the one before it, so that one method process works at a time."""
    if setup not in _processes:
        close_all()
        _processes[setup] = MethodProcess(setup, limits)
    return _processes[setup]


@atexit.register
def close_all() -> None:
    """End the method processes that this worker keeps."""
    for process in _processes.values():
        process.close()
    _processes.clear()
