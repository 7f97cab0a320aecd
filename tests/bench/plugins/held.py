"""A method whose calls a test lets go, so that it finds a run in the middle however fast the machine is."""

import os
import time
from pathlib import Path

import numpy as np

from methods.base import Method

GATE = "BENCH_TEST_GATE"
"""The variable that names a folder: calls that are held leave a file there, and end once a file `open` is there."""


class Held(Method):
    """The identity: at once by the first calls of a process and on small clouds, later by the others."""

    kind = "control"
    free: int = 0
    small: int = 0

    def register(self, source, target):
        """See `Method.register`."""
        self.state["calls"] = self.state.get("calls", 0) + 1
        if self.state["calls"] > self.free and len(source) > self.small:
            gate = Path(os.environ[GATE])
            (gate / f"held_{os.getpid()}").touch()
            while not (gate / "open").exists():
                time.sleep(0.01)
        return np.eye(4)
