"""A method that takes its time, for tests of what happens meanwhile."""

import time

import numpy as np

from methods.base import Method


class Slow(Method):
    """The identity, after a tenth of a second."""

    kind = "control"

    def register(self, source, target):
        time.sleep(0.1)
        return np.eye(4)
