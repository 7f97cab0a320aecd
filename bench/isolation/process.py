"""The parent's side of a method's process: start, ask with a deadline, kill, explain."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.isolation import interrupt
from common.errors import InputError
from methods.core.registry import build, environment_of

SETUP_TIMEOUT_S = 600.0
TAIL_BYTES = 4000
POLL_INTERVAL_S = 0.05
"""How often memory is looked at while a call takes long."""
PIPELINE_BELOW_S = 0.5
"""A method whose calls take less is sent the next call while it works on one."""
PIPE_BYTES = 1 << 20
"""Bytes that a pipe to a process should hold."""
LAST_WORDS_S = 5.0
"""How long the messages of a process that ended are read at most; they end at once unless a process it started lives on."""
ROOT = Path(__file__).resolve().parent.parent
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BENCH_THREADS", "OMP_THREAD_LIMIT")

Points = NDArray[np.float32]
Message = dict[str, Any]
Reply = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class MethodSetup:
    """What a method's process is started with. Equal settings can share a process."""

    method: str
    domain: str
    device: str = "cpu"
    threads: int = 1
    seed: int = 0
    plugins: Path | None = None


@dataclass(frozen=True)
class Limits:
    """What a call may take: seconds, and GB of resident memory of the process with all it started."""

    timeout: float
    memory_gb: float


@dataclass(frozen=True)
class Call:
    """One call of a method: clouds (N, 3) and (M, 3) of one pair or, all of the same sizes, of several, and a seed."""

    sources: Sequence[Points]
    targets: Sequence[Points]
    seed: int

    @property
    def message(self) -> Message:
        """What is sent: nothing but the clouds and the seed."""
        if len(self.sources) == 1:
            return {"do": "register", "source": self.sources[0], "target": self.targets[0], "seed": self.seed}
        return {"do": "register_batch", "sources": [*self.sources], "targets": [*self.targets], "seed": self.seed}


