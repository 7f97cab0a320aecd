"""Read files in a child process with limits of time and memory; one child of each process reads all its files."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError, MalformedFile
from common.text import printable
from datasets.formats.geometry import Geometry
from datasets.formats.hdf5 import read_hdf5
from datasets.formats.server import unpacked
from datasets.formats.text import NoTable

ROOT = Path(__file__).resolve().parents[2]
MIN_SECONDS, BYTES_PER_SECOND = 20.0, 10_000_000
"""Time for a file: at least 20 s, and a second more for every 10 MB."""
MIN_MEMORY, MEMORY_RATIO = 2_000_000_000, 8
"""Memory for a file: at least 2 GB, and 8 times its size."""
MAX_MESSAGE = 300
"""Most characters of a message."""
_THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
Answer = tuple[dict[str, Any], dict[str, NDArray[Any]]]


class Child:
    """The child process of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.pipe: Connection | None = None
        self.owner = 0  # process id: a forked copy of this object must not use its pipe

    def call(self, function: Callable[..., Any], file: Path, *arguments: str) -> Answer:
        """Call a reader with a file in the child; return its reply and arrays.

        Raises:
            MalformedFile: the reader reports a fault, exceeds a limit, or crashes.
        """
        size = _size_on_disk(file)
        request = {
            "function": f"{function.__module__}:{function.__qualname__}",
            "file": str(file.absolute()),
            "arguments": arguments,
            "seconds": max(MIN_SECONDS, size / BYTES_PER_SECOND),
            "bytes": max(MIN_MEMORY, MEMORY_RATIO * size),
        }
        with self.lock:
            meta, arrays = self._exchange(request)
        if "error" in meta:
            raise (NoTable if meta["kind"] == NoTable.__name__ else MalformedFile)(meta["error"])
        return meta, arrays

    def _exchange(self, request: dict[str, Any]) -> Answer:
        pipe = self._started()
        done = False
        try:
            pipe.send_bytes(json.dumps(request).encode())
            if not pipe.poll(request["seconds"]):
                return {"error": f"takes longer than {request['seconds']:.0f} s to read", "kind": ""}, {}
            meta = json.loads(pipe.recv_bytes())
            arrays = {name: _received(pipe, dtype, shape) for name, dtype, shape in meta.get("arrays", ())}
            done = True
            return meta, arrays
        except (EOFError, OSError):
            return {"error": "cannot be read: its reader crashed, so it is probably damaged", "kind": ""}, {}
        finally:
            if not done:  # also after Ctrl-C: an answer to an earlier request must not be taken for the next
                self.close()

    def _started(self) -> Connection:
        if self.pipe is None or self.process is None or self.owner != os.getpid() or self.process.poll() is not None:
            self.close()
            self.pipe, theirs = Pipe()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "datasets.formats.server", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=ROOT,
                env={**os.environ, **_THREADS},
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is handled by the parent
            )
            theirs.close()
            self.owner = os.getpid()
        return self.pipe

    def close(self) -> None:
        """End the child; the next call starts another."""
        if self.pipe is not None:
            self.pipe.close()
        if self.process is not None and self.owner == os.getpid():
            self.process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
        self.process = self.pipe = None


_CHILD = Child()
atexit.register(_CHILD.close)


def _received(pipe: Connection, dtype: str, shape: list[int]) -> NDArray[Any]:
    array = np.empty(shape, np.dtype(dtype))
    if array.nbytes:
        pipe.recv_bytes_into(array.reshape(-1).view(np.uint8).data)
    return array


def _size_on_disk(file: Path) -> int:
    """Return the bytes that a file takes on disk: a sparse file of any size does not raise the limits."""
    stat = file.stat()
    return min(stat.st_size, 512 * getattr(stat, "st_blocks", stat.st_size))


def with_fix(error: Exception, fix: str) -> str:
    """Return the message of an error as one printable line, with a fix if it has none."""
    message = printable(" ".join(str(error).split())[:MAX_MESSAGE])
    return message if ";" in message else f"{message}; {fix}"


def read_geometry(reader: Callable[[Path], Geometry], file: Path) -> Geometry:
    """Read a file by a reader of this package or of `datasets`, in the child.

    Raises:
        MalformedFile: the file is damaged, or exceeds a limit.
    """
    return unpacked(*_CHILD.call(reader, file))


def read_fields(file: Path, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    """Read arrays at the top of an HDF5 file, in the child.

    Args:
        file: its path.
        required: names of arrays.
        optional: names of arrays that the file may lack.

    Raises:
        InputError: the file is missing, damaged, refers to other files, or lacks a required array.
    """
    again = "copy it or unpack the archive again"
    if not file.is_file():
        raise InputError(f"{file}: no such file, or not a regular one; check the path")
    try:
        _, arrays = _CHILD.call(read_hdf5, file, *required, *optional)
    except MalformedFile as error:
        raise InputError(f"{file}: {with_fix(error, again)}") from error
    present = arrays.pop("#names").tolist()
    if missing := [name for name in required if name not in arrays]:
        raise InputError(f"{file}: no field '{missing[0]}' (it has {', '.join(present) or 'none'}); {again}")
    return arrays
