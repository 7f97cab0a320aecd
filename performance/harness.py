"""Measure the overhead of the harness; each part has a limit.

    python -m performance.harness [start] [methods] [call] [recording] [dummy] [quick]

Without a name, all parts run. `start`: time of `--help` and `list`. `methods`: processor time to start a method's process
and to make its first call, for several methods one after the other. `call`: time of a call of a null method from two
clouds to a reply, beyond the method's time. `recording`: time to store each of a million outcomes, time until a resumed
run knows what is done, and memory of that process. `dummy`, `quick`: share of a run's wall time on two processes that
is work of its methods, for a method that sleeps 20 ms and for the quick preset (minutes), and where the rest goes.
Times are wall times; processor times are printed beside them, because other processes may use the machine.
"""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil

from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup
from bench.storage.database import OutcomeBuffer, ResultsDatabase
from bench.storage.outcome import Outcome
from methods.core.registry import MethodRegistry

ROOT = Path(__file__).resolve().parent.parent

PLUGINS = ROOT / "tests" / "bench" / "plugins"
JOBS = 2
METHODS, PIECE = 10, 20
STARTED = (
    "deepgmr",
    "dcp_small",
    "pointnetlk_small",
    "prnet_small",
    "icp",
    "fgr",
    "sc2_pcr",
    "teaser",
    "hgmr",
    "identity",
)
DUMMY = (
    f"--methods slow[seconds=0.02] --datasets blobs --conditions clean noisy resampled --points 100 --problems 4000 \
--timing-rounds 0 --plugins {PLUGINS}"
)


def start(times: int = 7) -> None:
    """Print the median wall time and the minimum processor time of the two most frequent commands."""
    for arguments, bar in (("--help", 0.2), ("list", 1.0)):
        wall, busy = [], []
        for _ in range(times):
            begun, before = time.perf_counter(), os.times()
            subprocess.run([sys.executable, str(ROOT / "bench.py"), arguments], check=True, stdout=subprocess.DEVNULL)
            wall.append(time.perf_counter() - begun)
            busy.append(sum(os.times()[2:4]) - sum(before[2:4]))
        print(
            f"start: {arguments} takes {np.median(wall):.2f} s, {min(busy):.2f} s of processor time (limit {bar:g} s)"
        )


def start_methods() -> None:
    """Print the processor time of starts and first calls; the first methods import what the others share with them."""
    cloud = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
    own = psutil.Process()

    def processor() -> float:
        return sum(sum(process.cpu_times()[:4]) for process in (own, *own.children(recursive=True)))

    spent = {}
    for name in STARTED:
        child, before = MethodProcess(MethodSetup(MethodRegistry().spec(name), "shapes40"), Limits(60, 8)), processor()
        assert child.register(cloud, cloud, 0).status == "ok"
        spent[name] = processor() - before
        child.close()
    listed = ", ".join(f"{name} {seconds:.2f}" for name, seconds in spent.items())
    print(f"methods: seconds of processor time to start and to make the first call, in this order: {listed}")


def call_overhead(points: int = 1024, calls: int = 500) -> None:
    """Print the overhead of a call."""
    cloud = np.random.default_rng(0).normal(size=(points, 3)).astype(np.float32)
    child = MethodProcess(MethodSetup(MethodRegistry().spec("identity"), "none"), Limits(10, 4))
    child.register(cloud, cloud, 0)
    assert child.process is not None
    below, spent = psutil.Process(child.process.pid), []

    def processor() -> float:
        return time.process_time() + sum(below.cpu_times()[:2])

    busy = processor()
    for seed in range(calls):
        start = time.perf_counter()
        reply = child.register(cloud, cloud, seed)
        spent.append(1e3 * (time.perf_counter() - start) - reply.time_ms)
    busy = 1e3 * (processor() - busy) / calls
    child.close()
    print(
        f"call: {np.median(spent):.3f} ms beyond the method's own time, at {points} points; the fastest of "
        f"{calls} {min(spent):.3f} ms; {busy:.3f} ms of processor time in both processes (limit 1 ms)"
    )


