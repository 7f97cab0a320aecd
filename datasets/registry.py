"""Registry of data sets: each is a file of this folder (or a `--plugins` folder) with a subclass of `DataSet` or `PairSet`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from common import specs
from common.errors import InputError, unknown
from common.plugins import Source, discover
from datasets.base import DataSet, PairSet
from datasets.description import AnyClass, DataFacts, classes_of, facts_of

SKIP_BAD = "skip_bad"
"""Parameter by which a data set leaves out files that cannot be read."""
GROUP = "registration_bench.datasets"
"""Entry point group of installed packages with data sets."""
AnySet = DataSet | PairSet


def data_root(folder: str | Path | None = None) -> Path:
    """Return the folder that holds one folder per data set: `--data`, else $BENCH_DATA, else ./data."""
    return Path(folder or os.environ.get("BENCH_DATA") or "data").resolve()


@dataclass(frozen=True)
class DataEntry:
    """A data set that can be named: where its class is defined, and its properties."""

    source: Source
    facts: DataFacts

    @property
    def cls(self) -> AnyClass:
        """The class. Its module is imported, so a plug-in that is used runs in this process."""
        return next(cls for cls in classes_of(self.source) if cls.__name__ == self.facts.class_name)


@dataclass(frozen=True)
class DataRegistry:
    """Data sets by name: built-in ones, those of installed packages, and those of a user's folder.

    Attributes:
        root: folder that holds one folder per data set.
        plugins: folder of the user's data sets, if any.
    """

    root: Path
    plugins: Path | None = None

    @property
    def shown_root(self) -> Path:
        """The root as users write it: relative if it is below the current folder."""
        here = Path.cwd()
        return self.root.relative_to(here) if self.root.is_relative_to(here) else self.root

    @classmethod
    def at(cls, data: str | Path | None = None, plugins: Path | None = None) -> DataRegistry:
        """Return the registry for a `--data` folder, which defaults to that of `data_root`."""
        return cls(data_root(data), plugins)

    @property
    def entries(self) -> dict[str, DataEntry]:
        """Entry of every data set, by name."""
        return _discovered(self.plugins)[0]

    @property
    def faults(self) -> dict[str, str]:
        """Reason by name for every file or entry point that cannot be imported and every name that is used twice."""
        return _discovered(self.plugins)[1]

    def spec(self, text: str) -> DataSetSpec:
        """Resolve a data set written as `shapes40` or `fragments[path=3dmatch]`.

        Raises:
            InputError: there is no such data set or parameter, or its file is faulty.
        """
        name, faults, entries = specs.parse(text).name, self.faults, self.entries
        if name in faults:  # even if another data set has this name, since it is ambiguous
            raise InputError(faults[name])
        if name not in entries and (reason := _discovered(self.plugins)[2].get(name)):
            raise InputError(reason)
        if name not in entries:
            raise unknown("data set", name, entries)
        spec = DataSetSpec(text, self, entries[name])
        spec.build()
        return spec


@dataclass(frozen=True)
class DataSetSpec:
    """Data set as the user wrote it, resolved by a registry; cheap to copy and to send to a process."""

    text: str
    registry: DataRegistry
    entry: DataEntry = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.text

    def build(self) -> AnySet:
        """Return a new instance; files are read when first needed.

        Raises:
            InputError: see `DataRegistry.spec`.
        """
        spec = specs.parse(self.text)
        dataset = specs.instantiate(self.entry.cls, spec, {"root": self.registry.root}, "data set")
        dataset.name = spec.name
        return dataset

    def open(self) -> AnySet:
        """Return the data set, opened once per process."""
        return _opened(self)

    def objects(self) -> DataSet:
        """Return the data set if it consists of objects, which training needs.

        Raises:
            InputError: it is a data set of real pairs.
        """
        dataset = self.open()
        if isinstance(dataset, PairSet):
            raise InputError(f"{self.text}: a set of real pairs, not of objects; name another data set")
        return dataset

    @property
    def trusted_file(self) -> str | None:
        """File or entry point of a plug-in, which this process imports to generate problems; None for a built-in data set."""
        return self.entry.source.origin if self.entry.source.external else None

    @property
    def is_pairs(self) -> bool:
        """Whether it is a data set of real pairs."""
        return isinstance(self.open(), PairSet)

    def skipping_bad(self) -> DataSetSpec:
        """Return the same data set with `skip_bad=true`, if it has that parameter."""
        spec = specs.parse(self.text)
        if not hasattr(self.open(), SKIP_BAD) or SKIP_BAD in spec.given:
            return self
        parameters = ",".join([*(f"{k}={v}" for k, v in spec.given.items()), f"{SKIP_BAD}=true"])
        return DataSetSpec(f"{spec.name}[{parameters}]", self.registry, self.entry)


@lru_cache(maxsize=4)
def _opened(spec: DataSetSpec) -> AnySet:
    return spec.build()


@lru_cache(maxsize=8)
def _discovered(plugins: Path | None) -> tuple[dict[str, DataEntry], dict[str, str], dict[str, str]]:
    discovery = discover("datasets", GROUP, plugins)
    offers: list[tuple[str, Source, DataEntry]] = []
    for source in discovery.sources:
        if source.external:
            facts = [
                DataFacts(**values | {"folders": tuple(values["folders"])}) for values in discovery.described[source]
            ]
        else:
            facts = [facts_of(classes[-1])] if (classes := classes_of(source)) else []
        offers += [(source.name, source, DataEntry(source, entry)) for entry in facts]
    return *discovery.index(offers, "data set"), discovery.files_without("DataSet or PairSet (datasets.base)")
