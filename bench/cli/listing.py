"""`bench.py list`: methods, weights, data sets, conditions and presets, and whether they can be used here."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.planning.catalog import Catalog
from bench.planning.config import load_preset, preset_names
from datasets.conditions import CONDITIONS
from datasets.description import DataFacts
from methods.core.registry import FOLDER, MethodEntry
from methods.core.tuned import BUILT_IN, TUNED, read_tuned, tuned_file

WEIGHTS = FOLDER / "weights"
NAME = 20
"""Width of the column of names."""


def sections(catalog: Catalog) -> dict[str, list[str]]:
    """Return the lines of each section by its title."""
    root = catalog.data.shown_root
    lines_of = {
        "methods (kind, device)": method_lines(catalog.methods.entries),
        "tuned settings (METHOD[tuned=NAME], from bench.py tune)": tuned_lines(catalog.methods.plugins),
        "weights of learned methods": [weights_line(file) for file in sorted(WEIGHTS.glob("*.safetensors"))],
        f"data sets (files are looked for below {root}; --data or $BENCH_DATA names another folder)": [
            dataset_line(name, entry.facts, root) for name, entry in catalog.data.entries.items()
        ],
        "conditions": [f"{name:{NAME}} {first_line(cls)}" for name, cls in CONDITIONS.items()],
        "presets": [f"{name:{NAME}} {load_preset(name)['about']}" for name in preset_names()],
        "plug-ins that do not work, or with side effects": catalog.faults,
    }
    return {title: lines for title, lines in lines_of.items() if lines}


def method_lines(entries: Mapping[str, MethodEntry]) -> list[str]:
    """Return a line per method; variants of one class show the parameters in which they differ."""
    classes: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for facts in (entry.facts for entry in entries.values()):
        classes[facts.file, facts.class_name].append(facts.parameters)
    lines = []
    for name, entry in entries.items():
        facts = entry.facts
        others = classes[facts.file, facts.class_name]
        own = [f"{p}={v}" for p, v in facts.parameters.items() if any(other.get(p, v) != v for other in others)]
        lines.append(method_line(name, entry) + (f" [{', '.join(own)}]" if own else ""))
    return lines


def method_line(name: str, entry: MethodEntry) -> str:
    """Return name, kind, device, and the summary of a method or why it cannot be used."""
    facts, reason = entry.facts, entry.unavailable()
    return f"{name:{NAME}} {facts.kind:8} {', '.join(facts.devices):10} {f'unavailable: {reason}' if reason else facts.summary}"


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
        f"{facts['method']:{NAME}} {file.name}: {training['dataset']}, {training['condition']}, "
        f"{categories} of {total} categories, {training['steps']} steps of {training['batch']} pairs, {size:.1f} MB"
    )


def dataset_line(name: str, facts: DataFacts, root: Path) -> str:
    """Return name, summary, state, size and licence of a data set, and how to get it if it is missing."""
    state = state_of(name, facts, root)
    size = f", {facts.bytes / 1e6:.0f} MB to fetch" if facts.bytes and state == MISSING else ""
    where = f"\n{'':{NAME + 1}}{facts.where}" if state in (MISSING, NEEDS_PATH) else ""
    return (
        f"{name:{NAME}} {facts.summary}\n{'':{NAME + 1}}{state}{size}; licence: {facts.licence or 'not known'}{where}"
    )


PRESENT, MISSING, NEEDS_PATH, NEEDS_NO_FILES = "found", "not here", "needs a path", "needs no files"
"""States of a data set's files."""


def state_of(name: str, facts: DataFacts, root: Path) -> str:
    """Return whether the files of a data set are present, judged by the existence of its folder or file."""
    if facts.path is None and not facts.folders:
        return NEEDS_NO_FILES
    return NEEDS_PATH if facts.path == "" else PRESENT if is_present(name, facts, root) else MISSING


def is_present(name: str, facts: DataFacts, root: Path) -> bool:
    """Return whether a path where a data set may lie exists. Whether its files are complete is checked on reading."""
    candidates = [root / name, *([root / facts.path, Path(facts.path)] if facts.path else [])]
    candidates += [root / folder for folder in facts.folders]
    return any(candidate.exists() for candidate in candidates)


def first_line(cls: type) -> str:
    """Return the first line of a class's docstring."""
    return (cls.__doc__ or "has no docstring").strip().split("\n")[0]
