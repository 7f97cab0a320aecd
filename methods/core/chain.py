"""Chain of methods, `a+b`: the pose of each initialises the next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from methods.core.base import Cloud, Method, Pose


class Chain(Method):
    """The first method's pose initialises the next: `fgr+icp`."""

    parts: tuple[Method, ...]

    def setup(self, device: str, seed: int, domain: str) -> None:
        """Set up every part; prefix the notes of each with its number, because two parts may note the same name."""
        for i, part in enumerate(self.parts, 1):
            part.setup(device, seed, domain)
            self.note(**{f"{i} {name}": fact for name, fact in part.scratch.notes.items()})

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """Run the first part, then refine its pose with each following one."""
        with self._part(0) as first:
            T = first.register(source, target)
        for i in range(1, len(self.parts)):
            with self._part(i) as refiner, self.stage("refine"):
                T = refiner.register(source, target, T)  # type: ignore[call-arg]
        return T

    @contextmanager
    def _part(self, i: int) -> Iterator[Method]:
        """Yield a part with its own generator; copy its notes, and the stages of the first part, to the chain.

        A refinement counts as one stage, whatever stages it has itself.
        """
        part = self.parts[i]
        part.begin(self.seed + i)
        yield part
        self.note(**part.scratch.notes)
        if i == 0:
            self.scratch.stages.update(part.scratch.stages)
