"""Server of a method's process: receive requests over a connection, call the method, reply. Started by `process`.

Whatever the method's libraries print goes to the log, not to the terminal.
"""

from __future__ import annotations

import itertools
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from bench.isolation.measure import is_usable, measure, stage_clock, synchronize
from bench.isolation.protocol import (
    GaussiansRequest,
    MethodSetup,
    PairReply,
    RegisterRequest,
    Reply,
    pack_reply,
    unpack_request,
)
from bench.storage.outcome import Status
from bench.storage.pose import pose_fault
from common.errors import InputError
from common.processes import die_with_parent
from common.text import MAX_ENTRIES, clean, clean_json
from methods.base import Method, NoSolution, Unavailable
from methods.core.chain import Chain
from methods.core.description import missing_package

Handler = Callable[[Method, str, Any], Reply]
"""Answers a request, given the method, its device and the request."""
FORKED = "a copy of the process, made by os.fork, returned from the call, too; end the copy with os._exit"
MAX_NOTE = 200
"""Maximum length of a note that is a text."""


def main(handlers: Mapping[type, Handler]) -> None:
    """Serve a method; the arguments are the file descriptors to read and write, and the id of the parent."""
    die_with_parent(int(sys.argv[3]))
    serve(handlers, Connection(int(sys.argv[1]), writable=False), Connection(int(sys.argv[2]), readable=False))


def serve(handlers: Mapping[type, Handler], requests: Connection, replies: Connection) -> None:
    """Answer requests until the parent closes the connection."""
    os.dup2(2, 1)  # prints of native code go to the log, like standard error
    process_id = os.getpid()
    method: Method | None = None
    device = "cpu"
    while True:
        try:
            number, request = unpack_request(requests.recv_bytes())
        except EOFError:
            return
        if isinstance(request, MethodSetup):
            device = request.device
            method, reply = _set_up(request)
        else:
            assert method is not None
            reply = handlers[type(request)](method, device, request)
        reply.last = reply.status != Status.OK and not is_usable(device)
        if os.getpid() != process_id:  # two processes would answer from now on, each call after it with another's reply
            reply = Reply(Status.CRASH, message=FORKED)
        replies.send_bytes(pack_reply(number, os.getpid(), reply))
        if os.getpid() != process_id:
            os._exit(1)


def _set_up(setup: MethodSetup) -> tuple[Method | None, Reply]:
    try:
        method = setup.method.build()
        for part in method.parts if isinstance(method, Chain) else (method,):
            if reason := missing_package(type(part)):
                raise Unavailable(reason)
            part.scratch.clock = stage_clock(setup.device)
        method.scratch.clock = stage_clock(setup.device)
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

    def register_pairs() -> list[PairReply]:
        if len(request.sources) == 1:
            return [_pair_reply(method.register(request.sources[0], request.targets[0]))]
        return [_pair_reply(result) for result in method.register_batch([*request.sources], [*request.targets])]

    return _measured(method, device, request.seed, register_pairs, "pairs")


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
            try:
                setattr(reply, field, call())
            finally:
                synchronize(device)  # a GPU returns before it is done; the clock stops when it is, also after an error
        except NoSolution as reason:
            reply.status, reply.message = Status.NO_SOLUTION, str(reason)
        except BaseException as error:
            traceback.print_exc()
            reply.status = _status_of(error)
            reply.message = f"{type(error).__name__}: {error}".split("\n")[0]
    reply.message = clean(reply.message)
    if reply.status in (Status.OK, Status.NO_SOLUTION) or is_usable(device):  # else CUDA has no times of events
        reply.stages = {str(name): 1e3 * seconds for name, seconds in method.scratch.stages.items()}
    reply.notes = plain_notes(method.scratch.notes)
    return reply


def _status_of(error: BaseException) -> Status:
    no_memory = (
        isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__ or "allocate memory" in str(error)
    )
    return Status.OUT_OF_MEMORY if no_memory else Status.ERROR


def _pair_reply(result: Any) -> PairReply:
    """Convert what a method returned for a pair; anything but a rigid matrix is `invalid`, with the reason."""
    if isinstance(result, NoSolution):
        return PairReply(Status.NO_SOLUTION, message=clean(str(result)))
    if fault := pose_fault(result):
        return PairReply(Status.INVALID, message=clean(fault))
    return PairReply(pose=np.array(result, dtype=np.float64))


def plain_notes(notes: Mapping[str, Any]) -> dict[str, Any]:
    """Convert notes to plain JSON values of limited size; anything else becomes its repr."""
    first = itertools.islice(notes.items(), MAX_ENTRIES)
    scalars = {key: value.item() if isinstance(value, np.generic) else value for key, value in first}
    return {
        clean(str(key), MAX_NOTE): clean_json(
            value if isinstance(value, str | int | float | None) else repr(value), MAX_NOTE
        )
        for key, value in scalars.items()
    }


if __name__ == "__main__":
    main(HANDLERS)
