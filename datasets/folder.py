"""One's own meshes and clouds: any tree of files."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import portable
from common.errors import InputError
from datasets.base import DataSet, MeshShape, PointShape, Shape, centred_in_unit_sphere
from datasets.cache import Arrays, cached
from datasets.formats import READERS, Geometry, MalformedFile, bad_remark, read_all
from datasets.scans import packed, unpacked
from datasets.symmetry_estimate import Estimated, check_choice, with_symmetry

SPLITS = ("train", "test")


class Folder(DataSet):
    """A tree of meshes or clouds of one's own: ply, pcd, obj, off, stl, xyz, txt, npy, npz, las.

    `path` lies below the data root or the current folder. If it has the folders `train` and `test` they are the splits, else
    all is `test`. The folder below that is the category, and files that lie in none are of a category of the split's name.
    Files with faces are surfaces, others fixed points; clouds of fewer than `min_points` points are left out, since no point
    is ever repeated. Unless `unit` is false, each object is moved to its centroid (of the surface's area, or of the points)
    and scaled into the unit sphere. Symmetries of the objects are not known; `symmetry=estimate` estimates them.
    """

    licence = "yours"
    where = "give the path of a folder with meshes or clouds: folder[path=scans]"
    path: str = ""
    unit: bool = True
    min_points: int = 3
    skip_bad: bool = False
    symmetry: str = "unknown"

    def check(self) -> None:
        check_choice(self.symmetry)

    def labels(self, split: str) -> NDArray[np.integer[Any]]:
        """Label (n,) of every object of a split."""
        names = [self.categories.index(self._category(r)) for r in self._rows(split)]
        return np.array(names, dtype=np.int64)

    def shape(self, split: str, index: int) -> Shape:
        """The object with that index, in the order of the files' names."""
        return with_symmetry(self._plain(split, index), self.symmetry, self._estimated)

    def _plain(self, split: str, index: int) -> Shape:
        row = self._rows(split)[index]
        name, points = Path(self.names[row]).with_suffix("").as_posix(), unpacked(self._arrays, row)
        if self._arrays["is_mesh"][row]:
            return MeshShape(name, self._category(row), points.reshape(-1, 3, 3))
        return PointShape(name, self._category(row), points)

    @cached_property
    def _estimated(self) -> dict[str, Estimated]:
        return {}

    @cached_property
    def categories(self) -> tuple[str, ...]:  # type: ignore[override]
        """The folders that hold objects."""
        return tuple(sorted({self._category(row) for row in range(len(self.names))}))

    @cached_property
    def fixed_points(self) -> int | None:  # type: ignore[override]
        """Points of the smallest cloud; None if all are surfaces."""
        sizes = np.diff(self._arrays["start"])[~self._arrays["is_mesh"]]
        return int(sizes.min()) if len(sizes) else None

    @property
    def remarks(self) -> tuple[str, ...]:
        """How many files are left out."""
        small = int(self._arrays["small"])
        few = (f"{small} clouds have fewer than {self.min_points} points and are left out",) if small else ()
        return (*bad_remark(self._arrays["bad"].tolist()), *few)

    def prepare(self) -> str:
        """Read every file."""
        return f"{len(self.names)} objects in {len(self.categories)} categories"

    @cached_property
    def top(self) -> Path:
        """The folder."""
        found = self.place(self.path)
        if not found.is_dir():
            raise InputError(f"{found}: not a folder; {self.where}")
        return found

    @cached_property
    def is_split(self) -> bool:
        """Whether it has the folders `train` and `test`."""
        return all((self.top / split).is_dir() for split in SPLITS)

    @cached_property
    def names(self) -> list[str]:
        """The objects' files, relative to the folder."""
        return self._arrays["names"].tolist()

    @cached_property
    def _arrays(self) -> Arrays:
        top = [self.top / split for split in SPLITS] if self.is_split else [self.top]
        files = sorted(f for t in top for f in t.rglob("*") if f.suffix.lower() in READERS and f.is_file())
        if not files:
            raise InputError(f"{self.top}: no file with suffix {' '.join(READERS)} below it; {self.where}")
        what = f"folder, unseen left out, unit {self.unit} min_points {self.min_points} skip_bad {self.skip_bad}"
        return cached(what, files, lambda: self._read(files))

    def _read(self, files: list[Path]) -> dict[str, NDArray[Any]]:
        found, bad = read_all(files, self.skip_bad, self._placed)
        whole = {file: g for file, g in zip(files, found, strict=True) if g is not None}
        big = {f: g for f, g in whole.items() if g.triangles is not None or len(g.points) >= self.min_points}
        if not big:
            raise InputError(f"{self.top}: none of its {len(files)} files can be used; {'; '.join(bad[:1])}")
        surfaces = [g.points if g.triangles is None else g.triangles.reshape(-1, 3) for g in big.values()]
        return {
            **packed(surfaces, np.float64),
            "is_mesh": np.array([g.triangles is not None for g in big.values()]),
            "names": np.array([f.relative_to(self.top).as_posix() for f in big]),
            "small": np.array(len(whole) - len(big)),
            "bad": np.array(bad, dtype=np.str_),
        }

    def _placed(self, found: Geometry) -> Geometry:
        """Centred and scaled, if that is asked for; an object without extent is refused."""
        if found.triangles is not None:
            scaled = centred_in_unit_sphere(found.triangles)
            return Geometry(found.points, scaled if self.unit else found.triangles)
        moved = found.points - portable.mean(found.points)
        radius = portable.norm(moved).max()
        if not radius > 0:
            raise MalformedFile("all its points are the same")
        return Geometry(moved / radius if self.unit else found.points)

    def _rows(self, split: str) -> list[int]:
        """The rows of a split's objects."""
        if not self.is_split and split != "test":
            raise InputError(
                f"{self.top}: has no {split} split; put objects below {self.top / 'train'} and {self.top / 'test'}"
            )
        return [r for r, name in enumerate(self.names) if not self.is_split or name.startswith(f"{split}/")]

    def _category(self, row: int) -> str:
        parts = Path(self.names[row]).parts[1 if self.is_split else 0 :]
        return parts[0] if len(parts) > 1 else self.top.name
