"""What the harness itself costs.

    python benchmarks/harness.py

Prints the time a call of a null method takes from clouds to recorded outcome beyond the method's own, the time to record an
outcome, and how much of the wall time of a run is work of its methods.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from bench.child import Child, Limits, Setting  # noqa: E402
from bench.outcome import Outcome  # noqa: E402
from bench.store import Record  # noqa: E402

PLUGINS = ROOT / "tests" / "bench" / "plugins"


def call_overhead(points: int = 1024, calls: int = 500) -> float:
    """Median ms from two clouds to a reply, for a method that does nothing, less the method's own time."""
    cloud = np.random.default_rng(0).normal(size=(points, 3)).astype(np.float32)
    child = Child(Setting("identity", "none"), Limits(10, 4))
    spent = []
    for seed in range(calls):
        start = time.perf_counter()
        reply = child.register(cloud, cloud, seed)
        spent.append(1e3 * (time.perf_counter() - start) - reply["time_ms"])
    child.close()
    return float(np.median(spent[20:]))


def recording(outcomes: int = 1_000_000, piece: int = 20) -> tuple[float, float]:
    """Microseconds to record an outcome, amortised over pieces, and seconds until a resumed run knows what is done."""
    with tempfile.TemporaryDirectory() as place:
        record = Record(Path(place) / "record.sqlite")
        pose = np.eye(4)
        start = time.perf_counter()
        for first in range(0, outcomes, piece):
            rows = [
                Outcome("m", f"d/c/1024/{i:07d}", "ok", pose=pose, time_ms=1.0) for i in range(first, first + piece)
            ]
            record.add_outcomes(rows, "global", ("d", "c", 1024))
        each = 1e6 * (time.perf_counter() - start) / outcomes
        record.close()
        start = time.perf_counter()
        Record(Path(place) / "record.sqlite").done("accuracy")
        return each, time.perf_counter() - start


def efficiency(jobs: int = 2, problems: int = 400) -> float:
    """Seconds of a method that sleeps 20 ms over the wall seconds of the whole run times jobs."""
    with tempfile.TemporaryDirectory() as place:
        asked = f"--methods slow[seconds=0.02] --datasets blobs --conditions clean noisy resampled --points 100 --jobs {jobs}"
        asked += f" --problems {problems} --timing-rounds 0 --out e --plugins {PLUGINS}"
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, str(ROOT / "bench.py"), *asked.split()], cwd=place, check=True, capture_output=True
        )
        wall = time.perf_counter() - start
        with sqlite3.connect(Path(place) / "results" / "e" / "record.sqlite") as db:
            work = db.execute("SELECT SUM(time_ms) FROM outcomes").fetchone()[0] / 1e3
        print(f"  work {work:.1f} s, wall {wall:.1f} s, jobs {jobs}")
        return float(work / (wall * jobs))


if __name__ == "__main__":
    print(f"a call costs {call_overhead():.3f} ms beyond the method's own time, at 1024 points")
    microseconds, resume = recording()
    print(f"recording takes {microseconds:.1f} µs an outcome over 1 000 000; a resumed run starts after {resume:.2f} s")
    print(f"efficiency {efficiency():.2f}: a method of 20 ms, start-up and report included")
