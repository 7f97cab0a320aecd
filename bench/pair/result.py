"""Results of all methods on a pair, their fit and agreement; source of all output."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.pair.agreement import Agreement, Consensus, Fit, agreement, consensus, fits
from bench.pair.clouds import Scans
from bench.pair.register import Registration
from bench.storage.outcome import pose_fault
from common.errors import InputError

Matrix = NDArray[np.float64]

TRUTH_FIELDS = ("T_target_source", "transformation", "transform", "pose")
"""Fields of a JSON file that may contain the matrix."""


@dataclass(frozen=True, eq=False)
class PairResult:
    """Scans, registrations, and fit and agreement of those with a pose (`posed`, in the same order).

    `errors` compares the poses with the true pose, if known: the first row of each matrix.
    """

    scans: Scans
    registrations: list[Registration]
    posed: list[Registration]
    fits: list[Fit]
    agreement: Agreement
    consensus: Consensus | None
    truth: Matrix | None
    errors: Agreement | None

    def row(self, registration: Registration) -> dict[str, Any]:
        """Return the row of a registration in the table; unknown values are NaN or empty."""
        row: dict[str, Any] = {
            "method": registration.method,
            "status": registration.status,
            "time_ms": registration.time_ms,
        }
        index = next((i for i, other in enumerate(self.posed) if other is registration), None)
        fit = self.fits[index] if index is not None else Fit(float("nan"), float("nan"))
        agrees = self.consensus is not None and self.consensus.independent > 1 and index in self.consensus.members
        row |= {"overlap": fit.share, "residual": fit.residual, "consensus": agrees}
        if self.errors is not None:
            parts = {"rre_deg": self.errors.angle_deg, "shift": self.errors.shift, "rmse": self.errors.distance}
            row |= {k: float(m[0, index + 1]) if index is not None else float("inf") for k, m in parts.items()}
        return row | {"confidence": registration.confidence, "message": registration.message}

    @property
    def best(self) -> Registration | None:
        """The best pose of the consensus; None without poses."""
        return self.posed[self.consensus.best] if self.consensus else None

    def verdict(self) -> str:
        """Describe the agreement in a sentence."""
        if self.consensus is None or self.best is None:
            return "No method found a pose."
        names = ", ".join(self.posed[i].method for i in self.consensus.members)
        share = self.fits[self.consensus.best].share
        if self.consensus.independent == 1:
            return (
                f"No two different methods agree; {self.best.method} has the largest overlap within the largest consensus group "
                f"({share:.0%} of the source). Check the pictures before using its pose."
            )
        return (
            f"{self.consensus.independent} different methods agree ({names}). {self.best.method} fits best, with an overlap "
            f"of {share:.0%} of the source. Agreement is no proof: symmetric or repetitive scans can mislead several methods."
        )


def evaluate(scans: Scans, registrations: list[Registration], truth: Matrix | None) -> PairResult:
    """Compute fit, agreement, and errors to the true pose (4, 4) if known."""
    posed = [a for a in registrations if a.pose is not None]
    poses = np.array([a.pose for a in posed]).reshape(-1, 4, 4)
    source, target = scans.source.thin, scans.target.thin
    pose_fits = fits(poses, source, target, scans.near)
    agree = agreement(poses, source)
    group = consensus([a.method for a in posed], agree.distance, pose_fits, scans.alike)
    errors = agreement(np.concatenate([truth[None], poses]), source) if truth is not None else None
    return PairResult(scans, registrations, posed, pose_fits, agree, group, truth, errors)


def read_truth(file: Path) -> Matrix:
    """Read the pose (4, 4) from source to target: 16 numbers of a text file, or a matrix or field of a JSON file.

    Raises:
        InputError: the file is missing, or contains no rigid 4 x 4 matrix.
    """
    try:
        text = file.read_text(encoding="utf-8")
        T = (
            _matrix_from_json(json.loads(text))
            if file.suffix == ".json"
            else np.array(text.replace(",", " ").split(), dtype=float)
        )
        T = T.astype(np.float64).reshape(4, 4)
    except (OSError, ValueError, TypeError, KeyError) as error:
        fields = ", ".join(TRUTH_FIELDS)
        raise InputError(
            f"--truth {file}: no 4 x 4 matrix ({error}); give 16 numbers, or JSON with {fields}"
        ) from error
    if fault := pose_fault(T):
        raise InputError(
            f"--truth {file}: {fault.replace('the pose', 'the matrix')}; give a rigid motion "
            "of the source in the target's unit"
        )
    return T


def _matrix_from_json(content: Any) -> Matrix:
    if isinstance(content, dict):
        content = content[next((name for name in TRUTH_FIELDS if name in content), TRUTH_FIELDS[0])]
    return np.array(content, dtype=np.float64)
