"""Write files and folders so that a reader, a crash or a full disk never leaves half of one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from common.errors import StorageError, storage_error


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which is renamed to `path` if the block succeeds and removed if not.

    The block creates a file or a folder there. A file may replace an existing one; a folder may not.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Create a folder and those above it, unless it exists.

    Raises:
        StorageError: the file system takes no such folder, or refuses it.
    """
    with _refused(folder):
        folder.mkdir(parents=True, exist_ok=True)


def check_writable(folder: Path) -> None:
    """Check that files can be written to a folder, or to the existing folder in which it would be created.

    Raises:
        StorageError: the file system takes no file there, or refuses it.
    """
    existing = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    with _refused(folder), tempfile.TemporaryFile(dir=existing):
        pass


@contextmanager
def _refused(folder: Path) -> Iterator[None]:
    """Name a folder that the file system does not create."""
    try:
        yield
    except FileNotFoundError as error:  # such as below /proc
        raise StorageError(f"{folder}: no folder can be created there; use another one") from error
    except OSError as error:
        if reported := storage_error(error, folder):
            raise reported from error
        raise


def write_atomically(path: Path, content: str | bytes | Iterable[bytes]) -> Path:
    """Write a file and return its path; an existing file is replaced only if the new one is complete.

    Args:
        path: the file to write; its folder exists.
        content: text (written as UTF-8; lone surrogates as escapes), bytes, or blocks of bytes.

    Raises:
        StorageError: the disk is full or read-only, or the file may not be written.
    """
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    try:
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
    except OSError as error:
        if reported := storage_error(error, path):
            raise reported from error
        raise
    return path
