"""Pairs of an HDF5 file, as distributed by the authors of DeepGMR or written by `bench.py problems --export`."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError, unknown
from common.kinds import DataKind, data_kind
from common.text import counted
from datasets.base import Pair, PairSet
from datasets.cache import Arrays, load_or_compute
from datasets.formats import read_fields
from datasets.scans import check_rigid

CLOUDS = ("source", "target")
"""Fields with the clouds of the pairs."""
REQUIRED = (*CLOUDS, "transform")
"""Fields of every file."""
OPTIONAL = (
    "id", "seed", "object", "category", "cell", "domain", "kind", "symmetry", "overlap", "information", "source_pose",
    "evaluation", "source_points", "target_points",
)  # fmt: skip
"""Further fields of a file written by `bench.py problems --export`."""


class Pairs(PairSet):
    """Pairs of an HDF5 file with `source` and `target` (n, N, 3) and `transform` (n, 4, 4), which maps source to target.

    The order is that of the file. A file written by `bench.py problems --export` also has the number of points of each cloud,
    so that sizes can differ, evaluation points, tags, and the ids from which seeds are derived; runs on it equal runs on the
    problems that were exported. If a file has several problem groups, `cell` selects one by its name. With `skip_bad`, rows
    without a rigid motion or with non-finite values are left out.
    """

    shuffled = False
    licence = "that of the data in the file"
    where = "give the path of an HDF5 file with source, target and transform: pairs[path=modelnet_clean.h5]"
    path: str = ""
    cell: str = ""
    skip_bad: bool = False

    def __len__(self) -> int:
        return len(self._valid_rows)

    @property
    def domain(self) -> str:
        """Domain of the exported problems if all have the same; else the name of this data set."""
        domains = {self._tag("domain", row, "") for row in self._valid_rows}
        return domains.pop() or self.name if len(domains) == 1 else self.name

    @property
    def kind(self) -> DataKind:  # type: ignore[override]
        """Kind of the exported problems; that of objects if the file does not give it, or gives several."""
        kinds = {self._tag("kind", row, DataKind.OBJECTS) for row in self._valid_rows}
        return data_kind(kinds.pop()) if len(kinds) == 1 else DataKind.OBJECTS

    @property
    def remarks(self) -> tuple[str, ...]:
        """Number of rows that are left out."""
        skipped = len(self._selected_rows) - len(self._valid_rows)
        return (f"{self._file}: left out {counted(skipped, 'row')}: no rigid motion, or not finite",) if skipped else ()

    def pair(self, row: int) -> Pair:
        """Return the pair of a row; names that the file does not give are derived from the row."""
        row = self._valid_rows[row]
        source, target = (self._cloud(name, row) for name in CLOUDS)
        T = np.asarray(self._arrays["transform"][row], dtype=np.float64)
        symmetry, identity = self._tag("symmetry", row, ""), self._tag("id", row, "")
        return Pair(
            self._tag("object", row, f"{self._file.stem}/{row:05d}"),
            self._tag("category", row, self._file.stem),
            source,
            target,
            T,
            overlap=self._tag("overlap", row, float("nan")),
            information=self._array("information", row),
            source_pose=self._array("source_pose", row, np.eye(4)),  # type: ignore[arg-type]
            symmetry=symmetry or None,
            evaluation=self._array("evaluation", row),
            origin=(identity, self._tag("seed", row, 0)) if identity else None,
        )

    def _cloud(self, name: str, row: int) -> NDArray[np.float32]:
        counts = self._columns.get(f"{name}_points")
        n = self._arrays[name].shape[1] if counts is None else counts[row]
        return np.asarray(self._arrays[name][row, :n], dtype=np.float32)

    def _tag(self, name: str, row: int, default: Any) -> Any:
        column = self._columns.get(name)
        return default if column is None else column[row]

    def _array(self, name: str, row: int, default: NDArray[Any] | None = None) -> NDArray[Any] | None:
        """Return a matrix or cloud of an exported problem; a missing one is stored as NaN."""
        array = np.asarray(self._arrays[name][row]) if name in self._arrays else None
        return default if array is None or np.isnan(array).any() else array

    @cached_property
    def _file(self) -> Path:
        return self.place(self.path)

    @cached_property
    def _arrays(self) -> Arrays:
        """Fields of the file, checked."""
        arrays = load_or_compute(f"pairs {OPTIONAL}", [self._file], lambda: read_fields(self._file, REQUIRED, OPTIONAL))
        n = len(arrays["transform"])
        for name, shape in {"source": (n, None, 3), "target": (n, None, 3), "transform": (n, 4, 4)}.items():
            actual, dtype = arrays[name].shape, arrays[name].dtype
            fits = len(actual) == 3 and all(e in (None, a) for a, e in zip(actual, shape, strict=True))
            if not fits or not n or not np.issubdtype(dtype, np.floating):
                expected = str(shape).replace("None", "N")
                raise InputError(
                    f"{self._file}: field '{name}' is {dtype} {actual}, not float {expected}; export it again"
                )
        for name in OPTIONAL:
            if name in arrays and len(arrays[name]) != n:
                raise InputError(
                    f"{self._file}: field '{name}' has {counted(len(arrays[name]), 'row')}, not {n}; export it again"
                )
        return arrays

    @cached_property
    def _columns(self) -> dict[str, list[Any]]:
        """Columns of an exported file with one number or text per pair, by name."""
        return {name: array.tolist() for name, array in self._arrays.items() if array.ndim == 1}

    @cached_property
    def _selected_rows(self) -> list[int]:
        """Rows of the problem group `cell`, or all."""
        rows = range(len(self._arrays["transform"]))
        if not self.cell:
            return list(rows)
        groups = self._columns.get("cell", [])
        if self.cell not in groups:
            raise unknown(f"cell of {self._file}", self.cell, set(groups))
        return [row for row in rows if groups[row] == self.cell]

    @cached_property
    def _valid_rows(self) -> list[int]:
        """Rows with finite clouds and a rigid transform."""
        valid = []
        for row in self._selected_rows:
            try:
                self._check(row)
            except InputError:
                if not self.skip_bad:
                    raise
            else:
                valid.append(row)
        if not valid:
            raise InputError(f"{self._file}: no pair in it can be used; export it again")
        return valid

    def _check(self, row: int) -> None:
        check_rigid(self._arrays["transform"][row], f"{self._file}: field 'transform', row {row},")
        for name in CLOUDS:
            cloud = self._cloud(name, row)
            if len(cloud) < 3 or not np.isfinite(cloud).all():
                raise InputError(
                    f"{self._file}: field '{name}', row {row}: {counted(len(cloud), 'point')}, not 3 or more finite ones; fix it"
                )
