"""A parallel map over worker processes, for the parts of a large report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

MAX_WORKERS = 4
"""Maximum number of worker processes."""


def parallel_map(function: Callable[[T], R], arguments: Iterable[T], large: bool) -> Iterator[R]:
    """Apply a function to each argument and yield the results in order.

    Args:
        function: the function; picklable if `large`.
        arguments: one argument per call.
        large: whether to start worker processes at once. If false, or on a machine with one processor, each result is
            computed in this process when the iterator reaches it.
    """
    workers = min(MAX_WORKERS, os.cpu_count() or 1)
    if not large or workers < 2:
        return map(function, arguments)
    from joblib import Parallel, delayed

    results: Any = Parallel(n_jobs=workers, return_as="generator")(delayed(function)(a) for a in arguments)
    return results
