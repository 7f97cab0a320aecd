"""Data sets by name: each is a file of this folder (or of a `--plugins` folder) with one subclass of `DataSet`."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from common.errors import unknown
from common.plugins import classes_of, folder_modules, package_modules
from datasets.base import DataSet


@lru_cache(maxsize=8)
def available(plugins: Path | None = None) -> dict[str, type[DataSet]]:
    """Name to class of every data set."""
    modules: list[ModuleType] = list(package_modules("datasets"))
    modules += list(folder_modules(plugins)) if plugins else []
    found: dict[str, type[DataSet]] = {}
    for module in modules:
        for cls in classes_of(module, DataSet):  # type: ignore[type-abstract]  # returns concrete ones only
            found[module.__name__.rsplit(".", 1)[-1].removeprefix("plugin_")] = cls
    return found


def data_root(given: str | Path | None = None) -> Path:
    """The folder that holds one folder a data set: `--data`, else $BENCH_DATA, else ./data."""
    return Path(given or os.environ.get("BENCH_DATA") or "data")


def load(name: str, root: str | Path | None = None, plugins: Path | None = None) -> DataSet:
    """Open a data set. Files are read when first needed.

    Raises:
        InputError: there is no such data set, or its files are missing or broken.
    """
    found = available(plugins)
    if name not in found:
        raise unknown("data set", name, found)
    return found[name](data_root(root))
