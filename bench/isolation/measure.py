"""Measure one call: duration, growth of resident memory, and memory that torch allocates on a CUDA device."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Iterator
from typing import Any

from bench.isolation.protocol import NAN, Reply


@contextlib.contextmanager
def measure(device: str, reply: Reply) -> Iterator[None]:
    """Fill `time_ms`, `peak_mb`, `resident_mb` and `gpu_memory_mb` of a reply with what the block inside takes."""
    cuda = _cuda(device)
    idle, gpu_idle = _reset_peak(), _reset_gpu_peak(cuda, device)
    start = time.perf_counter()
    yield
    reply.time_ms = 1e3 * (time.perf_counter() - start)
    reply.resident_mb = _status_mb(b"VmHWM:")
    reply.peak_mb = reply.resident_mb - idle
    reply.gpu_memory_mb = NAN if cuda is None else float(cuda.max_memory_allocated(device)) / 2**20 - gpu_idle


def synchronize(device: str) -> None:
    """Wait until a CUDA device has finished; does nothing for other devices."""
    if (cuda := _cuda(device)) is not None:
        cuda.synchronize(device)


def _cuda(device: str) -> Any:
    """Return `torch.cuda` if the device is a CUDA device that is available, else None."""
    if not device.startswith("cuda"):
        return None
    import torch

    return torch.cuda if torch.cuda.is_available() else None


def _reset_gpu_peak(cuda: Any, device: str) -> float:
    """Reset the peak of what torch allocated on a GPU and return the present allocation in MB; NaN without one."""
    if cuda is None:
        return NAN
    cuda.reset_peak_memory_stats(device)
    return float(cuda.memory_allocated(device)) / 2**20


def _reset_peak() -> float:
    """Reset the peak of resident memory (Linux) and return the present value in MB."""
    with contextlib.suppress(OSError):
        os.pwrite(_proc("clear_refs", os.O_WRONLY), b"5", 0)
    return _status_mb(b"VmRSS:")


def _status_mb(field: bytes) -> float:
    """Read a field of /proc/self/status in MB; NaN where there is no such file."""
    with contextlib.suppress(OSError, ValueError):
        text = os.pread(_proc("status", os.O_RDONLY), 4096, 0)
        return float(text[text.index(field) + len(field) :].split(maxsplit=1)[0]) / 1024
    return NAN


@functools.cache
def _proc(name: str, mode: int) -> int:
    """Open a file of this process below /proc once; it is read around every call."""
    return os.open(f"/proc/self/{name}", mode)
