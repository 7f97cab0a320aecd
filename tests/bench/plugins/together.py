"""A method that takes several pairs at once, well or badly, for tests."""

import os

import numpy as np

from methods.base import Method, NoSolution, rigid


class Together(Method):
    """Match centroids, of all pairs in one array operation; what else it does is in its parameter."""

    how: str = "well"
    batched = True
    variants = {"together": {}} | {f"together_{how}": {"how": how} for how in "few spoilt crash raise give_up".split()}

    def register(self, source, target):
        answer = _pose(target.mean(0, dtype=np.float64) - source.mean(0, dtype=np.float64))
        if isinstance(answer, NoSolution):
            raise answer
        return answer

    def register_batch(self, sources, targets):
        with self.stage("solve"):
            shifts = np.stack(targets).mean(1, dtype=np.float64) - np.stack(sources).mean(1, dtype=np.float64)
        return getattr(self, f"_{self.how}")([_pose(shift) for shift in shifts])

    def _well(self, answers):
        return answers

    def _few(self, answers):
        return answers[:-1]

    def _spoilt(self, answers):
        spoilt = np.full((4, 4), np.nan), NoSolution("too flat"), "a pose"
        answers[1:4] = spoilt[: len(answers) - 1]
        return answers

    def _crash(self, answers):
        os._exit(4)

    def _raise(self, answers):
        raise RuntimeError("broke")

    def _give_up(self, answers):
        raise NoSolution("none of them")


def _pose(shift):
    return rigid(np.eye(3), shift) if np.isfinite(shift).all() else NoSolution("not finite")
