"""Results of all methods on a pair, their fit and agreement; source of all output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.pair.agreement import UNKNOWN, Agreement, Consensus, Fit, agreement, consensus, fits, rival
from bench.pair.clouds import Scans
from bench.pair.freedom import Freedom
from bench.pair.grade import CONSENSUS, NONE, Evidence, Grade, calibration, gather, judge, no_pose
from bench.pair.register import Registration
from bench.pair.text import percent_below, significant
from bench.report.style import number

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PairResult:
    """Scans, registrations, and fit and agreement of those with a pose (`posed`, in the same order).

    `errors` compares the poses with the true pose, if known: the first row of each matrix. `grade` is that of `candidate`.
    """

    scans: Scans
    registrations: list[Registration]
    posed: list[Registration]
    fits: list[Fit]
    agreement: Agreement
    consensus: Consensus | None
    grade: Grade
    truth: Matrix | None
    errors: Agreement | None

    def row(self, registration: Registration) -> dict[str, Any]:
        """Return the row of a registration in the table; unknown values are NaN or empty."""
        row: dict[str, Any] = {
            "method": registration.method,
            "status": registration.status,
            "time_ms": registration.time_ms,
            "device": registration.device,
        }
        index = next((i for i, other in enumerate(self.posed) if other is registration), None)
        fit = self.fits[index] if index is not None else UNKNOWN
        agrees = self.consensus is not None and self.consensus.witnesses > 1 and index in self.consensus.members
        row |= {"family": registration.family, "overlap": fit.share, "target_overlap": fit.target_share}
        row |= {"residual": fit.residual, "trimmed": fit.trimmed, "consensus": agrees}
        row["candidate_deg"] = self._from_candidate(index)
        if self.errors is not None:
            parts = {"rre_deg": self.errors.angle_deg, "shift": self.errors.shift, "rmse": self.errors.distance}
            row |= {k: float(m[0, index + 1]) if index is not None else float("inf") for k, m in parts.items()}
        return row | {"confidence": registration.confidence, "message": registration.message}

    def _from_candidate(self, index: int | None) -> float:
        """Return the angle in degrees between a pose, by its number among `posed`, and the candidate's; NaN if there is none."""
        if index is None or self.consensus is None:
            return float("nan")
        return float(self.agreement.angle_deg[self.consensus.best, index])

    @property
    def candidate(self) -> Registration | None:
        """The best pose of the strongest group; None without poses."""
        return self.posed[self.consensus.best] if self.consensus else None

    @property
    def best(self) -> Registration | None:
        """The candidate if its grade is a consensus, else None."""
        return self.candidate if self.grade.name == CONSENSUS else None

    def ranked(self) -> list[Registration]:
        """Return the registrations, best first: the candidate, those that agree with it, other poses by residual, failures."""

        def rank(registration: Registration) -> tuple[bool, bool, bool, float]:
            if registration.pose is None:
                return True, True, True, 0.0
            row = self.row(registration)
            return False, registration is not self.candidate, not row["consensus"], row["trimmed"]

        return sorted(self.registrations, key=rank)

    def verdict(self) -> str:
        """Describe the grade and its reasons in a few sentences."""
        if self.consensus is None or self.candidate is None:
            return "No method found a pose. Grade: none."
        members = ", ".join(self.posed[i].method for i in self.consensus.members)
        fit, name = self.fits[self.consensus.best], self.candidate.method
        open_motions = f" In the target's frame, {text}." if (text := self.grade.freedom.sentence()) else ""
        overlap = f"overlap {fit.share:.0%} of the source and {fit.target_share:.0%} of the target"
        if not self.scans.comparable:
            overlap = f"one cloud is {self.scans.ratio:.1f} times as large as the other, so their overlap says little"
        apart = ", apart from the motions below" if open_motions else ""
        probability = f"probability that it is right{apart}: {percent_below(self.grade.probability)}"
        if self.grade.name == CONSENSUS:
            return (
                f"Grade: consensus. {self.consensus.witnesses} independent families of methods agree ({members}). "
                f"{name} fits best: {overlap}; {probability}."
            )
        proposal = (
            "No pose can be recommended" if self.grade.name == NONE else "Check the pictures before using its pose"
        )
        return (
            f"Grade: {self.grade.name}, because {' and '.join(self.grade.reasons)}. {name} is the best candidate ({overlap}; "
            f"{probability}).{open_motions} {proposal}. aligned.ply is not written; poses/ has every method's pose."
        )

    def tolerance(self) -> str:
        """Describe when poses agree, and how far those that agree with the candidate differ from it."""
        limit, angle = significant(self.scans.alike), number(self.scans.alike_deg, 1)
        agreeing = (
            f"Poses agree if they move the source's points to within {limit} (root mean square) of where one pose of the group "
            f"moves them; a rotation alone may differ by up to {angle}°."
        )
        if self.consensus is None or self.candidate is None or len(self.consensus.members) < 2:
            return agreeing
        rows = self.consensus.best, list(self.consensus.members)
        farthest, widest = self.agreement.distance[rows].max(), self.agreement.angle_deg[rows].max()
        return (
            f"{agreeing} Those that agree with {self.candidate.method} differ from it by up to {number(widest, 1)}° and "
            f"{significant(farthest)}."
        )


class Assessment(NamedTuple):
    """Fit and agreement of poses, the strongest group, and the evidence for its best pose, None without poses."""

    fits: list[Fit]
    agreement: Agreement
    group: Consensus | None
    evidence: tuple[Evidence, Freedom] | None


def assess(scans: Scans, posed: list[Registration]) -> Assessment:
    """Assess registrations that have a pose, without ground truth."""
    poses, families = _poses(posed), [a.family for a in posed]
    source, target = scans.source.thin, scans.target.thin
    pose_fits, agree = fits(poses, source, target, scans.near), agreement(poses, source)
    group = consensus(families, agree.distance, pose_fits, scans.alike)
    if group is None:
        return Assessment(pose_fits, agree, None, None)
    other = rival(families, agree.distance, pose_fits, scans.alike, group)
    return Assessment(pose_fits, agree, group, gather(scans, poses, pose_fits, group, other))


def evaluate(scans: Scans, registrations: list[Registration], truth: Matrix | None) -> PairResult:
    """Compute fit, agreement, grade, and errors to the true pose (4, 4) if known."""
    posed = [a for a in registrations if a.pose is not None]
    pose_fits, agree, group, evidence = assess(scans, posed)
    grade = judge(*evidence, calibration()) if evidence else no_pose()
    errors = None
    if truth is not None:
        errors = agreement(np.concatenate([truth[None], _poses(posed)]), scans.source.thin)
    return PairResult(scans, registrations, posed, pose_fits, agree, group, grade, truth, errors)


def _poses(posed: list[Registration]) -> Matrix:
    """Return the poses (K, 4, 4)."""
    return np.array([a.pose for a in posed], dtype=np.float64).reshape(-1, 4, 4)
