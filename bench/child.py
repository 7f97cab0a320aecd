"""The parent's side of a method's process: start, ask with a deadline, kill, explain."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from methods.registry import build, environment_of

SETUP_PATIENCE_S = 600.0
ROOT = Path(__file__).resolve().parent.parent
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BENCH_THREADS", "OMP_THREAD_LIMIT")


@dataclass(frozen=True)
class Setting:
    """What a method's process is started with. Equal settings can share a process."""

    method: str
    domain: str
    device: str = "cpu"
    threads: int = 1
    seed: int = 0
    plugins: Path | None = None


class Child:
    """A method in a process of its own, kept warm between calls and replaced after a crash or a time-out."""

    def __init__(self, setting: Setting, timeout: float) -> None:
        self.setting, self.timeout = setting, timeout
        self.process: subprocess.Popen[bytes] | None = None
        self.ready: dict[str, Any] = {}

    def start(self) -> dict[str, Any]:
        """Start the process and set the method up; returns its reply (`status`: ok, unavailable, input, error, …)."""
        if self.process is not None:
            return self.ready
        s = self.setting
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=ROOT,
            env=os.environ
            | dict.fromkeys(_THREAD_VARIABLES, str(s.threads))
            | environment_of(build(s.method, s.plugins)),
            start_new_session=True,  # Ctrl-C is the parent's to handle
        )
        self._replies: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=_read, args=(self.process.stdout, self._replies), daemon=True).start()
        return self.set_up(s)

    def set_up(self, setting: Setting) -> dict[str, Any]:
        """Set a method up, in the running process if there is one (its variables stay those it was started with)."""
        self.setting = s = setting
        if self.process is None:
            return self.start()
        ask = {"do": "setup", "method": s.method, "device": s.device, "seed": s.seed, "domain": s.domain}
        # Loading and building (a compiler may run) has its own patience.
        self.ready = self._ask(ask | {"plugins": s.plugins}, max(self.timeout, SETUP_PATIENCE_S))
        return self.ready

    def register(self, source: NDArray[np.float32], target: NDArray[np.float32], seed: int) -> dict[str, Any]:
        """One call: the worker's reply, or one that says how the process ended (`timeout`, `crash`)."""
        ready = self.start()
        if ready["status"] != "ok":
            return ready
        return self._ask({"do": "register", "source": source, "target": target, "seed": seed}, self.timeout)

    def _ask(self, message: dict[str, Any], patience: float) -> dict[str, Any]:
        assert self.process is not None and self.process.stdin is not None
        try:
            pickle.dump(message, self.process.stdin, protocol=5)
            self.process.stdin.flush()
            reply = self._replies.get(timeout=patience)
        except queue.Empty:
            self.close()
            return {"status": "timeout", "message": f"no answer within {patience:g} s", "time_ms": 1e3 * patience}
        except OSError:
            reply = None
        return reply if reply is not None else self._post_mortem()

    def _post_mortem(self) -> dict[str, Any]:
        assert self.process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        code = self.process.returncode
        how = f"exit code {code}"
        if code is not None and code < 0:
            how = signal.Signals(-code).name
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 2000))
        last = self._log.read().decode(errors="replace").strip().splitlines()[-3:]
        self.close()
        return {"status": "crash", "message": " | ".join([f"the process ended with {how}", *last])}

    def close(self) -> None:
        """End the process and all it started."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()
        self._log.close()
        self.process = None


def _read(pipe: Any, replies: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    """Hand on replies until the pipe ends; a broken reply counts as the end."""
    try:
        while True:
            replies.put(pickle.load(pipe))
    except Exception:
        replies.put(None)
