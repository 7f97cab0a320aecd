"""What a worker of the pool does: draw the problems of a piece, ask the method's process, judge the answers' form."""

from __future__ import annotations

import atexit
import threading
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

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
    """Outcomes of a piece: of all its problems, or of those that fit in the worker's patience."""
    outcomes: list[Outcome] = []
    start = time.monotonic()
    with _one_at_a_time:
        child = _child(piece.setting, piece.limits)
        for n, key in enumerate(piece.keys):
            if n and time.monotonic() - start > PATIENCE_S:
                break
            outcomes.append(ask(child, draw(key, piece.data, piece.plugins), "accuracy", 0))
    return piece, outcomes


def ask(child: Child, problem: Problem, phase: str, repeat: int) -> Outcome:
    """One call of a method on a problem. Only the two clouds and a seed leave this process."""
    s = child.setting
    seed = call_seed(problem, s.method, repeat)
    reply = judged(child.register(problem.source, problem.target, seed))
    status, pose, message = reply["status"], reply["pose"], reply.get("message", "")
    facts: dict[str, Any] = {k: reply[k] for k in ("time_ms", "peak_mb", "stages", "notes") if k in reply}
    return Outcome(
        s.method,
        problem.key.id,
        status,
        phase,
        repeat,
        problem.key.seed,
        pose,
        message=message,
        device=s.device,
        threads=s.threads,
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
