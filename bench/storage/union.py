"""Copy the rows of several results databases into one, and refuse rows that contradict each other."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from bench.storage.database import OUTCOME, PROBLEM, ResultsDatabase, Row
from bench.storage.seeds import split_seed, with_seed
from common.errors import InputError

_CHUNK = 1_000
_KEY = ("phase", "method", "problem", "repeat")
_AT = {name: OUTCOME.index(name) for name in (*_KEY, "status", "pose", "time_ms")}


class Union:
    """Rows of several databases, in the order in which they are added, in one new database.

    Args:
        target: a new database.
        seed: first seed of the whole run; problems of other seeds get ids that name theirs.
    """

    def __init__(self, target: ResultsDatabase, seed: int) -> None:
        self.target, self.seed = target, seed
        self.added: list[tuple[str, ResultsDatabase]] = []

    def add(self, name: str, source: ResultsDatabase, seed: int) -> None:
        """Add problems and outcomes of a run and its first seed.

        A row that exists already is left out; a skipped outcome gives way to any other.

        Raises:
            InputError: another run has another problem of the same id, or another outcome of the same call.
        """
        with self.target.db:
            for rows in _chunks(source.db, "problems", PROBLEM):
                self._add_problems(name, self._named(rows, PROBLEM.index("problem"), seed))
            for rows in _chunks(source.db, "outcomes", OUTCOME):
                self._add_outcomes(name, self._named(rows, _AT["problem"], seed))
        self.added.append((name, source))

    def _named(self, rows: list[Row], at: int, seed: int) -> list[Row]:
        """Return rows of a run with its first seed, with the ids that their problems have in the whole run."""
        if seed == self.seed:
            return rows
        alone = [split_seed(row[at], seed) for row in rows]
        ids = [problem if own == self.seed else with_seed(problem, own) for problem, own in alone]
        return [(*row[:at], name, *row[at + 1 :]) for row, name in zip(rows, ids, strict=True)]

    def _add_problems(self, name: str, rows: list[Row]) -> None:
        if self._insert("problems", PROBLEM, rows):
            return
        for row in rows:
            key = row[PROBLEM.index("problem")]
            query = "SELECT digest FROM problems WHERE problem = ?"
            if self.target.db.execute(query, (key,)).fetchone()[0] != row[PROBLEM.index("digest")]:
                other = self._first_with("SELECT 1 FROM problems WHERE problem = ?", (key,))
                raise InputError(
                    f"{other} and {name}: problem {key} has different clouds or another true pose; leave one of them out"
                )

    def _add_outcomes(self, name: str, rows: list[Row]) -> None:
        if self._insert("outcomes", OUTCOME, rows):
            return
        where = " AND ".join(f"{column} = ?" for column in _KEY)
        for row in rows:
            key = tuple(row[_AT[column]] for column in _KEY)
            stored = self.target.db.execute(f"SELECT {', '.join(OUTCOME)} FROM outcomes WHERE {where}", key).fetchone()
            if stored == row or row[_AT["status"]] == "skipped":
                continue
            if stored[_AT["status"]] != "skipped":
                other = self._first_with(f"SELECT 1 FROM outcomes WHERE status != 'skipped' AND {where}", key)
                raise InputError(f"{other} and {name}: {_conflict(stored, row)}; leave one of them out")
            self.target.add_rows([row])

    def _insert(self, table: str, columns: list[str], rows: list[Row]) -> bool:
        """Insert the rows whose key is new; return whether all are."""
        before, places = self.target.db.total_changes, ",".join("?" * len(columns))
        self.target.db.executemany(f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)
        return self.target.db.total_changes - before == len(rows)

    def _first_with(self, query: str, values: tuple[Any, ...]) -> str:
        """Return the name of the first run for which a query has a result."""
        return next(name for name, source in self.added if source.db.execute(query, values).fetchone())


def _chunks(db: sqlite3.Connection, table: str, columns: list[str]) -> Iterator[list[Row]]:
    cursor = db.execute(f"SELECT {', '.join(columns)} FROM {table}")
    while rows := cursor.fetchmany(_CHUNK):
        yield rows


def _conflict(stored: Row, row: Row) -> str:
    """Describe two different outcomes of one call."""
    phase, method, problem, repeat = (row[_AT[name]] for name in _KEY)
    call = f"{method} on {problem} ({phase}, repeat {repeat})"
    if stored[_AT["status"]] != row[_AT["status"]]:
        return f"{call} ended with {stored[_AT['status']]} and with {row[_AT['status']]}"
    if stored[_AT["pose"]] != row[_AT["pose"]]:
        return f"{call} has two poses"
    if stored[_AT["time_ms"]] != row[_AT["time_ms"]]:
        return f"{call} was run twice: the same pose, other times"
    return f"{call} has two outcomes"
