"""A method that does what the first number of the source says, for tests of calls that follow each other."""

import os
import signal
import time

import numpy as np

from methods.base import Method, rigid

SLEEP, EXIT, KILL, NAP, LARGE, WORDS, FORK = 101.0, 102.0, 103.0, 104.0, 105.0, 106.0, 107.0


class Picky(Method):
    """A translation by the first point of the source, which tells answers apart; or no answer."""

    kind = "control"

    def register(self, source, target):
        first = source[0, 0]
        if first == SLEEP:
            time.sleep(60)
        if first == NAP:
            time.sleep(0.5)
        if first == LARGE:
            np.ones(40_000_000)  # 0.32 GB
        if first == WORDS:
            os.write(2, b"last words\n")
        if first == FORK and not os.fork():
            time.sleep(60)  # and holds the pipe of the replies
        if first in (EXIT, WORDS, FORK):
            os._exit(3)
        if first == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        return rigid(np.eye(3), source[0])
