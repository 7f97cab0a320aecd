"""Independent pieces of work on single threads, without a barrier after every tensor operation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from itertools import pairwise
from typing import NamedTuple, TypeVar

import torch

_thread_limit = ContextVar("_thread_limit", default=0)
"""Threads that `thread_map` may use within `single_threaded`; 0 outside of it."""
Item = TypeVar("Item")
Result = TypeVar("Result")


class Chunk(NamedTuple):
    """A slice of the rows of one cloud of a batch."""

    cloud: int
    rows: slice


def chunks(clouds: int, points: int, rows: int) -> list[Chunk]:
    """Cut clouds of `points` points each into chunks of about equal size, of at most `rows` points."""
    count = -(-points // rows)
    edges = [points * i // count for i in range(count + 1)]
    return [Chunk(cloud, slice(*ends)) for cloud in range(clouds) for ends in pairwise(edges)]


def thread_map(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Apply a function to each item on up to `max_threads()` threads, without gradients; return the results in order.

    The calling thread takes items like the others, so that two threads need only one wake-up. Tensor operations, SciPy's
    searches and compiled kernels release the interpreter lock. The result must not depend on the thread that computes it.
    """
    threads, inference = max_threads(), torch.is_inference_mode_enabled()
    results: dict[int, Result] = {}
    remaining = iter(range(len(items)))  # shared by the threads: each index is taken once

    def run() -> None:
        with torch.inference_mode(inference), torch.no_grad():  # both modes are local to a thread
            for i in remaining:
                results[i] = function(items[i])

    helpers = [_pool(threads).submit(run) for _ in range(min(threads, len(items)) - 1)]
    with single_threaded(1) if helpers else nullcontext():
        run()
    for helper in helpers:
        if not helper.cancel():  # one that has not started has taken no item
            helper.result()
    return [results[i] for i in range(len(items))]


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads - 1, "thread_map", initializer=_initialise_thread)


def max_threads() -> int:
    """Return how many threads `thread_map` may use: torch's number, or that of the enclosing `single_threaded`."""
    return _thread_limit.get() or torch.get_num_threads()


@contextmanager
def single_threaded(threads: int) -> Iterator[None]:
    """Run this thread's tensor operations on one thread; `thread_map` may still use up to `threads`.

    Two threads take longer than one for a small operation, and wait for each other on a busy machine.
    """
    previous, token = torch.get_num_threads(), _thread_limit.set(threads)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(previous)
        _thread_limit.reset(token)


def _initialise_thread() -> None:
    """Set up a pool thread: single-threaded operations, and denormals flushed to zero as in the calling thread."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
