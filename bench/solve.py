"""What a worker of the pool does: draw the problems of a piece, ask the method's process, judge the answers' form."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bench import stop
from bench.child import Child, Limits, Setting
from bench.outcome import Outcome, pose_fault
from bench.plan import Piece
from common.errors import InputError
from datasets import registry
from datasets.base import DataSet, PairSet
from datasets.problems import Problem, ProblemKey, call_seed, make_problem

PATIENCE_S = 15.0
"""A worker hands its outcomes in at least this often (or after one call, if that takes longer)."""

_kept: dict[Setting, Child] = {}
_one_at_a_time = threading.Lock()  # a Dask worker may have several threads


@lru_cache(maxsize=4)
def dataset_of(name: str, data: str, plugins: Path | None) -> DataSet | PairSet:
    """A data set, opened once per process."""
    return registry.open_data(name, data, plugins)


def draw(key: ProblemKey, data: str, plugins: Path | None) -> Problem:
    """The problem of a key, from a data set kept open."""
    return make_problem(dataset_of(key.dataset, data, plugins), key)


def solve_piece(piece: Piece) -> tuple[Piece, list[Outcome]]:
    """Outcomes of a piece: of all its problems, or of those that fit in the worker's patience or were solved before Ctrl-C."""
    stop.listen()
    outcomes: list[Outcome] = []
    start = time.monotonic()
    with _one_at_a_time, contextlib.suppress(stop.Stopped):
        for first in range(0, len(piece.keys), piece.batch):
            if stop.asked() or (first and time.monotonic() - start > PATIENCE_S):
                break
            problems = [draw(k, piece.data, piece.plugins) for k in piece.keys[first : first + piece.batch]]
            outcomes += ask_all(_child(piece.setting, piece.limits), problems, "accuracy", piece.repeat)
    return piece, outcomes


def ask_all(child: Child, problems: list[Problem], phase: str, repeat: int) -> list[Outcome]:
    """A method's outcomes on problems. Those with clouds of the same sizes are asked in one call, one alone as it is."""
    by_size: dict[tuple[int, int], list[Problem]] = {}
    for problem in problems:
        by_size.setdefault((len(problem.source), len(problem.target)), []).append(problem)
    found: list[Outcome] = []
    for group in by_size.values():
        found += _together(child, group, phase, repeat) if len(group) > 1 else [ask(child, group[0], phase, repeat)]
    return found


def ask(child: Child, problem: Problem, phase: str, repeat: int) -> Outcome:
    """One call of a method on a problem. Only the two clouds and a seed leave this process."""
    seed = call_seed(problem, child.setting.method, repeat)
    return _outcome(child.setting, problem, child.register(problem.source, problem.target, seed), phase, repeat, 1)


def _together(child: Child, problems: list[Problem], phase: str, repeat: int) -> list[Outcome]:
    """One call on several problems: each gets its own answer, or what became of the call as a whole."""
    n, s = len(problems), child.setting
    seed = call_seed(problems[0], s.method, repeat)
    reply = child.register_batch([p.source for p in problems], [p.target for p in problems], seed)
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


def _outcome(s: Setting, problem: Problem, reply: dict[str, Any], phase: str, repeat: int, batch: int) -> Outcome:
    """What is recorded of a reply."""
    reply = judged(reply)
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


def judged(reply: dict[str, Any]) -> dict[str, Any]:
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


def _child(setting: Setting, limits: Limits) -> Child:
    """The warm process of a setting; the one before it is ended, so that one method process works at a time."""
    if setting not in _kept:
        close_all()
        _kept[setting] = Child(setting, limits)
    return _kept[setting]


@atexit.register
def close_all() -> None:
    """End the processes this worker keeps."""
    for child in _kept.values():
        child.close()
    _kept.clear()
