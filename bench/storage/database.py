"""The record of a run: one SQLite file with every problem's truth and every outcome's pose. Durable when it returns."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.storage.outcome import Outcome
from common.errors import InputError
from datasets.problems import Problem

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS problems (
    problem TEXT PRIMARY KEY, dataset TEXT, condition TEXT, points INTEGER, object TEXT, category TEXT,
    angle_deg REAL, translation REAL, overlap REAL, symmetry TEXT, truth BLOB, source_pose BLOB, eval_points BLOB, digest BLOB,
    information BLOB);
CREATE TABLE IF NOT EXISTS outcomes (
    phase TEXT, method TEXT, problem TEXT, repeat INTEGER, kind TEXT, dataset TEXT, condition TEXT, points INTEGER,
    seed INTEGER, status TEXT, pose BLOB, time_ms REAL, peak_mb REAL, device TEXT, threads INTEGER, message TEXT,
    stages TEXT, notes TEXT, PRIMARY KEY (phase, method, problem, repeat));
"""
_ADDED_COLUMNS = {"batch": "INTEGER DEFAULT 1", "gpu_memory_mb": "REAL"}
"""Columns of outcomes that records of earlier versions lack; they get them when they are opened."""
_TAGS = ("object", "category", "angle_deg", "translation", "overlap", "symmetry")


OUTCOME = (
    "phase method problem repeat kind dataset condition points seed status pose time_ms peak_mb device threads".split()
)
OUTCOME += ["message", "stages", "notes", *_ADDED_COLUMNS]
"""Columns of an outcome, in the order in which they are written."""
_MARKS = ",".join("?" * len(OUTCOME))
Row = tuple[Any, ...]
COMMIT_INTERVAL_S = 1.0


class ResultsDatabase:
    """`results/<run>/record.sqlite`."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        try:
            self.db = sqlite3.connect(path, timeout=30)
            self.db.execute("PRAGMA journal_mode=WAL")
            self.db.executescript(_SCHEMA)
            known = {row[1] for row in self.db.execute("PRAGMA table_info(outcomes)")}
            for name, kind in _ADDED_COLUMNS.items():
                if name not in known:
                    self.db.execute(f"ALTER TABLE outcomes ADD COLUMN {name} {kind}")
        except sqlite3.DatabaseError as error:
            raise InputError(f"{path}: not a record of a run ({error}); use --fresh or another --out") from error

    def close(self) -> None:
        """Close the file."""
        self.db.close()

    def get(self, key: str) -> Any:
        """A value of the run's metadata; None if it was never set."""
        row = self.db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return json.loads(row[0]) if row else None

    def put(self, key: str, value: Any) -> None:
        """Set a value of the run's metadata."""
        with self.db:
            self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))

    def known_problems(self) -> dict[str, bytes]:
        """Id to digest of the problems already recorded."""
        return dict(self.db.execute("SELECT problem, digest FROM problems"))

    def truths(self) -> dict[str, NDArray[np.float64]]:
        """Id to true pose (4, 4) of the problems recorded."""
        return {k: _matrix(b) for k, b in self.db.execute("SELECT problem, truth FROM problems")}

    def add_problems(self, problems: Iterable[Problem]) -> None:
        """Record the truth, tags and evaluation points of problems."""
        rows = [
            (
                *(p.key.id, p.key.dataset, p.key.condition, p.key.points),
                *(p.tags[t] for t in _TAGS),
                *(p.T_target_source.tobytes(), p.source_pose.tobytes(), p.evaluation_points.tobytes(), p.sha256()),
                None if p.information is None else p.information.tobytes(),
            )
            for p in problems
        ]
        with self.db:
            self.db.executemany(f"INSERT OR REPLACE INTO problems VALUES ({','.join('?' * 15)})", rows)

    def done(self, phase: str) -> set[tuple[str, str, int]]:
        """(method, problem, repeat) of outcomes that stand. Skipped ones do not: what was missing may be there now."""
        query = "SELECT method, problem, repeat FROM outcomes WHERE phase = ? AND status != 'skipped'"
        return set(self.db.execute(query, (phase,)))

    def answered(self) -> set[str]:
        """The methods of which outcomes stand."""
        return {
            method for (method,) in self.db.execute("SELECT DISTINCT method FROM outcomes WHERE status != 'skipped'")
        }

    def add_outcomes(self, outcomes: Iterable[Outcome], kind: str, cell: tuple[str, str, int]) -> None:
        """Record outcomes of one method on problems of one cell (data set, condition, points)."""
        self.add_rows(self.rows(outcomes, kind, cell))

    @staticmethod
    def rows(outcomes: Iterable[Outcome], kind: str, cell: tuple[str, str, int]) -> list[Row]:
        """Outcomes of one method on problems of one cell, as they are recorded."""
        return [
            (
                *(o.phase, o.method, o.problem, o.repeat, kind, *cell, o.seed, o.status),
                None if o.pose is None else np.asarray(o.pose, dtype=np.float64).tobytes(),
                *(o.time_ms, o.peak_mb, o.device, o.threads, o.message, json.dumps(o.stages), json.dumps(o.notes)),
                *(o.batch, o.gpu_memory_mb),
            )
            for o in outcomes
        ]

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Record rows of any methods and cells in one commit, which waits for the disk."""
        with self.db:
            self.db.executemany(f"INSERT OR REPLACE INTO outcomes ({', '.join(OUTCOME)}) VALUES ({_MARKS})", rows)


class OutcomeBuffer:
    """Outcomes on their way into a record: those of quick calls share a commit, since each commit waits for the disk.

    `told(count, what)` is called when they are durable. What a kill may cost is less than `COMMIT_INTERVAL_S` of finished work.
    """

    def __init__(self, record: ResultsDatabase, told: Callable[[int, str], None]) -> None:
        self.record, self.told = record, told
        self.held: list[Row] = []
        self.work, self.since = 0.0, time.monotonic()

    def __enter__(self) -> OutcomeBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        self.commit("")

    def add(self, outcomes: list[Outcome], kind: str, cell: tuple[str, str, int], what: str) -> None:
        """Take outcomes of one method on problems of one cell; commit if there is a second's work, or one has passed."""
        self.held += self.record.rows(outcomes, kind, cell)
        self.work += sum(o.time_ms for o in outcomes) / 1e3  # NaN, of calls that broke, counts as much
        if not self.work < COMMIT_INTERVAL_S or time.monotonic() - self.since > COMMIT_INTERVAL_S:
            self.commit(what)

    def commit(self, what: str) -> None:
        """Record what is held."""
        if self.held:
            self.record.add_rows(self.held)
            self.told(len(self.held), what)
        self.held, self.work, self.since = [], 0.0, time.monotonic()


def _matrix(blob: bytes, size: int = 4) -> NDArray[np.float64]:
    return np.frombuffer(blob, np.float64).reshape(size, size)
