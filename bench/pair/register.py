"""Register two clouds by every method, each in its own process with time and memory limits."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.execution.pool_worker import validate_reply
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup
from bench.pair.clouds import Scans
from bench.pair.families import family
from bench.storage.outcome import Status
from common import specs
from common.keys import seed_of
from methods.core.registry import MethodRegistry, MethodSpec

WARM_UP = 256
"""Points of the untimed warm-up call."""

REPORTED = ("confidence", "inliers", "clique", "matches", "converged")
"""Notes of methods on their confidence, in order of preference; not comparable between methods."""


@dataclass(frozen=True)
class Registration:
    """Result of one method. The pose maps source into target in the files' frames; None unless the status is ok.

    `family` names the methods that count as one witness with it (see `bench.pair.families`); `device` is that of its time.
    """

    method: str
    kind: str
    family: str
    status: Status
    time_ms: float
    pose: NDArray[np.float64] | None
    message: str
    notes: dict[str, Any] = field(default_factory=dict)
    device: str = "cpu"

    @property
    def confidence(self) -> str:
        """Reported confidence: the first of `REPORTED` among the notes, as text."""
        for name in REPORTED:
            if isinstance(value := self.notes.get(name), int | float):
                return f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        return ""


def defaults() -> dict[str, Any]:
    """Read the default options (`defaults.toml`)."""
    return tomllib.loads((files("bench.pair") / "defaults.toml").read_text(encoding="utf-8"))


def select_methods(requested: list[str] | None, registry: MethodRegistry) -> list[MethodSpec]:
    """Return the methods to run: those requested, or by default all except controls and `leave_out`.

    Raises:
        InputError: an unknown name or parameter.
    """
    default = defaults()
    everything = [n for n, entry in registry.entries.items() if entry.facts.kind != "control" and entry.facts.in_all]
    everything += default["chains"]
    if requested is None:
        names = [n for n in everything if n not in default["leave_out"]]
    else:
        names = [n for text in specs.split_list(requested) for n in (everything if text == "all" else [text])]
    return [registry.spec(name) for name in dict.fromkeys(names)]


def register_all(
    scans: Scans, methods: Iterable[MethodSpec], limits: Limits, domain: str, device: str, threads: int
) -> Iterator[Registration]:
    """Yield the result of each method as it finishes.

    Raises:
        InputError: invalid input of a method, such as weights of another architecture.
    """
    source, target = scans.method_input()
    for method in methods:
        setup = MethodSetup(method, domain, method.device_on(device), threads, kind=scans.kind)
        process = MethodProcess(setup, limits)
        try:
            if process.start().status == Status.OK:  # warm up: loading of libraries is not timed
                few = source[:: -(-len(source) // WARM_UP)], target[:: -(-len(target) // WARM_UP)]
                process.register(*few, seed_of("pair", method.text))
            yield register(scans, process)
        finally:
            process.close()


def register(scans: Scans, process: MethodProcess) -> Registration:
    """Register the scans by the method of a process, which stays open.

    Raises:
        InputError: invalid input of the method, such as weights of another architecture.
    """
    method = process.setup.method
    clouds = scans.method_input()
    reply = process.register(*clouds, seed_of("pair", method.text))
    pair = validate_reply(reply, [clouds])[0]
    pose = None if pair.pose is None else scans.restored(pair.pose)
    return Registration(
        method.text,
        method.kind,
        family(method),
        pair.status,
        reply.time_ms,
        pose,
        pair.message,
        reply.notes,
        process.setup.device,
    )
