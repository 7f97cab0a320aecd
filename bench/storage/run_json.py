"""`run.json`: the facts of a run for readers of its CSVs."""

from __future__ import annotations

from typing import Any

from bench.storage.database import SCHEMA, ResultsDatabase

MAX_DRIFT = 0.05
"""Relative change of the sentinel's time above which times are reported with a warning."""


def run_json(database: ResultsDatabase) -> dict[str, Any]:
    """Return what `run.json` holds of a database's run."""
    facts: dict[str, Any] = database.get("run")
    sentinel = database.get("sentinel_ms")
    return facts | {
        "schema": SCHEMA,
        "finished": database.get("finished"),
        "sentinel_ms": sentinel,
        "notes": facts["notes"] + _shard_note(facts) + drift_note(sentinel) + _unfinished_note(database),
    }


def _shard_note(facts: dict[str, Any]) -> list[str]:
    """Return a note on a run that is one of several shards."""
    shard = facts.get("shard")
    return [f"this is shard {shard}: bench.py merge joins it with the others"] if shard else []


def drift_note(sentinel: list[float] | None) -> list[str]:
    """Return a warning if the times (ms) of the same work differ by more than `MAX_DRIFT`: those of methods may differ, too.

    >>> drift_note([4.0, 4.1])
    []
    """
    if not sentinel or max(sentinel) <= (1 + MAX_DRIFT) * min(sentinel):
        return []
    times = ", ".join(f"{ms:.2f}" for ms in sentinel)
    share = max(sentinel) / min(sentinel) - 1
    return [
        f"the machine's speed changed by {share:.0%} while timing (the same work took {times} ms): read times with care"
    ]


def weights_of(notes: dict[str, Any]) -> dict[str, Any]:
    """Return the digests of files among the notes of a method's setup, or of those of the parts of a chain."""
    return {name: fact for name, fact in notes.items() if name.split()[-1] == "sha256"}


def _unfinished_note(database: ResultsDatabase) -> list[str]:
    """Return a warning about a run that was stopped: missing outcomes look like methods that were not run."""
    if database.get("finished"):
        return []
    return ["this run was stopped before its end, so methods and problems are missing; its command continues it"]
