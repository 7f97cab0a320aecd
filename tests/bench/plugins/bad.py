"""Methods that misbehave, each in its own way, for tests of the isolation."""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from methods.base import Method, NoSolution, Unavailable

GATE = "BENCH_TEST_GATE"


class Bad(Method):
    """Misbehaves as its parameter says."""

    how: str = "raise"
    variants = {
        f"bad_{how}": {"how": how}
        for how in (
            "segfault exit sleep shape nan reflection scale text print mutate memory none raise give_up kill unset broken "
            "balloon family deaf"
        ).split()
    }

    def setup(self, device, seed, domain):
        if self.how == "unset":
            raise Unavailable("package nowhere is missing: pip install nowhere")
        if self.how == "broken":
            raise KeyError("weights")

    def register(self, source, target):
        return getattr(self, f"_{self.how}")(source, target)

    def _segfault(self, source, target):
        ctypes.string_at(0)

    def _exit(self, source, target):
        print("about to leave", file=sys.stderr, flush=True)
        os._exit(3)

    def _kill(self, source, target):
        os.abort()

    def _sleep(self, source, target):
        time.sleep(3600)

    def _shape(self, source, target):
        return np.eye(3)

    def _balloon(self, source, target):
        while True:
            self.state.setdefault("held", []).append(np.ones(25_000_000))

    def _family(self, source, target):
        if os.fork() == 0:
            time.sleep(3600)
        ctypes.string_at(0)

    def _deaf(self, source, target):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if gate := os.environ.get(GATE):  # a test waits until it is stuck
            (Path(gate) / f"deaf_{os.getpid()}").touch()
        while True:
            ctypes.PyDLL(None).usleep(900_000)  # holds the interpreter lock: no Python runs

    def _nan(self, source, target):
        return np.full((4, 4), np.nan)

    def _reflection(self, source, target):
        return np.diag([1.0, 1.0, -1.0, 1.0])

    def _scale(self, source, target):
        return np.diag([2.0, 2.0, 2.0, 1.0])

    def _text(self, source, target):
        return "a pose"

    def _none(self, source, target):
        return None

    def _print(self, source, target):
        os.write(1, b"native noise\n" * 4_000_000)
        print("python noise")
        return np.eye(4)

    def _mutate(self, source, target):
        source[:] = 0
        target[:] = 0
        return np.eye(4)

    def _memory(self, source, target):
        raise MemoryError("20 GB asked")

    def _raise(self, source, target):
        raise RuntimeError("something broke\nin two lines")

    def _give_up(self, source, target):
        raise NoSolution("too few matches")
