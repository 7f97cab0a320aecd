"""Fork server (Linux): start a method's process as a copy of a process that has imported the packages methods need.

Starting Python and importing PyTorch or Open3D takes a second or two of processor time in every process, a copy takes 10 ms.
The server only imports: it builds no method, loads no plug-in and computes nothing, so it has one thread when it is copied.
The workers of a command use the servers that the command started. A server ends when the process that started it ends, and its
copies end with it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, NoReturn

import numpy as np

from bench.isolation import guard, interrupt
from bench.isolation.server import HANDLERS, serve
from common.processes import die_with_parent

POLL_INTERVAL_S = 0.05
"""Interval at which a process that waits for its copy looks whether Ctrl-C was pressed."""
CLOSE_TIMEOUT_S = 1.0
"""Maximum time to wait for the end of a server, which may be importing."""
_SHARED = {
    "torch": ("torch", "scipy.spatial"),
    "open3d": ("methods.geometry.open3d_bridge:open3d", "scipy.spatial"),
}
"""What the server imports, modules or functions that import, by package in `requires` of a method."""
_READ_AT_START = ("PYTHON", "LD_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "TORCH_", "CUDA_", guard.COMMAND)
"""First letters of variables that Python or a package reads when it starts; for each setting of them there is a server.

The mark of the command is one of them: a command that runs within another one starts other servers.
"""
ADDRESSES = "BENCH_FORK_SERVERS"
"""Environment variable by which workers find the servers of their command: addresses by variables read at start, as JSON."""
_MESSAGE_BYTES, _PIPES, _STARTED = 1 << 12, 4, b"pid "

Key = tuple[tuple[str, str], ...]
_servers: dict[Key, socket.socket | None] = {}
_lock = threading.Lock()


class ForkedProcess:
    """A copy of the fork server, with the part of the interface of `subprocess.Popen` that is needed."""

    def __init__(self, pid: int, status: socket.socket, stderr: IO[bytes]) -> None:
        self.pid, self.stderr, self._status = pid, stderr, status
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code; None while the process runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the process has ended and return its exit code.

        Raises:
            subprocess.TimeoutExpired: it runs longer than `timeout` seconds.
        """
        if self.returncode is None:
            if not wait([self._status], timeout):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            code = _receive(self._status)
            self._status.close()
            if not code:
                _kill(self.pid)
            self.returncode = int(code or -signal.SIGKILL)
        return self.returncode


def _kill(pid: int) -> None:
    """End a copy whose server was killed, and wait for its end: the system ends it too, but some moments after the server."""
    with contextlib.suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(process, signal.SIGKILL)
            wait([process])
        finally:
            os.close(process)


def prepare(requires: Iterable[str], own_variables: Mapping[str, str]) -> None:
    """Start the server for some variables, which imports packages meanwhile; see `fork`."""
    with _lock:
        _, connection = _server(own_variables)
    if connection is not None:
        _request(connection, requires, [])


def fork(requires: Iterable[str], own_variables: Mapping[str, str], pipes: Sequence[int]) -> ForkedProcess | None:
    """Start `bench.isolation.server` in a copy of the fork server. Send it its environment first.

    Args:
        requires: packages that the method needs; the server imports those that several methods share.
        own_variables: environment variables that the method, or a package, reads when it starts.
        pipes: file descriptors by which it reads requests and writes replies.

    Returns:
        The process; None if the server cannot be copied, so that it has to be started in another way.

    Raises:
        Interrupted: Ctrl-C was pressed.
    """
    with _lock:
        key, control = _server(own_variables)
    if control is None:
        return None
    own, status = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    errors, write_errors = os.pipe()
    stderr = os.fdopen(errors, "rb")
    with status, os.fdopen(write_errors, "wb"):
        _request(control, requires, [*pipes, write_errors, status.fileno()])
    while not wait([own], POLL_INTERVAL_S):
        if interrupt.requested():
            raise interrupt.Interrupted
    message = _receive(own)
    if message.startswith(_STARTED):  # else nothing, or the exit code of a copy that ended before it could serve
        return ForkedProcess(int(message.removeprefix(_STARTED)), own, stderr)
    stderr.close()
    _servers[key] = None
    return None


def _request(connection: socket.socket, requires: Iterable[str], descriptors: Sequence[int]) -> None:
    """Request the import of what methods share of packages, and a copy that gets the descriptors if there are any."""
    with contextlib.suppress(OSError):  # the server may have ended
        socket.send_fds(connection, [json.dumps([name for name in requires if name in _SHARED]).encode()], descriptors)


def _server(own_variables: Mapping[str, str]) -> tuple[Key, socket.socket | None]:
    """Return the connection to the server for some variables, which is started if necessary; None once it was lost."""
    inherited = {name: value for name, value in os.environ.items() if name.startswith(_READ_AT_START)}
    key = tuple(sorted((inherited | dict(own_variables)).items()))
    if key not in _servers:
        _servers[key] = _connect(key) or _start(key, own_variables)
    return key, _servers[key]


def _connect(key: Key) -> socket.socket | None:
    """Return a connection to a server that another process of this command started; None if there is none."""
    address = json.loads(os.environ.get(ADDRESSES, "{}")).get(json.dumps(key))
    if address is None:
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect("\0" + address)
    except OSError:  # it has ended
        connection.close()
        return None
    return connection


