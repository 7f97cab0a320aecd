"""The process a method runs in: reads clouds from standard input, answers with a pose. Started by `bench.isolation.process`.

Only two clouds and a seed cross into it. Whatever a library prints goes to the log, not to the terminal.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
from methods.base import Method, NoSolution, Unavailable

from common.errors import InputError
from methods.core.registry import build, missing

Reply = dict[str, Any]


def main() -> None:
    """Serve messages until the parent closes the pipe."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints of native code land in the log beside stderr
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _die_with_parent()
    method: Method | None = None
    device = "cpu"
    while True:
        try:
            message = pickle.load(requests)
        except EOFError:
            return
        if message["do"] == "setup":
            method, reply = _setup(message)
            device = message["device"]
        elif message["do"] == "check":
            from bench.conformance.checks import run_check

            assert method is not None
            reply = run_check(method, message["check"])
        else:
            assert method is not None
            reply = CALLS[message["do"]](method, device, message)
        pickle.dump(reply, answers, protocol=5)
        answers.flush()


def _die_with_parent() -> None:
    """Ask Linux to end this process with the one that started it, even inside native code."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _setup(message: Reply) -> tuple[Method | None, Reply]:
    try:
        method = build(message["method"], message["plugins"])
        if reason := missing(message["method"], message["plugins"]):
            raise Unavailable(reason)
        method.begin(message["seed"])
        method.setup(message["device"], message["seed"], message["domain"])
        return method, {"status": "ok", "notes": _to_json(method.scratch.notes)}
    except Unavailable as reason:
        return None, {"status": "unavailable", "message": str(reason)}
    except InputError as error:
        return None, {"status": "input", "message": str(error)}
    except BaseException as error:
        traceback.print_exc()
        return None, {"status": "error", "message": f"setup: {type(error).__name__}: {error}"}


def register(method: Method, device: str, message: Reply) -> Reply:
    """One call of a method, timed: `status`, `pose`, `message`, `time_ms`, `peak_mb`, `resident_mb`, `gpu_memory_mb`,
    `stages` (ms), `notes`.

    Args:
        method: set up already.
        device: what it computes on.
        message: `source`, `target` and `seed`.
    """
    return _measured(
        method,
        device,
        message["seed"],
        lambda: {"pose": _to_array(method.register(message["source"], message["target"]))},
    )


def register_batch(method: Method, device: str, message: Reply) -> Reply:
    """One call on several pairs, timed as a whole: as `answer`, and `answers` with `status`, `pose` and `message` of each pair.

    Args:
        method: set up already.
        device: what it computes on.
        message: `sources`, `targets` and `seed`.
    """
    return _measured(
        method,
        device,
        message["seed"],
        lambda: {"answers": [_pair_answer(a) for a in method.register_batch(message["sources"], message["targets"])]},
    )


def gaussians(method: Method, device: str, message: Reply) -> Reply:
    """The mixtures of a pair for a picture: as `answer`, and `gaussians`, or None where the method has none.

    Args:
        method: set up already.
        device: what it computes on.
        message: `source`, `target` and `seed`.
    """
    return _measured(
        method,
        device,
        message["seed"],
        lambda: {"gaussians": method.gaussians(message["source"], message["target"])},
    )


CALLS = {"register": register, "register_batch": register_batch, "gaussians": gaussians}


def _pair_answer(one: Any) -> Reply:
    """One answer of a batch."""
    if isinstance(one, NoSolution):
        return {"status": "no_solution", "pose": None, "message": str(one)}
    return {"status": "ok", "pose": _to_array(one), "message": ""}


def _measured(method: Method, device: str, seed: int, call: Callable[[], Reply]) -> Reply:
    """What a call replies, or how it failed, with its time and memory."""
    reply: Reply = {"status": "ok", "pose": None, "message": ""}
    method.begin(seed)
    cuda = _cuda(device)
    idle, gpu_idle = _reset_peak(), _reset_gpu_peak(cuda, device)
    start = time.perf_counter()
    try:
        reply |= call()
        if cuda is not None:  # a GPU answers before it is done; the clock stops when it is
            cuda.synchronize(device)
    except NoSolution as reason:
        reply |= {"status": "no_solution", "message": str(reason)}
    except BaseException as error:
        traceback.print_exc()
        reply |= {"status": _status_of(error), "message": f"{type(error).__name__}: {error}".split("\n")[0]}
    reply["time_ms"] = 1e3 * (time.perf_counter() - start)
    reply["resident_mb"] = peak = _peak()
    reply["peak_mb"] = peak - idle
    reply["gpu_memory_mb"] = _gpu_peak(cuda, device) - gpu_idle
    reply["stages"] = {k: 1e3 * v for k, v in method.scratch.stages.items()}
    reply["notes"] = _to_json(method.scratch.notes)
    return reply


def _status_of(error: BaseException) -> str:
    no_memory = (
        isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__ or "allocate memory" in str(error)
    )
    return "out_of_memory" if no_memory else "error"


def _cuda(device: str) -> Any:
    """`torch.cuda` if the device is one of its own and is there; else None."""
    if not device.startswith("cuda"):
        return None
    import torch

    return torch.cuda if torch.cuda.is_available() else None


def _reset_gpu_peak(cuda: Any, device: str) -> float:
    """Forget the peak of what torch allocated on a GPU and return what it holds now in MB; NaN without one."""
    if cuda is None:
        return float("nan")
    cuda.reset_peak_memory_stats(device)
    return float(cuda.memory_allocated(device)) / 2**20


def _gpu_peak(cuda: Any, device: str) -> float:
    return float("nan") if cuda is None else float(cuda.max_memory_allocated(device)) / 2**20


def _to_array(pose: Any) -> Any:
    with contextlib.suppress(TypeError, ValueError):
        return np.array(pose, dtype=np.float64)
    return repr(pose)[:200]


def _to_json(notes: dict[str, Any]) -> dict[str, Any]:
    """Notes as plain JSON values; anything else as its repr."""
    plain: dict[str, Any] = {}
    for key, value in notes.items():
        value = value.item() if isinstance(value, np.generic) else value
        plain[key] = value if isinstance(value, str | int | float | bool | None) else repr(value)[:200]
    return plain


def _status_mb(field: bytes) -> float:
    with contextlib.suppress(OSError, ValueError):
        text = os.pread(_proc("status", os.O_RDONLY), 4096, 0)
        return float(text[text.index(field) + len(field) :].split(maxsplit=1)[0]) / 1024
    return float("nan")


def _reset_peak() -> float:
    """Forget the peak of resident memory (Linux) and return the present one in MB."""
    with contextlib.suppress(OSError):
        os.pwrite(_proc("clear_refs", os.O_WRONLY), b"5", 0)
    return _status_mb(b"VmRSS:")


def _peak() -> float:
    return _status_mb(b"VmHWM:")


@functools.cache
def _proc(name: str, mode: int) -> int:
    """A file of this process below /proc, kept open: it is used around every call."""
    return os.open(f"/proc/self/{name}", mode)


if __name__ == "__main__":
    main()
