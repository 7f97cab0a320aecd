"""`bench.py check NAME`: every check of `bench.conformance.checks`, in a process that may crash or hang without harm."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.conformance.checks import CHECKS
from bench.isolation.process import Limits, MethodProcess, MethodSetup
from bench.planning.config import load_preset
from common.errors import InputError
from methods.core import registry

if TYPE_CHECKING:
    from rich.console import Console

BUDGET_S = 60.0
MEMORY_GB = 8.0
FIXES = {
    "crash": "find the call that ends the process, and raise NoSolution before it",
    "timeout": "a call must end; bound the iterations, or check a method of fewer: NAME[parameter=value]",
    "out_of_memory": "thin the clouds, or work in blocks",
}
"""What to do when the process did not live to tell."""


def default_domain() -> str:
    """What a learned method is set up for if nothing else is said: the data of the main job."""
    return str(load_preset("quick")["datasets"][0])


def run(method: str, domain: str, plugins: Path | None, console: Console) -> bool:
    """Check a method, print a line a check; returns whether all are well.

    Raises:
        InputError: there is no such method, or it can't be used here.
    """
    registry.build(method, plugins)
    if reason := registry.unavailable(method, plugins):
        raise InputError(f"{method} can't be checked: {reason}")
    child = MethodProcess(MethodSetup(method, domain, plugins=plugins), Limits(BUDGET_S, MEMORY_GB))
    ready = child.start()
    if ready["status"] != "ok":
        child.close()
        raise InputError(f"{method} can't be checked: {ready['message']}")
    start, bad, made = time.monotonic(), 0, 0
    try:
        for name in CHECKS:
            left = BUDGET_S - (time.monotonic() - start)
            if left <= 0:
                break
            good, line = _run_one(child, name, left)
            bad, made = bad + (not good), made + 1
            console.print(f"{'ok  ' if good else 'FAIL'}  {name:20} {line}", highlight=False, soft_wrap=True)
    finally:
        child.close()
    console.print(_verdict(method, bad, made, time.monotonic() - start), highlight=False, soft_wrap=True)
    return made == len(CHECKS) and not bad


def _verdict(method: str, bad: int, made: int, spent: float) -> str:
    """What it all comes to."""
    rest = len(CHECKS) - made
    late = f"{rest} are not reached within {BUDGET_S:g} s: a call takes long; check cheaper parameters: NAME[parameter=value]"
    told = [f"{bad} of {len(CHECKS)} checks fail"] * bool(bad) + [late] * bool(rest)
    return f"{method}: {'; '.join(told) or f'all {len(CHECKS)} checks are well'} ({spent:.0f} s)"


def _run_one(child: MethodProcess, name: str, left: float) -> tuple[bool, str]:
    """Whether a check is well, and what to print beside its name."""
    reply = child.check(name, left)
    mend = FIXES.get(reply["status"], "")
    return reply["status"] == "ok", f"{reply['message']}{'; ' if mend else ''}{mend}"
