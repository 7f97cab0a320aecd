"""`bench.py list`: methods, weights, data sets, conditions and presets, and whether they can be used here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.planning.catalog import Catalog
from bench.planning.config import load_preset, preset_names
from datasets.base import Data
from datasets.conditions import CONDITIONS
from methods.core.registry import FOLDER, MethodEntry
from methods.core.tuned import BUILT_IN, TUNED, read_tuned, tuned_file

WEIGHTS = FOLDER / "weights"


def sections(catalog: Catalog) -> dict[str, list[str]]:
    """Return the lines of each section by its title."""
    root = catalog.data.shown_root
    lines_of = {
        "methods (kind, device)": [method_line(name, entry) for name, entry in catalog.methods.entries.items()],
        "tuned settings (METHOD[tuned=NAME], from bench.py tune)": tuned_lines(catalog.methods.plugins),
        "weights of learned methods": [weights_line(file) for file in sorted(WEIGHTS.glob("*.safetensors"))],
        f"data sets (files are looked for below {root}; --data or $BENCH_DATA names another folder)": [
            dataset_line(name, cls(root=root), root) for name, cls in catalog.data.entries.items()
        ],
        "conditions": [f"{name:18} {first_line(cls)}" for name, cls in CONDITIONS.items()],
        "presets": [f"{name:18} {load_preset(name)['about']}" for name in preset_names()],
        "plug-ins that do not work": catalog.faults,
    }
    return {title: lines for title, lines in lines_of.items() if lines}


def method_line(name: str, entry: MethodEntry) -> str:
    """Return name, kind, device, and the summary of a method or why it cannot be used."""
    device = "cpu, cuda" if "torch" in entry.cls.requires else "cpu"
    reason = entry.unavailable()
    return f"{name:18} {entry.cls.kind:8} {device:10} {f'unavailable: {reason}' if reason else entry.summary}"


def tuned_lines(plugins: Path | None) -> list[str]:
    """Return a line for every tuned setting: first those that come with the benchmark, then those of the user's folder."""
    files = dict.fromkeys([BUILT_IN, tuned_file(plugins)])
    return [
        f"{f'{method}[{TUNED}={name}]':42} {entry['verdict']}"
        for file in files
        for method, entries in read_tuned(file).items()
        for name, entry in entries.items()
    ]


def card(file: Path) -> dict[str, Any]:
    """Return the card of a weight file, read from its header without loading a library."""
    with file.open("rb") as handle:
        header = json.loads(handle.read(int.from_bytes(handle.read(8), "little")))
    return dict(json.loads(header["__metadata__"]["card"]))


def weights_line(file: Path) -> str:
    """Return what a weight file was trained on."""
    facts = card(file)
    training = facts["provenance"]
    categories, total = len(training["categories"]), len(training["dataset_categories"])
    size = file.stat().st_size / 1e6
    return (
        f"{facts['method']:18} {file.name}: {training['dataset']}, {training['condition']}, "
        f"{categories} of {total} categories, {training['steps']} steps of {training['batch']} pairs, {size:.1f} MB"
    )


def dataset_line(name: str, dataset: Data, root: Path) -> str:
    """Return name, summary, state, size and licence of a data set, and how to get it if it is missing."""
    state = state_of(name, dataset, root)
    archives = sum(archive.size for archive in dataset.archives)
    size = f", {archives / 1e6:.0f} MB to fetch" if archives and state == MISSING else ""
    where = f"\n{'':21}{dataset.where}" if state in (MISSING, NEEDS_PATH) else ""
    licence = dataset.licence or "not known"
    return f"{name:18} {first_line(type(dataset))}\n{'':21}{state}{size}; licence: {licence}{where}"


PRESENT, MISSING, NEEDS_PATH, NEEDS_NO_FILES = "found", "not here", "needs a path", "needs no files"
"""States of a data set's files."""


def state_of(name: str, dataset: Data, root: Path) -> str:
    """Return whether the files of a data set are present, judged by the existence of its folder or file."""
    path = getattr(dataset, "path", None)
    if path is None and not dataset.archives:
        return NEEDS_NO_FILES
    return NEEDS_PATH if path == "" else PRESENT if is_present(name, dataset, root) else MISSING


def is_present(name: str, dataset: Data, root: Path) -> bool:
    """Return whether a path where a data set may lie exists. Whether its files are complete is checked on reading."""
    path = str(getattr(dataset, "path", ""))
    candidates = [root / name, *([root / path, Path(path)] if path else [])]
    candidates += [root / archive.folder for archive in dataset.archives]
    return any(candidate.exists() for candidate in candidates)


def first_line(cls: type) -> str:
    """Return the first line of a class's docstring."""
    return (cls.__doc__ or "has no docstring").strip().split("\n")[0]
