"""The user's own meshes and clouds: any tree of files."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import portable
from common.errors import InputError, MalformedFile
from common.text import counted
from datasets.base import DataSet, MeshShape, PointShape, Shape, centred_in_unit_sphere
from datasets.cache import Arrays, load_or_compute
from datasets.formats import READERS, Geometry, read_all, skipped_remark, summarized, visible
from datasets.scans import cloud_at, concatenate_clouds
from datasets.symmetry_estimate import Estimated, check_choice, with_symmetry

SPLITS = ("train", "test")
ENDLESS = 2**62
"""Points of a surface, which can be sampled without end."""


class Folder(DataSet):
    """Tree of the user's own meshes or clouds: ply, pcd, obj, off, stl, xyz, txt, pts, csv, asc, npy, npz, las.

    `path` is relative to the data root or to the current folder. If it has the folders `train` and `test`, they are the splits,
    else all objects are in `test`. The folder below that is the category; files outside such a folder are in a category named
    after `path`. Hidden files, and text files without rows of numbers (lists, descriptions), are left out. Files with faces are
    surfaces, others fixed points; clouds of fewer than `min_points` points are left out, since no point is repeated. Unless
    `unit` is false, the centroid of each object (of its surface or its points) is moved to the origin and the object is scaled
    into the unit sphere. Symmetries are unknown; `symmetry=estimate` estimates them.
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
        """Return the labels (n,) of the objects of a split."""
        names = [self.categories.index(self._category(r)) for r in self._rows(split)]
        return np.array(names, dtype=np.int64)

    def shape(self, split: str, index: int) -> Shape:
        """Return the object with an index, in the order of the files' names."""
        return with_symmetry(self._without_symmetry(split, index), self.symmetry, self._estimated)

    def _without_symmetry(self, split: str, index: int) -> Shape:
        row = self._rows(split)[index]
        name, points = Path(self.names[row]).with_suffix("").as_posix(), cloud_at(self._arrays, row)
        if self._arrays["is_mesh"][row]:
            return MeshShape(name, self._category(row), points.reshape(-1, 3, 3))
        return PointShape(name, self._category(row), points)

    @cached_property
    def _estimated(self) -> dict[str, Estimated]:
        return {}

    @cached_property
    def categories(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the folders that contain objects."""
        return tuple(sorted({self._category(row) for row in range(len(self.names))}))

    @cached_property
    def fixed_points(self) -> int | None:  # type: ignore[override]
        """Points of the smallest cloud; None if all are surfaces."""
        sizes = np.diff(self._arrays["start"])[~self._arrays["is_mesh"]]
        return int(sizes.min()) if len(sizes) else None

    def point_counts(self, split: str) -> NDArray[np.integer[Any]]:
        """Return the number of points (n,) of each cloud of a split; a large number for surfaces."""
        counts = np.where(self._arrays["is_mesh"], ENDLESS, np.diff(self._arrays["start"]))
        return np.asarray(counts[self._rows(split)])

    def points_for(self, requested: int, needed: int) -> tuple[int | None, str]:
        """Leave out clouds of fewer than the requested points, unless all are so small."""
        clouds = np.flatnonzero(~self._arrays["is_mesh"])
        sizes = np.diff(self._arrays["start"])[clouds]
        few = sizes < requested
        if not few.any():
            return self.fixed_points, ""
        count, smallest = np.count_nonzero(few), self.names[clouds[sizes.argmin()]]
        files = "1 file has" if count == 1 else f"{count} files have"
        remark = f"{files} fewer than {requested} points, such as {smallest} with {sizes.min()}"
        if few.all():
            return int(sizes.min()), f"{remark}; lower --points"
        rest = int(sizes[~few].min())
        more = f"; with min_points={needed}, files of fewer than {needed} are left out as well" if rest < needed else ""
        return rest, f"{remark}: left out, as by min_points={requested}{more}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Numbers of files that were left out, and what was remarked on the others."""
        small, other = int(self._arrays["small"]), self._arrays["other"].tolist()
        few = (f"left out {counted(small, 'cloud')} of fewer than {self.min_points} points",) if small else ()
        texts = (f"left out {counted(len(other), 'text file')} without points, such as {other[0]}",) if other else ()
        return (*skipped_remark(self._arrays["bad"].tolist()), *few, *texts, *self._arrays["read"].tolist())

    def prepare(self) -> str:
        """Read every file and return the numbers of objects and categories."""
        return f"{counted(len(self.names), 'object')} in {counted(len(self.categories), 'category', 'categories')}"

    @cached_property
    def top(self) -> Path:
        """Path of the folder."""
        folder = self.place(self.path)
        if not folder.is_dir():
            raise InputError(f"{folder}: not a folder; {self.where}")
        return folder

    @cached_property
    def is_split(self) -> bool:
        """Whether the folder has subfolders `train` and `test`."""
        return all((self.top / split).is_dir() for split in SPLITS)

    @cached_property
    def names(self) -> list[str]:
        """Files of the objects, relative to the folder."""
        return self._arrays["names"].tolist()

    @cached_property
    def _arrays(self) -> Arrays:
        top = [self.top / split for split in SPLITS] if self.is_split else [self.top]
        paths = (f for t in top for f in t.rglob("*") if f.suffix.lower() in READERS and f.is_file())
        files = visible(paths, self.top)
        if not files:
            raise InputError(f"{self.top}: no file with suffix {' '.join(READERS)} below it; {self.where}")
        name = f"folder unit {self.unit} min_points {self.min_points} skip_bad {self.skip_bad}"
        return load_or_compute(name, files, lambda: self._read(files))

    def _read(self, files: list[Path]) -> dict[str, NDArray[Any]]:
        readings = read_all(files, self.skip_bad, self._normalized)
        readable = {file: g for file, g in zip(files, readings.geometries, strict=True) if g is not None}
        large = {f: g for f, g in readable.items() if g.triangles is not None or len(g.points) >= self.min_points}
        if not large:
            first = [*readings.errors, *readings.no_points][:1]
            raise InputError(f"{self.top}: none of its {len(files)} files can be used; {'; '.join(first)}")
        surfaces = [g.points if g.triangles is None else g.triangles.reshape(-1, 3) for g in large.values()]
        relative = {file: file.relative_to(self.top).as_posix() for file in large}
        remarks = summarized((relative[file], remark) for file, g in large.items() for remark in g.remarks)
        return {
            **concatenate_clouds(surfaces, np.float64),
            "is_mesh": np.array([g.triangles is not None for g in large.values()]),
            "names": np.array(list(relative.values())),
            "small": np.array(len(readable) - len(large)),
            "bad": np.array(readings.errors, dtype=np.str_),
            "other": np.array([error.split(": ")[0] for error in readings.no_points], dtype=np.str_),
            "read": np.array(remarks, dtype=np.str_),
        }

    def _normalized(self, geometry: Geometry) -> Geometry:
        """Return the object centred and scaled if `unit` is set; an object without extent is an error."""
        if geometry.triangles is not None:
            scaled = centred_in_unit_sphere(geometry.triangles)
            return replace(geometry, triangles=scaled if self.unit else geometry.triangles)
        moved = geometry.points - portable.mean(geometry.points)
        radius = portable.norm(moved).max()
        if not radius > 0:
            raise MalformedFile("all points are the same")
        return replace(geometry, points=moved / radius if self.unit else geometry.points)

    def _rows(self, split: str) -> list[int]:
        """Return the rows of a split's objects."""
        if not self.is_split and split != "test":
            raise InputError(
                f"{self.top}: has no {split} split; put objects below {self.top / 'train'} and {self.top / 'test'}"
            )
        return [r for r, name in enumerate(self.names) if not self.is_split or name.startswith(f"{split}/")]

    def _category(self, row: int) -> str:
        parts = Path(self.names[row]).parts[1 if self.is_split else 0 :]
        return parts[0] if len(parts) > 1 else self.top.name
