"""Data sets by name: each is a file of this folder (or of a `--plugins` folder) with one subclass of `DataSet` or `PairSet`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from common import specs
from common.errors import InputError, unknown
from common.plugins import PluginSource, discover
from datasets.base import DataSet, PairSet

SKIP_BAD = "skip_bad"
"""Parameter of data sets that can leave out files that cannot be read."""
GROUP = "registration_bench.datasets"
"""The entry point group by which an installed package offers data sets."""
AnySet = DataSet | PairSet


def data_root(given: str | Path | None = None) -> Path:
    """Return the folder that holds one folder per data set: `--data`, else $BENCH_DATA, else ./data."""
    return Path(given or os.environ.get("BENCH_DATA") or "data").resolve()


@dataclass(frozen=True)
class DataRegistry:
    """The data sets that can be named: built-in ones, those of installed packages, and those of a user's folder.

    Attributes:
        root: folder that holds one folder per data set.
        plugins: folder of the user's data sets, if any.
    """

    root: Path
    plugins: Path | None = None

    @classmethod
    def at(cls, data: str | Path | None = None, plugins: Path | None = None) -> DataRegistry:
        """Return the registry for a `--data` folder, which defaults to that of `data_root`."""
        return cls(data_root(data), plugins)

    @property
    def entries(self) -> dict[str, type[DataSet] | type[PairSet]]:
        """Name to class of every data set."""
        return _discovered(self.plugins)[0]

    @property
    def faults(self) -> dict[str, str]:
        """Name to reason, of every file or entry point that cannot be imported, and of every name that is given twice."""
        return _discovered(self.plugins)[1]

    def spec(self, text: str) -> DataSetSpec:
        """Resolve a data set written as `shapes40` or `fragments[path=3dmatch]`.

        Raises:
            InputError: there is no such data set or parameter, or its file is faulty.
        """
        spec = DataSetSpec(text, self)
        spec.build()
        return spec


@dataclass(frozen=True)
class DataSetSpec:
    """A data set as the user wrote it, with the registry that resolves its name. Cheap to copy and to send to a process."""

    text: str
    registry: DataRegistry

    def __str__(self) -> str:
        return self.text

    def build(self) -> AnySet:
        """Return a new instance; files are read when first needed.

        Raises:
            InputError: see `DataRegistry.spec`.
        """
        spec, entries, faults = specs.parse(self.text), self.registry.entries, self.registry.faults
        if spec.name in faults:  # even if another data set has the name: which one is meant is unknown
            raise InputError(faults[spec.name])
        if spec.name not in entries:
            raise unknown("data set", spec.name, entries)
        dataset = specs.build(entries[spec.name], spec, {"root": self.registry.root}, "data set")
        dataset.name = spec.name
        return dataset

    def open(self) -> AnySet:
        """Return the data set, opened once per process."""
        return _opened(self)

    def objects(self) -> DataSet:
        """Return a data set of objects, such as methods are trained on.

        Raises:
            InputError: it is a data set of real pairs.
        """
        dataset = self.open()
        if isinstance(dataset, PairSet):
            raise InputError(f"{self.text}: a set of real pairs, not of objects; name another data set")
        return dataset

    @property
    def is_pairs(self) -> bool:
        """Whether it is a data set of real pairs."""
        return isinstance(self.open(), PairSet)

    def skipping_bad(self) -> DataSetSpec:
        """Return the same data set with `skip_bad=true`, if it has that parameter."""
        spec = specs.parse(self.text)
        if not hasattr(self.open(), SKIP_BAD) or SKIP_BAD in spec.given:
            return self
        given = ",".join([*(f"{k}={v}" for k, v in spec.given.items()), f"{SKIP_BAD}=true"])
        return DataSetSpec(f"{spec.name}[{given}]", self.registry)


@lru_cache(maxsize=4)
def _opened(spec: DataSetSpec) -> AnySet:
    return spec.build()


@lru_cache(maxsize=8)
def _discovered(plugins: Path | None) -> tuple[dict[str, type[DataSet] | type[PairSet]], dict[str, str]]:
    discovery = discover("datasets", GROUP, plugins)
    offers = [(source.name, source, classes[-1]) for source in discovery.sources if (classes := _classes(source))]
    return discovery.index(offers, "data set")


def _classes(source: PluginSource) -> list[type[DataSet] | type[PairSet]]:
    classes: list[type[DataSet] | type[PairSet]] = []
    classes += source.classes(DataSet)  # type: ignore[type-abstract]  # returns concrete ones only
    classes += source.classes(PairSet)  # type: ignore[type-abstract]
    return classes
