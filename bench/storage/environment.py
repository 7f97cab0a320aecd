"""Environment of a run: commit, versions, processor, load."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from common.errors import InputError
from common.keys import digest
from common.text import join_names

ROOT = Path(__file__).resolve().parents[2]


def environment() -> dict[str, Any]:
    """Return the facts of the environment for `run.json`, as plain JSON values."""
    return {
        "commit": _commit(),
        "python": platform.python_version(),
        "os": platform.platform(),
        "cpu": processor(),
        "cores": os.cpu_count(),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else [],
        "packages": _packages(),
    }


@cache
def machine() -> str:
    """Return the id of this machine, eight hexadecimal digits: times of different ids are never averaged.

    It depends on host name, processor and number of cores, none of which can be read from it; another container is another
    machine.
    """
    return digest(platform.node(), processor(), os.cpu_count())[:8]


def machine_facts() -> dict[str, Any]:
    """Return what a reader of times wants to know of this machine, as plain JSON values."""
    return {"cpu": processor(), "cores": os.cpu_count(), "os": platform.platform()}


def _commit() -> str:
    description = _git("describe", "--always", "--abbrev=12")
    if description is None or description.returncode:
        return "unknown"
    return description.stdout.strip() + ("-dirty" if changed_files() else "")


def _git(*arguments: str) -> subprocess.CompletedProcess[str] | None:
    """Run git in the checkout; return None if git is not installed."""
    with contextlib.suppress(OSError):
        return subprocess.run(
            ["git", "--no-optional-locks", "-C", str(ROOT), *arguments], capture_output=True, text=True
        )
    return None


def changed_files() -> list[str]:
    """Return the files of the checkout that are changed or untracked, except in `results/` and `reports/`."""
    outputs = [f":(exclude){name}" for name in ("results", "reports")]
    status = _git("status", "--porcelain=v1", "-z", "--no-renames", "--", ".", *outputs)
    return [entry[3:] for entry in status.stdout.split("\0") if entry] if status else []


def require_clean_checkout(folder: Path) -> None:
    """Require that the checkout has no changes if git does not ignore the run's folder: such a run may be committed.

    Raises:
        InputError: git does not ignore the folder within the checkout, and files are changed.
    """
    ignored = _git("check-ignore", "--quiet", "--", str(folder.resolve() / "run.json"))
    if ignored is None or ignored.returncode != 1:  # 0: ignored; 128: outside of any checkout
        return
    if changed := changed_files():
        raise InputError(
            f"--out {folder}: git does not ignore this folder, so its run must belong to a commit, but there are changes in "
            f"{join_names(changed)}; commit or stash them, or give another --out"
        )


def processor() -> str:
    """Return the name of the processor."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


@cache
def _packages() -> dict[str, str]:
    """Return the installed versions of the packages in requirements.txt."""
    versions = {}
    for line in (ROOT / "requirements.txt").read_text().splitlines():
        match = re.match(r"[A-Za-z][\w.-]*", line)
        if match:
            with contextlib.suppress(metadata.PackageNotFoundError):
                versions[match[0]] = metadata.version(match[0])
    return versions
