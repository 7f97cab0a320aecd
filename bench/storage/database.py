"""The record of a run: one SQLite file with every problem's truth and every outcome's pose. Durable when it returns."""

from __future__ import annotations

import contextlib
import enum
import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.storage.outcome import Outcome
from common.errors import InputError, storage_error
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
_ADDED_COLUMNS = {"batch": ("INTEGER", "1"), "gpu_memory_mb": ("REAL", "NULL")}
"""Columns of outcomes that records of earlier versions lack, with type and default; a run that continues adds them."""
APPLICATION_ID = 0x50435242
"""Marks an SQLite file as ours, in the place of its header that SQLite has for this."""
_OURS = {
    "meta": {"key", "value"},
    "problems": {"problem", "condition", "truth", "digest"},
    "outcomes": {"phase", "method", "problem", "status", "pose"},
}
"""By these columns a record is recognised that was written before there was `APPLICATION_ID`."""
_TAGS = ("object", "category", "angle_deg", "translation", "overlap", "symmetry")


OUTCOME = (
    "phase method problem repeat kind dataset condition points seed status pose time_ms peak_mb device threads".split()
)
OUTCOME += ["message", "stages", "notes", *_ADDED_COLUMNS]
"""Columns of an outcome, in the order in which they are written."""
_MARKS = ",".join("?" * len(OUTCOME))
Row = tuple[Any, ...]
COMMIT_INTERVAL_S = 1.0


class Content(enum.Enum):
    """What an SQLite file is to us."""

    EMPTY = "no tables"
    RECORD = "a record of a run"
    OLDER = "a record with columns missing"
    FOREIGN = "something else"


_PROBLEMS = {
    sqlite3.SQLITE_FULL: "the disk is full; make room, and the same command continues",
    sqlite3.SQLITE_READONLY: "is read-only; allow writing to the file and its folder, or use another folder",
    sqlite3.SQLITE_PERM: "no permission; allow reading and writing it, or use another folder",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check the permissions of the file and its folder",
    sqlite3.SQLITE_IOERR: "the disk reports an error; check it and the space that is free, then run the same command again",
    sqlite3.SQLITE_CORRUPT: "the record is damaged; restore it from a copy, or use another folder",
    sqlite3.SQLITE_NOTADB: "not an SQLite file, so damaged or no record of a run; restore it, or use another folder",
    sqlite3.SQLITE_BUSY: "another process is writing to it; wait until that one ends",
    sqlite3.SQLITE_LOCKED: "another process is writing to it; wait until that one ends",
}
"""What SQLite's errors mean to the user; other ones are faults of ours."""
_LITTLE = 1 << 16
"""With fewer bytes free than this, an error of the disk is that it is full."""


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of the disk and of SQLite into an `InputError` that says what is wrong with the record's file."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest is detail
        if code == sqlite3.SQLITE_IOERR and shutil.disk_usage(path.parent).free < _LITTLE:
            code = sqlite3.SQLITE_FULL  # SQLite's log did not fit
        if code not in _PROBLEMS:
            raise
        raise InputError(f"{path}: {_PROBLEMS[code]}") from error
    except OSError as error:
        if told := storage_error(error, path):
            raise told from error
        raise


def foreign(path: Path) -> InputError:
    """The error about an SQLite file that is not ours."""
    return InputError(f"{path}: an SQLite file of another program, not a record of a run; use another folder")


def content(path: Path) -> Content:
    """What an SQLite file holds; only reads it.

    Raises:
        InputError: it cannot be read, is damaged or is not an SQLite file.
    """
    with explained(path):
        if not path.stat().st_size:
            return Content.EMPTY
        with path.open("rb"), contextlib.closing(_read_only(path)) as db:
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            marked = db.execute("PRAGMA application_id").fetchone()[0]
            if not tables and marked in (0, APPLICATION_ID):
                return Content.EMPTY
            there = {table: _columns(db, table) for table in _OURS}
    by_columns = marked == 0 and all(there[table] >= names for table, names in _OURS.items())
    if not by_columns and marked != APPLICATION_ID:
        return Content.FOREIGN
    return Content.RECORD if all(there[t] >= names for t, names in _needed().items()) else Content.OLDER


