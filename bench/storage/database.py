"""Results database of a run: one SQLite file with the ground truth of every problem and the pose of every outcome."""

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

from bench.storage import evaluation_points
from bench.storage.outcome import Outcome
from common.errors import InputError, storage_error
from common.files import make_folder
from common.text import clean, clean_json
from datasets.problems import Problem

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS problems (
    problem TEXT PRIMARY KEY, dataset TEXT, condition TEXT, points INTEGER, object TEXT, category TEXT,
    angle_deg REAL, translation REAL, overlap REAL, symmetry TEXT, truth BLOB, source_pose BLOB, eval_points BLOB, digest BLOB,
    information BLOB, moments BLOB);
CREATE TABLE IF NOT EXISTS outcomes (
    phase TEXT, method TEXT, problem TEXT, repeat INTEGER, kind TEXT, dataset TEXT, condition TEXT, points INTEGER,
    seed INTEGER, status TEXT, pose BLOB, time_ms REAL, peak_mb REAL, device TEXT, threads INTEGER, message TEXT,
    stages TEXT, notes TEXT, PRIMARY KEY (phase, method, problem, repeat));
"""
SCHEMA = 6
"""Version of tables, `run.json` and CSVs, see docs/schema.md; the SQLite header field `user_version` holds it since version 5."""
_ADDED_COLUMNS = {
    "outcomes": {"batch": ("INTEGER", "1"), "gpu_memory_mb": ("REAL", "NULL"), "machine": ("TEXT", "''")},
    "problems": {"information": ("BLOB", "NULL"), "moments": ("BLOB", "NULL")},
}
"""Columns that databases of earlier versions lack, by table, with type and default; a run that continues adds them."""
APPLICATION_ID = 0x50435242
"""Value of the SQLite header field `application_id` that marks a results database."""
_IDENTIFYING_COLUMNS = {
    "meta": {"key", "value"},
    "problems": {"problem", "condition", "truth", "digest"},
    "outcomes": {"phase", "method", "problem", "status", "pose"},
}
"""Columns that identify a results database written before `APPLICATION_ID` was introduced."""
_TAGS = ("object", "category", "angle_deg", "translation", "overlap", "symmetry")


PROBLEM = ["problem", "dataset", "condition", "points", *_TAGS]
PROBLEM += "truth source_pose digest information eval_points moments".split()
"""Columns of the problems table, in the order in which they are written."""
OUTCOME = (
    "phase method problem repeat kind dataset condition points seed status pose time_ms peak_mb device threads".split()
)
OUTCOME += ["message", "stages", "notes", *_ADDED_COLUMNS["outcomes"]]
"""Columns of the outcomes table, in the order in which they are written."""
MAX_FACT = 1_000_000
"""Maximum length of a text among the facts of a run, such as its command line."""
Row = tuple[Any, ...]
"""Values of `OUTCOME` of one outcome, or of `PROBLEM` of one problem."""
COMMIT_INTERVAL_S = 1.0
"""Work of methods, or time, in seconds after which outcomes are committed."""


class FileKind(enum.Enum):
    """Content of an SQLite file."""

    EMPTY = "no tables"
    RESULTS = "results database of a run"
    OUTDATED = "results database with columns missing"
    LATER = "results database of a later version"
    FOREIGN = "database of another program"


_SQLITE_ERRORS = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space, and the same command continues",
    sqlite3.SQLITE_READONLY: "is read-only; allow writing to the file and its folder, or use another folder",
    sqlite3.SQLITE_PERM: "no permission; allow reading and writing it, or use another folder",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check the permissions of the file and its folder",
    sqlite3.SQLITE_IOERR: "the disk reports an error; check it and its free space, then run the same command again",
    sqlite3.SQLITE_CORRUPT: "the results database is damaged; restore it from a copy, or use another folder",
    sqlite3.SQLITE_NOTADB: "not an SQLite file; restore the results database from a copy, or use another folder",
    sqlite3.SQLITE_BUSY: "another process is writing to it; wait until that one ends",
    sqlite3.SQLITE_LOCKED: "another process is writing to it; wait until that one ends",
}
"""Message by SQLite error code; errors with other codes are bugs."""
_FULL_DISK_BYTES = 1 << 16
"""Free bytes below which an I/O error of SQLite is reported as a full disk."""


@contextlib.contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translate errors of the disk and of SQLite into an `InputError` that names the database file and the fix."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code
        if code == sqlite3.SQLITE_IOERR and shutil.disk_usage(path.parent).free < _FULL_DISK_BYTES:
            code = sqlite3.SQLITE_FULL  # the write-ahead log did not fit
        if code not in _SQLITE_ERRORS:
            raise
        raise InputError(f"{path}: {_SQLITE_ERRORS[code]}") from error
    except OSError as error:
        if reason := storage_error(error, path):
            raise reason from error
        raise


def foreign_file_error(path: Path) -> InputError:
    """Return the error about an SQLite file of another program."""
    return InputError(f"{path}: an SQLite file of another program, not a results database; use another folder")


def file_kind(path: Path) -> FileKind:
    """Return the kind of an SQLite file, which is only read.

    Raises:
        InputError: the file cannot be read, is damaged or is not an SQLite file.
    """
    with translate_errors(path):
        if not path.stat().st_size:
            return FileKind.EMPTY
        with path.open("rb"), contextlib.closing(_read_only(path)) as db:
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            application = db.execute("PRAGMA application_id").fetchone()[0]
            if not tables and application in (0, APPLICATION_ID):
                return FileKind.EMPTY
            columns = {table: _columns(db, table) for table in _IDENTIFYING_COLUMNS}
            version = db.execute("PRAGMA user_version").fetchone()[0]
    by_columns = application == 0 and all(columns[t] >= names for t, names in _IDENTIFYING_COLUMNS.items())
    if not by_columns and application != APPLICATION_ID:
        return FileKind.FOREIGN
    if version > SCHEMA:
        return FileKind.LATER
    complete = all(columns[table] >= names for table, names in _required_columns().items())
    return FileKind.RESULTS if complete else FileKind.OUTDATED


def _columns(db: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in db.execute(f"PRAGMA table_info({table})")}


def _required_columns() -> dict[str, set[str]]:
    """Return the columns of every table without which a database cannot be read."""
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.executescript(_SCHEMA)
        return {table: _columns(db, table) - _ADDED_COLUMNS.get(table, {}).keys() for table in _IDENTIFYING_COLUMNS}


def _read_only(path: Path) -> sqlite3.Connection:
    """Open a file for reading, without writing anything beside it.

    A read-only connection creates SQLite's log files, unless the file is declared immutable. It is immutable if it has no
    log: then no run is writing to it, and none was killed while it did.
    """
    has_log = path.with_name(f"{path.name}-wal").exists()
    mode = "mode=ro" if has_log else "mode=ro&immutable=1"
    return sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True, timeout=30)


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open a results database for reading; columns that an earlier version lacks have their defaults.

    Raises:
        InputError: the file is not a results database, or has another schema.
        sqlite3.DatabaseError: the file cannot be read, see `translate_errors`.
    """
    _require_usable(path)
    db = _read_only(path)
    db.execute("PRAGMA temp_store = MEMORY")
    for table, added in _ADDED_COLUMNS.items():
        known = _columns(db, table)
        missing = [f"{default} AS {name}" for name, (_, default) in added.items() if known and name not in known]
        if missing:
            db.execute(f"CREATE TEMP VIEW {table} AS SELECT *, {', '.join(missing)} FROM main.{table}")
    return db


