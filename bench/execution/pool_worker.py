"""What a worker of the pool does: draw the problems of a piece, ask the method's process, judge the answers' form."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bench.isolation import interrupt
from bench.isolation.process import Call, Limits, MethodProcess, MethodSetup, Reply
from bench.planning.tasks import Task
from bench.storage.outcome import Outcome, pose_fault
from common.errors import InputError
from datasets import registry
from datasets.base import DataSet, PairSet
from datasets.problems import Problem, ProblemKey, call_seed, make_problem

FLUSH_INTERVAL_S = 15.0
"""A worker hands its outcomes in at least this often (or after one call, if that takes longer)."""

T = TypeVar("T")

_processes: dict[MethodSetup, MethodProcess] = {}
_one_at_a_time = threading.Lock()  # a Dask worker may have several threads


@lru_cache(maxsize=4)
def open_dataset(name: str, data: str, plugins: Path | None) -> DataSet | PairSet:
    """A data set, opened once per process."""
    return registry.open_data(name, data, plugins)


def generate_problem(key: ProblemKey, data: str, plugins: Path | None) -> Problem:
    """The problem of a key, from a data set kept open."""
    return make_problem(open_dataset(key.dataset, data, plugins), key)


def solve_batch(load: list[Task]) -> list[tuple[Task, list[Outcome]]]:
    """Outcomes of pieces: of all their problems, or of those that fit in a worker's patience or were solved before Ctrl-C.

    Raises:
        InputError: the first problem, or what the method was given, is broken. Where it is a later one, those before it are
            handed in; the rest, asked again, begins with it.
    """
    interrupt.install_handler()
    found: list[tuple[Task, list[Outcome]]] = [(piece, []) for piece in load]
    try:
        with (
            _one_at_a_time,
            contextlib.suppress(interrupt.Interrupted),
            contextlib.closing(_generate_ahead(load)) as drawn,
        ):
            child = _process_for(load[0].setting, load[0].limits)
            calls = _until(time.monotonic() + FLUSH_INTERVAL_S, _calls(load, drawn))
            with contextlib.closing(child.replies(calls)) as replies:
                for (number, problems), reply in replies:
                    piece, outcomes = found[number]
                    outcomes += _outcomes(piece.setting, problems, reply, "accuracy", piece.repeat)
    except InputError:
        if not any(outcomes for _, outcomes in found):
            raise
    return [(piece, outcomes) for piece, outcomes in found if outcomes]


def _calls(
    load: list[Task], drawn: Iterable[tuple[int, list[Problem]]]
) -> Iterator[tuple[tuple[int, list[Problem]], Call]]:
    """The calls on problems, each with the piece's number and its problems."""
    for number, problems in drawn:
        for group in _same_sizes(problems):
            yield (number, group), _call(load[number].setting, group, load[number].repeat)


def _until(deadline: float, calls: Iterable[T]) -> Iterator[T]:
    """One call, and more until the deadline or until Ctrl-C."""
    for call in calls:
        yield call
        if interrupt.requested() or time.monotonic() > deadline:
            return


def _generate_ahead(load: list[Task]) -> Generator[tuple[int, list[Problem]]]:
    """Batch by batch the problems of pieces, by the piece's number; the next are drawn while a method works on those before."""

    def drawn(number: int, piece: Task, first: int) -> tuple[int, list[Problem]]:
        return number, [generate_problem(k, piece.data, piece.plugins) for k in piece.keys[first : first + piece.batch]]

    ahead, asked = ThreadPoolExecutor(1), None
    try:
        for number, piece in enumerate(load):
            for first in range(0, len(piece.keys), piece.batch):
                before, asked = asked, ahead.submit(drawn, number, piece, first)
                if before:
                    yield before.result()
        if asked:
            yield asked.result()
    finally:
        ahead.shutdown(wait=not interrupt.requested(), cancel_futures=True)


