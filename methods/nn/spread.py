"""Independent parts of work, each on one thread: no barrier between operations, so that a busy core holds up nobody."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple, TypeVar

import torch

Work = TypeVar("Work")
Result = TypeVar("Result")


class Piece(NamedTuple):
    """Some rows of one cloud of a batch."""

    cloud: int
    rows: slice


def pieces(clouds: int, points: int, rows: int) -> list[Piece]:
    """Clouds of so many points in pieces of about equal size, `rows` points at most."""
    count = -(-points // rows)
    edges = [points * i // count for i in range(count + 1)]
    return [Piece(cloud, slice(*ends)) for cloud in range(clouds) for ends in pairwise(edges)]


def spread(work: Callable[[Work], Result], parts: Sequence[Work]) -> list[Result]:
    """`work` of each part, in their order, on as many threads as torch may use here; without gradients.

    Tensor operations and SciPy's searches let other Python threads run. `work` must not depend on which thread does it.
    """
    threads = torch.get_num_threads()
    inference = torch.is_inference_mode_enabled()

    def run(part: Work) -> Result:
        with torch.inference_mode(inference), torch.no_grad():  # both are a thread's own
            return work(part)

    return list(map(run, parts) if min(threads, len(parts)) < 2 else _pool(threads).map(run, parts))


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "parts", initializer=_start)


def _start() -> None:
    """Set up a thread: its operations use no other one, and numbers next to zero are zero as in the thread that asks."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