def recording(outcomes: int = 1_000_000) -> None:
    """Print the time to write and to resume a results database of a million outcomes."""
    with tempfile.TemporaryDirectory() as place:
        path, pose = Path(place) / "record.sqlite", np.eye(4)
        record = ResultsDatabase(path)
        ledger = OutcomeBuffer(record, lambda *_: None)
        start, busy = time.perf_counter(), time.process_time()
        for first in range(0, outcomes, PIECE):
            method = f"m{first * METHODS // outcomes}"
            rows = [
                Outcome(method, f"d/c/1024/{i % (outcomes // METHODS):05d}", "ok", pose=pose, time_ms=1.0)
                for i in range(first, first + PIECE)
            ]
            ledger.add(rows, "global", ("d", "c", 1024), method)
        ledger.commit("")
        each, busy = 1e6 * (time.perf_counter() - start) / outcomes, 1e6 * (time.process_time() - busy) / outcomes
        record.close()
        print(f"recording: {each:.1f} µs per outcome over {outcomes}; {busy:.1f} µs of processor time (limit 50 µs)")
        arguments = [sys.executable, "-m", "performance.harness", "--resume", str(path)]
        print(subprocess.run(arguments, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip())


def resume(path: Path) -> None:
    """Print the time until the driver of a resumed run knows what is done."""
    start, busy = time.perf_counter(), time.process_time()
    done = ResultsDatabase(path).finished_keys("accuracy")
    wall, busy = time.perf_counter() - start, time.process_time() - busy
    memory = psutil.Process().memory_info().rss / 1e6
    print(
        f"resume: {len(done)} outcomes known after {wall:.2f} s, {busy:.2f} s of processor time (limit 5 s); "
        f"the process holds {memory:.0f} MB (limit 500 MB)"
    )


def efficiency(name: str, arguments: str) -> None:
    """Print the methods' seconds divided by a run's wall seconds times its jobs, and where the rest goes."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, str(ROOT / "bench.py"), *arguments.split(), "--jobs", str(JOBS), "--out", "e"]
        start = time.perf_counter()
        with subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            printed = [(time.perf_counter() - start, line) for line in process.stdout]
        wall = time.perf_counter() - start
        with sqlite3.connect(Path(place) / "results" / "e" / "record.sqlite") as db:
            work = dict(db.execute("SELECT phase, SUM(time_ms) / 1e3 FROM outcomes GROUP BY phase"))
            warm = db.execute("SELECT value FROM meta WHERE key = 'warm_up_s'").fetchone()
            work["warm-up"] = float(warm[0]) if warm else 0.0
    ends = {
        match[1]: (when, int(match[2]))
        for when, line in printed
        if (match := re.match(r"(problems|setting up|registering|timing): \d+ of \d+ in (\d+) s", line))
    }
    solved = work.get("accuracy", 0.0)
    total, solved_at = sum(work.values()), max((when for when, _ in ends.values()), default=wall)
    print(
        f"efficiency, {name}: {total / (solved_at * JOBS):.2f} of {JOBS} x {solved_at:.0f} s, including start-up, are work of "
        f"methods (limit 0.9); {total / (wall * JOBS):.2f} of {JOBS} x {wall:.0f} s with CSVs, figures and report"
    )
    if "registering" in ends:
        when, took = ends["registering"]
        timed_at, alone = ends.get("timing", (when, 0))
        warming = timed_at - alone - when
        print(
            f"  before: {when - took:.0f} s (imports, generating problems, setting up every method once)\n"
            f"  registering: {took} s x {JOBS}, {solved:.0f} s of them work: {solved / (took * JOBS or 1):.2f}\n"
            f"  starting and warming up for timing: {warming:.0f} s x {JOBS}, {work['warm-up']:.0f} s of them work\n"
            f"  timing: {alone} s on one process by design, {total - solved - work['warm-up']:.0f} s of them work\n"
            f"  after: {wall - timed_at:.0f} s (CSVs, figures, report)"
        )


PARTS: dict[str, Callable[[], None]] = {
    "start": start,
    "methods": start_methods,
    "call": call_overhead,
    "recording": recording,
    "dummy": lambda: efficiency("a method of 20 ms", DUMMY),
    "quick": lambda: efficiency("quick preset", "--methods all"),
}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--resume"]:
        resume(Path(sys.argv[2]))
    else:
        load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
        print(f"{os.cpu_count()} cores, load average {load}", flush=True)
        for part in sys.argv[1:] or PARTS:
            PARTS[part]()
