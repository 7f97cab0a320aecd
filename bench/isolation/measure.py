"""Measure one call: duration, growth of resident memory, and memory that torch allocates on a CUDA device."""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.isolation.protocol import NAN, Reply
from common.devices import is_gpu

_PAGE_MB = mmap.PAGESIZE / 2**20


@contextlib.contextmanager
def measure(device: str, reply: Reply) -> Iterator[None]:
    """Fill `time_ms`, `peak_mb`, `resident_mb` and `gpu_memory_mb` of a reply with what the block inside takes."""
    idle, gpu_idle = _reset_peak(), _reset_gpu_peak(device)
    start = time.perf_counter()
    yield
    reply.time_ms = 1e3 * (time.perf_counter() - start)
    reply.resident_mb = _peak_mb()
    reply.peak_mb = reply.resident_mb - idle
    if (cuda := _cuda(device)) is not None:
        reply.gpu_memory_mb = float(cuda.max_memory_allocated(device)) / 2**20 - gpu_idle


def synchronize(device: str) -> None:
    """Wait until a CUDA device has finished; does nothing for other devices.

    Raises:
        RuntimeError: work on the device failed.
    """
    if (cuda := _cuda(device)) is not None:
        cuda.synchronize(device)


def is_usable(device: str) -> bool:
    """Return whether a device still answers: after an illegal access, CUDA returns the error from every later call."""
    try:
        synchronize(device)
    except RuntimeError:
        return False
    return True


class Moment:
    """A time in the work of a CUDA device, by an event in its queue; until CUDA is initialised, a time of the host.

    The difference of two moments is in seconds, and known once the device has finished. Events do not hold up the host, unlike a
    synchronisation at the ends of every stage.
    """

    def __init__(self, device: str) -> None:
        self.host, self.event = time.perf_counter(), None
        if (cuda := _cuda(device)) is not None:
            self.event = cuda.Event(enable_timing=True)
            self.event.record(cuda.current_stream(device))

    def __sub__(self, earlier: Moment) -> float:
        if self.event is None or earlier.event is None:
            return self.host - earlier.host
        return float(earlier.event.elapsed_time(self.event)) / 1e3


def stage_clock(device: str) -> Callable[[], Any]:
    """Return the clock for stages of a method on a device, see `methods.core.base.CallContext`."""
    return functools.partial(Moment, device) if is_gpu(device) else time.perf_counter


def _cuda(device: str) -> Any:
    """Return `torch.cuda` if the device is a GPU and this process has initialised CUDA, else None.

    Before that, nothing has been computed or allocated, and most functions of `torch.cuda` fail.
    """
    torch = sys.modules.get("torch") if is_gpu(device) else None
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


def _reset_gpu_peak(device: str) -> float:
    """Reset the peak of what torch allocated on a GPU and return the present allocation in MB; 0 without one."""
    if (cuda := _cuda(device)) is None:
        return 0.0
    cuda.reset_peak_memory_stats(device)
    return float(cuda.memory_allocated(device)) / 2**20


def _reset_peak() -> float:
    """Reset the peak of resident memory (Linux) and return the present value in MB."""
    with contextlib.suppress(OSError):
        os.pwrite(_proc("clear_refs", os.O_WRONLY), b"5", 0)
    with contextlib.suppress(OSError, ValueError):
        resident_pages = os.pread(_proc("statm", os.O_RDONLY), 4096, 0).split(maxsplit=2)[1]
        return int(resident_pages) * _PAGE_MB
    return NAN


def _peak_mb() -> float:
    """Return the peak of resident memory since its reset in MB; NaN where there is no /proc/self/status."""
    with contextlib.suppress(OSError, ValueError):
        text = os.pread(_proc("status", os.O_RDONLY), 4096, 0)
        return float(text[text.index(b"VmHWM:") :].split(maxsplit=2)[1]) / 1024
    return NAN


@functools.cache
def _proc(name: str, mode: int) -> int:
    """Open a file of this process below /proc once; it is read around every call."""
    return os.open(f"/proc/self/{name}", mode)