def solve_problems(child: MethodProcess, problems: list[Problem], phase: str, repeat: int) -> list[Outcome]:
    """A method's outcomes on problems. Those with clouds of the same sizes are asked in one call, one alone as it is."""
    s, groups = child.setting, _same_sizes(problems)
    return [o for g in groups for o in _outcomes(s, g, child.ask(_call(s, g, repeat)), phase, repeat)]


def solve_problem(child: MethodProcess, problem: Problem, phase: str, repeat: int) -> Outcome:
    """One call of a method on a problem."""
    return solve_problems(child, [problem], phase, repeat)[0]


def _same_sizes(problems: list[Problem]) -> list[list[Problem]]:
    groups: dict[tuple[int, int], list[Problem]] = {}
    for problem in problems:
        groups.setdefault((len(problem.source), len(problem.target)), []).append(problem)
    return list(groups.values())


def _call(s: MethodSetup, problems: list[Problem], repeat: int) -> Call:
    """One call on problems, with the seed of the first. Only clouds and a seed leave this process."""
    seed = call_seed(problems[0], s.method, repeat)
    return Call([p.source for p in problems], [p.target for p in problems], seed)


def _outcomes(s: MethodSetup, problems: list[Problem], reply: Reply, phase: str, repeat: int) -> list[Outcome]:
    """What one call gave: to each problem of several its own answer, or what became of the call as a whole."""
    n = len(problems)
    if n == 1:
        return [_outcome(s, problems[0], reply, phase, repeat, 1)]
    answers = reply.pop("answers", [])
    if reply["status"] == "ok" and len(answers) != n:
        reply |= {"status": "invalid", "message": f"register_batch gives {len(answers)} answers to {n} pairs"}
    if reply["status"] != "ok":
        answers = [{"message": f"in a batch of {n}: {reply.get('message', '')}"}] * n
    if "time_ms" in reply:
        reply |= {"time_ms": reply["time_ms"] / n}
    if "stages" in reply:
        reply |= {"stages": {name: ms / n for name, ms in reply["stages"].items()}}
    return [_outcome(s, p, reply | one, phase, repeat, n) for p, one in zip(problems, answers, strict=True)]


def _outcome(s: MethodSetup, problem: Problem, reply: Reply, phase: str, repeat: int, batch: int) -> Outcome:
    """What is recorded of a reply."""
    reply = validate_reply(reply)
    measured = ("time_ms", "peak_mb", "gpu_memory_mb", "stages", "notes")
    facts: dict[str, Any] = {k: reply[k] for k in measured if k in reply}
    return Outcome(
        s.method,
        problem.key.id,
        reply["status"],
        phase,
        repeat,
        problem.key.seed,
        reply["pose"],
        message=reply.get("message", ""),
        device=s.device,
        threads=s.threads,
        batch=batch,
        **facts,
    )


def validate_reply(reply: Reply) -> Reply:
    """A child's reply, with a pose only if it is one: status `invalid` if not; `skipped` where the method is unavailable.

    Raises:
        InputError: the method was given bad input.
    """
    if reply["status"] == "input":
        raise InputError(reply["message"])
    if reply["status"] == "unavailable":
        return reply | {"status": "skipped", "message": f"unavailable: {reply['message']}", "pose": None}
    fault = pose_fault(reply.get("pose")) if reply["status"] == "ok" else None
    if fault:
        return reply | {"status": "invalid", "message": fault, "pose": None}
    return reply | {"pose": np.asarray(reply["pose"]) if reply["status"] == "ok" else None}


def _process_for(setting: MethodSetup, limits: Limits) -> MethodProcess:
    """The warm process of a setting; the one before it is ended, so that one method process works at a time."""
    if setting not in _processes:
        close_all()
        _processes[setting] = MethodProcess(setting, limits)
    return _processes[setting]


@atexit.register
def close_all() -> None:
    """End the processes this worker keeps."""
    for child in _processes.values():
        child.close()
    _processes.clear()
