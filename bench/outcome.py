"""What became of one call of a method: the ground record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

STATUSES = ("ok", "no_solution", "invalid", "error", "timeout", "crash", "out_of_memory", "skipped")


@dataclass(frozen=True)
class Outcome:
    """One call. Times in ms, memory in MB as growth over the idle process; NaN where not measured.

    `seed` is the run's; the seed of the call comes from it, the problem and the method.
    """

    method: str
    problem: str
    status: str
    phase: str = "accuracy"
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


RIGID_TOLERANCE = 1e-4


def pose_fault(pose: Any) -> str | None:
    """Why an answer is not a rigid (4, 4) matrix; None if it is. A reflection or a scaling is not rigid."""
    try:
        T = np.asarray(pose, dtype=np.float64)
    except (TypeError, ValueError):
        return f"the answer is no matrix but {type(pose).__name__}"
    if T.shape != (4, 4):
        return f"the answer has shape {T.shape}, not (4, 4)"
    if not np.isfinite(T).all():
        return "the answer is not finite"
    R = T[:3, :3]
    if np.abs(T[3] - (0, 0, 0, 1)).max() > RIGID_TOLERANCE or np.abs(R @ R.T - np.eye(3)).max() > RIGID_TOLERANCE:
        return "the answer is not rigid"
    return "the answer is a reflection" if np.linalg.det(R) < 0 else None
