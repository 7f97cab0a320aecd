"""Where a run took place: commit, versions, processor, load."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from common.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
SHOWN = 3
"""Changed files that are named."""


def environment() -> dict[str, Any]:
    """Facts for `run.json`, all plain JSON values."""
    return {
        "commit": _commit(),
        "python": platform.python_version(),
        "os": platform.platform(),
        "cpu": processor(),
        "cores": os.cpu_count(),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else [],
        "packages": _packages(),
    }


def _commit() -> str:
    described = _git("describe", "--always", "--abbrev=12")
    if described is None or described.returncode:
        return "unknown"
    return described.stdout.strip() + ("-dirty" if changed_files() else "")


def _git(*arguments: str) -> subprocess.CompletedProcess[str] | None:
    """Run git in the checkout; None if there is no git."""
    with contextlib.suppress(OSError):
        return subprocess.run(
            ["git", "--no-optional-locks", "-C", str(ROOT), *arguments], capture_output=True, text=True
        )
    return None


def changed_files() -> list[str]:
    """Files of the checkout that differ from its commit or are in none, but for what runs write to `results/` and `reports/`."""
    outputs = [f":(exclude){name}" for name in ("results", "reports")]
    told = _git("status", "--porcelain=v1", "-z", "--no-renames", "--", ".", *outputs)
    return [entry[3:] for entry in told.stdout.split("\0") if entry] if told else []


def refuse_changes(folder: Path) -> None:
    """Refuse a run that git would commit, from a checkout that differs from its commit: it would be of no commit.

    Raises:
        InputError: git does not ignore the run's folder within the checkout, and files are changed.
    """
    ignored = _git("check-ignore", "--quiet", "--", str(folder.resolve() / "run.json"))
    if ignored is None or ignored.returncode != 1:  # 0: ignored; 128: outside the checkout, or there is none
        return
    if changed := changed_files():
        more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
        raise InputError(
            f"--out {folder}: git does not ignore this folder, so its run must be of a commit, but changed are "
            f"{', '.join(changed[:SHOWN])}{more}; commit or stash them, or give another --out"
        )


def processor() -> str:
    """The processor's name."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _packages() -> dict[str, str]:
    """Versions of what requirements.txt names."""
    found = {}
    for line in (ROOT / "requirements.txt").read_text().splitlines():
        match = re.match(r"[A-Za-z][\w.-]*", line)
        if match:
            with contextlib.suppress(metadata.PackageNotFoundError):
                found[match[0]] = metadata.version(match[0])
    return found
