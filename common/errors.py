"""Errors that the user can fix. `bench.cli.main` prints their message as one line and exits with status 2.

ValueError
├── InputError           bad input: a file, a flag, a name or a parameter
│   ├── UnknownName      a name that does not exist
│   └── StorageError     the disk or the file system refuses a file
└── MalformedFile        damaged content; `datasets.formats.read` adds the file's name and raises an InputError
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable
from pathlib import Path


class InputError(ValueError):
    """Bad input. The message names the file or flag, the field and the fix, in one line."""


class UnknownName(InputError):
    """A name that does not exist."""


class StorageError(InputError):
    """A file that the disk or the file system refuses to write or read."""


class MalformedFile(ValueError):
    """Content of a file that is damaged or of the wrong form. The message does not name the file yet."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownName:
    """Return the error for a name that does not exist, with the most similar known names.

    Args:
        kind: what the name means, such as "method".
        name: the name that was given.
        known: all valid names.
    """
    names = sorted(known)
    similar = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(similar)}?" if similar else f"known: {', '.join(names) or 'none'}"
    return UnknownName(f"unknown {kind} '{name}'; {hint}")


_STORAGE_REASONS = {
    errno.ENOSPC: "the disk is full; make room, then run the same command again",
    errno.EDQUOT: "your disk quota is used up; make room, then run the same command again",
    errno.EFBIG: "the file may not grow further; raise the limit on file sizes, then run the same command again",
    errno.EROFS: "is on a read-only file system; use a folder that can be written",
    errno.EACCES: "no permission; change the permissions of the file and its folder, or use another folder",
    errno.EPERM: "no permission; change the permissions of the file and its folder, or use another folder",
    errno.ENOTDIR: "a part of this path is a file and not a folder; use another path",
    errno.ENAMETOOLONG: "the name is too long; use a shorter one",
    errno.EIO: "the disk reports an error; check it, then run the same command again",
}
"""Reason and fix for each system error that the user can act on."""


def storage_error(error: OSError, path: Path | None = None) -> StorageError | None:
    """Return the error to show for a failure of the disk or of permissions; None for any other failure.

    Args:
        error: the error that the system raised.
        path: the file to name; by default the one that the error names.
    """
    reason = _STORAGE_REASONS.get(error.errno or 0)
    file = path or error.filename or "writing"
    return StorageError(f"{file}: {reason}") if reason else None
