"""Data sets by name: each is a file of this folder (or of a `--plugins` folder) with one subclass of `DataSet` or `PairSet`."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from common import specs
from common.errors import InputError, unknown
from common.plugins import PluginSource, discover
from datasets.base import DataSet, PairSet

SKIP_BAD = "skip_bad"


GROUP = "registration_bench.datasets"
"""The entry point group by which an installed package offers data sets."""


@lru_cache(maxsize=8)
def _named(plugins: Path | None) -> tuple[dict[str, type[DataSet] | type[PairSet]], dict[str, str]]:
    found = discover("datasets", GROUP, plugins)
    offers = [(source.name, source, cls[-1]) for source in found.sources if (cls := _classes(source))]
    return found.named(offers, "data set")


def _classes(source: PluginSource) -> list[type[DataSet] | type[PairSet]]:
    found: list[type[DataSet] | type[PairSet]] = []
    found += source.classes(DataSet)  # type: ignore[type-abstract]  # returns concrete ones only
    found += source.classes(PairSet)  # type: ignore[type-abstract]
    return found


def faults(plugins: Path | None = None) -> dict[str, str]:
    """Name to reason, of every file or entry point that does not import, and of every name that is given twice."""
    return _named(plugins)[1]


def available(plugins: Path | None = None) -> dict[str, type[DataSet] | type[PairSet]]:
    """Name to class of every data set in this folder, in installed packages and in a user's folder."""
    return _named(plugins)[0]


def data_root(given: str | Path | None = None) -> Path:
    """The folder that holds one folder a data set: `--data`, else $BENCH_DATA, else ./data."""
    return Path(given or os.environ.get("BENCH_DATA") or "data")


def open_data(text: str, root: str | Path | None = None, plugins: Path | None = None) -> DataSet | PairSet:
    """The data set written as `shapes40` or `fragments[path=3dmatch]`. Files are read when first needed.

    Raises:
        InputError: there is no such data set or parameter, or the name is faulty.
    """
    spec, found = specs.parse(text), available(plugins)
    if spec.name in faults(plugins):  # even if another has the name: which of the two is meant, nobody knows
        raise InputError(faults(plugins)[spec.name])
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
