"""Ctrl-C, SIGTERM or SIGHUP while workers are busy: finished outcomes are stored, unfinished calls are abandoned.

The first signal requests the end: each worker abandons its current call and returns its finished outcomes. If that takes
longer than `GRACE_S`, or after a second signal, the run ends at once.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

GRACE_S = 0.6
"""Seconds that workers have to return their outcomes."""
_requested = threading.Event()


class Interrupted(Exception):
    """Raised instead of returning a call's reply once an interrupt is requested."""


def requested() -> bool:
    """Return whether the end of this process's work has been requested."""
    return _requested.is_set()


def install_handler() -> None:
    """Let SIGINT request the end of a pool worker instead of ending it, unless another handler is installed.

    A background job of a shell script, and so its workers, ignore SIGINT at first.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_IGN):
        signal.signal(signal.SIGINT, _request)


def _request(*_: object) -> None:
    _requested.set()


@contextlib.contextmanager
def on_interrupt(notify: Callable[[], None]) -> Iterator[None]:
    """Let the first Ctrl-C within the block request its end and call `notify`, which informs the worker processes.

    Raises:
        KeyboardInterrupt: at the end of the block after a request; within it after `GRACE_S` or a second Ctrl-C.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    ended = threading.Event()

    def handler(*_: object) -> None:
        if ended.is_set():  # the timer fired as the block ended: it must not interrupt the code after it
            return
        if _requested.is_set():
            raise KeyboardInterrupt
        _requested.set()
        timer.start()
        notify()

    # a signal also ends a wait in native code
    timer = threading.Timer(GRACE_S, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    timer.daemon = True
    _requested.clear()
    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield
        if _requested.is_set():
            raise KeyboardInterrupt
    finally:
        ended.set()
        timer.cancel()
        if timer.is_alive():
            timer.join()
        signal.signal(signal.SIGINT, previous)
        _requested.clear()
