"""Devices that methods compute on: their names, whether they can be used here, and what identifies a GPU.

GPUs are listed by a short process of their own (`python -m common.devices`), so that the calling process neither imports torch
nor makes a CUDA context, which takes seconds and some hundred MB.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from common.errors import InputError

AUTO, CPU, CUDA = "auto", "cpu", "cuda"
FORMS = "cpu, cuda, cuda:NUMBER or auto"
HELP = "cpu, cuda or cuda:NUMBER; auto: a GPU if there is one. Methods without GPU code use the CPU"
LIST_TIMEOUT_S = 120.0
"""Maximum time of the process that lists the GPUs."""
ROOT = Path(__file__).resolve().parents[1]


def resolve(name: str) -> str:
    """Return the device that a name means on this machine: `cpu` or `cuda:NUMBER`.

    >>> resolve("cpu")
    'cpu'

    Raises:
        InputError: there is no such device, or it cannot be used.
    """
    number = _number(name)
    if number is None:
        return CPU
    listed, reason = ([], _build_fault()) if _build_fault() else gpus()
    usable = [index for index, gpu in enumerate(listed) if not gpu["fault"]]
    if name == AUTO:
        return f"{CUDA}:{usable[0]}" if usable else CPU
    if not listed:
        raise InputError(f"{name}: {reason}, or use cpu")
    if number >= len(listed):
        seen, names = (
            ("1 GPU", "cuda:0") if len(listed) == 1 else (f"{len(listed)} GPUs", f"cuda:0 to cuda:{len(listed) - 1}")
        )
        raise InputError(f"{name}: torch sees {seen}; give {names}, or cpu")
    if number not in usable:
        raise InputError(
            f"{name}: {listed[number]['name']} fails ({listed[number]['fault']}); use another device, or cpu"
        )
    return f"{CUDA}:{number}"


def resolve_flag(name: str) -> str:
    """Return the result of `resolve` for an argument parser, whose errors name the flag."""
    try:
        return resolve(name)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def is_gpu(device: str) -> bool:
    """Return whether a device is a GPU.

    >>> is_gpu("cuda:1"), is_gpu("cpu")
    (True, False)
    """
    return device.partition(":")[0] == CUDA


def identity(device: str) -> dict[str, str]:
    """Return name, driver and CUDA version of a GPU that `resolve` returned; empty for the CPU."""
    number = _number(device)
    if number is None:
        return {}
    return {key: gpus()[0][number][key] for key in ("name", "driver", "cuda")}


@functools.cache
def gpus() -> tuple[list[dict[str, str]], str]:
    """Return the GPUs that torch sees, each with name, driver, CUDA version and fault, and why there are none.

    The fault is empty if the GPU computes, else the error. The reason is empty if there are GPUs, else it ends with a remedy.
    """
    remedy = "check that `nvidia-smi` lists a GPU and that CUDA_VISIBLE_DEVICES does not hide it"
    command = [sys.executable, "-m", "common.devices"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIST_TIMEOUT_S, check=True)
        listed = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        return [], f"the GPUs cannot be listed ({type(error).__name__}); {remedy}"
    return listed, "" if listed else f"torch sees no GPU; {remedy}"


def _number(name: str) -> int | None:
    """Return the number of a GPU by its name; None for the CPU.

    Raises:
        InputError: the name has none of the `FORMS`.
    """
    if name == CPU:
        return None
    match = re.fullmatch(rf"{CUDA}(?::(\d{{1,4}}))?|{AUTO}", name, re.ASCII)
    if match is None:
        raise InputError(f"'{name}' is no device of this benchmark; give {FORMS}")
    return int(match[1] or 0)


@functools.cache
def _build_fault() -> str:
    """Return why the installed torch can use no GPU at all, with the remedy; empty if it may. Torch is not imported."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return "torch is missing; install it as docs/install.md describes"
    build = runpy.run_path(str(Path(spec.origin).with_name("version.py")))
    if build.get("cuda") or build.get("hip"):
        return ""
    return f"torch {build['__version__']} is built for the CPU only; install a CUDA build as docs/install.md describes"


def _driver() -> str:
    """Return the version of the NVIDIA driver; `unknown` without its tool."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        lines = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.split()
    except (OSError, subprocess.SubprocessError):
        lines = []
    return lines[0] if lines else "unknown"


def _list_gpus(torch: Any) -> list[dict[str, str]]:
    """Describe the GPUs that a torch module sees, in this process."""
    if not torch.cuda.is_available():
        return []
    versions = {"driver": _driver(), "cuda": str(torch.version.cuda or torch.version.hip)}
    return [
        {"name": torch.cuda.get_device_name(i), **versions, "fault": _fault(torch, i)}
        for i in range(torch.cuda.device_count())
    ]


def _fault(torch: Any, number: int) -> str:
    """Return the error of a small computation on a GPU, such as one too old for this build; empty if it works."""
    try:
        torch.ones(2, device=f"{CUDA}:{number}").sum().item()
    except Exception as error:
        return " ".join(str(error).split("\n")[0].split())
    return ""


if __name__ == "__main__":
    import torch

    print(json.dumps(_list_gpus(torch)))
