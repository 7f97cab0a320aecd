"""`bench.py doctor`: the environment, what is missing in it, and the command that adds it."""

from __future__ import annotations

import re
import shutil
import sys
from importlib import metadata
from pathlib import Path

from bench.cli.listing import MISSING, state_of
from bench.planning.catalog import Catalog
from bench.storage.environment import ROOT, environment
from datasets.cache import folder as cache_folder

EXTRAS = {
    "requirements.txt": "what a run needs",
    "requirements-cluster.txt": "--backend dask",
    "requirements-dev.txt": "make test",
}
LEAST_FREE_GB = 2.0


def report(catalog: Catalog) -> tuple[list[str], list[str]]:
    """Return lines on the environment, and lines on what is missing, each of which ends with its fix."""
    return facts(catalog.data.root), [*packages(), *methods(catalog), *data(catalog), *space()]


def facts(root: Path) -> list[str]:
    """The environment as `run.json` has it."""
    found = environment()
    load = ", ".join(f"{value:.1f}" for value in found["load_average"])
    return [
        f"python    {found['python']} at {sys.executable}",
        f"machine   {found['os']}; {found['cpu']}, {found['cores']} cores, load {load}",
        f"commit    {found['commit']}",
        f"gpu       {gpu()}",
        f"data      {root.resolve()}{'' if root.is_dir() else ' (no such folder)'}",
        f"cache     {cache_folder()}",
        "packages  " + ", ".join(f"{name} {version}" for name, version in found["packages"].items()),
    ]


def gpu() -> str:
    """Whether torch sees a CUDA device."""
    try:
        import torch
    except ImportError:
        return "torch is missing"
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none; learned methods run on the CPU"


def packages() -> list[str]:
    """A line for every requirements file of which packages are missing."""
    lines = []
    for name, what in EXTRAS.items():
        missing = [package for package in required(ROOT / name) if not installed(package)]
        if missing:
            lines.append(f"{what}: {', '.join(missing)} missing: {sys.executable} -m pip install -r {name}")
    return lines


def required(file: Path) -> list[str]:
    """The packages that a requirements file names for this platform."""
    from packaging.requirements import InvalidRequirement, Requirement

    found = []
    for line in file.read_text().splitlines():
        try:
            one = Requirement(re.sub(r"\s*#.*", "", line))
        except InvalidRequirement:  # a comment, or another file
            continue
        if one.marker is None or one.marker.evaluate():
            found.append(one.name)
    return found


def installed(package: str) -> bool:
    """Whether a distribution is installed."""
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
    data_sets = {name: cls(root=root) for name, cls in catalog.data.entries.items()}
    return [
        f"data set {name}: not below {root}: " + (f"bench.py data {name}" if dataset.archives else dataset.where)
        for name, dataset in data_sets.items()
        if state_of(name, dataset, root) == MISSING
    ]


def space() -> list[str]:
    """A line if the current folder's disk is nearly full."""
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    low = f"disk: {free:.1f} GB free in {Path.cwd()}, a run with its report may need {LEAST_FREE_GB:g}: make room"
    return [low] if free < LEAST_FREE_GB else []
