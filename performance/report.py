"""Measure time and memory of a report on a synthetic run: `python -m performance.report [outcomes] [folder] [methods]`.

The run has 12 methods unless another number is given, 4 conditions and the resulting number of problems, of 40 categories; it is
kept for repetitions.
"""

from __future__ import annotations

import json
import resource
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from scipy.spatial.transform import Rotation

from bench.planning.catalog import Catalog
from bench.report import command
from bench.storage.database import OUTCOME, PROBLEM, ResultsDatabase
from bench.storage.evaluation_points import encode

CONDITIONS = ("clean", "noisy", "resampled", "partial")
KINDS = ("local", "global", "global", "learned")
CHUNK = 10_000


def methods_of(count: int) -> dict[str, str]:
    """Return the kind of each of some made-up methods, by name."""
    return {f"method{i:02d}": KINDS[i % len(KINDS)] for i in range(count)}


def poses(rng: np.random.Generator, n: int, angle: np.ndarray, length: float) -> np.ndarray:
    """Return rigid matrices (n, 4, 4) of rotations by `angle` (n,) radians and translations of about `length`."""
    axis = rng.normal(size=(n, 3))
    T = np.tile(np.eye(4), (n, 1, 1))
    T[:, :3, :3] = Rotation.from_rotvec(axis / np.linalg.norm(axis, axis=1)[:, None] * angle[:, None]).as_matrix()
    T[:, :3, 3] = length * rng.normal(size=(n, 3))
    return T


def fill(db: sqlite3.Connection, methods: dict[str, str], condition: str, start: int, n: int) -> None:
    """Store problems of a condition from number `start`, and an outcome of every method on each."""
    rng = np.random.default_rng([CONDITIONS.index(condition), start])
    ids = [f"made_up/{condition}/1024/{i:06d}" for i in range(start, start + n)]
    angle = rng.uniform(0, np.pi, n)
    truth = poses(rng, n, angle, 0.2)
    clouds = rng.uniform(-0.7, 0.7, (n, 500, 3)).astype(np.float32)
    tags = [("made_up", condition, 1024, f"object{i}", f"category{i % 40:02d}") for i in range(start, start + n)]
    rows = [
        (
            *(ids[i], *tags[i], float(np.degrees(angle[i])), 0.2, float(i % 100) / 100, None),
            *(truth[i].tobytes(), np.eye(4).tobytes(), bytes(32), None, *encode(clouds[i])),
        )
        for i in range(n)
    ]
    db.executemany(f"INSERT INTO problems ({', '.join(PROBLEM)}) VALUES ({','.join('?' * len(PROBLEM))})", rows)
    for number, (method, kind) in enumerate(methods.items()):
        lost = rng.random(n) < 0.6 * number / len(methods)
        given = truth @ poses(rng, n, np.where(lost, 1.5, 0.01 * (1 + number)) * rng.gamma(2, 0.5, n), 0.01)
        failed = rng.random(n) < 0.01
        ms = 10 * (1 + number) * rng.lognormal(0, 0.2, n)
        stages = [json.dumps({"features": 0.7 * t, "solve": 0.3 * t}) for t in ms]
        answers = [
            (
                *("accuracy", method, ids[i], 0, kind, "made_up", condition, 1024, 0, "timeout" if failed[i] else "ok"),
                *(None if failed[i] else given[i].tobytes(), ms[i], 100.0 + 10 * rng.random(), "cpu", 1),
                *("after 60 s" if failed[i] else "", stages[i], json.dumps({"confidence": rng.random()})),
            )
            for i in range(n)
        ]
        db.executemany(f"INSERT INTO outcomes ({', '.join(OUTCOME[:18])}) VALUES ({','.join('?' * 18)})", answers)


def time_alone(db: sqlite3.Connection) -> None:
    """Store timing outcomes as a run does after its problems, here of the first problems of the first condition."""
    rows = db.execute("SELECT problem FROM problems WHERE condition = ? LIMIT 12", (CONDITIONS[0],)).fetchall()
    columns = "method, problem, repeat, kind, dataset, condition, points, seed, status, pose, time_ms, peak_mb, device, threads"
    db.executemany(
        f"INSERT INTO outcomes SELECT 'timing', {columns}, message, stages, notes, batch, gpu_memory_mb, machine "
        "FROM outcomes WHERE problem = ?",
        rows,
    )


def make_record(folder: Path, outcomes: int, methods: dict[str, str]) -> None:
    """Write a results database of about that many outcomes."""
    record = ResultsDatabase(folder / "record.sqlite")
    each = outcomes // len(methods) // len(CONDITIONS)
    for condition in CONDITIONS:
        for start in range(0, each, CHUNK):
            with record.db:
                fill(record.db, methods, condition, start, min(CHUNK, each - start))
    with record.db:
        time_alone(record.db)
    config = {"angle_bins": [0, 30, 60, 90, 120, 150, 180], "threshold": 0.2, "seed": 0, "sampler": "axis_angle"}
    sets = {f"made_up/{c}/1024": "0" * 64 for c in CONDITIONS}
    facts = {
        "command": "made up",
        "config": config,
        "problem_sets": sets,
        "methods": {m: {"kind": k, "doc": "Made up.", "variant": {}} for m, k in methods.items()},
        "unavailable": {},
        "notes": [],
    }
    record.put("run", facts | {"environment": {}})
    record.close()


def main(outcomes: int, folder: Path, methods: int) -> None:
    """Print seconds, CPU seconds and the peak memory of this process and of the largest helper process.

    Memory of a helper includes what it shares with this process, of which it is a copy.
    """
    run = folder / f"run{outcomes}_{methods}"
    if not (run / "record.sqlite").is_file():
        make_record(run, outcomes, methods_of(methods))
    start, cpu_start = time.monotonic(), time.process_time()
    command.write(command.ReportRequest([run], folder / "reports", Catalog.of(folder)), Console(width=100))
    spent = time.monotonic() - start
    for who, name, before in (
        (resource.RUSAGE_SELF, "this process", cpu_start),
        (resource.RUSAGE_CHILDREN, "helpers", 0.0),
    ):
        used = resource.getrusage(who)
        print(f"{name}: {used.ru_utime + used.ru_stime - before:.1f} s of CPU, peak {used.ru_maxrss / 1e6:.2f} GB")
    page = folder / "reports" / run.name / "report.html"
    print(f"report of {outcomes} outcomes: {spent:.1f} s; page {page.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    where = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.mkdtemp())
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, where, int(sys.argv[3]) if len(sys.argv) > 3 else 12)
