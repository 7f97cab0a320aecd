"""Server of a method's process that also answers conformance checks."""

from __future__ import annotations

from bench.conformance.checks import CHECKS, CheckFailed, CheckRequest, PlainCallFailed, on_device
from bench.isolation.protocol import Reply
from bench.isolation.server import HANDLERS, main
from bench.storage.outcome import Status
from methods.base import Method


def check(method: Method, device: str, request: CheckRequest) -> Reply:
    """Run a check; `message` is its remark, or what is wrong with status `error`, `invalid` if other checks need not run."""
    try:
        with on_device(device):
            return Reply(message=CHECKS[request.name](method))
    except PlainCallFailed as failure:
        return Reply(Status.INVALID, message=str(failure))
    except CheckFailed as failure:
        return Reply(Status.ERROR, message=str(failure))


if __name__ == "__main__":
    main({**HANDLERS, CheckRequest: check})
