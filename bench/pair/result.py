"""All that is known after every method has answered; everything that is shown or written is taken from it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.pair.agreement import Agreement, Consensus, Fit, agreement, consensus, fits
from bench.pair.clouds import Scans
from bench.pair.register import Answer
from bench.storage.outcome import pose_fault
from common.errors import InputError

Matrix = NDArray[np.float64]

TRUTH_FIELDS = ("T_target_source", "transformation", "transform", "pose")
"""Where a JSON file may hold its matrix."""


@dataclass(frozen=True, eq=False)
class Result:
    """Scans, every answer, and of those with a pose (`posed`, in that order) how they fit and agree.

    `errors` compares each pose with the truth, if there is one: the first row of each matrix.
    """

    scans: Scans
    answers: list[Answer]
    posed: list[Answer]
    fits: list[Fit]
    agreement: Agreement
    consensus: Consensus | None
    truth: Matrix | None
    errors: Agreement | None

    def row(self, answer: Answer) -> dict[str, Any]:
        """What the table says of an answer; NaN and empty where there is nothing to say."""
        said: dict[str, Any] = {"method": answer.method, "status": answer.status, "time_ms": answer.time_ms}
        at = next((i for i, one in enumerate(self.posed) if one is answer), None)
        fit = self.fits[at] if at is not None else Fit(float("nan"), float("nan"))
        agrees = self.consensus is not None and self.consensus.independent > 1 and at in self.consensus.members
        said |= {"overlap": fit.share, "residual": fit.residual, "consensus": agrees}
        if self.errors is not None:
            parts = {"rre_deg": self.errors.angle_deg, "shift": self.errors.shift, "rmse": self.errors.distance}
            said |= {k: float(m[0, at + 1]) if at is not None else float("inf") for k, m in parts.items()}
        return said | {"confidence": answer.confidence, "message": answer.message}

    @property
    def best(self) -> Answer | None:
        """The pose to try first: that of the consensus which fits best; None if there is no pose."""
        return self.posed[self.consensus.best] if self.consensus else None

    def verdict(self) -> str:
        """What the agreement amounts to, in a sentence."""
        if self.consensus is None or self.best is None:
            return "No method found a pose."
        names = ", ".join(self.posed[i].method for i in self.consensus.members)
        share = self.fits[self.consensus.best].share
        if self.consensus.independent == 1:
            return (
                f"No two different methods agree; the answer that overlaps most of the largest group is that of "
                f"{self.best.method} ({share:.0%} of the source). Look at the pictures before you use it."
            )
        return (
            f"{self.consensus.independent} different methods agree ({names}). Of these {self.best.method} fits best: it "
            f"overlaps {share:.0%} of the source. Agreement is no proof: symmetric or repetitive scans fool many methods alike."
        )


def judge(scans: Scans, answers: list[Answer], truth: Matrix | None) -> Result:
    """Compare the answers with the clouds, with one another, and with the truth (4, 4) if there is one."""
    posed = [a for a in answers if a.pose is not None]
    poses = np.array([a.pose for a in posed]).reshape(-1, 4, 4)
    source, target = scans.source.thin, scans.target.thin
    found = fits(poses, source, target, scans.near)
    agree = agreement(poses, source)
    group = consensus([a.method for a in posed], agree.distance, found, scans.alike)
    errors = agreement(np.concatenate([truth[None], poses]), source) if truth is not None else None
    return Result(scans, answers, posed, found, agree, group, truth, errors)


def read_truth(file: Path) -> Matrix:
    """The pose (4, 4) that maps source into target: 16 numbers of a text file, or of a JSON file (a matrix, or a field).

    Raises:
        InputError: the file is missing, or holds no rigid 4 x 4 matrix.
    """
    try:
        text = file.read_text(encoding="utf-8")
        T = (
            _of_json(json.loads(text))
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
            f"--truth {file}: {fault.replace('the pose', 'the matrix')}; give a rigid motion, of "
            "the source with its coordinates in the target's unit"
        )
    return T


def _of_json(content: Any) -> Matrix:
    if isinstance(content, dict):
        content = content[next((name for name in TRUTH_FIELDS if name in content), TRUTH_FIELDS[0])]
    return np.array(content, dtype=np.float64)
