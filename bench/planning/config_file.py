"""`--config FILE`: read flags from a TOML file, or from the `run.json` of a run."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.planning.config import MAX_COUNT, MAX_JOBS
from common.errors import InputError, unknown
from common.text import join_names

_COUNTS, _TEXTS, _NUMBER, _COUNT = "a list of whole numbers", "a list of texts", "a number", "a whole number"
SWITCH, TEXT, INTEGER, NUMBER = "true or false", "a text", "a whole number", "a number"
INTEGERS, NUMBERS, TEXTS = "a whole number or a list of them", "a number or a list of them", "a text or a list of texts"
"""Types of the values of flags, in the words of error messages."""
_TO_MAXIMUM = f"1 to {MAX_COUNT}"
RANGES = {
    **dict.fromkeys(("problems", "points", "threads", "repeats", "batch"), _TO_MAXIMUM),
    **dict.fromkeys(("timeout", "memory-limit"), f"above 0 and at most {MAX_COUNT}"),
    "timing-rounds": f"0 to {MAX_COUNT}",
    "jobs": f"1 to {MAX_JOBS}",
    "angles": "0 to 180",
    "max-angle": "above 0 and at most 180",
    "seed": "of at most 64 bits, also below 0",
    "scale": "above 0",
}
"""Flag to the range of its value, in the words of error messages."""
TABLES: dict[str, dict[str, str] | None] = {
    "limits": None,
    "timing": {"points": _COUNTS, "rounds": _COUNT, "budget_s": _NUMBER},
    "more": {"methods": _TEXTS, "datasets": _TEXTS, "conditions": _TEXTS, "points": _COUNTS, "problems": _COUNT},
}
"""Tables of a preset that a file may override, with the type of each key; None: any key with a number.

