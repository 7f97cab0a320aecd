"""Fragments of indoor scans with ground-truth poses, in the layout of 3DMatch (Zeng 2017) and Redwood (Choi 2015)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from common.kinds import DataKind
from datasets.base import Pair, PairSet
from datasets.cache import Arrays, load_or_compute
from datasets.formats import read_all, skipped_remark
from datasets.scans import check_rigid, cloud_at, concatenate_clouds, overlaps

_FRAGMENT = re.compile(r"cloud_bin_(\d+)\.(ply|pcd)")


@dataclass(frozen=True, eq=False)
class Scene:
    """Clouds and pairs of a scene.

    Attributes:
        arrays: `points`, `start` (see `scans.concatenate_clouds`); `pairs` (n, 2) target and source as rows of the clouds,
            `numbers` (n, 2) the numbers in their names, `T` (n, 4, 4), `information` (n, 6, 6) or NaN, `overlap` (n,), `bad`
            the errors of files that cannot be read.
    """

    name: str
    arrays: Arrays


class Fragments(PairSet):
    """Real pairs of indoor RGB-D fragments in metres: 3DMatch, Redwood and all that have `cloud_bin_*` and `gt.log`.

    `path` is a scene, or a folder of scenes. A block `i j n` of `gt.log` is the pair of source j and target i. Pairs of
    successive fragments are left out unless `adjacent`, as in the 3DMatch benchmark. The overlap is the share of the source
    with a target point within `near` metres; it is computed once.
    """

    licence = "3DMatch: research use; Redwood (Augmented ICL-NUIM): CC BY 3.0"
    where = (
        "put a folder a scene, with cloud_bin_*.ply or .pcd and gt.log (for 3DMatch: vision.princeton.edu/projects/2016/"
        "3DMatch, geometric registration benchmark), below DATA, where DATA is --data or $BENCH_DATA, and give its path"
    )
    kind = DataKind.SCANS
    path: str = "3dmatch"
    min_overlap: float = 0.0
    near: float = 0.0375
    adjacent: bool = False
    skip_bad: bool = False

    def check(self) -> None:
        if self.near <= 0 or not 0 <= self.min_overlap <= 1:
            raise ValueError("near must be above 0, and min_overlap between 0 and 1")

    def __len__(self) -> int:
        return len(self._rows)

    def pair(self, row: int) -> Pair:
        """Return a pair of fragments, each in the frame of its file."""
        number, k = self._rows[row]
        scene = self.scenes[number]
        (target, source), (i, j) = scene.arrays["pairs"][k], scene.arrays["numbers"][k]
        information = np.array(scene.arrays["information"][k])
        return Pair(
            f"{scene.name}/{j}-{i}",
            scene.name,
            *(cloud_at(scene.arrays, source), cloud_at(scene.arrays, target), np.array(scene.arrays["T"][k])),
            overlap=float(scene.arrays["overlap"][k]),
            information=information if np.isfinite(information).all() else None,
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """Number of skipped files."""
        return skipped_remark([str(b) for s in self.scenes for b in s.arrays["bad"]])

    @cached_property
    def scenes(self) -> list[Scene]:
        """Scenes of the path."""
        top = self.place(self.path)
        folders = [f for f in (top, *sorted(top.glob("*/"))) if any(f.glob("cloud_bin_*"))]
        if not folders:
            raise InputError(f"{top}: no cloud_bin_*.ply or .pcd in it or its folders; {self.where}")
        return [self._scene(folder) for folder in folders]

    @cached_property
    def _rows(self) -> list[tuple[int, int]]:
        """Number of the scene and of the pair, for every pair that the parameters select."""
        rows = []
        for number, scene in enumerate(self.scenes):
            i, j = scene.arrays["numbers"].reshape(-1, 2).T
            selected = (self.adjacent | (abs(j - i) > 1)) & (scene.arrays["overlap"] >= self.min_overlap)
            rows += [(number, int(k)) for k in np.flatnonzero(selected)]
        if not rows:
            raise InputError(
                f"{self.place(self.path)}: no pair with overlap {self.min_overlap:g} or more; lower min_overlap"
            )
        return rows

    def _scene(self, folder: Path) -> Scene:
        files = {int(m[1]): f for f in folder.iterdir() if (m := _FRAGMENT.fullmatch(f.name))}
        logs = [
            p / "gt.log" for p in (folder, folder.with_name(f"{folder.name}-evaluation")) if (p / "gt.log").is_file()
        ]
        if not logs:
            raise InputError(
                f"{folder / 'gt.log'}: missing; it holds the true poses, as a block 'i j n' and a 4 x 4 matrix"
            )
        info = logs[0].with_name("gt.info")
        clouds = dict(sorted(files.items()))
        name = f"fragments near {self.near} skip_bad {self.skip_bad}"
        inputs = [*clouds.values(), logs[0], *([info] if info.is_file() else [])]
        return Scene(folder.name, load_or_compute(name, inputs, lambda: self._read(clouds, logs[0], info)))

    def _read(self, files: dict[int, Path], log: Path, info: Path) -> dict[str, NDArray[np.generic]]:
        geometries, bad, _ = read_all(files.values(), self.skip_bad)
        clouds = {n: g.points for n, g in zip(files, geometries, strict=True) if g is not None}
        blocks = read_log(log, 4)
        check_rigid(np.array([m for _, _, m in blocks]), f"{log}: matrix {{row}} (from 0)")
        for i, j, _ in blocks:
            if missing := {i, j} - set(files):
                raise InputError(
                    f"{log}: names fragment {missing.pop()}, but its cloud_bin file is missing; copy it again"
                )
        matrices = {(i, j): m for i, j, m in blocks if i in clouds and j in clouds}
        known = {(i, j): m for i, j, m in read_log(info, 6)} if info.is_file() else {}
        pairs = sorted(matrices)
        row = {number: r for r, number in enumerate(clouds)}
        T = [matrices[p] for p in pairs]
        return {
            **concatenate_clouds(list(clouds.values())),
            "pairs": np.array([(row[i], row[j]) for i, j in pairs], dtype=np.int64).reshape(-1, 2),
            "numbers": np.array(pairs, dtype=np.int64).reshape(-1, 2),
            "T": np.array(T).reshape(-1, 4, 4),
            "information": np.array([known.get(p, np.full((6, 6), np.nan)) for p in pairs]).reshape(-1, 6, 6),
            "overlap": overlaps(clouds.__getitem__, pairs, T, self.near),
            "bad": np.array(bad, dtype=np.str_),
        }


def read_log(file: Path, size: int) -> list[tuple[int, int, NDArray[np.float64]]]:
    """Read the blocks of a Redwood `.log` (size 4) or `.info` (size 6): a line `i j n`, then a matrix (size, size).

    Raises:
        InputError: a block is incomplete or does not consist of numbers.
    """
    lines = [line.split() for line in file.read_text(errors="replace").splitlines() if line.strip()]
    blocks = []
    for start in range(0, len(lines), size + 1):
        block = lines[start : start + size + 1]
        try:
            i, j, _ = map(int, block[0])
            matrix = np.array(block[1:], dtype=np.float64)
            if matrix.shape != (size, size):
                raise ValueError(f"{matrix.shape} numbers")
        except ValueError as error:
            origin = f"{file}: block {start // (size + 1)} (from 0)"
            raise InputError(f"{origin} is not 'i j n' and {size} x {size} numbers ({error}); copy it again") from error
        blocks.append((i, j, matrix))
    if not blocks:
        raise InputError(f"{file}: empty; copy it again")
    return blocks
