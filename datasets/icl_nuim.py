"""Scans of the ICL-NUIM rooms (Handa 2014): fragments of the augmented version (Choi 2015), and rendered depth sequences."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common import portable
from common.errors import InputError, MalformedFile
from common.keys import rng
from datasets.base import DataSet, PointShape
from datasets.cache import Arrays, load_or_compute
from datasets.download import Archive
from datasets.formats import Geometry, Reader, read_all, skipped_remark, visible
from datasets.scans import cloud_at, concatenate_clouds

FX, FY, CX, CY = 481.2, -480.0, 319.5, 239.5
"""Intrinsics of the renderer, in pixels. Its y axis points up, so fy is negative."""
DEPTH_SCALE = 5000.0
"""Counts of a depth image per metre."""
SIZE = (480, 640)
"""Rows and columns of a depth image."""
MOST_POINTS = 20_000
"""Maximum number of points of a scan; larger scans are subsampled at random, always to the same points."""
_URL = "https://github.com/isl-org/open3d_downloads/releases/download/redwood/"


class Scan(NamedTuple):
    """Location of a scan: the folder's name, the file's number, and the row of the cloud in the folder's arrays."""

    folder: str
    number: int
    row: int


class IclNuim(DataSet):
    """Scans of ICL-NUIM as objects that a condition poses twice, as in the DeepGMR paper; in metres.

    Every folder below `path` with `cloud_bin_*.ply` (the augmented fragments, with a noise model) or `depth/<frame>.png`
    (rendered, noise-free; results are not comparable with the paper's) is used. Each scan is subsampled to at most 20 000
    points, and its centroid is moved to the origin. In each folder the first `train_share` of the scans is for training, the
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
        """Archives of the augmented fragments of both rooms."""
        sums = {"livingroom1": "36e0eb23a66ccad6af52c05f8390d33e", "office1": "c519fe0495b3c731ebe38ae3a227ac25"}
        names = {room: f"{room}-fragments-ply" for room in sums}
        return tuple(
            Archive(f"{names[r]}.zip", (f"{_URL}{names[r]}.zip",), 0, sums[r], 4_000_000_000, names[r]) for r in sums
        )

    @cached_property
    def categories(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the folders."""
        return tuple(self._folders)

    @cached_property
    def fixed_points(self) -> int:  # type: ignore[override]
        """Points of the smallest scan."""
        return int(min(np.diff(arrays["start"]).min() for arrays in self._folders.values()))

    @property
    def remarks(self) -> tuple[str, ...]:
        """Number of skipped files."""
        return skipped_remark([str(b) for arrays in self._folders.values() for b in arrays["bad"]])

    def labels(self, split: str) -> NDArray[np.integer[Any]]:
        """Return the labels (n,) of the scans of a split."""
        return np.array([self.categories.index(s.folder) for s in self._scans(split)], dtype=np.int64)

    def shape(self, split: str, index: int) -> PointShape:
        """Return the scan with an index."""
        scan = self._scans(split)[index]
        return PointShape(
            f"{scan.folder}_{scan.number:05d}", scan.folder, cloud_at(self._folders[scan.folder], scan.row)
        )

    def _scans(self, split: str) -> list[Scan]:
        scans = []
        for folder, arrays in self._folders.items():
            numbers = arrays["numbers"]
            cut = int(self.train_share * len(numbers))
            rows = range(cut) if split == "train" else range(cut, len(numbers))
            scans += [Scan(folder, int(numbers[row]), row) for row in rows]
        return scans

    @cached_property
    def _folders(self) -> dict[str, Arrays]:
        """`points`, `start`, `numbers` and `bad` of every folder with scans, by its name."""
        top = self.place(self.path)
        folders: dict[str, Arrays] = {}
        for folder in (top, *sorted(top.glob("*/"))):
            files = numbered(folder, "cloud_bin_*.ply") or numbered(folder / "depth", "*.png")
            if files:
                name = f"icl_nuim skip_bad {self.skip_bad}"
                folders[folder.name] = load_or_compute(name, files.values(), lambda f=files: self._read(f))  # type: ignore[misc]
        if not folders:
            raise InputError(f"{top}: no folder with cloud_bin_*.ply or depth/*.png below it; {self.where}")
        return folders

    def _read(self, files: dict[int, Path]) -> dict[str, NDArray[Any]]:
        geometries, errors, _ = read_all(files.values(), self.skip_bad, reader=scan_reader(files))
        readable = {number: g for number, g in zip(files, geometries, strict=True) if g is not None}
        clouds = [centred(subsample(g, number)) for number, g in readable.items()]
        if not clouds:
            raise InputError(errors[0])
        return {
            **concatenate_clouds(clouds),
            "numbers": np.array(list(readable)),
            "bad": np.array(errors, dtype=np.str_),
        }


def numbered(folder: Path, pattern: str) -> dict[int, Path]:
    """Return the files of a folder by the last number in their names, sorted by it."""
    files = {int(m[-1]): f for f in visible(folder.glob(pattern), folder) if (m := re.findall(r"\d+", f.stem))}
    return dict(sorted(files.items()))


def scan_reader(files: dict[int, Path]) -> Reader | None:
    """Return the reader of a folder's scans; None for the default reader, which cannot read depth images."""
    return read_depth if next(iter(files.values())).suffix == ".png" else None


def read_depth(file: Path) -> Geometry:
    """Read the points (N, 3), in metres in the camera's frame, of a 16-bit depth image; pixels without depth are dropped."""
    from PIL import Image

    with Image.open(file) as image:
        depth = np.asarray(image)
    if depth.shape != SIZE or not np.issubdtype(depth.dtype, np.integer):
        raise MalformedFile(f"is an image of {depth.dtype} {depth.shape}, not a 16-bit one of {SIZE}")
    return Geometry(back_project(depth / DEPTH_SCALE))


def back_project(depth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Convert a depth image (480, 640), in metres along the optical axis, to points (N, 3), row by row."""
    v, u = np.nonzero(depth > 0)
    z = depth[v, u]
    return np.column_stack([(u - CX) / FX * z, (v - CY) / FY * z, z])


def subsample(scan: Geometry, number: int) -> NDArray[np.float64]:
    """Return at most 20 000 random points of a scan, in their order."""
    rows = np.sort(rng("icl_nuim", number, len(scan.points)).permutation(len(scan.points))[:MOST_POINTS])
    points: NDArray[np.float64] = scan.points[rows]
    return points


def centred(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move the centroid of points (N, 3) to the origin."""
    moved: NDArray[np.float64] = points - portable.mean(points)
    return moved
