"""A chain passes on poses, seeds, devices and notes of its parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.kinds import DataKind
from methods.base import Cloud, Method, Pose, rigid
from methods.core.chain import Chain

CLOUD = np.zeros((5, 3), dtype=np.float32)


class Part(Method):
    """Record its calls; move the given pose by `shift`."""

    kind = "local"
    local = True
    environment = {"A": "1", "B": "2"}

    shift: float = 1.0

    def setup(self, device: str, seed: int, domain: str) -> None:
        self.state["setup"] = (device, seed, domain)
        self.note(sha256=f"of {self.shift}")

    def register(self, source: Cloud, target: Cloud, init: Pose | None = None) -> Pose:
        with self.stage("own"):
            self.note(shift=self.shift, draw=float(self.rng.normal()))
        self.state["call"] = (source, target, self.seed)
        return (np.eye(4) if init is None else init) @ rigid(np.eye(3), np.array([self.shift, 0, 0]))


class OnGpu(Part):
    """The same, on a GPU, with random numbers."""

    kind = "global"
    random = True
    devices = ("cpu", "cuda")
    environment = {"B": "3"}


def test_the_pose_of_a_part_initialises_the_next_with_its_own_seed() -> None:
    parts = OnGpu(shift=1.0), Part(shift=20.0), Part(shift=300.0)
    chain = Chain(parts=parts)
    chain.begin(7)
    other = CLOUD + 1
    T = chain.register(CLOUD, other)
    assert T[:3, 3].tolist() == [321, 0, 0]
    assert [part.state["call"][2] for part in parts] == [7, 8, 9]
    assert all(part.state["call"][0] is CLOUD and part.state["call"][1] is other for part in parts)
    draw = float(np.random.default_rng(9).normal())
    assert chain.scratch.notes == {"shift": 300.0, "draw": draw}
    assert [name for name, *_ in chain.scratch.spans] == ["own", "refine", "refine"]


@pytest.mark.parametrize(("device", "used"), [("cpu", ["cpu", "cpu"]), ("cuda:1", ["cuda:1", "cpu"])])
def test_parts_are_set_up_on_their_devices_with_numbered_notes(device: str, used: list[str]) -> None:
    parts = OnGpu(shift=1.0), Part(shift=2.0)
    chain = Chain(parts=parts)
    chain.setup(device, 5, "shapes40")
    assert [part.state["setup"] for part in parts] == [(name, 5, "shapes40") for name in used]
    assert chain.scratch.notes == {"1 sha256": "of 1.0", "2 sha256": "of 2.0"}
    chain.adapt(DataKind.SCANS)
    assert {method.data_kind for method in (chain, *parts)} == {DataKind.SCANS}


def test_properties_are_those_of_the_parts() -> None:
    both, plain = Chain(parts=(Part(), OnGpu(shift=2.0))), Chain(parts=(Part(), Part()))
    assert (both.kind, both.random, plain.random, Chain(parts=(OnGpu(), Part())).kind) == (
        "local",
        True,
        False,
        "global",
    )
    assert both.environment == {"A": "1", "B": "3"}
    expected: dict[str, Any] = {"1 Part": {"shift": 1.0}, "2 OnGpu": {"shift": 2.0}}
    assert both.parameters == expected
