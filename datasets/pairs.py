"""Pairs in an HDF5 file: as the authors of DeepGMR distribute them, or as `bench.py problems --export` writes them."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError, unknown
from datasets.base import Pair, PairSet
from datasets.scans import check_rigid

CLOUDS = ("source", "target")


class Pairs(PairSet):
    """Pairs of an HDF5 file with `source` and `target` (n, N, 3) and `transform` (n, 4, 4), which maps source into target.

    They come in the order of the file. A file written by `bench.py problems --export` holds more: the number of points of
    each cloud, so that they may differ, evaluation points, tags, and the ids by which seeds are drawn; runs on it equal runs
    on the problems it was made of. Of several cells in a file, `cell` takes one. With `skip_bad`, rows that are no rigid
    motion or not finite are left out.
    """

    shuffled = False
    licence = "that of the data the file was made of"
    where = "give the path of an HDF5 file with source, target and transform: pairs[path=modelnet_clean.h5]"
    path: str = ""
    cell: str = ""
    skip_bad: bool = False

    def __len__(self) -> int:
        return len(self._good)

    @property
    def domain(self) -> str:
        """What the exported problems are about, if all are about the same; else the name of this data set."""
        domains = {self._tag("domain", row, "") for row in self._good}
        return domains.pop() or self.name if len(domains) == 1 else self.name

    @property
    def remarks(self) -> tuple[str, ...]:
        """How many rows are left out."""
        lost = len(self._asked) - len(self._good)
        return (f"{self._file}: {lost} rows are left out: no rigid motion, or not finite",) if lost else ()

    def pair(self, row: int) -> Pair:
        """A pair as it stands in the file; what the file does not tell is named after its row."""
        row = self._good[row]
        source, target = (self._cloud(name, row) for name in CLOUDS)
        T = np.asarray(self._handle["transform"][row], dtype=np.float64)
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
        n = self._handle[name].shape[1] if counts is None else counts[row]
        return np.asarray(self._handle[name][row, :n], dtype=np.float32)

    def _tag(self, name: str, row: int, default: Any) -> Any:
        column = self._columns.get(name)
        return default if column is None else column[row]

    def _array(self, name: str, row: int, default: NDArray[Any] | None = None) -> NDArray[Any] | None:
        """A matrix or cloud of an exported problem; one that it does not have is stored as NaN."""
        found = np.asarray(self._handle[name][row]) if name in self._handle else None
        return default if found is None or np.isnan(found).any() else found

    @cached_property
    def _file(self) -> Path:
        return self.place(self.path)

    @cached_property
    def _handle(self) -> Any:
        """The open file, its shapes checked."""
        import h5py

        try:
            handle = h5py.File(self._file, "r")
        except OSError as error:
            raise InputError(f"{self._file}: not a whole HDF5 file ({error}); copy it again") from error
        lost = [name for name in (*CLOUDS, "transform") if name not in handle]
        if lost:
            held = ", ".join(handle) or "none"
            raise InputError(
                f"{self._file}: no field '{lost[0]}' (it has {held}); export it with source, target, transform"
            )
        n = len(handle["transform"])
        for name, shape in {"source": (n, None, 3), "target": (n, None, 3), "transform": (n, 4, 4)}.items():
            got, kind = handle[name].shape, handle[name].dtype
            fits = len(got) == 3 and all(w in (None, g) for g, w in zip(got, shape, strict=True))
            if not fits or not n or not np.issubdtype(kind, np.floating):
                wanted = str(shape).replace("None", "N")
                raise InputError(f"{self._file}: field '{name}' is {kind} {got}, not float {wanted}; export it again")
        return handle

    @cached_property
    def _columns(self) -> dict[str, list[Any]]:
        """What an exported file tells of each pair in one value: numbers and texts, by name."""
        fields = {name: field for name, field in self._handle.items() if field.ndim == 1}
        texts = {name: field.asstr()[:].tolist() for name, field in fields.items() if field.dtype.kind == "O"}
        return {name: texts[name] if name in texts else field[:].tolist() for name, field in fields.items()}

    @cached_property
    def _asked(self) -> list[int]:
        """Rows of the cell, or all."""
        rows = range(len(self._handle["transform"]))
        if not self.cell:
            return list(rows)
        cells = self._columns.get("cell", [])
        if self.cell not in cells:
            raise unknown(f"cell of {self._file}", self.cell, set(cells))
        return [row for row in rows if cells[row] == self.cell]

    @cached_property
    def _good(self) -> list[int]:
        """Rows whose clouds are finite and whose transform is rigid."""
        found = []
        for row in self._asked:
            try:
                self._check(row)
            except InputError:
                if not self.skip_bad:
                    raise
            else:
                found.append(row)
        if not found:
            raise InputError(f"{self._file}: no pair in it can be used; export it again")
        return found

    def _check(self, row: int) -> None:
        check_rigid(self._handle["transform"][row], f"{self._file}: field 'transform', row {row},")
        for name in CLOUDS:
            cloud = self._cloud(name, row)
            if len(cloud) < 3 or not np.isfinite(cloud).all():
                raise InputError(
                    f"{self._file}: field '{name}', row {row}: {len(cloud)} points, not 3 or more finite ones; mend it"
                )