def _require_usable(path: Path) -> None:
    kind = file_kind(path)
    if kind is FileKind.FOREIGN:
        raise foreign_file_error(path)
    if kind is FileKind.LATER:
        raise InputError(f"{path}: a results database of a later version of this benchmark; update it to read the run")
    if kind is FileKind.OUTDATED:
        fix = "use that version, or another folder"
        raise InputError(f"{path}: a results database of an older version, with columns missing; {fix}")


class ResultsDatabase:
    """Results database `results/<run>/record.sqlite`. What a method has written is on disk when it returns.

    Args:
        path: of the file, created if it does not exist.
        read_only: whether to open the file for reading only.

    Raises:
        InputError: the file is not a results database, has another schema, or cannot be opened.
    """

    def __init__(self, path: Path, read_only: bool = False) -> None:
        self.path = path
        with translate_errors(path):
            if read_only:
                self.db = open_to_read(path)
                return
            new_file, new_folder = not path.exists(), not path.parent.exists()
            make_folder(path.parent)
            if not new_file:
                _require_usable(path)
            try:
                self.db = _open_to_write(path)
            except (sqlite3.DatabaseError, OSError):
                if new_file:
                    _remove(path, new_folder)
                raise

    def close(self) -> None:
        """Close the file."""
        self.db.close()

    def get(self, key: str) -> Any:
        """Return a value of the run's metadata; None if it was never set."""
        if not _columns(self.db, "meta"):  # the run was killed before it wrote anything
            return None
        row = self.db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return json.loads(row[0]) if row else None

    def put(self, key: str, value: Any) -> None:
        """Set a value of the run's metadata."""
        with self.db:
            self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(clean_json(value, MAX_FACT))))

    def known_problems(self) -> dict[str, bytes]:
        """Return the digest of every stored problem by id."""
        return dict(self.db.execute("SELECT problem, digest FROM problems"))

    def true_poses(self) -> dict[str, NDArray[np.float64]]:
        """Return the true pose (4, 4) of every stored problem by id."""
        return {k: _matrix(b) for k, b in self.db.execute("SELECT problem, truth FROM problems")}

    def add_problems(self, problems: Iterable[Problem]) -> None:
        """Store the ground truth, tags and evaluation points of problems."""
        with self.db:
            self._insert("problems", PROBLEM, self.problem_rows(problems))

    @staticmethod
    def problem_rows(problems: Iterable[Problem]) -> list[Row]:
        """Return the rows of problems, values of `PROBLEM`."""
        problems = list(problems)
        points = evaluation_points.encode_all([p.evaluation_points for p in problems])
        return [
            (
                *(p.key.id, p.key.dataset, p.key.condition, p.key.points),
                *(clean_json(p.tags[t]) for t in _TAGS),
                *(p.T_target_source.tobytes(), p.source_pose.tobytes(), p.sha256()),
                None if p.information is None else p.information.tobytes(),
                *encoded,
            )
            for p, encoded in zip(problems, points, strict=True)
        ]

    def finished_keys(self, phase: str) -> set[tuple[str, str, int]]:
        """Return (method, problem, repeat) of the outcomes of a phase.

        Skipped ones are left out: what was missing may be available when the run continues.
        """
        query = "SELECT method, problem, repeat FROM outcomes WHERE phase = ? AND status != 'skipped'"
        return set(self.db.execute(query, (phase,)))

    def methods_with_outcomes(self) -> set[str]:
        """Return the methods that have outcomes other than skipped ones."""
        query = "SELECT DISTINCT method FROM outcomes WHERE status != 'skipped'"
        return {method for (method,) in self.db.execute(query)}

    def add_outcomes(self, outcomes: Iterable[Outcome], kind: str, group: tuple[str, str, int]) -> None:
        """Store outcomes of one method of a kind on problems of one group (data set, condition, points)."""
        self.add_rows(self.rows(outcomes, kind, group))

    @staticmethod
    def rows(outcomes: Iterable[Outcome], kind: str, group: tuple[str, str, int]) -> list[Row]:
        """Return the rows of the outcomes of one method on problems of one group."""
        return [
            (
                *(o.phase, o.method, o.problem, o.repeat, kind, *group, o.seed, o.status),
                None if o.pose is None else np.asarray(o.pose, dtype=np.float64).tobytes(),
                *(o.time_ms, o.peak_mb, o.device, o.threads, clean(o.message)),
                *(json.dumps(clean_json(o.stages)), json.dumps(clean_json(o.notes))),
                *(o.batch, o.gpu_memory_mb, o.machine),
            )
            for o in outcomes
        ]

    def add_rows(self, rows: Iterable[Row], problems: Iterable[Row] = ()) -> None:
        """Store rows of outcomes of any methods and groups, and of problems, in one commit, which waits for the disk."""
        with self.db:
            self._insert("problems", PROBLEM, problems)
            self._insert("outcomes", OUTCOME, rows)

    def _insert(self, table: str, columns: list[str], rows: Iterable[Row]) -> None:
        places = ",".join("?" * len(columns))
        self.db.executemany(f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)


