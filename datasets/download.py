"""Download archives over HTTP, resume interrupted transfers, verify checksums, and unpack the archives safely."""

from __future__ import annotations

import hashlib
import http.client
import shutil
import stat
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from common.errors import InputError

Report = Callable[[str], None]
CHUNK_BYTES = 1 << 20
"""Bytes that are read at a time."""
TIMEOUT_S = 30
"""Longest wait for a reply of a server."""
MAX_STALLED_ATTEMPTS = 5
"""Number of consecutive attempts without a new byte after which an address is given up."""


@dataclass(frozen=True)
class Archive:
    """Zip or tar file that can be downloaded.

    Attributes:
        file: its name.
        urls: addresses, in the order to try.
        size: approximate number of bytes to transfer; 0 if unknown.
        md5: its checksum as published.
        unpacked: maximum number of bytes that it may unpack to.
        folder: the folder below DATA/<data set>/ for its content.
    """

    file: str
    urls: tuple[str, ...]
    size: int
    md5: str
    unpacked: int
    folder: str


class TransferInterrupted(Exception):
    """A transfer ended early, or a server does not respond."""


def install_archives(name: str, archives: tuple[Archive, ...], root: Path, source: Path | None, report: Report) -> None:
    """Install a data set's archives in `root/name`, from their addresses or from an archive or a folder on disk.

    Args:
        name: name of the data set.
        archives: its archives.
        root: the data root.
        source: an archive or an unpacked folder; None to download.
        report: receives lines about the progress.

    Raises:
        InputError: a transfer fails, a checksum or an archive is wrong, the disk is full, or `source` does not fit.
    """
    home = root / name
    with _write_errors(home):
        home.mkdir(parents=True, exist_ok=True)
    if source is not None:
        _install_from_disk(source, archives, home, report)
        return
    for archive in archives:
        folder = home / archive.folder
        transfer = f"about {archive.size / 1e6:.0f} MB to transfer, " if archive.size else ""
        report(f"{archive.file}: {transfer}at most {archive.unpacked / 1e6:.0f} MB unpacked")
        if folder.is_dir():
            report(f"{folder} exists already; remove it to download it again")
            continue
        file = fetch(archive, home, report)
        unpack(file, folder, archive.unpacked)
        file.unlink()
        report(f"unpacked to {folder}")


def _install_from_disk(source: Path, archives: tuple[Archive, ...], home: Path, report: Report) -> None:
    """Check and unpack an archive on disk, or copy a folder from elsewhere."""
    if not source.exists():
        raise InputError(f"--from {source}: no such file or folder; check the path")
    if source.is_file():
        md5 = md5_of(source)
        matching = [a for a in archives if a.md5 == md5]
        if not matching:
            names = " or ".join(a.file for a in archives)
            raise InputError(f"--from {source}: MD5 {md5} is not that of {names}; get it again, or give its folder")
        unpack(source, home / matching[0].folder, matching[0].unpacked)
        return
    for archive in archives:
        for folder in (source / archive.folder, source):
            if folder.is_dir() and folder.name == archive.folder:
                _copy(folder, home / archive.folder, report)
                return
    names = " or ".join(f"{a.folder}/" for a in archives)
    raise InputError(f"--from {source}: has no folder {names}; give the folder that holds it, or the archive")


def _copy(folder: Path, target: Path, report: Report) -> None:
    """Copy a folder unless the target exists."""
    if target.exists():
        report(f"{target} exists already" + ("" if target.samefile(folder) else "; remove it to replace it"))
        return
    report(f"copying {folder} to {target}")
    with _partial_folder(target) as partial, _write_errors(partial):
        shutil.copytree(folder, partial)
        partial.rename(target)


