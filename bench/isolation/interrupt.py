"""Ctrl-C while workers are busy: what is finished is handed in and recorded, what is not is abandoned, within a second.

The first signal asks: a worker gives up the call it waits for and hands in what it has. Should that take longer than
`GRACE_S`, or a second signal come, the run stops as it is.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

GRACE_S = 0.6
_requested = threading.Event()


class Interrupted(Exception):
    """Raised in the place of a call's answer once stopping is asked for."""


def requested() -> bool:
    """Whether this process was asked to stop."""
    return _requested.is_set()


def install_handler() -> None:
    """In a process of the pool, be asked by a signal, instead of ended by it; where another handler is at work, leave it."""
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _note)


def _note(*_: object) -> None:
    _requested.set()


@contextlib.contextmanager
def on_interrupt(tell: Callable[[], None]) -> Iterator[None]:
    """Within, a first Ctrl-C only asks to stop, and calls `tell`, which tells the other processes; the block should end soon.

    Raises:
        KeyboardInterrupt: at the end of the block if it was asked to stop; in the middle of it if it does not end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    over = threading.Event()

    def first(*_: object) -> None:
        if over.is_set():  # the clock ran out just when the block ended: it must not interrupt what follows
            return
        if _requested.is_set():
            raise KeyboardInterrupt
        _requested.set()
        clock.start()
        tell()

    # a true signal, which also ends a wait in native code
    clock = threading.Timer(GRACE_S, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    clock.daemon = True
    _requested.clear()
    before = signal.signal(signal.SIGINT, first)
    try:
        yield
        if _requested.is_set():
            raise KeyboardInterrupt
    finally:
        over.set()
        clock.cancel()
        if clock.is_alive():
            clock.join()
        signal.signal(signal.SIGINT, before)
        _requested.clear()
