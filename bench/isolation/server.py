"""Server of a method's process: receive requests over a connection, call the method, reply. Started by `process`.

Whatever the method's libraries print goes to the log, not to the terminal.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from bench.isolation.measure import measure, synchronize
from bench.isolation.protocol import GaussiansRequest, MethodSetup, PairReply, RegisterRequest, Reply
from bench.storage.outcome import Status
from common.errors import InputError
from methods.base import Method, NoSolution, Unavailable

Handler = Callable[[Method, str, Any], Reply]
"""Answers a request, given the method, its device and the request."""
PR_SET_PDEATHSIG = 1


def serve(handlers: Mapping[type, Handler]) -> None:
    """Answer requests until the parent closes the connection. The arguments are the file descriptors to read and write."""
    requests, replies = Connection(int(sys.argv[1]), writable=False), Connection(int(sys.argv[2]), readable=False)
    os.dup2(2, 1)  # prints of native code go to the log, like standard error
    _die_with_parent()
    method: Method | None = None
    device = "cpu"
    while True:
        try:
            request = requests.recv()
        except EOFError:
            return
        if isinstance(request, MethodSetup):
            method, reply = _set_up(request)
            device = request.device
        else:
            assert method is not None
            reply = handlers[type(request)](method, device, request)
        replies.send(reply)


def _die_with_parent() -> None:
    """Ask Linux to end this process with the thread that started it, even inside native code."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _set_up(setup: MethodSetup) -> tuple[Method | None, Reply]:
    try:
        method = setup.method.build()
        if reason := setup.method.missing():
            raise Unavailable(reason)
        method.begin(setup.seed)
        method.adapt(setup.kind)
        method.setup(setup.device, setup.seed, setup.domain)
        return method, Reply(notes=plain_notes(method.scratch.notes))
    except Unavailable as reason:
        return None, Reply(Status.UNAVAILABLE, message=str(reason))
    except InputError as error:
        return None, Reply(Status.INPUT, message=str(error))
    except BaseException as error:
        traceback.print_exc()
        return None, Reply(Status.ERROR, message=f"setup: {type(error).__name__}: {error}")


def register(method: Method, device: str, request: RegisterRequest) -> Reply:
    """Register one pair or a batch of pairs, timed as a whole. The method has been set up."""

    def call() -> list[PairReply]:
        if len(request.sources) == 1:
            return [_pair_reply(method.register(request.sources[0], request.targets[0]))]
        return [_pair_reply(result) for result in method.register_batch([*request.sources], [*request.targets])]

    return _measured(method, device, request.seed, call, "pairs")


def gaussians(method: Method, device: str, request: GaussiansRequest) -> Reply:
    """Return the mixtures of a pair in `extra`; None where the method has none."""
    return _measured(method, device, request.seed, lambda: method.gaussians(request.source, request.target), "extra")


HANDLERS: dict[type, Handler] = {RegisterRequest: register, GaussiansRequest: gaussians}


def _measured(method: Method, device: str, seed: int, call: Callable[[], Any], field: str) -> Reply:
    """Run a call and measure it; its result goes into a field of the reply."""
    method.begin(seed)
    reply = Reply()
    with measure(device, reply):
        try:
            setattr(reply, field, call())
            synchronize(device)  # a GPU returns before it is done; the clock stops when it is
        except NoSolution as reason:
            reply.status, reply.message = Status.NO_SOLUTION, str(reason)
        except BaseException as error:
            traceback.print_exc()
            reply.status = _status_of(error)
            reply.message = f"{type(error).__name__}: {error}".split("\n")[0]
    reply.stages = {name: 1e3 * seconds for name, seconds in method.scratch.stages.items()}
    reply.notes = plain_notes(method.scratch.notes)
    return reply


def _status_of(error: BaseException) -> Status:
    no_memory = (
        isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__ or "allocate memory" in str(error)
    )
    return Status.OUT_OF_MEMORY if no_memory else Status.ERROR


def _pair_reply(result: Any) -> PairReply:
    """Convert what a method returned for a pair; something that is not numeric is sent as its repr."""
    if isinstance(result, NoSolution):
        return PairReply(Status.NO_SOLUTION, message=str(result))
    try:
        return PairReply(pose=np.array(result, dtype=np.float64))
    except (TypeError, ValueError):
        return PairReply(pose=repr(result)[:200])


def plain_notes(notes: Mapping[str, Any]) -> dict[str, Any]:
    """Convert notes to plain JSON values; anything else becomes its repr."""
    plain: dict[str, Any] = {}
    for key, value in notes.items():
        scalar = value.item() if isinstance(value, np.generic) else value
        plain[key] = scalar if isinstance(scalar, str | int | float | bool | None) else repr(scalar)[:200]
    return plain


if __name__ == "__main__":
    serve(HANDLERS)