@contextmanager
def _partial_folder(folder: Path) -> Iterator[Path]:
    """Yield a new path beside a folder to rename to it; remains of an interrupted call, and on errors, are removed.

    The path has a fixed name, so that the remains of a killed process, which can be large, do not accumulate.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def fetch(archive: Archive, folder: Path, report: Report) -> Path:
    """Download an archive into a folder and verify it; an interrupted transfer resumes from its `.part` file.

    Raises:
        InputError: no address delivers it completely, its checksum is wrong, or the disk is full.
    """
    part, last = folder / f"{archive.file}.part", ""
    for url in archive.urls:
        report(f"from {url}")
        try:
            _transfer(url, part)
        except TransferInterrupted as interruption:
            last = str(interruption)
            report(last)
            continue
        md5 = md5_of(part)
        if md5 == archive.md5:
            return part.rename(folder / archive.file)
        part.unlink()
        last = f"{url}: MD5 is {md5}, not {archive.md5}; the file is deleted"
        report(last)
    raise InputError(
        f"{archive.file}: download failed ({last}); try again later, or get it elsewhere and give --from PATH"
    )


def _transfer(url: str, part: Path) -> None:
    """Download the remaining bytes of `part`, connecting again after an interruption.

    Raises:
        TransferInterrupted: the server does not respond, or several attempts in a row bring no new byte.
    """
    stalled = 0
    while True:
        before = _size(part)
        try:
            _receive(url, part)
            return
        except urllib.error.HTTPError as error:
            if error.code == 416 and before:  # no byte remains; the checksum is verified next
                return
            raise TransferInterrupted(f"{url}: the server replies {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException, TransferInterrupted) as error:
            stalled = 0 if _size(part) > before else stalled + 1
            if stalled >= MAX_STALLED_ATTEMPTS or _size(part) == 0:
                raise TransferInterrupted(
                    f"{url}: {error}; {_size(part)} bytes are kept, the same command resumes"
                ) from error


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _receive(url: str, part: Path) -> None:
    """Request the missing bytes in one connection and append them."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    present = _size(part)
    request = urllib.request.Request(url, headers={"Range": f"bytes={present}-"} if present else {})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:
        present = present if reply.status == 206 else 0
        total = present + int(reply.headers.get("Content-Length") or 0)
        _check_free_space(part, total - present)
        columns = BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
        with Progress(*columns) as bar, _open_for_writing(part, "ab" if present else "wb") as file:
            task = bar.add_task("", total=total or None, completed=present)
            while chunk := reply.read(CHUNK_BYTES):
                with _write_errors(part):
                    file.write(chunk)
                bar.advance(task, len(chunk))
    if _size(part) < total:
        raise TransferInterrupted(f"interrupted after {_size(part)} of {total} bytes")


@contextmanager
def _open_for_writing(part: Path, mode: str) -> Iterator[IO[Any]]:
    """Open a file; errors of the disk, also when the file is closed, become InputErrors."""
    with _write_errors(part):
        file = part.open(mode)
    try:
        yield file
    finally:
        with _write_errors(part):
            file.close()


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    """Turn errors of writing a file or folder into InputErrors."""
    try:
        yield
    except (OSError, shutil.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be written ({reason}); make room or give another --data") from error


def _check_free_space(part: Path, needed: int) -> None:
    """Raise an error if the disk of a file has fewer free bytes than needed."""
    free = shutil.disk_usage(part.parent).free
    if needed > free:
        raise InputError(f"{part.parent}: {needed / 1e6:.0f} MB are needed, {free / 1e6:.0f} MB are free; make room")


def md5_of(file: Path) -> str:
    """Compute the MD5 of a file, as 32 hex digits."""
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "md5").hexdigest()


def unpack(file: Path, folder: Path, limit: int) -> None:
    """Unpack a zip or tar file to a folder, completely or not at all.

    If the archive contains only a folder of the same name, its content becomes that of the folder.

    Raises:
        InputError: a member would lie outside the folder or is not a regular file, the content exceeds `limit` bytes, the
            archive is broken, the folder exists, or the disk is full.
    """
    if folder.exists():
        raise InputError(f"{folder}: exists already; remove it to unpack {file.name} again")
    with _partial_folder(folder) as partial:
        _extract(file, partial, limit)
        inner = partial / folder.name
        alone = inner.is_dir() and {p.name for p in partial.iterdir()} <= {folder.name, "__MACOSX"}
        (inner if alone else partial).rename(folder)


def _extract(file: Path, into: Path, limit: int) -> None:
    """Extract an archive of at most `limit` bytes into a folder."""
    remaining = limit
    try:
        for name, stream in _members(file):
            target = into / _safe_path(name, file)
            with _write_errors(target):
                target.parent.mkdir(parents=True, exist_ok=True)
            with stream, _open_for_writing(target, "wb") as out:
                while chunk := stream.read(CHUNK_BYTES):
                    remaining -= len(chunk)
                    if remaining < 0:
                        raise InputError(
                            f"{file}: unpacks to more than {limit / 1e6:.0f} MB; not the expected archive, get it again"
                        )
                    with _write_errors(target):
                        out.write(chunk)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{file}: not a complete archive ({error}); get it again") from error


def _members(file: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield name and content of every regular file of an archive; links and devices raise an InputError."""
    if not zipfile.is_zipfile(file):
        with tarfile.open(file) as tar:
            for member in tar:
                stream = tar.extractfile(member) if member.isreg() else None
                if stream is not None:
                    yield member.name, stream
                elif not member.isdir():
                    raise InputError(f"{file}: member '{member.name}' is a link or device; get the archive elsewhere")
        return
    with zipfile.ZipFile(file) as packed:
        for info in packed.infolist():
            if stat.S_ISLNK(info.external_attr >> 16):
                raise InputError(f"{file}: member '{info.filename}' is a link; get the archive elsewhere")
            if not info.is_dir():
                yield info.filename, packed.open(info)


def _safe_path(name: str, file: Path) -> PurePosixPath:
    """Return the relative path of a member; raise an InputError if it leaves the folder."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name:
        raise InputError(f"{file}: member '{name}' would lie outside the folder; get the archive elsewhere")
    return path