class OutcomeBuffer:
    """Buffer of outcomes that are committed together.

    Each commit waits for the disk, so quick calls share one. If the process is killed, less than `COMMIT_INTERVAL_S` of
    finished work is lost.

    Args:
        database: where outcomes are stored.
        on_commit: called after a commit with the number of outcomes stored and what is being worked on.
    """

    def __init__(self, database: ResultsDatabase, on_commit: Callable[[int, str], None]) -> None:
        self.database, self.on_commit = database, on_commit
        self.rows: list[Row] = []
        self.problems: list[Row] = []
        self.work_s, self.last_commit = 0.0, time.monotonic()

    def __enter__(self) -> OutcomeBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        self.commit("")

    def add(
        self, outcomes: list[Outcome], kind: str, group: tuple[str, str, int], what: str, problems: Iterable[Row] = ()
    ) -> None:
        """Add outcomes of one method on problems of one group, and rows of problems that are not stored yet.

        Commit if `COMMIT_INTERVAL_S` of work or time is reached.
        """
        self.rows += self.database.rows(outcomes, kind, group)
        self.problems += problems
        self.work_s += sum(o.time_ms for o in outcomes) / 1e3
        full = not self.work_s < COMMIT_INTERVAL_S  # also if the time of a failed call is NaN
        if full or time.monotonic() - self.last_commit > COMMIT_INTERVAL_S:
            self.commit(what)

    def commit(self, what: str) -> None:
        """Store the outcomes of the buffer."""
        if self.rows:
            self.database.add_rows(self.rows, self.problems)
            self.on_commit(len(self.rows), what)
        self.rows, self.problems = [], []
        self.work_s, self.last_commit = 0.0, time.monotonic()


def _open_to_write(path: Path) -> sqlite3.Connection:
    """Open a results database for writing, and create missing tables and columns."""
    with path.open("ab"):  # its error is more specific than that of SQLite if the file cannot be written
        pass
    db = sqlite3.connect(path, timeout=30)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.executescript(_SCHEMA)
        for table, added in _ADDED_COLUMNS.items():
            known = _columns(db, table)
            for name, (kind, default) in added.items():
                if name not in known:
                    db.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind} DEFAULT {default}")
        if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {SCHEMA}")
    except sqlite3.DatabaseError:
        db.close()
        raise
    return db


def _remove(path: Path, folder_too: bool) -> None:
    """Remove a database that could not be created, with its log files, and its folder if that is new."""
    for name in (path.name, *(f"{path.name}-{end}" for end in ("wal", "shm", "journal"))):
        path.with_name(name).unlink(missing_ok=True)
    if folder_too:
        path.parent.rmdir()


def _matrix(blob: bytes, size: int = 4) -> NDArray[np.float64]:
    return np.frombuffer(blob, np.float64).reshape(size, size)