class MethodProcess:
    """A method in a process of its own, kept warm between calls and replaced after a crash or a time-out."""

    def __init__(self, setting: MethodSetup, limits: Limits) -> None:
        self.setting, self.limits = setting, limits
        self.process: subprocess.Popen[bytes] | None = None
        self.ready: Reply = {}
        self._sent = 0  # messages that the process has and has not answered

    def start(self) -> Reply:
        """Start the process and set the method up; returns its reply (`status`: ok, unavailable, input, error, …)."""
        if self.process is not None:
            return self.ready
        ready = self._spawn()
        return self._spawn() if ready.get("killed") else ready

    def _spawn(self) -> Reply:
        s = self.setting
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.isolation.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=os.environ
            | dict.fromkeys(_THREAD_VARIABLES, str(s.threads))
            | environment_of(build(s.method, s.plugins)),
            start_new_session=True,  # Ctrl-C is the parent's to handle
        )
        # SimpleQueue.get waits for ever if a signal's handler takes longer than what is left of its timeout (Python 3.11)
        self._replies: queue.Queue[Reply | None] = queue.Queue()
        self._tail = bytearray()
        self._sent, self._room = 0, _widen_pipe(self.process.stdin)
        reader = threading.Thread(target=_read_replies, args=(self.process.stdout, self._replies), daemon=True)
        self._drainer = threading.Thread(target=_keep_tail, args=(self.process.stderr, self._tail), daemon=True)
        reader.start()
        self._drainer.start()
        return self.set_up(s)

    def set_up(self, setting: MethodSetup) -> Reply:
        """Set a method up, in the running process if there is one (its variables stay those it was started with)."""
        self.setting = s = setting
        if self.process is None:
            return self.start()
        ask = {"do": "setup", "method": s.method, "device": s.device, "seed": s.seed, "domain": s.domain}
        # Loading and building (a compiler may run) has its own patience.
        self.ready = self._ask([ask | {"plugins": s.plugins}], max(self.limits.timeout, SETUP_TIMEOUT_S))
        return self.ready

    def register(self, source: Points, target: Points, seed: int) -> Reply:
        """One call: the worker's reply, or one that says how the process ended (`timeout`, `crash`)."""
        return self.ask(Call((source,), (target,), seed))

    def ask(self, call: Call) -> Reply:
        """One call, as `register`; on several pairs it may take the time of as many."""
        return self._call([call.message], self.limits.timeout * len(call.sources))

    def replies(self, calls: Iterable[tuple[T, Call]]) -> Generator[tuple[T, Reply]]:
        """The replies to calls, in their order, each with what stood beside its call.

        While the method works on one call, the next is sent already, unless the last took `PIPELINE_BELOW_S` or more.

        Raises:
            InputError: as `calls` does, after the replies to what came before.
        """
        rest, fault = iter(calls), None
        waiting: deque[tuple[T, Call]] = deque()
        brief, more = False, True
        try:
            while more or waiting:
                while more and len(waiting) < 1 + brief:
                    try:
                        waiting.append(next(rest))
                    except (StopIteration, InputError) as end:
                        more, fault = False, end
                if waiting:
                    messages = [call.message for _, call in waiting]
                    reply = self._call(messages, self.limits.timeout * len(waiting[0][1].sources))
                    brief = reply.get("time_ms", np.inf) < 1e3 * PIPELINE_BELOW_S
                    yield waiting.popleft()[0], reply
        finally:
            if self._sent:  # nobody waits for these replies any more
                self.close()
        if isinstance(fault, InputError):
            raise fault

    def gaussians(self, source: Points, target: Points) -> Reply:
        """The mixtures by which the method matches a pair: as `register`, with `gaussians` in the reply."""
        return self._call([{"do": "gaussians", "source": source, "target": target, "seed": 0}], self.limits.timeout)

    def check(self, name: str, patience: float) -> Reply:
        """One check of `bench.conformance.checks` in the process: its reply, or how the process ended, within seconds."""
        return self._call([{"do": "check", "check": name}], patience)

    def _call(self, messages: list[Message], patience: float) -> Reply:
        """The reply to the first message, those after it may be sent too.

        Asked once more where the process was killed from outside, which need not be the method's fault.
        """
        for _ in range(2):
            ready = self.start()
            reply = self._ask(messages, patience) if ready["status"] == "ok" else ready
            if not reply.get("killed"):
                break
        return reply

    def _ask(self, messages: list[Message], patience: float) -> Reply:
        try:
            self._send(messages)
        except OSError:
            if not self._sent:
                return self._post_mortem()  # else it may have answered what it has
        reply = self._wait(time.monotonic() + patience, patience)
        self._sent = max(self._sent - 1, 0)
        return self._judged(reply, patience)

    def _judged(self, reply: Reply, patience: float) -> Reply:
        """Return the reply if its call kept to the limits: no call is watched while the next one is generated.

        As in `_wait`, memory is compared before time, and is that of the whole process. A call that breaks both limits has the
        same outcome whether it was watched or not.
        """
        if (used := reply.pop("resident_mb", 0.0) * 2**20 / 1e9) > self.limits.memory_gb:
            return self._too_large(used) | {"time_ms": reply["time_ms"], "peak_mb": reply["peak_mb"]}
        if reply.get("time_ms", 0.0) > 1e3 * patience and reply["status"] != "timeout":
            return _timeout_reply(patience) | {"time_ms": reply["time_ms"]}
        return reply

    def _too_large(self, used: float) -> Reply:
        limit = self.limits.memory_gb
        return {"status": "out_of_memory", "message": f"used {used:.1f} GB; the limit is {limit:g} GB"}

    def _send(self, messages: list[Message]) -> None:
        """Write what of the messages the process does not have yet; beyond the first only what the pipe surely holds."""
        assert self.process is not None and self.process.stdin is not None
        for number, message in enumerate(messages[self._sent :], self._sent):
            data = pickle.dumps(message, protocol=5)
            if number and len(data) > self._room // 2:
                return  # the process reads it when it has answered: writing would wait for that, past all deadlines
            self.process.stdin.write(data)
            self.process.stdin.flush()
            self._sent += 1

    def _wait(self, deadline: float, patience: float) -> Reply:
        """The reply, or what the process is killed for: even native code can't outstay its limits.

        Raises:
            Stopped: Ctrl-C; the call is abandoned.
        """
        while True:
            if interrupt.requested() and self._replies.empty():
                self.close()
                raise interrupt.Interrupted
            try:
                reply = self._replies.get(timeout=max(0.0, min(POLL_INTERVAL_S, deadline - time.monotonic())))
                return reply if reply is not None else self._post_mortem()
            except queue.Empty:
                used = self._memory_gb()
            assert self.process is not None
            if self.process.poll() is not None and self._replies.empty():
                return self._post_mortem()  # dead, though a process it forked still holds the pipe
            if used > self.limits.memory_gb:
                self.close()
                return self._too_large(used)
            if time.monotonic() >= deadline:
                self.close()
                return _timeout_reply(patience)

    def _memory_gb(self) -> float:
        """Resident memory of the process and its descendants."""
        import psutil

        assert self.process is not None
        total = 0
        with contextlib.suppress(psutil.Error):
            parent = psutil.Process(self.process.pid)
            for process in (parent, *parent.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    total += process.memory_info().rss
        return total / 1e9

    def _post_mortem(self) -> Reply:
        assert self.process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        code = self.process.returncode
        how = f"exit code {code}"
        if code is not None and code < 0:
            how = signal.Signals(-code).name
        self.close()  # also ends what holds the pipe of messages open, so that it can be read to its end
        self._drainer.join(LAST_WORDS_S)
        last = bytes(self._tail).decode(errors="replace").strip().splitlines()[-3:]
        message = " | ".join([f"the process ended with {how}", *last])
        return {"status": "crash", "message": message, "killed": code == -signal.SIGKILL}

    def close(self) -> None:
        """End the process and all it started."""
        process, self.process, self._sent = self.process, None, 0
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        with contextlib.suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()  # the others are their readers' to close


def _timeout_reply(patience: float) -> Reply:
    return {"status": "timeout", "message": f"no answer within {patience:g} s", "time_ms": 1e3 * patience}


def _widen_pipe(pipe: Any) -> int:
    """Let a pipe hold more, and return how many bytes; 0 where the system does not tell."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        return fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return 0


def _read_replies(pipe: Any, replies: queue.Queue[Reply | None]) -> None:
    """Hand on replies until the pipe ends; a broken reply counts as the end."""
    with pipe:
        try:
            while True:
                replies.put(pickle.load(pipe))
        except Exception:
            replies.put(None)


def _keep_tail(pipe: Any, tail: bytearray) -> None:
    """Keep the last of what the process and its libraries print, whatever the amount."""
    with pipe:
        while chunk := pipe.read1(1 << 16):
            tail += chunk
            del tail[:-TAIL_BYTES]
