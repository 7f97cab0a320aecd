"""Time DeepGMR: by stage beside a plain implementation of the paper, in batches, and beside the other global methods.

    python -m performance.deepgmr [ROUNDS]

Our implementation and the plain one (`plain_deepgmr.py`, same weights, same threads, same allocator) alternate in one
process, and their poses are compared. The methods of the last table run as in a benchmark, each in a separate process,
and alternate, too. Times are medians.
"""

from __future__ import annotations

import os
import sys

from methods.learned.weights import MALLOC, WEIGHTS_FOLDER

if any(os.environ.get(name) != value for name, value in MALLOC.items()):  # read by the C library when a process starts
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **MALLOC})

import time
from collections.abc import Callable, Mapping

import numpy as np
import torch

from bench.execution.timing import sentinel_ms
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup
from datasets.problems import Problem, ProblemKey, make_problem
from datasets.registry import DataRegistry
from methods.core.registry import MethodRegistry
from methods.deepgmr import DeepGMR
from methods.learned.gmr import usable_precision
from methods.nn.inference import QuantisedLayer
from methods.nn.threads import thread_map
from performance.plain_deepgmr import PlainDeepGMR

POINTS = (1000, 2000, 3000, 4000, 5000)
THREADS = (1, 2)
STAGES = ("features", "network", "solve")
BATCH, BATCH_POINTS = 32, 1024
OTHERS = ("fgr", "ransac10k+icp", "teaser", "kiss_matcher")
PAUSE_S = 0.02
TOLERANCE = {"int8": 2e-2, "bfloat16": 2e-3, "float32": 1e-4}
"""Maximum difference between entries of the two poses on noisy clouds."""


def problems(points: int, count: int) -> list[Problem]:
    """Return noisy problems of shapes40's test split, of different categories."""
    keys = [ProblemKey("shapes40", "noisy", points, 41 * i) for i in range(count)]
    return [make_problem(DataRegistry.at().spec("shapes40").objects(), key) for key in keys]


def timed(call: Callable[[], object]) -> float:
    """Return the milliseconds of a call, after the threads of the call before have stopped waiting for work."""
    time.sleep(PAUSE_S)
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def beside_plain(ours: DeepGMR, plain: PlainDeepGMR, points: int, rounds: int, apart: float) -> dict[str, list[float]]:
    """Return the milliseconds of each round: both whole, and both by stage (`plain features` …). Check that the poses agree."""
    spent: dict[str, list[float]] = {}

    def note(who: str, whole: float, stages: Mapping[str, float]) -> None:
        for name, ms in [("whole", whole), *((stage, 1e3 * stages[stage]) for stage in STAGES)]:
            spent.setdefault(f"{who} {name}", []).append(ms)

    for number, problem in enumerate(problems(points, rounds + 1)):
        pair = problem.source, problem.target
        ours.begin(0)
        plain.stages = dict.fromkeys(STAGES, 0.0)
        times = timed(lambda pair=pair: ours.register(*pair)), timed(lambda pair=pair: plain.register(*pair))
        if number:  # the first is a warm-up
            note("ours", times[0], ours.scratch.stages)
            note("plain", times[1], plain.stages)
        differ = np.abs(ours.register(*pair) - plain.register(*pair)).max()
        assert differ < apart, f"{problem.key.id}: the poses differ by {differ}"
    return spent


def stage_table(ours: DeepGMR, plain: PlainDeepGMR, precision: str, rounds: int) -> None:
    """Print one row per thread count and number of points: stages of both implementations, both whole, the ratio."""
    print(f"| threads | points | {' | '.join(STAGES)} | ours ms (least) | plain ms (least) | plain / ours |")
    print(f"|---:|---:|{'---:|' * len(STAGES)}---:|---:|---:|")
    for threads in THREADS:
        torch.set_num_threads(threads)
        for points in POINTS:
            spent = beside_plain(ours, plain, points, rounds, TOLERANCE[precision])
            middle = {name: float(np.median(ms)) for name, ms in spent.items()}
            stages = " | ".join(f"{middle[f'ours {s}']:.1f} / {middle[f'plain {s}']:.1f}" for s in STAGES)
            whole = " | ".join(
                f"{middle[f'{w} whole']:.1f} ({min(spent[f'{w} whole']):.1f})" for w in ("ours", "plain")
            )
            ratio = float(np.median(np.divide(spent["plain whole"], spent["ours whole"])))
            print(f"| {threads} | {points} | {stages} | {whole} | {ratio:.1f} |", flush=True)


