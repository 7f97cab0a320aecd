"""Fetch archives over HTTP, going on where a transfer was cut; check them; unpack them where they cannot do harm."""

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

Say = Callable[[str], None]
CHUNK = 1 << 20
TIMEOUT_S = 30
PATIENCE = 5
"""How often a transfer may be cut without a new byte before its address is given up."""


@dataclass(frozen=True)
class Archive:
    """A zip or tar file that can be fetched.

    Attributes:
        file: its name.
        urls: addresses, in the order to try.
        size: bytes to transfer, about; 0 if not known.
        md5: its checksum as published.
        unpacked: the most bytes it may unpack to.
        folder: the folder below DATA/<data set>/ that holds its content.
    """

    file: str
    urls: tuple[str, ...]
    size: int
    md5: str
    unpacked: int
    folder: str


class TransferInterrupted(Exception):
    """A transfer ended early, or an address does not answer."""


def get(name: str, archives: tuple[Archive, ...], root: Path, source: Path | None, say: Say) -> None:
    """Bring a data set's archives to `root/name`: from their addresses, or from an archive or a folder on disk.

    Args:
        name: of the data set.
        archives: what it consists of.
        root: the data root.
        source: an archive or an unpacked folder, None to download.
        say: where to tell what is done.

    Raises:
        InputError: a transfer, checksum or archive is bad, the disk is full, or `source` is not what is needed.
    """
    home = root / name
    with _writing(home):
        home.mkdir(parents=True, exist_ok=True)
    if source is not None:
        _take(source, archives, home, say)
        return
    for archive in archives:
        folder = home / archive.folder
        told = f"about {archive.size / 1e6:.0f} MB to transfer, " if archive.size else ""
        say(f"{archive.file}: {told}at most {archive.unpacked / 1e6:.0f} MB unpacked")
        if folder.is_dir():
            say(f"{folder} is there already; remove it to fetch it again")
            continue
        file = fetch(archive, home, say)
        unpack(file, folder, archive.unpacked)
        file.unlink()
        say(f"unpacked to {folder}")


def _take(source: Path, archives: tuple[Archive, ...], home: Path, say: Say) -> None:
    """What is on disk already: an archive is checked and unpacked, a folder is copied if it lies elsewhere."""
    if not source.exists():
        raise InputError(f"--from {source}: no such file or folder")
    if source.is_file():
        sum_ = md5_of(source)
        fitting = [a for a in archives if a.md5 == sum_]
        if not fitting:
            names = " or ".join(a.file for a in archives)
            raise InputError(f"--from {source}: MD5 {sum_} is not that of {names}; get it again, or give its folder")
        unpack(source, home / fitting[0].folder, fitting[0].unpacked)
        return
    for archive in archives:
        for folder in (source / archive.folder, source):
            if folder.is_dir() and folder.name == archive.folder:
                _copy(folder, home / archive.folder, say)
                return
    names = " or ".join(f"{a.folder}/" for a in archives)
    raise InputError(f"--from {source}: has no folder {names}; give the folder that holds it, or the archive")


def _copy(folder: Path, target: Path, say: Say) -> None:
    if target.exists():
        say(f"{target} is there already" + ("" if target.samefile(folder) else "; remove it to take another"))
        return
    say(f"copying {folder} to {target}")
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with _writing(partial):
            shutil.copytree(folder, partial)
            partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def fetch(archive: Archive, folder: Path, say: Say) -> Path:
    """Download an archive into a folder and check it; a cut transfer goes on from its `.part`, also in a later call.

    Raises:
        InputError: no address serves it whole, its checksum is wrong, or the disk is full.
    """
    part, last = folder / f"{archive.file}.part", ""
    for url in archive.urls:
        say(f"from {url}")
        try:
            _transfer(url, part)
        except TransferInterrupted as cut:
            last = str(cut)
            say(last)
            continue
        sum_ = md5_of(part)
        if sum_ == archive.md5:
            return part.rename(folder / archive.file)
        part.unlink()
        last = f"{url}: MD5 is {sum_}, not {archive.md5}; thrown away"
        say(last)
    raise InputError(f"{archive.file}: not fetched ({last}); try again later, or get it elsewhere and give --from PATH")


