"""`bench.py check NAME`: run every check of `bench.conformance.checks` in a method process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.conformance.checks import CHECKS, CheckRequest
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup
from bench.storage.outcome import Status
from common.devices import CPU
from common.errors import InputError
from methods.core.registry import MethodSpec

if TYPE_CHECKING:
    from rich.console import Console

BUDGET_S = 60.0
"""Seconds that all checks of a method may take, once it is set up."""
MEMORY_GB = 8.0
FIXES = {
    Status.CRASH: "find the call that ends the process, and raise NoSolution before it",
    Status.TIMEOUT: "a call must end; limit the iterations, or check cheaper parameters: NAME[parameter=value]",
    Status.OUT_OF_MEMORY: "subsample the clouds, or work in blocks",
}
"""How to fix a check during which the process ended."""
NEEDED_BY_ALL = "every check needs such a call; fix it first"
"""Why the other checks are not run after a call on plain clouds failed."""


def run(method: MethodSpec, domain: str, console: Console, device: str = CPU) -> bool:
    """Check a method and print one line per check; return whether all checks passed.

    Raises:
        InputError: the method is not available here.
    """
    if reason := method.unavailable():
        raise InputError(f"{method} cannot be checked: {reason}")
    setup = MethodSetup(method, domain, method.device_on(device))
    process = MethodProcess(setup, Limits(BUDGET_S, MEMORY_GB), server="bench.conformance.server")
    results = list[bool]()
    try:
        ready = process.start()
        if ready.status != Status.OK:
            raise InputError(f"{method} cannot be checked: {ready.message}")
        start = time.monotonic()
        for name in CHECKS:
            left = BUDGET_S - (time.monotonic() - start)
            if left <= 0:
                break
            reply = process.call(CheckRequest(name), left)
            results.append(reply.status == Status.OK)
            fix = f"; {FIXES[reply.status]}" if reply.status in FIXES else ""
            line = f"{'ok  ' if results[-1] else 'FAIL'}  {name:20} {reply.message}{fix}"
            console.print(line, highlight=False, soft_wrap=True)
            if reply.status == Status.INVALID:  # the other checks would repeat it
                break
    finally:
        process.close()
    too_slow = f"{BUDGET_S:g} s are over: a call takes long; check cheaper parameters: NAME[parameter=value]"
    why = NEEDED_BY_ALL if reply.status == Status.INVALID else too_slow
    console.print(_verdict(method, results, why, time.monotonic() - start), highlight=False, soft_wrap=True)
    return len(results) == len(CHECKS) and all(results)


def _verdict(method: MethodSpec, results: list[bool], why: str, seconds: float) -> str:
    """Summarise the checks in one line; `why` is the reason if some were not run."""
    failed, skipped = results.count(False), len(CHECKS) - len(results)
    parts = [f"{failed} of {len(CHECKS)} checks failed"] * bool(failed)
    parts += [f"{skipped} not run: {why}"] * bool(skipped)
    return f"{method}: {'; '.join(parts) or f'{len(CHECKS)} checks passed'} ({seconds:.0f} s)"
