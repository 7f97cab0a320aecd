"""A method that takes its time, for tests of what happens meanwhile."""

import os
import signal
import time

import numpy as np

from methods.base import Method


class Slow(Method):
    """The identity, after a while; or the end of its process, as if from outside."""

    kind = "control"
    seconds: float = 0.1
    killed: bool = False

    def register(self, source, target):
        time.sleep(self.seconds)
        if self.killed:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.eye(4)
