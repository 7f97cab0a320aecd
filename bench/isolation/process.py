"""Handle of a method's process: start it, send calls with a timeout, kill it, report how it ended."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO, Any, NamedTuple, TypeVar

from bench.isolation import fork_server, guard, interrupt, received
from bench.isolation.fork_server import ForkedProcess
from bench.isolation.protocol import GaussiansRequest, Limits, MethodSetup, Points, RegisterRequest, Reply, pack_request
from bench.storage.outcome import Status
from common.devices import CPU
from common.errors import InputError
from common.processes import descendants

SETUP_TIMEOUT_S = 600.0
"""Minimum timeout of a setup, which may load weights or run a compiler."""
TAIL_BYTES = 4000
"""Bytes kept of what the process printed last."""
TAIL_TIMEOUT_S = 5.0
"""Maximum time to read the last messages of a process that ended."""
POLL_INTERVAL_S = 0.05
"""Interval at which memory is checked while a call runs."""
PIPELINE_BELOW_S = 0.5
"""While a call runs, the next one is sent ahead if the call before took less than this."""
BURST_BELOW_S, BURST = 0.01, 16
"""Time of a call below which up to `BURST` calls are sent ahead: processes that alternate call by call lose their caches."""
PIPE_BYTES = 1 << 20
"""Requested pipe buffer size in bytes."""
SERVER = "bench.isolation.server"
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BENCH_THREADS", "OMP_THREAD_LIMIT")
_COMMON_VARIABLES = {"KMP_INIT_AT_FORK": "FALSE"}
"""Variables that joblib sets in its workers, and so in some processes of methods: here in all."""

T = TypeVar("T")


class _Sent(NamedTuple):
    """A request that was sent: when, and its size in bytes."""

    time_s: float
    size: int


class MethodProcess:
    """A method in its own process, kept warm between calls and replaced after a crash or a timeout.

    Args:
        setup: the method and how it is set up.
        limits: of every call.
        server: module that answers the requests; see `bench.isolation.server`.
    """

    def __init__(self, setup: MethodSetup, limits: Limits, server: str = SERVER) -> None:
        self.setup, self.limits, self.server = setup, limits, server
        self.process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self.ready = Reply()
        self._unanswered: deque[_Sent] = deque()
        self._answered = 0  # requests that were answered
        self._free_s = 0.0  # when the process was free for the next call at the earliest
        self._waited_s = 0.0  # seconds of waiting since the last reply
        self._pipe_bytes = 0  # what the pipe of requests holds

    def start(self) -> Reply:
        """Start the process and set the method up. Retry once after an external SIGKILL."""
        if self.process is not None:
            return self.ready
        ready = self._spawn()
        return self._spawn() if ready.killed else ready

    def _spawn(self) -> Reply:
        setup = self.setup
        child_requests, self._requests = Pipe(duplex=False)
        self._replies, child_replies = Pipe(duplex=False)
        guard.start()
        self._mark = guard.new_mark()
        with child_requests, child_replies:
            self.process = self._started((child_requests.fileno(), child_replies.fileno()))
        self._answered, self._free_s, self._waited_s = 0, time.monotonic(), 0.0
        self._tail = bytearray()
        self._pipe_bytes = _widen_pipe(self._requests)
        self._tail_reader = threading.Thread(target=_keep_tail, args=(self.process.stderr, self._tail), daemon=True)
        self._tail_reader.start()
        return self.set_up(setup)

    def _started(self, pipes: tuple[int, int]) -> subprocess.Popen[bytes] | ForkedProcess:
        """Start the server of the method, which reads and writes pipes: as a copy of the fork server where possible."""
        setup = self.setup
        own = own_variables(setup)
        environment = {**os.environ, **own, guard.CALLS: self._mark}
        environment.pop(fork_server.ADDRESSES, None)
        can_fork = _can_fork(setup) and self.server == SERVER
        if can_fork and (process := fork_server.fork(_required(setup), own, pipes)):
            self._requests.send(environment)
            return process
        return subprocess.Popen(
            [sys.executable, "-m", self.server, *map(str, (*pipes, os.getpid()))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=guard.ROOT,
            env=environment,
            pass_fds=pipes,
            start_new_session=True,  # Ctrl-C is handled by the parent
        )

    def set_up(self, setup: MethodSetup) -> Reply:
        """Set a method up, in the running process if there is one (its environment variables do not change)."""
        self.setup = setup
        if self.process is None:
            return self.start()
        self.ready = self._exchange([setup], max(self.limits.timeout, SETUP_TIMEOUT_S))
        return self.ready

    def register(self, source: Points, target: Points, seed: int) -> Reply:
        """Register one pair (N, 3), (M, 3); the reply also reports how the process ended if it did."""
        return self.call(RegisterRequest((source,), (target,), seed))

    def gaussians(self, source: Points, target: Points) -> Reply:
        """Return the mixtures by which the method matches a pair, in `extra`."""
        return self.call(GaussiansRequest(source, target))

    def call(self, request: Any, timeout: float | None = None) -> Reply:
        """Send a request and return its reply; the timeout in seconds is that of the limits unless given."""
        return self._call([request], self._timeout(request) if timeout is None else timeout)

    def replies(self, calls: Iterable[tuple[T, RegisterRequest]]) -> Generator[tuple[T, Reply]]:
        """Yield the replies to calls in order, each with the label given beside its request.

        While the method works on one call, the next one has already been sent, unless the last took
        `PIPELINE_BELOW_S` or more; many have been sent if it took less than `BURST_BELOW_S`.

        Raises:
            InputError: raised by `calls`; the replies to the calls before come first.
        """
        rest, fault = iter(calls), None
        waiting: deque[tuple[T, RegisterRequest]] = deque()
        ahead, more = 0, True
        try:
            while more or waiting:
                if len(waiting) <= (1 + ahead) // 2:
                    while more and len(waiting) < 1 + ahead:
                        try:
                            waiting.append(next(rest))
                        except (StopIteration, InputError) as end:
                            more, fault = False, end
                if waiting:
                    requests = [request for _, request in waiting]
                    reply = self._call(requests, self._timeout(requests[0]))
                    ahead = self._calls_ahead(reply.time_ms / 1e3, requests[0])
                    yield waiting.popleft()[0], reply
        finally:
            if self._unanswered:  # nobody waits for these replies any more
                self.close()
        if isinstance(fault, InputError):
            raise fault

    def _calls_ahead(self, seconds: float, request: RegisterRequest) -> int:
        """Return how many calls to send ahead after one of some seconds: in a burst, as many as half the pipe holds."""
        if not seconds < PIPELINE_BELOW_S:
            return 0
        size = sum(cloud.nbytes for cloud in (*request.sources, *request.targets))
        return max(min(self._pipe_bytes // 2 // max(size, 1), BURST), 1) if seconds < BURST_BELOW_S else 1

    def _timeout(self, request: Any) -> float:
        """Return the timeout of a request in seconds; a batch gets that of one pair per pair."""
        return self.limits.timeout * (len(request.sources) if isinstance(request, RegisterRequest) else 1)

    def _call(self, requests: Sequence[Any], timeout: float) -> Reply:
        """Return the reply to the first request; those after it may be sent ahead.

        Retry once after an external SIGKILL, for example by the out-of-memory killer.
        """
        for _ in range(2):
            ready = self.start()
            reply = self._exchange(requests, timeout) if ready.status == Status.OK else ready
            if not reply.killed:
                break
        return reply

    def _exchange(self, requests: Sequence[Any], timeout: float) -> Reply:
        if not self._unanswered:
            self._waited_s = 0.0
        try:
            self._send(requests)
        except OSError:
            if not self._unanswered:
                return self._post_mortem()  # otherwise it may have replied to what it received
        reply = self._receive(time.monotonic() + timeout, timeout)
        return self._apply_limits(reply, timeout)

    def _send(self, requests: Sequence[Any]) -> None:
        """Send the requests that were not sent yet; beyond the first only what surely fits into the pipe."""
        ahead = sum(earlier.size for earlier in itertools.islice(self._unanswered, 1, None))
        for number, request in enumerate(requests[len(self._unanswered) :], len(self._unanswered)):
            data = pack_request(self._answered + number, request)
            ahead += len(data) if number else 0
            if ahead > self._pipe_bytes // 2:
                return  # writing would wait until the process reads, past all timeouts
            sent = _Sent(time.monotonic(), len(data))
            self._requests.send_bytes(data)
            self._unanswered.append(sent)

    def _receive(self, deadline: float, timeout: float) -> Reply:
        """Return the reply, or kill the process once it exceeds a limit: this works inside native code, too.

        Raises:
            Interrupted: Ctrl-C was pressed; the call is abandoned.
        """
        while True:
            if interrupt.requested() and not self._replies.poll():
                self.close()
                raise interrupt.Interrupted
            begun = time.monotonic()
            try:
                arrived = self._replies.poll(max(0.0, min(POLL_INTERVAL_S, deadline - begun)))
                self._waited_s += time.monotonic() - begun
                if arrived:
                    return self._parsed_reply(self._replies.recv_bytes(received.MAX_BYTES))
            except (EOFError, OSError):
                return self._post_mortem()
            assert self.process is not None
            used = self._memory_gb()
            if self.process.poll() is not None and not self._replies.poll():
                return self._post_mortem()  # it ended, though a process it forked still holds the pipe
            if used > self.limits.memory_gb:
                self.close()
                return self._memory_reply(used)
            if time.monotonic() >= deadline:
                self.close()
                return _timeout_reply(timeout)

    def _parsed_reply(self, data: bytes) -> Reply:
        """Return the reply to the current request; anything else is a crash, and ends the process."""
        assert self.process is not None
        try:
            reply = received.parse_reply(data, self._answered, self.process.pid)
        except received.BadReply as fault:
            self.close()
            return Reply(Status.CRASH, message=str(fault))
        begun = max(self._free_s, self._unanswered.popleft().time_s)
        reply = received.bound_time(reply, time.monotonic() - begun, self._waited_s)
        busy_s = 0.0 if math.isnan(reply.time_ms) else reply.time_ms / 1e3
        self._answered, self._free_s, self._waited_s = self._answered + 1, begun + busy_s, 0.0
        if reply.last:
            self.close()
        return reply

    def _apply_limits(self, reply: Reply, timeout: float) -> Reply:
        """Check a reply against the limits: no call is watched while the next one is prepared.

        As in `_receive`, memory is compared before time, and is that of the whole process. A call that breaks both limits
        has the same outcome whether it was watched or not.
        """
        if (used := reply.resident_mb * 2**20 / 1e9) > self.limits.memory_gb:
            return replace(self._memory_reply(used), time_ms=reply.time_ms, peak_mb=reply.peak_mb)
        if reply.time_ms > 1e3 * timeout and reply.status != Status.TIMEOUT:
            return replace(_timeout_reply(timeout), time_ms=reply.time_ms)
        return reply

    def _memory_reply(self, used: float) -> Reply:
        limit = self.limits.memory_gb
        return Reply(Status.OUT_OF_MEMORY, message=f"used {used:.1f} GB; the limit is {limit:g} GB")

    def _memory_gb(self) -> float:
        """Return the resident memory of the process and its descendants in GB."""
        import psutil

        assert self.process is not None
        total = 0
        with contextlib.suppress(psutil.Error):
            for process in (psutil.Process(self.process.pid), *descendants(self.process.pid)):
                with contextlib.suppress(psutil.Error):
                    total += process.memory_info().rss
        return total / 1e9

    def _post_mortem(self) -> Reply:
        """Describe how the process ended, with the last lines it printed."""
        assert self.process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        code = self.process.returncode
        ending = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
        self.close()  # also ends processes that hold the pipe of messages open, so that it can be read to its end
        self._tail_reader.join(TAIL_TIMEOUT_S)
        last = bytes(self._tail).decode(errors="replace").strip().splitlines()[-3:]
        message = " | ".join([f"the process ended with {ending}", *last])
        return Reply(Status.CRASH, message=message, killed=code == -signal.SIGKILL)

    def close(self) -> None:
        """Kill the process and all processes it started."""
        process, self.process = self.process, None
        self._unanswered.clear()
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        guard.end_marked(guard.CALLS, self._mark)  # daemons, which left the process group
        self._requests.close()
        self._replies.close()


def prepare(setups: Iterable[MethodSetup]) -> None:
    """Start what the processes of methods are copied from; the workers that are started later share it."""
    guard.start()
    for setup in setups:
        if _can_fork(setup):
            fork_server.prepare(_required(setup), own_variables(setup))


def _required(setup: MethodSetup) -> list[str]:
    """Return the packages that a method requires."""
    return [package for facts in setup.method.facts for package in facts.requires]


def _can_fork(setup: MethodSetup) -> bool:
    """Return whether a method can run in a copy of a process.

    With several threads, BLAS starts them when it is imported; the driver of a GPU cannot be copied.
    """
    return sys.platform == "linux" and setup.threads == 1 and setup.device == CPU


def own_variables(setup: MethodSetup) -> dict[str, str]:
    """Return the environment variables that a method's process has beside those of this process."""
    return _COMMON_VARIABLES | dict.fromkeys(_THREAD_VARIABLES, str(setup.threads)) | setup.method.environment


def _timeout_reply(timeout: float) -> Reply:
    return Reply(Status.TIMEOUT, message=f"no answer within {timeout:g} s", time_ms=1e3 * timeout)


def _widen_pipe(pipe: Connection) -> int:
    """Enlarge the buffer of a pipe and return its size in bytes; 0 where the system does not report it."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        return fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return 0


def _keep_tail(pipe: IO[bytes], tail: bytearray) -> None:
    """Keep the last of what the process and its libraries print, whatever the amount."""
    with pipe:
        while chunk := pipe.read1(1 << 16):  # type: ignore[attr-defined]
            tail += chunk
            del tail[:-TAIL_BYTES]
