"""Measure the memory of methods against the number of points: growth over the idle process, and the exponent of that growth.

    python -m performance.memory [METHOD …]

Each method runs in a separate process on noisy pairs of 4 096 to 65 536 points, with at most 25 minutes per call,
because matching descriptors is slow. An exponent of 1 is linear growth.
"""

from __future__ import annotations

import sys

import numpy as np

from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup
from datasets.problems import ProblemKey, make_problem
from datasets.registry import DataRegistry
from methods.core.registry import MethodRegistry

METHODS = ("deepgmr", "icp", "fgr", "ransac10k", "teaser", "hgmr")
POINTS = (4096, 8192, 16384, 32768, 65536)
LIMITS = Limits(1500, 16)


def growth_mb(method: str) -> list[float]:
    """Return the megabytes at each point count (NaN without a call), the maximum of the process so far."""
    megabytes = []
    with_data = DataRegistry.at().spec("shapes40").objects()
    child = MethodProcess(MethodSetup(MethodRegistry().spec(method), "shapes40"), LIMITS)
    try:
        for points in POINTS:
            problem = make_problem(with_data, ProblemKey("shapes40", "noisy", points, 3))
            reply = child.register(problem.source, problem.target, 0)
            megabytes.append(reply.peak_mb)
    finally:
        child.close()
    return megabytes


def exponent(mb: list[float]) -> float:
    """Return the slope of log memory against log points over the last doubling; before, the allocator's reserves dominate."""
    (few, n), (many, m) = zip(mb[-2:], POINTS[-2:], strict=True)
    return float(np.log(many / few) / np.log(m / n)) if few > 0 and many > 0 else float("nan")


def main() -> None:
    """Print the table."""
    print("| method | " + " | ".join(f"{n} points, MB" for n in POINTS) + " | exponent |")
    print("|---|" + "---:|" * (len(POINTS) + 1))
    for method in sys.argv[1:] or METHODS:
        if reason := MethodRegistry().spec(method).unavailable():
            print(f"| {method} | {reason} |")
            continue
        mb = growth_mb(method)
        print(f"| {method} | " + " | ".join(f"{value:.0f}" for value in mb) + f" | {exponent(mb):.2f} |", flush=True)


if __name__ == "__main__":
    main()
