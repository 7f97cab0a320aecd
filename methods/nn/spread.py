"""Independent parts of work, each on one thread: no barrier between operations, so that a busy core holds up nobody."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from itertools import pairwise
from typing import NamedTuple, TypeVar

import torch

_usable = ContextVar("_usable", default=0)
Work = TypeVar("Work")
Result = TypeVar("Result")


class Chunk(NamedTuple):
    """Some rows of one cloud of a batch."""

    cloud: int
    rows: slice


def chunks(clouds: int, points: int, rows: int) -> list[Chunk]:
    """Clouds of so many points in pieces of about equal size, `rows` points at most."""
    count = -(-points // rows)
    edges = [points * i // count for i in range(count + 1)]
    return [Chunk(cloud, slice(*ends)) for cloud in range(clouds) for ends in pairwise(edges)]


def spread(work: Callable[[Work], Result], parts: Sequence[Work]) -> list[Result]:
    """`work` of each part, in their order, on as many threads as torch may use here; without gradients.

    The thread that asks takes parts as the others do: with two threads one has to be woken, once. Tensor operations, SciPy's
    searches and compiled kernels let other Python threads run. `work` must not depend on which thread does it.
    """
    threads, inference = max_threads(), torch.is_inference_mode_enabled()
    found: dict[int, Result] = {}
    left = iter(range(len(parts)))  # shared: each number is handed out once

    def run() -> None:
        with torch.inference_mode(inference), torch.no_grad():  # both are a thread's own
            for i in left:
                found[i] = work(parts[i])

    helpers = [_pool(threads).submit(run) for _ in range(min(threads, len(parts)) - 1)]
    with single_threaded(1) if helpers else nullcontext():
        run()
    for helper in helpers:
        if not helper.cancel():  # of one that has not begun there is nothing to wait for
            helper.result()
    return [found[i] for i in range(len(parts))]


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads - 1, "parts", initializer=_start)


def max_threads() -> int:
    """The threads that `spread` may use here: as many as torch may, or as many as the `calm` around it says."""
    return _usable.get() or torch.get_num_threads()


@contextmanager
def single_threaded(threads: int) -> Iterator[None]:
    """Operations of this thread use no other one, only `spread` does, `threads` at most.

    Two threads take longer than one for a small operation, and wait for each other where the machine is busy.
    """
    usual, token = torch.get_num_threads(), _usable.set(threads)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(usual)
        _usable.reset(token)


def _start() -> None:
    """Set up a thread: its operations use no other one, and numbers next to zero are zero as in the thread that asks."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
