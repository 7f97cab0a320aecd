"""Export of a run's metadata from its results database as `run.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.storage.database import ResultsDatabase

MAX_DRIFT = 0.05
"""Relative change of the reference workload's time during timing above which a note warns of it."""


def drift_note(sentinel_ms: list[float] | None) -> list[str]:
    """Return a warning if the times of the reference workload differ by more than `MAX_DRIFT`, else nothing."""
    if not sentinel_ms or max(sentinel_ms) <= (1 + MAX_DRIFT) * min(sentinel_ms):
        return []
    shown = ", ".join(f"{ms:.2f}" for ms in sentinel_ms)
    share = max(sentinel_ms) / min(sentinel_ms) - 1
    return [
        f"the machine's speed changed by {share:.0%} during timing (the same work took {shown} ms): "
        "read the times with care"
    ]


def unfinished_note(database: ResultsDatabase) -> list[str]:
    """Return a warning if the run was stopped: its missing outcomes look like outcomes that were never requested."""
    if database.get("finished"):
        return []
    return ["this run was stopped before its end, so methods and problems are missing here; its command continues it"]


def write_run_json(database: ResultsDatabase, folder: Path) -> dict[str, Any]:
    """Write `folder/run.json` from the results database of a run, and return its content."""
    run: dict[str, Any] = database.get("run")
    sentinel_ms = database.get("sentinel_ms")
    run |= {"sentinel_ms": sentinel_ms, "notes": run["notes"] + drift_note(sentinel_ms) + unfinished_note(database)}
    (folder / "run.json").write_text(json.dumps(run, indent=2, ensure_ascii=False) + "\n")
    return run
