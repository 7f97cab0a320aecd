"""A chain of methods: the first one's pose initialises the next, as in `fgr+icp`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from common.devices import CPU
from common.kinds import DataKind
from methods.core.base import Cloud, Method, Pose


class Chain(Method):
    """The first method's pose initialises the next: `fgr+icp`."""

    parts: tuple[Method, ...]

    @property
    def kind(self) -> str:  # type: ignore[override]
        """Kind of the first part."""
        return self.parts[0].kind

    @property
    def random(self) -> bool:  # type: ignore[override]
        """Whether the pose of any part depends on the seed."""
        return any(part.random for part in self.parts)

    @property
    def environment(self) -> Mapping[str, str]:  # type: ignore[override]
        """Environment variables of all parts."""
        return {name: value for part in self.parts for name, value in part.environment.items()}

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of each part, under its number and class."""
        return {f"{i} {type(part).__name__}": part.parameters for i, part in enumerate(self.parts, 1)}

    def adapt(self, kind: DataKind) -> None:
        """Set `data_kind` of every part."""
        super().adapt(kind)
        for part in self.parts:
            part.adapt(kind)

    def setup(self, device: str, seed: int, domain: str) -> None:
        """Set up every part on the device if it uses that, else on the CPU; prefix its notes with its number."""
        for i, part in enumerate(self.parts, 1):
            part.setup(device if device.partition(":")[0] in part.devices else CPU, seed, domain)
            self.note(**{f"{i} {name}": fact for name, fact in part.scratch.notes.items()})

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """Run the first part, then refine its pose with each following part."""
        with self._part(0) as first:
            T = first.register(source, target)
        for i in range(1, len(self.parts)):
            with self._part(i) as refiner, self.stage("refine"):
                T = refiner.register(source, target, T)  # type: ignore[call-arg]
        return T

    @contextmanager
    def _part(self, i: int) -> Iterator[Method]:
        """Yield a part with its own generator; its notes, and the first part's stages, become the chain's.

        A refinement counts as one stage, whatever stages it has itself.
        """
        part = self.parts[i]
        part.begin(self.seed + i)
        yield part
        self.note(**part.scratch.notes)
        if i == 0:
            self.scratch.spans += part.scratch.spans
