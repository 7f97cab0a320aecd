"""Work in other processes, for the parts of a large report."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
R = TypeVar("R")

MAX_WORKERS = 4
"""Maximum number of processes of a map."""
START = "fork" if sys.platform == "linux" else "spawn"
"""How processes start: on Linux as copies of this one, to which nothing must be sent; elsewhere that is not safe."""


def parallel_map(function: Callable[[T], R], arguments: Iterable[T], large: bool) -> Iterator[R]:
    """Apply a function to each argument and yield the results in order.

    Args:
        function: the function; see `begin`.
        arguments: one argument per call.
        large: whether to start processes at once, each of which takes the next argument when it is free. If false, or on a
            machine with one processor, each result is computed in this process when the iterator reaches it.
    """
    given, workers = list(arguments), min(MAX_WORKERS, os.cpu_count() or 1)
    if not large or workers < 2:
        return map(function, given)
    taken = multiprocessing.get_context(START).Value("q", 0)
    share = partial(_share, function, given, taken)
    return _in_order([begin(share, large) for _ in given[:workers]])


def _share(function: Callable[[T], R], arguments: Sequence[T], taken: Any) -> dict[int, R]:
    """Apply a function to arguments that no other process has taken, and return the results by number of the argument.

    It ends early if the process that waits for them has died.
    """
    results: dict[int, R] = {}
    caller: Any = multiprocessing.parent_process()
    while caller.is_alive():
        with taken:
            number, taken.value = taken.value, taken.value + 1
        if number >= len(arguments):
            break
        results[number] = function(arguments[number])
    return results


def _in_order(shares: Iterable[Callable[[], dict[int, R]]]) -> Iterator[R]:
    results: dict[int, R] = {}
    for wait in shares:
        results |= wait()
    yield from (results.pop(number) for number in sorted(results))


def begin(function: Callable[[], T], large: bool) -> Callable[[], T]:
    """Begin a call in another process and return a function that waits for its result.

    Args:
        function: what to call. On Linux it may use data of any size, which the copy of this process has; elsewhere it is sent.
            The result is sent back.
        large: whether to start the process. If false, or on a machine with one processor, the call is made in this process by
            the returned function.
    """
    if not large or (os.cpu_count() or 1) < 2:
        return function
    context: Any = multiprocessing.get_context(START)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_result, args=(function, sender), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which a copy lacks: it waits for none of them
        process.start()
    sender.close()
    return partial(_result_of, receiver, process, function)


def _send_result(function: Callable[[], Any], sender: Connection) -> None:
    """Send the result of a call and None, or None and what it raised; see `_received`."""
    message: tuple[Any, BaseException | None]
    try:
        message = function(), None
    except BaseException as error:
        message = None, error
    arrays: list[pickle.PickleBuffer] = []
    content = pickle.dumps(message, protocol=5, buffer_callback=arrays.append)
    parts = [memoryview(content), *(array.raw() for array in arrays)]
    with open(sender.fileno(), "wb", closefd=False) as file:
        pickle.dump([part.nbytes for part in parts], file)
        for part in parts:
            file.write(part)


def _received(receiver: Connection) -> Any:
    """Receive an object, first the sizes of what follows, then its pickle, then its arrays, which are read where they remain.

    Raises:
        EOFError: the sender ended before.
    """
    with open(receiver.fileno(), "rb", closefd=False) as file:
        parts = [np.empty(size, np.uint8) for size in pickle.load(file)]
        for part in parts:
            if file.readinto(part.data) < len(part):
                raise EOFError
    return pickle.loads(parts[0].data, buffers=parts[1:])


def _result_of(receiver: Connection, process: multiprocessing.Process, _called: Callable[[], Any]) -> Any:
    """Return the result that a process sends, or raise what it raised.

    `_called` is kept until then: without it, memory that it shares with the process would be used again.
    """
    try:
        result, error = _received(receiver)
    except EOFError:
        process.join()
        raise RuntimeError(f"a process of this program ended with code {process.exitcode}") from None
    process.join()
    if error is not None:
        raise error
    return result
