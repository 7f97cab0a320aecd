"""What arrives from a method's process is checked: only plain values of known types, clean text, a plausible duration."""

from __future__ import annotations

import io
import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np

from bench.isolation.protocol import PairReply, Reply
from bench.storage.outcome import Status
from common.text import MAX_ENTRIES, clean, clean_json
from methods.core.base import Gaussians

MAX_BYTES = 1 << 30
"""Maximum size of a reply."""
CLOCK_SLACK, CLOCK_SLACK_S = 0.2, 1.0
"""Share and seconds by which a call may be shorter than this process waited for it: preparing the call is not timed."""
_KNOWN = {(cls.__module__, cls.__qualname__): cls for cls in (Gaussians, np.ndarray, np.dtype)}
"""Classes that a reply may contain beside plain values, by module and name."""
_NUMPY = {"_reconstruct", "_frombuffer", "scalar"}
"""Functions of NumPy that build an array or a scalar from a reply."""


class BadReply(Exception):
    """Raised for bytes that are no reply to the request."""


class _Unpickler(pickle.Unpickler):
    """Unpickler that runs no code of a plug-in: it knows the classes of a reply only."""

    def find_class(self, module: str, name: str) -> Any:
        """See `pickle.Unpickler.find_class`."""
        if (known := _KNOWN.get((module, name))) is not None:
            return known
        if module in ("numpy._core.multiarray", "numpy._core.numeric", "numpy.core.multiarray") and name in _NUMPY:
            return super().find_class(module, name)
        raise BadReply(f"the reply contains {module}.{name}")


def parse_reply(data: bytes, number: int, process_id: int) -> Reply:
    """Return the reply that a message holds.

    Args:
        data: the message.
        number: number of the request.
        process_id: id of the process it was sent to.

    Raises:
        BadReply: the message is not the reply to the request by that process.
    """
    try:
        answered, sender, fields = _Unpickler(io.BytesIO(data)).load()
        reply = _plain(**fields)
    except BadReply:
        raise
    except Exception as error:  # damaged bytes can raise nearly anything
        raise BadReply(f"no reply ({type(error).__name__})") from error
    if sender != process_id:
        raise BadReply(reply.message or "a reply of another process")
    if answered != number:
        raise BadReply(f"the reply to call {answered} instead of {number}")
    return reply


def _plain(
    status: Any, pairs: Any, message: Any, stages: Any, notes: Any, extra: Any, killed: Any, last: Any, **measured: Any
) -> Reply:
    """Return a reply of plain values and clean text. Only this process knows whether the other one was `killed`."""
    numbers: dict[str, Any] = {name: float(value) for name, value in measured.items()}
    return Reply(
        Status(status),
        [
            PairReply(Status(s), None if pose is None else np.array(pose, dtype=np.float64), clean(text))
            for s, pose, text in pairs
        ],
        clean(message),
        stages={clean(str(name)): float(ms) for name, ms in list(stages.items())[:MAX_ENTRIES]},
        notes=clean_json(notes),
        extra=extra,
        last=bool(last),
        **numbers,
    )


def bound_time(reply: Reply, elapsed_s: float, waited_s: float) -> Reply:
    """Return a reply whose duration agrees with the clock of this process; else the time is `elapsed_s`, without stages.

    Args:
        reply: of a call that ended; its `time_ms` is NaN if the request is not timed.
        elapsed_s: seconds from the request, or the end of the call before it, to this reply. No call takes longer.
        waited_s: the part of them in which this process only waited for the reply. A call is not much shorter.
    """
    if math.isnan(reply.time_ms) and not reply.pairs:
        return reply
    shortest = max((1 - CLOCK_SLACK) * waited_s - CLOCK_SLACK_S, 0.0)
    fits = shortest <= reply.time_ms / 1e3 <= elapsed_s
    stages_fit = fits and all(0 <= ms <= 1e3 * elapsed_s for ms in reply.stages.values())
    if fits and stages_fit:
        return reply
    return replace(reply, time_ms=reply.time_ms if fits else 1e3 * elapsed_s, stages=reply.stages if stages_fit else {})
