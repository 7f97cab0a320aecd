"""What the benchmark knows of a data set without reading it. Plug-ins are described in a separate process, as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from common.plugins import Source
from datasets.base import Data, DataSet, PairSet

AnyClass = type[DataSet] | type[PairSet]


@dataclass(frozen=True)
class DataFacts:
    """Properties of a data set with its default parameters.

    Attributes:
        class_name: name of its class.
        summary: first line of its docstring.
        path: its parameter `path`; None if it has none.
        folders: folders of its archives below the data folder.
        bytes: size of its archives; 0 if it has none.
        where: how to get the data.
        licence: of the data; empty if unknown.
    """

    class_name: str
    summary: str
    path: str | None
    folders: tuple[str, ...]
    bytes: int
    where: str
    licence: str


def facts_of(cls: AnyClass) -> DataFacts:
    """Describe a data set."""
    dataset: Data = cls()
    path = getattr(dataset, "path", None)
    return DataFacts(
        cls.__name__,
        (cls.__doc__ or "has no docstring").strip().split("\n")[0],
        None if path is None else str(path),
        tuple(archive.folder for archive in dataset.archives),
        sum(archive.size for archive in dataset.archives),
        dataset.where,
        dataset.licence,
    )


def classes_of(source: Source) -> list[AnyClass]:
    """Import a source and return its data sets."""
    classes: list[AnyClass] = []
    classes += source.classes(DataSet)  # type: ignore[type-abstract]  # returns only concrete classes
    classes += source.classes(PairSet)  # type: ignore[type-abstract]
    return classes


def describe_source(source: Source, **_arguments: Any) -> list[dict[str, Any]]:
    """Describe the data set that a plug-in defines, if any, as JSON values."""
    return [asdict(facts_of(classes[-1]))] if (classes := classes_of(source)) else []
