"""Where a run and a report may write: names and paths, and which folders and files are a run's own."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from bench.storage import database
from bench.storage.database import Content
from common.errors import InputError

RECORD = "record.sqlite"
TABLES = ("poses", "trials", "summary", "per_category", "by_angle", "by_overlap", "cdf", "stages", "timing")
WRITTEN = frozenset(
    [RECORD, *(f"{RECORD}-{end}" for end in ("wal", "shm", "journal")), "run.json", *(f"{t}.csv" for t in TABLES)]
)
"""Every file that a run writes into its folder; `--fresh` deletes these and nothing else."""
_TEMPORARY = re.compile(r"\.(.+)\.\d+\.tmp")
"""What `common.files.write_atomically` leaves when the process is killed."""
_RUN_JSON = {"command", "config", "hash", "problem_sets"}
_REPORT_FOLDERS = {"figures", "tables", "csv"}
LONGEST = 200
"""Bytes of a name; file systems allow 255."""
SHOWN = 3


def named(out: str, parent: Path) -> Path:
    """The folder that `--out` means: parent/NAME for a name, the path itself if it has a separator.

    Raises:
        InputError: it is neither a name nor a path that can exist.
    """
    if not out.isprintable():
        raise InputError(f"--out {out!a}: has characters that cannot be printed; give a name of plain letters")
    path = Path(out)
    if len(os.fsencode(path.name)) > LONGEST:
        raise InputError(f"--out {path.name[:20]}…: the name is too long; give one of at most {LONGEST} letters")
    if os.sep in out:
        return path
    if out in (".", "..") or "\\" in out:
        raise InputError(
            f"--out {out}: is not a name; give one such as 'mine', or a path to a new folder such as ./mine"
        )
    return parent / out


def is_written(name: str) -> bool:
    """Whether a run writes a file of that name."""
    inner = _TEMPORARY.fullmatch(name)
    return (inner[1] if inner else name) in WRITTEN


def check_run(folder: Path) -> None:
    """Refuse a folder that is neither new, nor empty, nor a run's.

    Raises:
        InputError: it holds other files and no record of a run, or its record cannot be read.
    """
    names = _names(folder)
    content = database.content(folder / RECORD) if RECORD in names else Content.EMPTY
    if content is Content.FOREIGN:
        raise database.foreign(folder / RECORD)
    others = [name for name in names if not is_written(name)]
    if content is Content.EMPTY and (others or (names and RECORD not in names and not _is_run_json(folder))):
        raise InputError(
            f"--out {folder}: holds {_listed(others or names)} and no record of a run; give a new or empty folder"
        )


def clear(folder: Path) -> list[str]:
    """Delete what a run wrote into a folder that holds the record of one; returns the names of what stays there.

    Raises:
        InputError: the folder is not that of a run.
    """
    check_run(folder)
    names = _names(folder)
    if RECORD in names:
        for name in sorted(names, key=RECORD.__eq__):  # the record last: if this is killed, the folder is still a run's
            if is_written(name) and not (folder / name).is_dir():
                (folder / name).unlink()
    return [name for name in _names(folder) if not is_written(name)]


def check_report(folder: Path) -> None:
    """Refuse a folder that is neither new, nor empty, nor a report's, so that nobody's own `report.html` is overwritten.

    Raises:
        InputError: it holds other files and no report.
    """
    names = _names(folder)
    heads = {"report.html": b"<title>Registration benchmark: report</title>", "summary.md": b"# Summary\n"}
    found = {name: mark in _head(folder / name) for name, mark in heads.items() if name in names}
    strange = [name for name, ours in found.items() if not ours]
    if not found:  # a report that was stopped early has its folders alone
        strange = [name for name in names if name not in _REPORT_FOLDERS]
    if strange:
        raise InputError(
            f"{folder}: holds {_listed(strange)}, which no report wrote; give another --out, or move it away"
        )


def _head(file: Path) -> bytes:
    """The first bytes of a file, of which a report's page needs a few hundred; none of what is not a file."""
    if not file.is_file():
        return b""
    with file.open("rb") as handle:
        return handle.read(4096)


def _names(folder: Path) -> list[str]:
    """The entries of a folder, none if it does not exist."""
    if folder.is_dir():
        return sorted(entry.name for entry in folder.iterdir())
    if os.path.lexists(folder):
        raise InputError(f"--out {folder}: exists and is not a folder; give another name")
    return []


def _is_run_json(folder: Path) -> bool:
    """Whether a run without its record is in the folder, as the reference run is committed."""
    try:
        known = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(known, dict) and known.keys() >= _RUN_JSON


def _listed(names: Iterable[str]) -> str:
    names = [ascii(name)[1:-1] for name in names]
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
