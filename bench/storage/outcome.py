"""Outcome of a call of a method on a problem."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Status(StrEnum):
    """End of a call, or of the setup before it."""

    OK = "ok"
    NO_SOLUTION = "no_solution"
    INVALID = "invalid"
    ERROR = "error"
    TIMEOUT = "timeout"
    CRASH = "crash"
    OUT_OF_MEMORY = "out_of_memory"
    SKIPPED = "skipped"
    UNAVAILABLE = "unavailable"  # of a setup: a package or weights are missing; the problems are skipped
    INPUT = "input"  # of a setup: the user's input is wrong; the run ends


class Phase(StrEnum):
    """Part of a run that an outcome belongs to: problems for accuracy, pairs timed alone, batches timed for throughput."""

    ACCURACY = "accuracy"
    TIMING = "timing"
    BATCH = "batch"


@dataclass(frozen=True)
class Outcome:
    """Outcome of a call for one problem. Times in ms, memory in MB as growth over the idle process; NaN where not measured.

    `seed` is that of the run; the seed of the call is derived from it, the problem, the method and the repeat. `batch` is the
    number of pairs in the call: time and stages are divided by it, memory is not. `gpu_memory_mb` is the memory that torch
    allocates on a CUDA device. `machine` is the id of the machine that measured the time (`bench.storage.environment.machine`).
    """

    method: str
    problem: str
    status: Status
    phase: Phase = Phase.ACCURACY
    repeat: int = 0
    seed: int = 0
    pose: NDArray[np.float64] | None = None
    time_ms: float = float("nan")
    peak_mb: float = float("nan")
    device: str = "cpu"
    threads: int = 1
    message: str = ""
    stages: dict[str, float] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    batch: int = 1
    gpu_memory_mb: float = float("nan")
    machine: str = ""
