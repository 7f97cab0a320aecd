"""The methods and data sets that a command can name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from datasets.registry import DataRegistry
from methods.core.registry import MethodRegistry


@dataclass(frozen=True)
class Catalog:
    """Registries of methods and data sets, both with the same plug-in folder."""

    methods: MethodRegistry
    data: DataRegistry

    @classmethod
    def of(cls, data: str | Path | None = None, plugins: Path | None = None) -> Catalog:
        """Return the catalog for the flags `--data` and `--plugins`."""
        return cls(MethodRegistry(plugins), DataRegistry.at(data, plugins))

    @property
    def faults(self) -> list[str]:
        """One line per plug-in that cannot be used, or whose import has effects beyond it."""
        return [*(self.data.faults | self.methods.faults).values(), *self.methods.remarks.values()]
