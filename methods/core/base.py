"""What a registration method is.

A subclass of `Method` in a file of this folder (or of a `--plugins` folder) is found by its file and named after it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, dataclass_transform

import numpy as np
from numpy.typing import NDArray

Cloud = NDArray[np.float32]
Pose = NDArray[np.float64]


class NoSolution(Exception):
    """Raised by a method that has no answer for a pair. Say why; it is counted as a failure, status `no_solution`."""


class Unavailable(Exception):
    """Raised by `setup` or `check_available` when a method cannot run here: the reason and the command that mends it."""


@dataclass(frozen=True)
class LogUniform:
    """Where a search looks for a parameter: above 0, drawn evenly in its logarithm; whole numbers if both ends are.

    Attributes:
        low, high: the ends, included.
    """

    low: float
    high: float


class Gaussians(NamedTuple):
    """A mixture as a method sees a cloud (N, 3).

    Attributes:
        shares: (N, J), each point's shares in the J Gaussians; rows sum to 1.
        weights: (J,), sum to 1.
        means: (J, 3), in the cloud's own frame and units.
        radii: (J,), the standard deviation along any one axis.
    """

    shares: NDArray[np.float64]
    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    radii: NDArray[np.float64]


class CallContext:
    """What one call leaves behind besides its pose: stage times, notes, and the call's generator."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}
        self.notes: dict[str, Any] = {}
        self.key = 0
        self.rng: np.random.Generator | None = None


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Method:
    """Base of every method. Annotated fields of a subclass are its parameters (`--methods "icp[trim=0.3]"`).

    Class attributes a subclass may set:
        kind: "local" (needs a good start), "global", "learned" or "control".
        local: True if `register` takes a third argument `init` (4, 4); usable after `+`, as in `fgr+icp`.
        random: True if the answer depends on `self.rng` / `self.seed`.
        batched: True if `register_batch` solves several pairs at once, faster than one after another. Not for random
            methods: a batch has one seed.
        requires: importable packages it needs; if one is missing the method is listed as unavailable.
        environment: environment variables its process must start with, e.g. {"OMP_THREAD_LIMIT": "1"}; what the
            library reads before any Python of ours runs belongs here.
        variants: names and parameters of what this class offers, e.g. {"ransac10k": {"iterations": 10_000}}.
            Without it there is one variant, named after the file.
        search: what `bench.py tune` may vary, by parameter: a tuple of values, or a `LogUniform`. Those of the bases
            count, too; what a variant fixes stays fixed.
        in_all: False for what `--methods all` leaves out: variants for one question, such as ablations.
    """

    kind: ClassVar[str] = "global"
    local: ClassVar[bool] = False
    random: ClassVar[bool] = False
    batched: ClassVar[bool] = False
    requires: ClassVar[tuple[str, ...]] = ()
    environment: ClassVar[Mapping[str, str]] = {}
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    search: ClassVar[Mapping[str, tuple[Any, ...] | LogUniform]] = {}
    in_all: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, kw_only=True, eq=False)(cls)

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Method:
        self = super().__new__(cls)
        object.__setattr__(self, "state", {})  # what `setup` loads; parameters stay frozen
        object.__setattr__(self, "scratch", CallContext())
        return self

    state: ClassVar[dict[str, Any]]
    scratch: ClassVar[CallContext]

    @classmethod
    def check_available(cls) -> None:
        """Raise `Unavailable` if something beside `requires` is missing. Must be cheap."""

    def setup(self, device: str, seed: int, domain: str) -> None:
        """Load state once per process: `self.state["model"] = …`.

        Note the SHA-256 of a file that answers depend on, `self.note(sha256=…)`: a run isn't continued after it changed.

        Args:
            device: "cpu" or a torch device string.
            seed: seed of the run.
            domain: what the run is about, such as "modelnet40" or "modelnet40/first20"; chooses weights.
        """

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """Estimate the rigid pose of source in the target's frame.

        Args:
            source: (N, 3) float32.
            target: (M, 3) float32.

        Returns:
            T_target_source (4, 4) float64: maps source points into the target's frame.

        Raises:
            NoSolution: the method has no answer.
        """
        raise NoSolution("this class does not register")

    def register_batch(self, sources: Sequence[Cloud], targets: Sequence[Cloud]) -> list[Pose | NoSolution]:
        """Estimate the poses of several pairs; here one after another, in a class with `batched = True` at once.

        Args:
            sources: B clouds (N, 3) float32, all of one size.
            targets: B clouds (M, 3) float32, all of one size, which may be another.

        Returns:
            B answers in the order of the pairs, each what `register` gives for its pair within the tolerance of floats: a pose
            T_target_source (4, 4) float64, or a `NoSolution` with the reason. What is wrong with one pair, such as
            a value that is not finite, must not change the answers of the others.
        """
        answers: list[Pose | NoSolution] = []
        for source, target in zip(sources, targets, strict=True):
            try:
                answers.append(self.register(source, target))
            except NoSolution as reason:
                answers.append(reason)
        return answers

    def gaussians(self, source: Cloud, target: Cloud) -> tuple[Gaussians, Gaussians] | None:
        """The mixtures by which the method matches source and target, component by component; None if it has none.

        For pictures: `bench.py draw gmm`.
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

    # What the harness and the method tell each other around one call.

    def begin(self, seed: int) -> None:
        """Called before every `register`: fresh stages, notes and generator."""
        self.scratch.stages.clear()
        self.scratch.notes.clear()
        self.scratch.key = seed
        self.scratch.rng = None

    @property
    def rng(self) -> np.random.Generator:
        """The generator of this call; its seed comes from the problem's key."""
        if self.scratch.rng is None:  # made when asked for: most methods never do
            self.scratch.rng = np.random.default_rng(self.scratch.key)
        return self.scratch.rng

    @property
    def seed(self) -> int:
        """The seed of this call, 31 bits, for libraries that want an int."""
        return self.scratch.key % 2**31

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a part of `register`: normals, features, matching, solve, refine. Adds up if entered again."""
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.scratch.stages[name] = self.scratch.stages.get(name, 0.0) + spent

    def note(self, **facts: Any) -> None:
        """Record what the method says of its own answer (confidence, iterations, inliers). Never used as a score."""
        self.scratch.notes.update(facts)


def rigid(rotation: NDArray[Any], translation: NDArray[Any]) -> Pose:
    """The (4, 4) float64 matrix of a rotation (3, 3) and a translation (3,)."""
    T = np.eye(4)
    T[:3, :3] = rotation
    T[:3, 3] = translation
    return T
