"""Folders of runs and reports: resolve names, and protect files of others from being overwritten or deleted."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from bench.storage import database
from bench.storage.database import FileKind
from common.errors import InputError
from common.text import join_names

DATABASE_NAME = "record.sqlite"
TABLES = ("poses", "trials", "summary", "per_category", "by_angle", "by_overlap", "cdf", "stages", "timing")
REAL_TABLES = ("scenes",)
"""Tables that only runs with real pairs have."""
RUN_FILES = frozenset(
    [
        DATABASE_NAME,
        *(f"{DATABASE_NAME}-{end}" for end in ("wal", "shm", "journal")),
        "run.json",
        "verify.json",
        *(f"{t}.{end}" for t in (*TABLES, *REAL_TABLES) for end in ("csv", "parquet")),
    ]
)
"""Every file that a run or its verification writes into its folder; `--fresh` deletes only these."""
_TEMPORARY = re.compile(r"\.(.+)\.\d+\.tmp")
"""Names of the files that `common.files.write_atomically` leaves when the process is killed."""
_RUN_JSON_KEYS = {"command", "config", "hash", "problem_sets"}
_REPORT_FOLDERS = {"figures", "tables", "csv", "problems"}
MAX_NAME_BYTES = 200
"""Maximum length of a name; file systems allow 255 bytes."""


def resolve_folder(out: str, parent: Path) -> Path:
    """Return the folder of `--out`: parent/NAME for a name, the path itself if it has a separator.

    Raises:
        InputError: `out` is neither a name nor a path that can exist.
    """
    if not out.isprintable():
        raise InputError(f"--out {out!a}: has characters that cannot be printed; give a name of letters and digits")
    path = Path(out)
    if len(os.fsencode(path.name)) > MAX_NAME_BYTES:
        raise InputError(f"--out {path.name[:20]}…: the name is too long; give one of at most {MAX_NAME_BYTES} bytes")
    if os.sep in out:
        return path
    if out in (".", "..") or "\\" in out:
        raise InputError(f"--out {out}: is not a name; give a name such as 'mine', or a new folder such as ./mine")
    return parent / out


def is_run_file(name: str) -> bool:
    """Return whether a run writes a file of that name."""
    inner = _TEMPORARY.fullmatch(name)
    return (inner[1] if inner else name) in RUN_FILES


def check_run_folder(folder: Path) -> None:
    """Check that a folder is new, empty, or that of a run.

    Raises:
        InputError: the folder holds other files and no results database, or its database cannot be read.
    """
    names = _names(folder)
    kind = database.file_kind(folder / DATABASE_NAME) if DATABASE_NAME in names else FileKind.EMPTY
    if kind is FileKind.FOREIGN:
        raise database.foreign_file_error(folder / DATABASE_NAME)
    others = [name for name in names if not is_run_file(name)]
    if kind is FileKind.EMPTY and (others or (names and DATABASE_NAME not in names and not _has_run_json(folder))):
        listed = _format_names(others or names)
        raise InputError(f"--out {folder}: holds {listed} and no results database; give a new or empty folder")


def delete_run_files(folder: Path) -> list[str]:
    """Delete the files of a run if the folder has a results database; return the names of the remaining files.

    Raises:
        InputError: the folder is not that of a run.
    """
    check_run_folder(folder)
    names = _names(folder)
    if DATABASE_NAME in names:
        for name in sorted(
            names, key=DATABASE_NAME.__eq__
        ):  # the database last: until then the folder is that of a run
            if is_run_file(name) and not (folder / name).is_dir():
                (folder / name).unlink()
    return [name for name in _names(folder) if not is_run_file(name)]


def check_report_folder(folder: Path) -> None:
    """Check that a folder is new, empty, or that of a report, so that no other `report.html` is overwritten.

    Raises:
        InputError: the folder holds other files and no report.
    """
    names = _names(folder)
    heads = {"report.html": b"<title>Registration benchmark: report</title>", "summary.md": b"# Summary\n"}
    is_report = {name: head in _head(folder / name) for name, head in heads.items() if name in names}
    foreign = [name for name, ours in is_report.items() if not ours]
    if not is_report:  # a report that was stopped early has only its folders
        foreign = [name for name in names if name not in _REPORT_FOLDERS]
    if foreign:
        raise InputError(
            f"{folder}: holds {_format_names(foreign)}, which no report wrote; give another --out, or move it away"
        )


def _head(file: Path) -> bytes:
    """Return the first bytes of a file; empty if it is not a file."""
    if not file.is_file():
        return b""
    with file.open("rb") as handle:
        return handle.read(4096)


def _names(folder: Path) -> list[str]:
    """Return the names in a folder; none if it does not exist."""
    if folder.is_dir():
        return sorted(entry.name for entry in folder.iterdir())
    if os.path.lexists(folder):
        raise InputError(f"--out {folder}: exists and is not a folder; give another name")
    return []


def _has_run_json(folder: Path) -> bool:
    """Return whether the folder has the `run.json` of a run, as the reference run, which is committed without its database."""
    try:
        facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(facts, dict) and facts.keys() >= _RUN_JSON_KEYS


def _format_names(names: Iterable[str]) -> str:
    return join_names([ascii(name)[1:-1] for name in names])
