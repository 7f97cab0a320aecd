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

ROOT = Path(__file__).resolve().parents[2]


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
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        ask = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    return "unknown"


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
