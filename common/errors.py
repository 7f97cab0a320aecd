"""Errors a user can mend. `bench.cli.main` prints them as one line and exits with 2."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable
from pathlib import Path


class InputError(ValueError):
    """Bad input. The message names the file or flag, the field and the mend, in one line."""


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """An `InputError` for a name that does not exist, with the nearest names that do."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names) or 'none'}"
    return InputError(f"unknown {kind} '{name}'; {hint}")


_DISK = {
    errno.ENOSPC: "the disk is full; make room, then run the same command again",
    errno.EDQUOT: "your share of the disk is used up; make room, then run the same command again",
    errno.EFBIG: "the file may not grow further; raise the limit on file sizes, then run the same command again",
    errno.EROFS: "is on a read-only file system; use a folder that can be written",
    errno.EACCES: "no permission; change the permissions of the file and its folder, or use another folder",
    errno.EPERM: "no permission; change the permissions of the file and its folder, or use another folder",
    errno.ENOTDIR: "a part of this path is a file and not a folder; use another path",
    errno.ENAMETOOLONG: "the name is too long; use a shorter one",
    errno.EIO: "the disk reports an error; check it, then run the same command again",
}


def of_disk(error: OSError, place: Path | None = None) -> InputError | None:
    """The line about an error of the disk or of permissions; None for any other, which is a fault of the program.

    Args:
        error: what the system says.
        place: the file to name; else the one that the error knows.
    """
    reason = _DISK.get(error.errno or 0)
    where = place or error.filename or "writing"
    return InputError(f"{where}: {reason}") if reason else None
