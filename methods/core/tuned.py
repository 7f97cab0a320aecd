"""Tuned settings of methods: what `bench.py tune` found and `fgr[tuned=modelnet40_noisy]` selects."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from common.errors import InputError, unknown
from common.specs import Spec

TUNED = "tuned"
"""Name, written like a parameter, that selects tuned settings."""
BUILT_IN = Path(__file__).resolve().parents[1] / "tuned.toml"

Settings = dict[str, dict[str, dict[str, Any]]]


def tuned_file(plugins: Path | None) -> Path:
    """Return the file that `bench.py tune` writes to: `tuned.toml` of the user's folder, else the built-in one."""
    return plugins / BUILT_IN.name if plugins else BUILT_IN


def read_tuned(file: Path) -> Settings:
    """Return method -> name -> entry with its table `values`; empty if there is no such file.

    Raises:
        InputError: the file does not have that form.
    """
    if not file.exists():
        return {}
    try:
        settings: Settings = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{file}: not TOML ({error}); fix or remove it") from error
    for method, entries in settings.items():
        for name, entry in entries.items() if isinstance(entries, dict) else [("", None)]:
            if not isinstance(entry, dict) or not isinstance(entry.get("values"), dict):
                raise InputError(f"{file}: [{method}.{name}] has no table 'values'; fix it or run bench.py tune again")
    return settings


def with_tuned(spec: Spec, plugins: Path | None) -> Spec:
    """Replace `tuned=NAME` in a spec by the values it selects; parameters written beside it take precedence.

    Raises:
        InputError: the method has no tuned settings of that name.
    """
    given = dict(spec.given)
    name = given.pop(TUNED, None)
    if name is None:
        return spec
    entries = dict(read_tuned(BUILT_IN).get(spec.name, {}))
    if plugins:
        entries |= read_tuned(tuned_file(plugins)).get(spec.name, {})
    if name not in entries:
        raise unknown(f"tuned settings of {spec.name} (bench.py tune makes them)", name, entries)
    values = {key: str(value) for key, value in entries[name]["values"].items()}
    return Spec(spec.name, values | given)
