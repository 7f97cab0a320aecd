"""Every method on two clouds of one's own, each in a process of its own that is timed and can be killed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.conformance.command import default_domain
from bench.execution.pool_worker import validate_reply
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup
from bench.pair.clouds import Scans
from bench.storage.outcome import Status
from common import specs
from common.keys import seed_of
from methods.core.registry import MethodRegistry, MethodSpec

WARM_UP = 256
"""Points of the call that comes first and is not timed."""

REPORTED = ("confidence", "inliers", "clique", "matches", "converged")
"""Notes by which methods tell how sure they are, the most telling first. Not comparable between methods."""


@dataclass(frozen=True)
class Answer:
    """What became of a method. The pose maps source into target in the files' frames; None unless the status is ok."""

    method: str
    kind: str
    status: Status
    time_ms: float
    pose: NDArray[np.float64] | None
    message: str
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def confidence(self) -> str:
        """What the method says of its own answer: the first of `REPORTED` that it noted."""
        for name in REPORTED:
            if isinstance(value := self.notes.get(name), int | float):
                return f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        return ""


def defaults() -> dict[str, Any]:
    """What is done unless told otherwise (`defaults.toml`)."""
    return tomllib.loads((files("bench.pair") / "defaults.toml").read_text(encoding="utf-8"))


def chosen(asked: list[str] | None, registry: MethodRegistry) -> list[MethodSpec]:
    """The methods to ask: those named; without a name, all but controls and those that are left out.

    Raises:
        InputError: an unknown name or parameter.
    """
    said = defaults()
    offers = registry.entries
    everything = [n for n, offer in offers.items() if offer.cls.kind != "control" and offer.cls.in_all] + said["chains"]
    if asked is None:
        names = [n for n in everything if n not in said["leave_out"]]
    else:
        names = [n for text in specs.split_list(asked) for n in (everything if text == "all" else [text])]
    return [registry.spec(name) for name in dict.fromkeys(names)]


def register_all(
    scans: Scans, methods: Iterable[MethodSpec], limits: Limits, device: str, threads: int
) -> Iterator[Answer]:
    """The answer of each method, as it comes.

    Raises:
        InputError: a method was given bad input, such as weights of another architecture.
    """
    source, target = scans.given()
    for method in methods:
        # No weights are trained on one's own files: those of the main job serve.
        child = MethodProcess(MethodSetup(method, default_domain(), device, threads), limits)
        seed = seed_of("pair", method.text)
        try:
            if child.start().status == Status.OK:  # what the first call loads is not the method's time
                child.register(source[:: -(-len(source) // WARM_UP)], target[:: -(-len(target) // WARM_UP)], seed)
            reply = child.register(source, target, seed)
            pair = validate_reply(reply)[0]
        finally:
            child.close()
        pose = None if pair.pose is None else scans.restored(pair.pose)
        yield Answer(method.text, method.kind, pair.status, reply.time_ms, pose, pair.message, reply.notes)