`more` is a list of tables."""
_NEEDED = ("methods", "datasets", "conditions", "points")
"""Required keys of a table `[[more]]`."""
_OF_RUN = {
    "methods": "methods",
    "datasets": "datasets",
    "conditions": "conditions",
    "points": "points",
    "angles": "angles",
    "sampler": "sampler",
    "problems": "problems",
    "seed": "seed",
    "threads": "threads",
    "device": "device",
    "timeout": "timeout",
    "memory-limit": "memory_limit_gb",
    "repeats": "repeats",
    "batch": "batch",
    "kind": "kind",
}
"""Flag to field of the configuration in a `run.json`."""


@dataclass(frozen=True)
class ConfigFile:
    """Content of a configuration file.

    Attributes:
        file: its path.
        flags: flag to value.
        tables: tables that replace those of the preset.
        of_run: whether the file is a `run.json`.
    """

    file: Path
    flags: dict[str, Any]
    tables: dict[str, Any]
    of_run: bool = False

    def arguments(self, known: Mapping[str, str]) -> list[str]:
        """Return the flags as command-line arguments.

        Args:
            known: flags of the command, without dashes, with the type of their values. Other flags of a `run.json` are
                left out.

        Raises:
            InputError: the command has no such flag, or its value is of another type.
        """
        arguments = []
        for name, value in self.flags.items():
            flag = name.replace("_", "-")
            if flag not in known and self.of_run:  # such as --methods for the command `problems`
                continue
            if flag not in known:
                raise unknown(f"setting of {self.file}", name, known)
            if not _fits(known[flag], value):
                raise InputError(
                    f"--config {self.file}: field '{name}' is {_shown(value)}; give {wanted(flag, known[flag])}"
                )
            if value is not False:  # a switch that is off is left out
                arguments.append(f"--{flag}" if value is True else f"--{flag}={_text(value)}")
        return arguments


def wanted(flag: str, kind: str) -> str:
    """Return what the value of a flag of a type must be, with its range if it has one.

    >>> wanted("timing-rounds", INTEGER), wanted("out", TEXT)
    ('a whole number, 0 to 10000000', 'a text')
    """
    return f"{kind}, {RANGES[flag]}" if flag in RANGES else kind


def read(file: Path) -> ConfigFile:
    """Read a TOML file, or the configuration of a run from its `run.json`.

    Raises:
        InputError: the file is missing, neither TOML nor a run's JSON, or of a run of several seeds.
    """
    try:
        text = file.read_text(encoding="utf-8")
        content = _of_run(_configuration(json.loads(text))) if file.suffix == ".json" else tomllib.loads(text)
    except InputError as error:
        raise InputError(f"--config {file}: {error}") from error
    except OSError as error:
        fix = "give a TOML file or a run.json"
        raise InputError(f"--config {file}: cannot be read ({error.strerror}); {fix}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"its 'config' has no member {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise InputError(
            f"--config {file}: neither TOML nor a run.json ({reason}); see docs/configuration.md"
        ) from error
    if "fresh" in content:
        raise InputError(f"--config {file}: field 'fresh' deletes a run, so no file can set it; use the flag --fresh")
    tables = {name: content.pop(name) for name in TABLES if name in content}
    for name, table in tables.items():
        for entry in _tables(file, table) if name == "more" else [table]:
            _check_table(file, name, entry)
    return ConfigFile(file, content, tables, of_run=file.suffix == ".json")


def _tables(file: Path, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"--config {file}: field 'more' is not a list of tables; write [[more]]")
    return value


def _check_table(file: Path, name: str, table: Any) -> None:
    if not isinstance(table, dict):
        raise InputError(f"--config {file}: field '{name}' is not a table; write [{name}]")
    if name == "more" and (missing := [key for key in _NEEDED if key not in table]):
        raise InputError(
            f"--config {file}: a table [[more]] lacks '{missing[0]}'; give {', '.join(_NEEDED)}, each a list"
        )
    keys = TABLES[name]
    for key, value in table.items():
        if keys is not None and key not in keys:
            raise unknown(f"setting of {file}, [{name}]", key, keys)
        kind = _NUMBER if keys is None else keys[key]
        if not _is_a(kind, value):
            raise InputError(f"--config {file}: field '{name}.{key}' is {_shown(value)}; give {kind}")


def _is_a(kind: str, value: Any) -> bool:
    """Return whether a value has one of the types above. Numbers must not be negative, counts in lists at least 1."""
    if kind in (_COUNTS, _TEXTS):
        if not isinstance(value, list):
            return False
        return all(isinstance(v, str) if kind == _TEXTS else type(v) is int and v >= 1 for v in value)
    return type(value) in ((int,) if kind == _COUNT else (int, float)) and 0 <= value < math.inf


def _fits(kind: str, value: Any) -> bool:
    """Return whether the value of a flag has its type. A list may also be a text, as on the command line: "256,1024"."""
    if kind == SWITCH:
        return isinstance(value, bool)
    if kind in (INTEGERS, NUMBERS, TEXTS):
        one = {INTEGERS: INTEGER, NUMBERS: NUMBER, TEXTS: TEXT}[kind]
        entries = value if isinstance(value, list) else [value]
        return isinstance(value, str) or (bool(entries) and all(_fits(one, entry) for entry in entries))
    if kind == TEXT:
        return isinstance(value, str) and value.isprintable()
    return type(value) is int or (kind == NUMBER and type(value) is float and math.isfinite(value))


def _shown(value: Any) -> str:
    """Return a value for a message, at most one short line."""
    text = "a table" if isinstance(value, dict) else ascii(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


MAX_SHOWN = 40
"""Characters of a wrong value that a message shows."""


def _configuration(facts: Any) -> dict[str, Any]:
    """Return the configuration in the content of a `run.json`.

    Raises:
        ValueError: there is none.
    """
    if not isinstance(facts, dict) or "config" not in facts:
        raise ValueError("it has no member 'config'")
    if not isinstance(facts["config"], dict):
        raise ValueError("its member 'config' is no object")
    return facts["config"]


def _of_run(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a run as flags and tables, which give a configuration of the same hash."""
    if len(seeds := config.get("seeds", [])) > 1:
        raise InputError(
            f"the runs in it have the seeds {join_names([str(seed) for seed in seeds])}; give the run.json of one of them"
        )
    config = {"repeats": 1, "batch": 1, "kind": None} | config  # defaults of fields that runs of earlier versions lack
    flags = {flag: config[field] for flag, field in _OF_RUN.items() if config[field] is not None}
    flags["methods"] = [*config["methods"], *(["oracle"] if config["oracle"] else [])]
    timing = {key: config[f"timing_{key}"] for key in ("points", "rounds", "budget_s")}
    return flags | {"limits": config["limits"], "timing": timing, "more": config.get("more", [])}


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
