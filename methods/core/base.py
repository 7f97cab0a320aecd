"""Contract of a registration method.

A subclass of `Method` in a file of `methods/` (or of a `--plugins` folder) is discovered and named after the file.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from common.kinds import DataKind

Cloud = NDArray[np.float32]
"""Points (N, 3)."""
Pose = NDArray[np.float64]
"""Rigid transformation (4, 4)."""


class NoSolution(Exception):
    """Raised by a method without a pose for a pair, with the reason; counted as a failure, status `no_solution`."""


class Unavailable(Exception):
    """Raised by `setup` or `check_available` if a method cannot run on this machine: the reason and the command that fixes it."""


@dataclass(frozen=True)
class LogUniform:
    """Search range of a positive parameter, sampled uniformly in its logarithm; integers if both ends are.

    Attributes:
        low, high: the ends, inclusive.
    """

    low: float
    high: float


class Gaussians(NamedTuple):
    """Gaussian mixture by which a method represents a cloud (N, 3).

    Attributes:
        shares: (N, J), each point's probabilities of the J Gaussians; rows sum to 1.
        weights: (J,), sum to 1.
        means: (J, 3), in the cloud's frame and units.
        radii: (J,), the standard deviation along any one axis.
    """

    shares: NDArray[np.float64]
    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    radii: NDArray[np.float64]


class CallContext:
    """State of one call beside its pose: times of its stages, notes, and the random generator.

    Attributes:
        clock: returns the present time; the difference of two times is in seconds. The harness replaces it for a GPU, whose
            differences are known once it has finished.
        spans: name, begin and end of each stage.
    """

    def __init__(self) -> None:
        self.clock: Callable[[], Any] = time.perf_counter
        self.spans: list[tuple[str, Any, Any]] = []
        self.notes: dict[str, Any] = {}
        self.key = 0
        self.rng: np.random.Generator | None = None

    @property
    def stages(self) -> dict[str, float]:
        """Seconds of each stage; those of a repeated stage are added up."""
        seconds: dict[str, float] = {}
        for name, begin, end in self.spans:
            seconds[name] = seconds.get(name, 0.0) + (end - begin)
        return seconds


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Method:
    """Base of every method. Annotated fields of a subclass are its parameters (`--methods "icp[trim=0.3]"`).

    >>> class Centroids(Method):
    ...     '''Move centroid onto centroid.'''
    ...     share: float = 1.0
    ...     def register(self, source, target):
    ...         return rigid(np.eye(3), self.share * (target.mean(axis=0) - source.mean(axis=0)))
    >>> Centroids(share=0.5)
    Centroids(share=0.5)

    Class attributes a subclass may set:
        kind: "local" (needs a good start), "global", "learned" or "control".
        local: True if `register` takes a third argument `init` (4, 4); such a method may follow a `+`, as in `fgr+icp`.
        random: True if the pose depends on `self.rng` or `self.seed`.
        batched: True if `register_batch` solves several pairs at once, faster than in sequence. Not for random
            methods, because a batch has one seed.
        requires: importable packages; if one is missing, the method is listed as unavailable.
        devices: kinds of devices that `setup` accepts, "cpu" and possibly "cuda"; without "cuda" it always receives "cpu".
        environment: environment variables that must be set when its process starts, such as {"OMP_THREAD_LIMIT": "1"}:
            those that a library reads when it is loaded.
        variants: name to parameters, such as {"ransac10k": {"iterations": 10_000}}. Without it, the class has one
            variant, named after the file.
        search: search ranges of `bench.py tune`, by parameter: a tuple of values, or a `LogUniform`. The ranges of base
            classes apply, too; parameters that a variant sets are not varied.
        in_all: False to exclude it from `--methods all`, such as for ablations.
    """

    kind: ClassVar[str] = "global"
    local: ClassVar[bool] = False
    random: ClassVar[bool] = False
    batched: ClassVar[bool] = False
    requires: ClassVar[tuple[str, ...]] = ()
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    environment: ClassVar[Mapping[str, str]] = {}
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    search: ClassVar[Mapping[str, tuple[Any, ...] | LogUniform]] = {}
    in_all: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, kw_only=True, eq=False)(cls)

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Method:
        self = super().__new__(cls)
        object.__setattr__(self, "state", {})  # writable, unlike the parameters
        object.__setattr__(self, "scratch", CallContext())
        return self

    state: ClassVar[dict[str, Any]]
    scratch: ClassVar[CallContext]
    data_kind: ClassVar[DataKind] = DataKind.OBJECTS
    """Kind of the data to register. Settings may depend on it; `kind` is the kind of the method."""

    @classmethod
    def check_available(cls) -> None:
        """Raise `Unavailable` if anything other than `requires` is missing. Must be fast."""

    def adapt(self, kind: DataKind) -> None:
        """Set `data_kind`; the harness calls it before `setup`."""
        object.__setattr__(self, "data_kind", kind)

    def setup(self, device: str, seed: int, domain: str) -> None:
        """Load state once per process: `self.state["model"] = …`.

        Note the SHA-256 of a file on which poses depend, `self.note(sha256=…)`: a run is not resumed after it has changed.

        Args:
            device: "cpu", or "cuda:NUMBER" if `devices` has "cuda".
            seed: seed of the run.
            domain: data set of the run, such as "modelnet40", or "modelnet40/first20" for its first 20 categories; chooses
                weights.
        """

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """Estimate the rigid pose of source in the target's frame.

        Args:
            source: (N, 3) float32.
            target: (M, 3) float32.

        Returns:
            T_target_source (4, 4) float64: maps source points into the target's frame.

        Raises:
            NoSolution: the method finds no pose.

        >>> from methods.pca import PrincipalAxes
        >>> source = np.random.default_rng(0).normal(size=(100, 3)) * [3, 2, 1] + [0, 0, 5]
        >>> T = PrincipalAxes().register(source, source + [1, 2, 3])
        >>> T[:3, 3].round(6).tolist()
        [1.0, 2.0, 3.0]
        """
        raise NoSolution("this class does not implement register")

    def register_batch(self, sources: Sequence[Cloud], targets: Sequence[Cloud]) -> list[Pose | NoSolution]:
        """Estimate the poses of several pairs: by default in sequence, in a class with `batched = True` at once.

        Args:
            sources: B clouds (N, 3) float32 of one size.
            targets: B clouds (M, 3) float32 of one size.

        Returns:
            For each pair in order, the result of `register` up to rounding: a pose T_target_source (4, 4) float64, or a
            `NoSolution` with the reason. A fault of one pair, such as a value that is not finite, must not change the
            results of the others.
        """
        results: list[Pose | NoSolution] = []
        for source, target in zip(sources, targets, strict=True):
            try:
                results.append(self.register(source, target))
            except NoSolution as reason:
                results.append(reason)
        return results

    def gaussians(self, source: Cloud, target: Cloud) -> tuple[Gaussians, Gaussians] | None:
        """Return the mixtures by which the method matches source and target, component by component; None if it has none.

        Used by the figures of `bench.py draw gmm`.
        """
        return None

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters by name."""
        return dataclasses.asdict(self)  # type: ignore[call-overload]

    @property
    def solves_batches(self) -> bool:
        """Whether `register_batch` may be used: not if the pose depends on the seed, of which a batch has only one."""
        return self.batched and not self.random

    @property
    def has_gaussians(self) -> bool:
        """Whether the method overrides `gaussians`."""
        return type(self).gaussians is not Method.gaussians

    def begin(self, seed: int) -> None:
        """Clear stages, notes and generator; the harness calls it before every `register`."""
        self.scratch.spans.clear()
        self.scratch.notes.clear()
        self.scratch.key = seed
        self.scratch.rng = None

    @property
    def rng(self) -> np.random.Generator:
        """The random generator of this call; its seed is derived from the problem's key.

        >>> method = Method()
        >>> method.begin(seed=7)
        >>> first = method.rng.normal()
        >>> method.begin(seed=7)
        >>> method.rng.normal() == first
        True
        """
        if self.scratch.rng is None:  # created on first use: most methods never use it
            self.scratch.rng = np.random.default_rng(self.scratch.key)
        return self.scratch.rng

    @property
    def seed(self) -> int:
        """The seed of this call, 31 bits, for libraries that take an integer."""
        return self.scratch.key % 2**31

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a part of `register`, such as normals, features, matching, solve or refine; repeated stages add up.

        >>> method = Method()
        >>> with method.stage("solve"):
        ...     _ = sum(range(1000))
        >>> method.scratch.stages["solve"] > 0
        True
        """
        begin = self.scratch.clock()
        try:
            yield
        finally:
            self.scratch.spans.append((name, begin, self.scratch.clock()))

    def note(self, **facts: Any) -> None:
        """Record facts about the pose, such as confidence, iterations or inliers. They are never used as a score.

        >>> method = Method()
        >>> method.note(iterations=12, confidence=0.9)
        >>> method.scratch.notes
        {'iterations': 12, 'confidence': 0.9}
        """
        self.scratch.notes.update(facts)


def rigid(rotation: NDArray[Any], translation: NDArray[Any]) -> Pose:
    """Build the (4, 4) float64 matrix of a rotation (3, 3) and a translation (3,).

    >>> rigid(np.eye(3), [1, 2, 3]).tolist()
    [[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 2.0], [0.0, 0.0, 1.0, 3.0], [0.0, 0.0, 0.0, 1.0]]
    """
    T = np.eye(4)
    T[:3, :3] = rotation
    T[:3, 3] = translation
    return T
