"""Data sets by name: each is a file of this folder (or of a `--plugins` folder) with one subclass of `DataSet` or `PairSet`."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from common import specs
from common.errors import InputError, unknown
from common.plugins import classes_of, folder_modules, package_modules
from datasets.base import DataSet, PairSet

SKIP_BAD = "skip_bad"


@lru_cache(maxsize=8)
def available(plugins: Path | None = None) -> dict[str, type[DataSet] | type[PairSet]]:
    """Name to class of every data set."""
    modules: list[ModuleType] = list(package_modules("datasets"))
    modules += list(folder_modules(plugins)) if plugins else []
    found: dict[str, type[DataSet] | type[PairSet]] = {}
    for module in modules:
        name = module.__name__.rsplit(".", 1)[-1].removeprefix("plugin_")
        classes: list[type[DataSet] | type[PairSet]] = []
        classes += classes_of(module, DataSet)  # type: ignore[type-abstract]  # returns concrete ones only
        classes += classes_of(module, PairSet)  # type: ignore[type-abstract]
        if classes:
            found[name] = classes[-1]
    return found


def data_root(given: str | Path | None = None) -> Path:
    """The folder that holds one folder a data set: `--data`, else $BENCH_DATA, else ./data."""
    return Path(given or os.environ.get("BENCH_DATA") or "data")


def open_data(text: str, root: str | Path | None = None, plugins: Path | None = None) -> DataSet | PairSet:
    """The data set written as `shapes40` or `fragments[path=3dmatch]`. Files are read when first needed.

    Raises:
        InputError: there is no such data set or parameter.
    """
    spec, found = specs.parse(text), available(plugins)
    if spec.name not in found:
        raise unknown("data set", spec.name, found)
    made = specs.build(found[spec.name], spec, {"root": data_root(root)}, "data set")
    made.name = spec.name
    return made


def load(text: str, root: str | Path | None = None, plugins: Path | None = None) -> DataSet:
    """A data set of objects, such as methods are trained on.

    Raises:
        InputError: there is no such data set or parameter, or it is one of pairs.
    """
    made = open_data(text, root, plugins)
    if isinstance(made, PairSet):
        raise InputError(f"{text}: a set of real pairs, not of objects; name another data set")
    return made


def is_pairs(text: str, plugins: Path | None = None) -> bool:
    """Whether a data set is one of real pairs."""
    return isinstance(open_data(text, None, plugins), PairSet)


def leaving_out(text: str, plugins: Path | None = None) -> str:
    """The same data set told to leave out what does not read, if it can: `--skip-bad` as a parameter."""
    made, spec = open_data(text, None, plugins), specs.parse(text)
    if not hasattr(made, SKIP_BAD) or SKIP_BAD in spec.given:
        return text
    given = [*(f"{k}={v}" for k, v in spec.given.items()), f"{SKIP_BAD}=true"]
    return f"{spec.name}[{','.join(given)}]"
