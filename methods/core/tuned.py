"""Settings that `bench.py tune` has written: `fgr[tuned=modelnet40_noisy]`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from common import specs
from common.errors import InputError, unknown

METHODS_FOLDER = Path(__file__).resolve().parents[1]
TUNED = "tuned"
"""Key of a spec that names tuned settings; no method may have a parameter of this name."""


def settings_file(plugins: Path | None = None) -> Path:
    """Return the file to which `bench.py tune` writes: `tuned.toml` in the `plugins` folder, or else in `methods/`."""
    return (plugins or METHODS_FOLDER) / "tuned.toml"


def read_settings(file: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Read a file of tuned settings; return {} if it does not exist.

    Returns:
        Method to name of the settings to the entry, whose table `values` holds the parameters.

    Raises:
        InputError: the file is not TOML, or an entry has no table `values`.
    """
    if not file.exists():
        return {}
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{file}: not TOML ({error}); fix or remove it") from error
    for method, entries in settings.items():
        for name, entry in entries.items() if isinstance(entries, dict) else [("", None)]:
            if not isinstance(entry, dict) or not isinstance(entry.get("values"), dict):
                raise InputError(f"{file}: [{method}.{name}] has no table 'values'; fix it or run bench.py tune again")
    return settings


def uses_tuned(text: str) -> bool:
    """Return whether a method, or any part of a chain, is written with `tuned=NAME`."""
    return any(TUNED in specs.parse(part).given for part in specs.split_outside(text, "+"))


def with_tuned(spec: specs.Spec, plugins: Path | None) -> specs.Spec:
    """Replace `tuned=NAME` in a spec by the values of these settings; parameters written in the spec take precedence.

    Raises:
        InputError: the method has no settings of this name.
    """
    given = dict(spec.given)
    name = given.pop(TUNED, None)
    if name is None:
        return spec
    files = dict.fromkeys([settings_file(), settings_file(plugins)])
    entries = {key: entry for file in files for key, entry in read_settings(file).get(spec.name, {}).items()}
    if name not in entries:
        raise unknown(f"tuned settings of {spec.name} (bench.py tune makes them)", name, entries)
    values = {key: str(value) for key, value in entries[name]["values"].items()}
    return specs.Spec(spec.name, values | given)
