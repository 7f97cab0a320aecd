"""Scans of the ICL-NUIM rooms (Handa 2014): the fragments of its augmented form (Choi 2015), and rendered depth sequences."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common import portable
from common.errors import InputError
from common.keys import rng
from datasets.base import DataSet, PointShape
from datasets.cache import Arrays, cached
from datasets.download import Archive
from datasets.formats import Geometry, MalformedFile, Reader, bad_remark, read_all
from datasets.scans import packed, unpacked

FX, FY, CX, CY = 481.2, -480.0, 319.5, 239.5
"""Intrinsics of the renderer, in pixels. Its y axis points up, so fy is negative."""
DEPTH_SCALE = 5000.0
"""Counts of a depth image to the metre."""
SIZE = (480, 640)
MOST_POINTS = 20_000
"""A scan is thinned to so many points at random, once and for all."""
_URL = "https://github.com/isl-org/open3d_downloads/releases/download/redwood/"


class Scan(NamedTuple):
    """A scan's place: the folder's name, the file's number, and the row of the cloud in the folder's arrays."""

    folder: str
    number: int
    row: int


class IclNuim(DataSet):
    """Scans of ICL-NUIM as objects, to be posed twice by a condition, as the DeepGMR paper does; in metres.

    Below `path` every folder counts that holds `cloud_bin_*.ply` (the augmented fragments, with a noise model) or
    `depth/<frame>.png` (rendered, noise-free; do not compare their numbers with the paper's). Each scan is thinned to at
    most 20 000 points and moved to its centroid. In each folder the first `train_share` of the scans is for training, the
    rest for tests; folders are the categories.
    """

    licence = "CC BY 3.0 (Handa et al. 2014; augmented: Choi, Zhou and Koltun 2015)"
    where = (
        "bench.py data icl_nuim fetches the augmented fragments; rendered sequences are at www.doc.ic.ac.uk/~ahanda/VaFRIC/"
        "iclnuim.html, to be unpacked as DATA/icl_nuim/<sequence>/depth/, where DATA is --data or $BENCH_DATA"
    )
    path: str = "icl_nuim"
    train_share: float = 0.8
    skip_bad: bool = False

    def check(self) -> None:
        if not 0 <= self.train_share < 1:
            raise ValueError("train_share must be at least 0 and below 1")

    @property
    def archives(self) -> tuple[Archive, ...]:
        """The augmented fragments of both rooms."""
        sums = {"livingroom1": "36e0eb23a66ccad6af52c05f8390d33e", "office1": "c519fe0495b3c731ebe38ae3a227ac25"}
        names = {room: f"{room}-fragments-ply" for room in sums}
        return tuple(
            Archive(f"{names[r]}.zip", (f"{_URL}{names[r]}.zip",), 0, sums[r], 4_000_000_000, names[r]) for r in sums
        )

    @cached_property
    def categories(self) -> tuple[str, ...]:  # type: ignore[override]
        """The folders' names."""
        return tuple(self._folders)

    @cached_property
    def fixed_points(self) -> int:  # type: ignore[override]
        """Points of the smallest scan."""
        return int(min(np.diff(arrays["start"]).min() for arrays in self._folders.values()))

    @property
    def remarks(self) -> tuple[str, ...]:
        """How many files are left out."""
        return bad_remark([str(b) for arrays in self._folders.values() for b in arrays["bad"]])

    def labels(self, split: str) -> NDArray[np.integer[Any]]:
        """Label (n,) of every scan of a split."""
        return np.array([self.categories.index(s.folder) for s in self._scans(split)], dtype=np.int64)

    def shape(self, split: str, index: int) -> PointShape:
        """The scan with that index."""
        scan = self._scans(split)[index]
        return PointShape(
            f"{scan.folder}_{scan.number:05d}", scan.folder, unpacked(self._folders[scan.folder], scan.row)
        )

    def _scans(self, split: str) -> list[Scan]:
        found = []
        for folder, arrays in self._folders.items():
            numbers = arrays["numbers"]
            cut = int(self.train_share * len(numbers))
            rows = range(cut) if split == "train" else range(cut, len(numbers))
            found += [Scan(folder, int(numbers[row]), row) for row in rows]
        return found

    @cached_property
    def _folders(self) -> dict[str, Arrays]:
        """Name to `points`, `start`, `numbers` and `bad` of every folder with scans."""
        top = self.place(self.path)
        found: dict[str, Arrays] = {}
        for folder in (top, *sorted(top.glob("*/"))):
            files = numbered(folder, "cloud_bin_*.ply") or numbered(folder / "depth", "*.png")
            if files:
                what = f"icl_nuim skip_bad {self.skip_bad}"
                found[folder.name] = cached(what, files.values(), lambda f=files: self._read(f))  # type: ignore[misc]
        if not found:
            raise InputError(f"{top}: no folder with cloud_bin_*.ply or depth/*.png below it; {self.where}")
        return found

    def _read(self, files: dict[int, Path]) -> dict[str, NDArray[Any]]:
        geometries, bad = read_all(files.values(), self.skip_bad, reader=scan_reader(files))
        whole = {number: g for number, g in zip(files, geometries, strict=True) if g is not None}
        clouds = [centred(thinned(g, number)) for number, g in whole.items()]
        if not clouds:
            raise InputError(f"{bad[0]}")
        return {**packed(clouds), "numbers": np.array(list(whole)), "bad": np.array(bad, dtype=np.str_)}


def numbered(folder: Path, pattern: str) -> dict[int, Path]:
    """Files of a folder by the last number in their names, in its order."""
    found = {int(m[-1]): f for f in folder.glob(pattern) if (m := re.findall(r"\d+", f.stem))}
    return dict(sorted(found.items()))


def scan_reader(files: dict[int, Path]) -> Reader | None:
    """What reads a folder's scans: depth images have a reader of their own."""
    return read_depth if next(iter(files.values())).suffix == ".png" else None


def read_depth(file: Path) -> Geometry:
    """Points (N, 3) in metres, in the camera's frame, of a depth image of 16 bit; pixels without depth give none."""
    from PIL import Image

    with Image.open(file) as image:
        depth = np.asarray(image)
    if depth.shape != SIZE or not np.issubdtype(depth.dtype, np.integer):
        raise MalformedFile(f"is an image of {depth.dtype} {depth.shape}, not of 16 bit {SIZE}")
    return Geometry(back_project(depth / DEPTH_SCALE))


def back_project(depth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points (N, 3), row by row, of the pixels of a depth image (480, 640) in metres along the optical axis."""
    v, u = np.nonzero(depth > 0)
    z = depth[v, u]
    return np.column_stack([(u - CX) / FX * z, (v - CY) / FY * z, z])


def thinned(scan: Geometry, number: int) -> NDArray[np.float64]:
    """At most 20 000 of a scan's points, in their order."""
    rows = np.sort(rng("icl_nuim", number, len(scan.points)).permutation(len(scan.points))[:MOST_POINTS])
    some: NDArray[np.float64] = scan.points[rows]
    return some


def centred(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points (N, 3) about their centroid."""
    moved: NDArray[np.float64] = points - portable.mean(points)
    return moved
