"""The record: what is told is durable, and what is held is little."""

import sqlite3

import numpy as np
import pytest

from bench.storage import database
from bench.storage.database import OutcomeBuffer, ResultsDatabase
from bench.storage.outcome import Outcome

CELL = ("d", "noisy", 10)


@pytest.fixture
def record(tmp_path):
    made = ResultsDatabase(tmp_path / "record.sqlite")
    yield made
    made.close()


def on_disk(record):
    """What another process would read."""
    with sqlite3.connect(f"file:{record.path}?mode=ro", uri=True) as db:
        return db.execute("SELECT COUNT(*) FROM outcomes").fetchone()[0]


def outcomes(n, ms, method="m"):
    return [Outcome(method, f"p{i}", "ok", pose=np.eye(4), time_ms=ms) for i in range(n)]


def test_what_is_told_is_on_disk_and_quick_ones_share_a_commit(record, monkeypatch):
    monkeypatch.setattr(database, "COMMIT_INTERVAL_S", 10_000.0)
    told = []
    with OutcomeBuffer(record, lambda n, what: told.append((n, what, on_disk(record)))) as ledger:
        for name in "abcd":
            ledger.add(outcomes(20, 200_000.0, name), "global", CELL, name)  # 4000 s of work each
        assert told == [(60, "c", 60)] and on_disk(record) == 60
    assert told[1:] == [(20, "", 80)]


@pytest.mark.parametrize("ms", [60_000.0, float("nan")])
def test_long_and_broken_calls_are_recorded_at_once(record, ms):
    OutcomeBuffer(record, lambda *_: None).add(outcomes(1, ms), "global", CELL, "m")
    assert on_disk(record) == 1


def test_none_waits_longer_than_the_next(record, monkeypatch):
    monkeypatch.setattr(database, "COMMIT_INTERVAL_S", 0.0)
    ledger = OutcomeBuffer(record, lambda *_: None)
    ledger.add(outcomes(1, 0.0), "global", CELL, "m")
    assert on_disk(record) == 1


def test_an_error_loses_nothing(record):
    with pytest.raises(KeyboardInterrupt), OutcomeBuffer(record, lambda *_: None) as ledger:
        ledger.add(outcomes(3, 0.001), "global", CELL, "m")
        raise KeyboardInterrupt
    assert on_disk(record) == 3