def _start(key: Key, own_variables: Mapping[str, str]) -> socket.socket:
    """Start a server and return the connection to it; the processes that this one starts later find it."""
    connection, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with control, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind("")  # an unused address in the abstract name space, which ends with the server
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.isolation.fork_server", str(control.fileno()), str(listener.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=guard.ROOT,
            env={**os.environ, **own_variables, guard.CALLS: guard.NO_MARK},
            pass_fds=[control.fileno(), listener.fileno()],
            start_new_session=True,  # as its copies: Ctrl-C is handled by the process that started it
        )
        known = json.loads(os.environ.get(ADDRESSES, "{}"))
        os.environ[ADDRESSES] = json.dumps(known | {json.dumps(key): listener.getsockname()[1:].decode()})
    atexit.register(_close, connection, process)
    return connection


def _close(connection: socket.socket, process: subprocess.Popen[bytes]) -> None:
    """End a server with this process, and wait for it, so that its time counts as that of this process's children."""
    connection.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(CLOSE_TIMEOUT_S)


def _receive(connection: socket.socket) -> bytes:
    """Return a message; nothing once the other side is closed."""
    with contextlib.suppress(OSError):
        return connection.recv(_MESSAGE_BYTES)
    return b""


class _Server:
    """The server: copies itself on request, reports how copies end, and ends those that nobody waits for.

    Args:
        control: connection to the process that started the server, which ends when this is closed.
        listener: accepts connections from other processes of the same user.
    """

    def __init__(self, control: socket.socket, listener: socket.socket) -> None:
        self.control, self.listener, self.selector = control, listener, selectors.PollSelector()
        for connection in (control, listener):
            self.selector.register(connection, selectors.EVENT_READ)
        self.clients: set[socket.socket] = set()
        self.copies: dict[int, tuple[int, int]] = {}  # process id: descriptors of the process and of its status

    def run(self) -> None:
        """Serve until the process that started this one ends."""
        while True:
            for key, _ in self.selector.select():
                ready = key.fileobj
                if ready is self.listener:
                    self._accept()
                elif not isinstance(ready, socket.socket):
                    self._end(key.data)
                elif not self._answer(ready):
                    if ready is self.control:
                        return
                    self._forget(ready)

    def _accept(self) -> None:
        """Accept a connection; close it if it is that of another user."""
        client, _ = self.listener.accept()
        _, user, _ = struct.unpack(
            "3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        )
        self.clients.add(client)
        self.selector.register(client, selectors.EVENT_READ)
        if user != os.getuid():
            self._forget(client)

    def _forget(self, client: socket.socket) -> None:
        self.selector.unregister(client)
        self.clients.remove(client)
        client.close()

    def _answer(self, connection: socket.socket) -> bool:
        """Do what a request asks for; no copy if a second thread makes that unsafe. Return False at the end."""
        message, pipes = b"", list[int]()
        with contextlib.suppress(OSError):  # the other process was killed
            message, pipes, *_ = socket.recv_fds(connection, _MESSAGE_BYTES, _PIPES)
        if not message:
            return False
        for package in json.loads(message):
            _import_shared(package)
        if pipes and len([*Path("/proc/self/task").iterdir()]) == 1:
            self._fork(pipes)
        else:
            for pipe in pipes:
                os.close(pipe)
        return True

    def _fork(self, pipes: Sequence[int]) -> None:
        gc.freeze()  # else a garbage collection in a copy writes to all memory, which is then not shared any more
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_copy(pipes, server)
        *unused, status = pipes
        for pipe in unused:
            os.close(pipe)
        process = os.pidfd_open(pid)
        self.copies[pid] = process, status
        for descriptor in self.copies[pid]:
            self.selector.register(descriptor, selectors.EVENT_READ, pid)

    def _become_copy(self, pipes: Sequence[int], server: int) -> NoReturn:
        """Serve a method in this copy of the process, then end it."""
        code = 1
        try:
            for connection in (self.control, self.listener, *self.clients):
                connection.close()
            for descriptor in (d for copy in self.copies.values() for d in copy):
                os.close(descriptor)
            serve_method(server, *pipes)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
            os._exit(code)

    def _end(self, pid: int) -> None:
        """Reap a copy that has ended, or whose status nobody waits for, and report its exit code."""
        if pid not in self.copies:  # both descriptors were ready
            return
        process, status = self.copies.pop(pid)
        os.kill(pid, signal.SIGKILL)  # no effect on one that has ended
        _, ending = os.waitpid(pid, 0)
        with contextlib.suppress(OSError):
            os.write(status, str(os.waitstatus_to_exitcode(ending)).encode())
        for descriptor in (process, status):
            self.selector.unregister(descriptor)
            os.close(descriptor)


def serve_method(server: int, requests: int, replies: int, errors: int, status: int) -> None:
    """Serve a method in a copy of the server, whose id is given, with the descriptors of `fork`."""
    os.setsid()
    os.dup2(errors, 2)
    os.close(errors)
    die_with_parent(server)
    connection = Connection(requests, writable=False)
    os.write(status, _STARTED + str(os.getpid()).encode())
    os.close(status)
    environment = connection.recv()
    _mark(environment[guard.CALLS])
    os.environ.clear()
    os.environ.update(environment)
    np.random.seed()  # as in a new process, for methods that use the global generator
    serve(HANDLERS, connection, Connection(replies, readable=False))


def _mark(mark: str) -> None:
    """Write the mark over that of the server where the system looks: in the memory in which the process was started."""
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    ctypes.memmove(libc.getenv(guard.CALLS.encode()), mark.encode(), len(guard.NO_MARK))


def _import_shared(package: str) -> None:
    """Import what methods share of a package; a failure is that of the method, which imports it again."""
    for name in _SHARED[package]:
        module, _, function = name.partition(":")
        with contextlib.suppress(Exception):
            imported = importlib.import_module(module)
            if function:
                getattr(imported, function)()


if __name__ == "__main__":
    _Server(*(socket.socket(fileno=int(number)) for number in sys.argv[1:])).run()
