"""Registration problems as pure functions of their keys: the same on every machine, in any order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import portable
from common.errors import InputError
from common.keys import rng as rng_of
from common.keys import seed_of
from datasets.base import DataSet, PairSet
from datasets.conditions import condition, labels_allowed
from datasets.poses import Matrix, angle_deg, haar, sample_pose

EVALUATION_POINTS = 500
"""Number of source points on which errors are measured."""


@dataclass(frozen=True)
class ProblemKey:
    """Everything that a problem depends on. `angles` bounds the true rotation in degrees; `points` is the N of each cloud."""

    dataset: str
    condition: str
    points: int
    index: int
    seed: int = 0
    split: str = "test"
    sampler: str = "axis_angle"
    angles: tuple[float, float] = (0.0, 180.0)

    @property
    def id(self) -> str:
        """Name that is unique within a run and sorts by index."""
        bounds = "" if self.angles == (0.0, 180.0) else f"/{self.angles[0]:g}-{self.angles[1]:g}"
        return f"{self.dataset}/{self.condition}/{self.points}{bounds}/{self.index:05d}"


@dataclass(frozen=True, eq=False)
class Problem:
    """Two clouds and the true pose. A method receives only `source` and `target`.

    Attributes:
        source, target: (N, 3) and (M, 3) float32.
        T_target_source: (4, 4) float64, maps source points into the target's frame.
        source_pose: (4, 4) float64, pose A of the source, from the frame of the object's symmetries.
        tags: object, category, angle_deg, translation, overlap, symmetry.
        information: (6, 6) matrix of the correspondences of a real pair (`gt.info`), None where it is missing.
        evaluation: evaluation points (n, 3) of an exported problem.
        origin: id and seed of an exported problem, from which its random numbers are still drawn.
    """

    key: ProblemKey
    source: NDArray[np.float32]
    target: NDArray[np.float32]
    T_target_source: Matrix
    source_pose: Matrix
    tags: dict[str, Any]
    information: NDArray[np.float64] | None = None
    evaluation: NDArray[np.float32] | None = None
    origin: tuple[str, int] | None = None

    @property
    def identity(self) -> tuple[str, int]:
        """Id and seed from which the random numbers of evaluation and calls are drawn."""
        return self.origin or (self.key.id, self.key.seed)

    @property
    def evaluation_points(self) -> NDArray[np.float32]:
        """Points (500, 3) of the source on which errors are measured; drawn with repetition if it has fewer."""
        if self.evaluation is not None:
            return self.evaluation
        draw, points = rng_of("evaluation", *self.identity), len(self.source)
        if points < EVALUATION_POINTS:
            rows = draw.integers(points, size=EVALUATION_POINTS)
        else:
            rows = draw.choice(points, EVALUATION_POINTS, replace=False)
        return self.source.take(rows, axis=0)

    def sha256(self) -> bytes:
        """Return the digest of the clouds and the true pose."""
        parts = (self.source, self.target, self.T_target_source)
        return hashlib.sha256(b"".join(np.ascontiguousarray(p).tobytes() for p in parts)).digest()


def make_problem(dataset: DataSet | PairSet, key: ProblemKey) -> Problem:
    """Generate the problem of a key.

    Raises:
        InputError: the condition is for objects and the data set has pairs, or vice versa.
        NotEnoughPoints: the object is a fixed point set with too few points.
    """
    return _real_problem(dataset, key) if isinstance(dataset, PairSet) else _posed_problem(dataset, key)


def _real_problem(dataset: PairSet, key: ProblemKey) -> Problem:
    """Generate the problem of a real pair; it depends neither on the sampler nor on the angles."""
    if not condition(key.condition).real:
        raise InputError(
            f"{key.dataset}: real pairs have their own poses; the only condition is real; use --conditions real"
        )
    pair = dataset.pair(dataset.pick(key.index, key.seed))
    draw = rng_of("real", key.dataset, key.seed, key.index, key.points)
    source, target = (_subsample(cloud, key.points, draw) for cloud in (pair.source, pair.target))
    T = np.asarray(pair.T_target_source, dtype=np.float64)
    tags = {
        "object": pair.name,
        "category": pair.scene,
        "angle_deg": angle_deg(T[:3, :3]),
        "translation": float(portable.norm(T[:3, 3])),
        "overlap": pair.overlap,
        "symmetry": pair.symmetry,
    }
    return Problem(key, source, target, T, pair.source_pose, tags, pair.information, pair.evaluation, pair.origin)


def _subsample(cloud: NDArray[Any], points: int, draw: np.random.Generator) -> NDArray[np.float32]:
    """Return at most `points` random points of a cloud, in their order."""
    rows = np.sort(draw.permutation(len(cloud))[:points]) if len(cloud) > points else slice(None)
    return np.ascontiguousarray(cloud[rows], dtype=np.float32)


def _posed_problem(dataset: DataSet, key: ProblemKey) -> Problem:
    """Generate the problem of an object at two poses.

    The object and both poses do not depend on the condition or on N, so that conditions are compared on the same ones.
    """
    chosen = condition(key.condition)
    labels = labels_allowed(chosen, key.split, len(dataset.categories))
    shape = dataset.shape(key.split, dataset.pick(key.split, key.index, key.seed, labels, chosen.needed(key.points)))
    low, high = map(float, key.angles)
    stem = (key.dataset, key.split, key.sampler, low, high, key.seed, key.index)
    draw = rng_of("pose", *stem)
    T, A = sample_pose(key.sampler, draw, *key.angles), np.eye(4)
    A[:3, :3] = haar(draw)
    clouds = chosen.make(
        shape, key.points, A, portable.product(T, A), rng_of("clouds", *stem, key.condition, key.points)
    )
    source, target = (np.ascontiguousarray(c, dtype=np.float32) for c in (clouds.source, clouds.target))
    tags = {
        "object": shape.name,
        "category": shape.category,
        "angle_deg": angle_deg(T[:3, :3]),
        "translation": float(portable.norm(T[:3, 3])),
        "overlap": clouds.overlap,
        "symmetry": shape.symmetry,
    }
    return Problem(key, source, target, T, portable.product(A, shape.symmetry_frame), tags)


def call_seed(problem: Problem, method: str, repeat: int) -> int:
    """Return the seed of a method's call: it reveals nothing about the problem and differs between methods and repeats."""
    return seed_of("call", *problem.identity, method, repeat)


def problem_set_sha256(digests: Iterable[bytes]) -> str:
    """Compute the SHA-256 of a problem set from the digests of its problems, in order."""
    return hashlib.sha256(b"".join(digests)).hexdigest()