def _columns(db: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in db.execute(f"PRAGMA table_info({table})")}


def _needed() -> dict[str, set[str]]:
    """The columns of every table that a record must have to be read."""
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.executescript(_SCHEMA)
        return {table: _columns(db, table) for table in _OURS}


def _read_only(path: Path) -> sqlite3.Connection:
    """Open a file for reading, without writing anything beside it.

    A read-only connection would leave SQLite's log files behind. They are needed only if there is a log already: a run is at
    work or was killed. If there is none, the file does not change.
    """
    logged = path.with_name(f"{path.name}-wal").exists()
    mode = "mode=ro" if logged else "mode=ro&immutable=1"
    return sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True, timeout=30)


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open a record for reading; columns that an earlier version lacks have their defaults.

    Raises:
        InputError: it is not a record of a run, or has another schema.
        sqlite3.DatabaseError: it cannot be read, see `explained`.
    """
    _refuse(path, content(path))
    db = _read_only(path)
    known = _columns(db, "outcomes")
    lacking = {name: default for name, (_, default) in _ADDED_COLUMNS.items() if name not in known} if known else {}
    if lacking:
        db.execute("PRAGMA temp_store = MEMORY")
        more = ", ".join(f"{default} AS {name}" for name, default in lacking.items())
        db.execute(f"CREATE TEMP VIEW outcomes AS SELECT *, {more} FROM main.outcomes")
    return db


def _refuse(path: Path, what: Content) -> None:
    if what is Content.FOREIGN:
        raise foreign(path)
    if what is Content.OLDER:
        raise InputError(
            f"{path}: a record of an older version, with columns missing; use that version, or another folder"
        )


class ResultsDatabase:
    """`results/<run>/record.sqlite`, to be written, or only to be read.

    Raises:
        InputError: the file is not a record of a run or has another schema, or the disk refuses.
    """

    def __init__(self, path: Path, read_only: bool = False) -> None:
        self.path = path
        with explained(path):
            if read_only:
                self.db = open_to_read(path)
                return
            new = not path.exists()
            made = not path.parent.exists()
            path.parent.mkdir(parents=True, exist_ok=True)
            if not new:
                _refuse(path, content(path))
            try:
                self.db = _prepared(path)
            except (sqlite3.DatabaseError, OSError):
                if new:
                    _remove(path, made)
                raise

    def close(self) -> None:
        """Close the file."""
        self.db.close()

    def get(self, key: str) -> Any:
        """A value of the run's metadata; None if it was never set."""
        if not _columns(self.db, "meta"):  # the run was killed before it wrote anything
            return None
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

    def methods_with_outcomes(self) -> set[str]:
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


def _prepared(path: Path) -> sqlite3.Connection:
    """A connection to a record that has every table and column, made where they are missing."""
    with path.open("ab"):  # says more of why it cannot be written than SQLite does
        pass
    db = sqlite3.connect(path, timeout=30)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.executescript(_SCHEMA)
        known = _columns(db, "outcomes")
        for name, (kind, default) in _ADDED_COLUMNS.items():
            if name not in known:
                db.execute(f"ALTER TABLE outcomes ADD COLUMN {name} {kind} DEFAULT {default}")
        if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    except sqlite3.DatabaseError:
        db.close()
        raise
    return db


def _remove(path: Path, folder_too: bool) -> None:
    """Remove a record that could not be made, and its folder if that was made for it."""
    for name in (path.name, *(f"{path.name}-{end}" for end in ("wal", "shm", "journal"))):
        path.with_name(name).unlink(missing_ok=True)
    if folder_too:
        path.parent.rmdir()


def _matrix(blob: bytes, size: int = 4) -> NDArray[np.float64]:
    return np.frombuffer(blob, np.float64).reshape(size, size)
