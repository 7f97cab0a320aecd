"""Helper processes for the parts of a large report that can be done beside the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

MAX_WORKERS = 4


def parallel_map(work: Callable[[T], R], arguments: Iterable[T], large: bool) -> Iterator[R]:
    """The results of work on each argument, in order.

    If it is large, helper processes begin at once and the iterator waits for them; if not, or if there is one processor only,
    everything is done here, each when it is asked for.
    """
    helpers = min(MAX_WORKERS, os.cpu_count() or 1)
    if not large or helpers < 2:
        return map(work, arguments)
    from joblib import Parallel, delayed

    found: Any = Parallel(n_jobs=helpers, return_as="generator")(delayed(work)(one) for one in arguments)
    return found