def _transfer(url: str, part: Path) -> None:
    """Bring `part` to its full size, connecting again after a cut.

    Raises:
        Cut: the address does not answer, or nothing new came for several times.
    """
    idle = 0
    while True:
        before = _size(part)
        try:
            _receive(url, part)
            return
        except urllib.error.HTTPError as error:
            if error.code == 416 and before:  # nothing is left of it; the checksum will tell
                return
            raise TransferInterrupted(f"{url}: answers {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException, TransferInterrupted) as error:
            idle = 0 if _size(part) > before else idle + 1
            if idle >= PATIENCE or _size(part) == 0:
                raise TransferInterrupted(
                    f"{url}: {error}; {_size(part)} bytes are kept, the same command goes on"
                ) from error


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _receive(url: str, part: Path) -> None:
    """One connection: ask for what is missing and append it."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    have = _size(part)
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:
        have = have if reply.status == 206 else 0
        total = have + int(reply.headers.get("Content-Length") or 0)
        _check_room(part, total - have)
        columns = BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
        with Progress(*columns) as bar, _opened(part, "ab" if have else "wb") as file:
            task = bar.add_task("", total=total or None, completed=have)
            while chunk := reply.read(CHUNK):
                with _writing(part):
                    file.write(chunk)
                bar.advance(task, len(chunk))
    if _size(part) < total:
        raise TransferInterrupted(f"cut off after {_size(part)} of {total} bytes")


@contextmanager
def _opened(part: Path, mode: str) -> Iterator[IO[Any]]:
    """The file, flushed at the end with the disk's complaints told as ours."""
    with _writing(part):
        file = part.open(mode)
    try:
        yield file
    finally:
        with _writing(part):
            file.close()


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, shutil.Error) as error:
        what = getattr(error, "strerror", None) or error
        raise InputError(f"{place}: cannot be written ({what}); make room or give another --data") from error


def _check_room(part: Path, needed: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if needed > free:
        raise InputError(f"{part.parent}: {needed / 1e6:.0f} MB are needed, {free / 1e6:.0f} MB are free; make room")


def md5_of(file: Path) -> str:
    """MD5 of a file, as 32 hex digits."""
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "md5").hexdigest()


def unpack(file: Path, folder: Path, limit: int) -> None:
    """Unpack a zip or tar file as a folder, which appears whole or not at all.

    If the archive holds nothing but a folder of that name, that folder is it.

    Raises:
        InputError: a member would lie outside the folder or is no plain file, there is more than `limit` bytes, the archive
            is broken, the folder exists, or the disk is full.
    """
    if folder.exists():
        raise InputError(f"{folder}: is there already; remove it to unpack {file.name} again")
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        _extract(file, partial, limit)
        inner = partial / folder.name
        alone = inner.is_dir() and {p.name for p in partial.iterdir()} <= {folder.name, "__MACOSX"}
        (inner if alone else partial).rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _extract(file: Path, into: Path, limit: int) -> None:
    left = limit
    try:
        for name, stream in _members(file):
            target = into / _safe(name, file)
            with _writing(target):
                target.parent.mkdir(parents=True, exist_ok=True)
            with stream, _opened(target, "wb") as out:
                while chunk := stream.read(CHUNK):
                    left -= len(chunk)
                    if left < 0:
                        raise InputError(
                            f"{file}: unpacks to more than {limit / 1e6:.0f} MB; not the archive it should be"
                        )
                    with _writing(target):
                        out.write(chunk)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{file}: not a whole archive ({error}); get it again") from error


def _members(file: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of every plain file of an archive; folders make themselves, anything else is refused."""
    if not zipfile.is_zipfile(file):
        with tarfile.open(file) as tar:
            for member in tar:
                stream = tar.extractfile(member) if member.isreg() else None
                if stream is not None:
                    yield member.name, stream
                elif not member.isdir():
                    raise InputError(f"{file}: member '{member.name}' is a link or device; not unpacked")
        return
    with zipfile.ZipFile(file) as packed:
        for info in packed.infolist():
            if stat.S_ISLNK(info.external_attr >> 16):
                raise InputError(f"{file}: member '{info.filename}' is a link; not unpacked")
            if not info.is_dir():
                yield info.filename, packed.open(info)


def _safe(name: str, file: Path) -> PurePosixPath:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name:
        raise InputError(
            f"{file}: member '{name}' would lie outside the folder; not unpacked, get the archive elsewhere"
        )
    return path
