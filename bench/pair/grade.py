"""Grade of a pair's best pose: evidence from agreement and fit, a calibrated probability that it is right, and reasons."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.pair.agreement import Consensus, Fit
from bench.pair.clouds import Scans
from bench.pair.freedom import Freedom, freedom
from bench.pair.text import percent_below
from datasets.poses import move
from datasets.symmetry import members

Array = NDArray[np.float64]

CONSENSUS, DOUBTFUL, NONE = "consensus", "doubtful", "none"
CHANCE_POINTS = 1000
"""Most points of the source by which turned poses are compared."""
MOST_WITNESSES = 4
"""Witnesses beyond this number add no evidence."""
LEAST_STIFFNESS = 1e-3
"""Smallest stiffness that is distinguished from 0."""
MOST_RESIDUAL = 4.0
"""Largest distinguished residual, in units of the spacing."""


@dataclass(frozen=True)
class Evidence:
    """Evidence for a pose.

    Attributes:
        witnesses: independent families that agree on it (see `bench.pair.agreement.witnesses`).
        rivals: witnesses of the strongest group that disagrees; 0 without one.
        overlap: mean share of both clouds that lies near the other cloud.
        residual: two-way trimmed residual in units of the spacing, at most `MOST_RESIDUAL`.
        normals: mean |cos| between the normals of overlapping points.
        chance: overlap gained over the best of the 23 poses that are turned by the rotations of a cube.
        stiffness: logarithm to base 10 of `Freedom.stiffness`.
    """

    witnesses: float
    rivals: float
    overlap: float
    residual: float
    normals: float
    chance: float
    stiffness: float

    def features(self) -> dict[str, float]:
        """Return the features of the probability, in which witnesses and rivals beyond `MOST_WITNESSES` do not count."""
        most = {name: min(getattr(self, name), MOST_WITNESSES) for name in ("witnesses", "rivals")}
        return asdict(self) | most


class Feature(NamedTuple):
    """Weight of a feature after it is shifted by the mean and divided by the scale of the calibration pairs."""

    mean: float
    scale: float
    weight: float


@dataclass(frozen=True)
class Calibration:
    """Logistic model of the probability, and the probabilities from which and below which a grade holds.

    Attributes:
        intercept: log odds at the means of all features.
        features: by name.
        consensus: least probability of a consensus.
        none: probability below which no pose is proposed.
    """

    intercept: float
    features: Mapping[str, Feature]
    consensus: float
    none: float

    def probability(self, evidence: Evidence) -> float:
        """Return the probability that the pose is right: within `Scans.alike` of the true pose."""
        values = evidence.features()
        odds = self.intercept + sum(f.weight * (values[name] - f.mean) / f.scale for name, f in self.features.items())
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, odds))))


@cache
def calibration() -> Calibration:
    """Read `calibration.toml`, which `python -m performance.make_pair_calibration fit` writes."""
    stored = tomllib.loads((files("bench.pair") / "calibration.toml").read_text(encoding="utf-8"))
    features = {name: Feature(**values) for name, values in stored["features"].items()}
    return Calibration(stored["intercept"], features, stored["consensus"], stored["none"])


@dataclass(frozen=True, eq=False)
class Grade:
    """Grade of the best pose.

    Attributes:
        name: "consensus", "doubtful" or "none".
        probability: that the pose is right; 0 without a pose.
        reasons: why it is not a consensus; empty if it is.
        evidence: None without a pose.
        freedom: motions that the clouds leave open.
    """

    name: str
    probability: float
    reasons: tuple[str, ...]
    evidence: Evidence | None
    freedom: Freedom


def gather(
    scans: Scans, poses: Array, fits: Sequence[Fit], group: Consensus, other: Consensus | None
) -> tuple[Evidence, Freedom]:
    """Compute the evidence for the best pose of a group, and the motions left open there.

    Args:
        scans: source and target.
        poses: all poses (K, 4, 4).
        fits: fits of the poses.
        group: the strongest group.
        other: the strongest group that disagrees with it, if any.
    """
    pose, fit = poses[group.best], fits[group.best]
    source, target = scans.source.thin, scans.target.thin
    free = freedom(pose, source, target, scans.near)
    evidence = Evidence(
        witnesses=group.witnesses,
        rivals=0 if other is None else other.witnesses,
        overlap=fit.overlap,
        residual=min(fit.trimmed / scans.spacing, MOST_RESIDUAL),
        normals=_known(free.normals, 0.5),
        chance=chance(pose, source, target, scans.near),
        stiffness=math.log10(max(_known(free.stiffness, 0.0), LEAST_STIFFNESS)),
    )
    return evidence, free


def no_pose() -> Grade:
    """Return the grade of a pair for which no method found a pose."""
    return Grade(NONE, 0.0, ("no method found a pose",), None, Freedom((), float("nan"), float("nan")))


def judge(evidence: Evidence, free: Freedom, model: Calibration) -> Grade:
    """Grade a pose from its evidence: a consensus needs two witnesses, a likely pose, and no motion left open."""
    probability = model.probability(evidence)
    reasons = []
    if evidence.witnesses < 2:
        reasons.append("fewer than two independent families of methods agree")
    if probability < model.consensus:
        reasons.append(
            f"the pose is right with a probability of {percent_below(probability)}, not {model.consensus:.0%} or more"
        )
    if free.motions:
        reasons.append("the clouds do not determine the pose")
    name = NONE if probability < model.none else DOUBTFUL if reasons else CONSENSUS
    return Grade(name, probability, tuple(reasons), evidence, free)


def chance(pose: Array, source: Array, target: Array, near: float) -> float:
    """Return how much more of the source overlaps at a pose than at the best turned pose.

    Turned poses rotate the moved source about its centroid by the rotations of a cube whose edges are the target's principal
    axes: flips and quarter turns, which wrong poses of symmetric objects and of rooms are.
    """
    from scipy.spatial import cKDTree

    moved = move(pose, source[:: max(1, -(-len(source) // CHANCE_POINTS))])
    centre, tree = moved.mean(axis=0), cKDTree(target)
    axes = np.linalg.svd(target - target.mean(axis=0), full_matrices=False)[2]
    axes[2] *= np.sign(np.linalg.det(axes))
    clouds = [moved] + [(moved - centre) @ (axes.T @ R @ axes).T + centre for R in members("O", 1)[1:]]
    shares = [float(np.isfinite(tree.query(c, distance_upper_bound=near)[0]).mean()) for c in clouds]
    return shares[0] - max(shares[1:])


def _known(value: float, default: float) -> float:
    return default if math.isnan(value) else value
