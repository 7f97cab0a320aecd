"""`bench.py list`: what there is, whether it can be used here, and where it is looked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.planning.config import load_preset, preset_names
from datasets import registry as data_sets
from datasets.base import Data
from datasets.conditions import CONDITIONS
from methods.core import registry, tuned
from methods.learned.weights import WEIGHTS_FOLDER


def sections(root: Path, plugins: Path | None) -> dict[str, list[str]]:
    """Title to lines."""
    offers, found = registry.available(plugins), data_sets.available(plugins)
    broken = data_sets.faults(plugins) | registry.faults(plugins)
    made = {
        "methods (kind, device)": [method_line(n, o) for n, o in offers.items()],
        "tuned settings (METHOD[tuned=NAME], found by bench.py tune)": tuned_lines(plugins),
        "weights of learned methods": [weights_line(file) for file in sorted(WEIGHTS_FOLDER.glob("*.safetensors"))],
        f"data sets (files are looked for below {root}; --data or $BENCH_DATA names another place)": [
            dataset_line(name, cls(root=root), root) for name, cls in found.items()
        ],
        "conditions": [f"{name:18} {first_line(c)}" for name, c in CONDITIONS.items()],
        "presets": [f"{name:18} {load_preset(name)['about']}" for name in preset_names()],
        "plug-ins that do not work": list(broken.values()),
    }
    return {title: lines for title, lines in made.items() if lines}


def method_line(name: str, offer: registry.MethodEntry) -> str:
    """Name, kind, device, and what it is or why it can't be used."""
    device = "cpu, cuda" if "torch" in offer.cls.requires else "cpu"
    reason = offer.unavailable()
    return f"{name:18} {offer.cls.kind:8} {device:10} {f'unavailable: {reason}' if reason else offer.summary}"


def tuned_lines(plugins: Path | None) -> list[str]:
    """What each tuning stands for, those of the user's folder after those that come with the bench."""
    files = dict.fromkeys([tuned.settings_file(), tuned.settings_file(plugins)])
    return [
        f"{f'{method}[{tuned.TUNED}={name}]':42} {entry['verdict']}"
        for file in files
        for method, entries in tuned.read_settings(file).items()
        for name, entry in entries.items()
    ]


def card(file: Path) -> dict[str, Any]:
    """What a weight file says of itself, from its header alone: no library is loaded."""
    with file.open("rb") as handle:
        header = json.loads(handle.read(int.from_bytes(handle.read(8), "little")))
    return dict(json.loads(header["__metadata__"]["card"]))


def weights_line(file: Path) -> str:
    """What a weight file was trained on."""
    said = card(file)
    told = said["provenance"]
    kinds, of = len(told["categories"]), len(told["dataset_categories"])
    size = file.stat().st_size / 1e6
    return (
        f"{said['method']:18} {file.name}: {told['dataset']}, {told['condition']}, {kinds} of {of} categories, "
        f"{told['steps']} steps of {told['batch']} pairs, {size:.1f} MB"
    )


def dataset_line(name: str, made: Data, root: Path) -> str:
    """Name, size, whether it is there, licence, what it is, and how to get it."""
    state = state_of(name, made, root)
    fetched = sum(archive.size for archive in made.archives)
    size = f", {fetched / 1e6:.0f} MB to fetch" if fetched and state == MISSING else ""
    get = f"\n{'':21}{made.where}" if state in (MISSING, ASKS) else ""
    return f"{name:18} {first_line(type(made))}\n{'':21}{state}{size}; licence: {made.licence or 'not said'}{get}"


HERE, MISSING, ASKS, NEEDS_NOTHING = "found", "not here", "asks for a path", "needs no files"


def state_of(name: str, made: Data, root: Path) -> str:
    """Whether a data set's files are there, as far as their place tells."""
    path = getattr(made, "path", None)
    if path is None and not made.archives:
        return NEEDS_NOTHING
    return ASKS if path == "" else HERE if is_there(name, made, root) else MISSING


def is_there(name: str, made: Data, root: Path) -> bool:
    """Whether a place where a data set is looked for exists; that it is whole is seen when it is read."""
    path = str(getattr(made, "path", ""))
    places = [root / name, *([root / path, Path(path)] if path else [])]
    places += [root / archive.folder for archive in made.archives]
    return any(place.exists() for place in places)


def first_line(thing: type) -> str:
    """The first line of a class's docstring."""
    return (thing.__doc__ or "has no docstring").strip().split("\n")[0]
