"""`bench.py doctor`: describe the environment, what is missing in it, and the command that adds it."""

from __future__ import annotations

import re
import shutil
import sys
from importlib import metadata
from pathlib import Path

from bench.cli.listing import MISSING, state_of
from bench.planning.catalog import Catalog
from bench.storage.environment import ROOT, environment
from common.devices import CUDA, identity, resolve
from common.errors import InputError
from datasets.cache import folder as cache_folder

REQUIREMENTS = {
    "requirements.txt": "needed by a run",
    "requirements-cluster.txt": "needed by --backend dask",
    "requirements-dev.txt": "needed by make test",
}
"""Requirements file to what needs its packages."""
MIN_FREE_GB = 2.0
"""Free disk space below which a warning is given."""


def report(catalog: Catalog) -> tuple[list[str], list[str]]:
    """Return lines on the environment, and lines on what is missing, each of which ends with its fix."""
    return facts(catalog.data.root), [*packages(), *methods(catalog), *data(catalog), *space()]


def facts(root: Path) -> list[str]:
    """Return lines on the environment, as in `run.json`, and on the data folder."""
    machine = environment()
    load = ", ".join(f"{value:.1f}" for value in machine["load_average"])
    return [
        f"python    {machine['python']} at {sys.executable}",
        f"machine   {machine['os']}; {machine['cpu']}, {machine['cores']} cores, load {load}",
        f"commit    {machine['commit']}",
        f"gpu       {gpu()}",
        f"data      {root.resolve()}{'' if root.is_dir() else ' (no such folder)'}",
        f"cache     {cache_folder()}",
        "packages  " + ", ".join(f"{name} {version}" for name, version in machine["packages"].items()),
    ]


def gpu() -> str:
    """Return name, driver and CUDA version of the GPU that `--device cuda` means, or why there is none."""
    try:
        facts = identity(resolve(CUDA))
    except InputError as reason:
        return f"none: {reason}"
    return f"{facts['name']}, driver {facts['driver']}, CUDA {facts['cuda']}"


def packages() -> list[str]:
    """Return a line for every requirements file with missing packages."""
    lines = []
    for file, purpose in REQUIREMENTS.items():
        missing = [package for package in required(ROOT / file) if not installed(package)]
        if missing:
            lines.append(f"{purpose}: {', '.join(missing)} missing: {sys.executable} -m pip install -r {file}")
    return lines


def required(file: Path) -> list[str]:
    """Return the packages that a requirements file names for this platform."""
    from packaging.requirements import InvalidRequirement, Requirement

    names = []
    for line in file.read_text().splitlines():
        try:
            requirement = Requirement(re.sub(r"\s*#.*", "", line))
        except InvalidRequirement:  # a comment, or another file
            continue
        if requirement.marker is None or requirement.marker.evaluate():
            names.append(requirement.name)
    return names


def installed(package: str) -> bool:
    """Return whether a distribution is installed."""
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def methods(catalog: Catalog) -> list[str]:
    """Return a line for every method or plug-in that cannot be used, with the reason."""
    lines = [f"plug-in: {reason}" for reason in catalog.faults]
    for name, entry in catalog.methods.entries.items():
        if reason := entry.unavailable():
            lines.append(f"method {name}: {reason}")
    return lines


def data(catalog: Catalog) -> list[str]:
    """Return a line for every data set whose files are not below the data folder."""
    root = catalog.data.shown_root
    return [
        f"data set {name}: not below {root}: " + (f"bench.py data {name}" if entry.facts.folders else entry.facts.where)
        for name, entry in catalog.data.entries.items()
        if state_of(name, entry.facts, root) == MISSING
    ]


def space() -> list[str]:
    """Return a line if the disk of the current folder is nearly full."""
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    line = f"disk: {free:.1f} GB free in {Path.cwd()}, a run with its report may need {MIN_FREE_GB:g}: free some space"
    return [line] if free < MIN_FREE_GB else []
