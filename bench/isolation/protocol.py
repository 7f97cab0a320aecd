"""Messages between the benchmark and a method's process. Only clouds and a seed describe a problem to a method."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.storage.outcome import Status
from common.kinds import DataKind
from methods.core.registry import MethodSpec

Points = NDArray[np.float32]
NAN = float("nan")


@dataclass(frozen=True)
class MethodSetup:
    """What a method's process is started with. Equal setups can share a process.

    Attributes:
        method: the method and the registry that resolves its name.
        domain: data the method is set up for, such as `modelnet40/first20`; chooses weights.
        device: `cpu` or `cuda:NUMBER`; that of `MethodSpec.device_on`.
        threads: threads the method may use.
        seed: seed of the run.
        kind: kind of the data, to which the method adapts its settings.
    """

    method: MethodSpec
    domain: str
    device: str = "cpu"
    threads: int = 1
    seed: int = 0
    kind: DataKind = DataKind.OBJECTS


@dataclass(frozen=True)
class Limits:
    """Limits of a call: `timeout` in seconds, and `memory_gb` of resident memory of the process and its descendants."""

    timeout: float
    memory_gb: float


@dataclass(frozen=True)
class RegisterRequest:
    """Register one pair (N, 3) and (M, 3), or a batch of pairs whose clouds have equal sizes, with one seed."""

    sources: Sequence[Points]
    targets: Sequence[Points]
    seed: int


@dataclass(frozen=True)
class GaussiansRequest:
    """Return the mixtures by which the method matches source (N, 3) and target (M, 3)."""

    source: Points
    target: Points
    seed: int = 0


@dataclass
class PairReply:
    """Result for one pair of a call: a rigid pose (4, 4), or the reason why there is none."""

    status: Status = Status.OK
    pose: Any = None
    message: str = ""


@dataclass
class Reply:
    """Result of one message to a method's process.

    Attributes:
        status: how the call ended.
        pairs: one result per pair of the call; empty if the call failed as a whole.
        message: explanation of a failure.
        time_ms: duration of the call.
        peak_mb: growth of the process's resident memory during the call.
        resident_mb: peak of the process's resident memory.
        gpu_memory_mb: growth of what torch allocated on a CUDA device.
        stages: stage name to ms.
        notes: what the method reported about its own result.
        extra: result of a request other than registration.
        killed: whether the process was killed from outside, for example by the out-of-memory killer.
        last: whether the process can answer no further request, because its CUDA device fails every call from now on.
    """

    status: Status = Status.OK
    pairs: list[PairReply] = field(default_factory=list)
    message: str = ""
    time_ms: float = NAN
    peak_mb: float = NAN
    resident_mb: float = NAN
    gpu_memory_mb: float = NAN
    stages: dict[str, float] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    extra: Any = None
    killed: bool = False
    last: bool = False


def pack_request(number: int, request: Any) -> bytes:
    """Pickle a request and its number. Arrays and instances of classes would take longer than plain values."""
    if isinstance(request, RegisterRequest):
        clouds = [list(map(_packed, part)) for part in (request.sources, request.targets)]
        request = (*clouds, request.seed)
    return pickle.dumps((number, request), protocol=5)


def unpack_request(data: bytes) -> tuple[int, Any]:
    """Return the number and the request of a message; the arrays of a request can be written to."""
    number, request = pickle.loads(data)
    if isinstance(request, tuple):
        sources, targets, seed = request
        request = RegisterRequest(list(map(_unpacked, sources)), list(map(_unpacked, targets)), seed)
    return number, request


def _packed(cloud: Points) -> tuple[bytearray, str, tuple[int, ...]]:
    return bytearray(cloud.tobytes()), cloud.dtype.str, cloud.shape


def _unpacked(packed: tuple[bytearray, str, tuple[int, ...]]) -> Points:
    data, kind, shape = packed
    return np.ndarray(shape, kind, data)


def pack_reply(number: int, process_id: int, reply: Reply) -> bytes:
    """Pickle a reply with the number of its request and the id of the process that sends it; `received` reads it."""
    pairs = [
        (str(p.status), p.pose.tolist() if isinstance(p.pose, np.ndarray) else p.pose, p.message) for p in reply.pairs
    ]
    fields = vars(reply) | {"status": str(reply.status), "pairs": pairs}
    return pickle.dumps((number, process_id, fields), protocol=5)
