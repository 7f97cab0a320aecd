"""Register two clouds by every method, each in its own process with time and memory limits."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.conformance.command import default_domain
from bench.execution.pool_worker import validate_reply
from bench.isolation.process import Limits, MethodProcess, MethodSetup
from bench.pair.clouds import Scans
from common import specs
from common.keys import seed_of
from methods.core import registry

WARM_UP = 256
"""Points of the untimed warm-up call."""

REPORTED = ("confidence", "inliers", "clique", "matches", "converged")
"""Notes of methods on their confidence, in order of preference; not comparable between methods."""


@dataclass(frozen=True)
class Registration:
    """Result of one method. The pose maps source into target in the files' frames; None unless the status is ok."""

    method: str
    kind: str
    status: str
    time_ms: float
    pose: NDArray[np.float64] | None
    message: str
    notes: dict[str, Any] = field(default_factory=dict)

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


def select_methods(requested: list[str] | None, plugins: Path | None) -> list[str]:
    """Return the methods to run: those requested, or by default all except controls and `leave_out`.

    Raises:
        InputError: an unknown name or parameter.
    """
    default = defaults()
    entries = registry.available(plugins)
    everything = [n for n, entry in entries.items() if entry.cls.kind != "control" and entry.cls.in_all]
    everything += default["chains"]
    if requested is None:
        names = [n for n in everything if n not in default["leave_out"]]
    else:
        names = [n for text in specs.split_list(requested) for n in (everything if text == "all" else [text])]
    for name in names:
        registry.build(name, plugins)
    return list(dict.fromkeys(names))


def register_all(
    scans: Scans, methods: Iterable[str], limits: Limits, device: str, threads: int, plugins: Path | None
) -> Iterator[Registration]:
    """Yield the result of each method as it finishes.

    Raises:
        InputError: invalid input of a method, such as weights of another architecture.
    """
    source, target = scans.method_input()
    for method in methods:
        kind = registry.kind_of(registry.build(method, plugins))
        # Learned methods use the weights of the main job, since none are trained on the user's files.
        process = MethodProcess(MethodSetup(method, default_domain(), device, threads, plugins=plugins), limits)
        seed = seed_of("pair", method)
        try:
            if process.start()["status"] == "ok":  # warm up: loading of libraries is not timed
                process.register(source[:: -(-len(source) // WARM_UP)], target[:: -(-len(target) // WARM_UP)], seed)
            reply = validate_reply(process.register(source, target, seed))
        finally:
            process.close()
        pose = None if reply["pose"] is None else scans.restored(reply["pose"])
        time_ms, message = reply.get("time_ms", float("nan")), reply.get("message", "")
        yield Registration(method, kind, reply["status"], time_ms, pose, message, reply.get("notes", {}))
