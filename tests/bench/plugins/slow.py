"""A method that takes its time, for tests of what happens meanwhile."""

import time

import numpy as np

from methods.base import Method


class Slow(Method):
    """The identity, after a while."""

    kind = "control"
    seconds: float = 0.1

    def register(self, source, target):
        time.sleep(self.seconds)
        return np.eye(4)