def throughput(ours: DeepGMR, rounds: int) -> None:
    """Print pairs per second of `register_batch`, and of the same pairs one by one."""
    drawn = problems(BATCH_POINTS, BATCH)
    sources, targets = [p.source for p in drawn], [p.target for p in drawn]

    def one_by_one() -> None:
        for pair in zip(sources, targets, strict=True):
            ours.register(*pair)

    print(
        f"\n| threads | batch of {BATCH} at {BATCH_POINTS}: pairs/s (most) | one by one: pairs/s (most) |\n|---:|---:|---:|"
    )
    for threads in THREADS:
        torch.set_num_threads(threads)
        both = [(timed(lambda: ours.register_batch(sources, targets)), timed(one_by_one)) for _ in range(rounds + 1)][
            1:
        ]
        cells = [f"{1e3 * BATCH / np.median(ms):.0f} ({1e3 * BATCH / min(ms):.0f})" for ms in zip(*both, strict=True)]
        print(f"| {threads} | {' | '.join(cells)} |", flush=True)


def products(ours: DeepGMR, rounds: int) -> None:
    """Print pairs per second of the 8-bit products of a batch's layers alone: the upper bound of the processor."""
    layers = [layer for layer in ours.state["net"].backbone.modules() if isinstance(layer, QuantisedLayer)]
    if not layers:
        return
    given = [torch.randint(0, 256, (1, BATCH_POINTS, la.weight.shape[1]), dtype=torch.uint8) for la in layers]

    def cloud(_: int) -> None:
        for layer, levels in zip(layers, given, strict=True):
            layer.biased(levels, layer.bias)

    for threads in THREADS:
        torch.set_num_threads(threads)
        ms = [timed(lambda: thread_map(cloud, range(2 * BATCH))) for _ in range(rounds + 1)][1:]
        print(f"{threads} threads: {1e3 * BATCH / np.median(ms):.0f} pairs/s with the products alone")


def beside_others(rounds: int, threads: int) -> None:
    """Print the median ms of every global method at every number of points, and its ratio to DeepGMR's."""
    offered = MethodRegistry().entries
    methods = ["deepgmr", *(m for m in OTHERS if not (set(m.split("+")) - offered.keys()))]
    methods = [m for m in methods if not any(offered[part].unavailable() for part in m.split("+"))]
    children = [
        MethodProcess(MethodSetup(MethodRegistry().spec(m), "shapes40", threads=threads), Limits(60, 8))
        for m in methods
    ]
    print(f"\n| points ({threads} threads) | {' | '.join(methods)} |\n|---:|{'---:|' * len(methods)}")
    for points in POINTS:
        drawn = problems(points, rounds + 1)
        rows = [[child.register(p.source, p.target, 0).time_ms for child in children] for p in drawn][1:]
        middle = np.median(rows, axis=0)
        times = " | ".join(f"{ms:.1f} ({ms / middle[0]:.1f} x)" for ms in middle[1:])
        print(f"| {points} | {middle[0]:.1f} | {times} |", flush=True)
    for child in children:
        child.close()


def main(rounds: int) -> None:
    """Print the tables, with the load of the machine before and after."""
    file = WEIGHTS_FOLDER / "deepgmr_shapes40_noisy.safetensors"
    plain = PlainDeepGMR(file)
    for precision in dict.fromkeys(usable_precision(narrowest, "cpu") for narrowest in ("int8", "bfloat16")):
        ours = DeepGMR(weights=str(file), precision=precision)
        ours.begin(0)
        ours.setup("cpu", 0, "shapes40")
        print(f"\nprecision {precision}, {rounds} rounds, medians in ms")
        look()
        stage_table(ours, plain, precision, rounds)
        throughput(ours, max(3, rounds // 3))
        products(ours, max(3, rounds // 3))
    for threads in THREADS:
        beside_others(rounds, threads)
    look()


def look() -> None:
    """Print the load of the machine and the time of a fixed computation."""
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, sentinel {sentinel_ms():.2f} ms\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
