"""Fragments of indoor scans with ground-truth poses, in the layouts of 3DMatch (Zeng 2017) and Redwood (Choi 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import portable
from common.errors import InputError
from common.keys import rng
from common.kinds import DataKind
from datasets.base import Pair, PairSet
from datasets.cache import Arrays, load_or_compute
from datasets.formats import read_all, skipped_remark
from datasets.fragment_layouts import LAYOUT, LISTS, OFFICIAL_PAIRS, SceneFiles, find_scenes
from datasets.information import information_of, standard_order
from datasets.poses import Matrix, inverse, move
from datasets.scans import (
    check_overlaps,
    check_rigid,
    cloud_at,
    concatenate_clouds,
    in_range,
    no_pair,
    overlaps,
)

RANGES = {"3dmatch": (0.3, 1.0), "3dlomatch": (0.1, 0.3)}
"""Range of the target's overlap of the pairs of each benchmark."""
SHARES = ("target", "source")
INFORMATION_POINTS = 5_000
"""Points of the target from which an information matrix is computed or checked."""
Numbers = tuple[int, int]
"""Numbers of target and source, i and j of `gt.log`."""
Clouds = dict[int, NDArray[Any]]
Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scene:
    """Clouds and pairs of a scene.

    Attributes:
        arrays: `points`, `start` (see `scans.concatenate_clouds`); `pairs` (n, 2) target and source as rows of the clouds,
            `numbers` (n, 2) the numbers in their names, `T` (n, 4, 4), `information` (n, 6, 6) or NaN, `overlap` (n,) of the
            source and `target_overlap` (n,), `bad` the errors of files that cannot be read.
        official: whether the pairs are the official list of the benchmark, so that no overlap selects them.
    """

    name: str
    arrays: Arrays
    official: bool


class Fragments(PairSet):
    """Real pairs of indoor RGB-D fragments in metres: 3DMatch, Redwood and all that have `cloud_bin_*` and `gt.log`.

    `path` is a scene, or a folder of scenes. A block `i j n` of `gt.log` is the pair of source j and target i. Pairs of
    successive fragments are left out unless `adjacent`, as in the 3DMatch benchmark, except in scenes of two fragments. The
    overlap is the share of the target's points with a source point within `near` metres, as in the official lists, or with
    `share=source` the share of the source, as in version 0.1; it is computed once.

    `benchmark=3dmatch` or `3dlomatch` uses the official list of pairs if it is on disk. Otherwise it selects pairs by their
    measured overlap: 3dmatch those of `gt.log` from 0.3, 3dlomatch all that `gt.log` connects from 0.1 to 0.3.
    """

    licence = "3DMatch: research use; Redwood (Augmented ICL-NUIM): CC BY 3.0"
    where = (
        f"get 3DMatch's geometric registration benchmark (3dmatch.cs.princeton.edu), unpack it as DATA/3dmatch/, where DATA "
        f"is --data or $BENCH_DATA, or give its path; {LAYOUT}"
    )
    kind = DataKind.SCANS
    path: str = "3dmatch"
    min_overlap: float = 0.0
    near: float = 0.0375
    adjacent: bool = False
    skip_bad: bool = False
    max_overlap: float = 1.0
    share: str = "target"
    benchmark: str = ""

    def check(self) -> None:
        check_overlaps(self.near, self.min_overlap, self.max_overlap)
        if self.share not in SHARES:
            raise ValueError(f"share must be {' or '.join(SHARES)}")
        if self.benchmark not in ("", *RANGES):
            raise ValueError(f"benchmark must be {' or '.join(RANGES)}")

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
            overlap=float(self._overlap(scene)[k]),
            information=information if np.isfinite(information).all() else None,
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """Number of skipped files, and which scenes have no official list."""
        skipped = skipped_remark([str(b) for s in self.scenes for b in s.arrays["bad"]])
        measured = [s.name for s in self.scenes if not s.official]
        if not self.benchmark or not measured:
            return skipped
        few = ", ".join(measured[:3]) + (f" and {len(measured) - 3} more" if len(measured) > 3 else "")
        return (
            *skipped,
            f"no official {LISTS[self.benchmark]} list for {few}: its pairs are chosen by measured overlap",
        )

    @cached_property
    def scenes(self) -> list[Scene]:
        """Scenes of the path."""
        return [self._scene(files) for files in find_scenes(self._top, self.benchmark)]

    @property
    def _top(self) -> Path:
        """Folder of the scenes; the data root itself if it lacks the default folder."""
        if self.path == type(self).path and self.root and self.root.is_dir() and not (self.root / self.path).exists():
            return self.root
        return self.place(self.path)

    @cached_property
    def _rows(self) -> list[tuple[int, int]]:
        """Number of the scene and of the pair, for every pair that the parameters select."""
        rows = [(number, int(k)) for number, scene in enumerate(self.scenes) for k in self._selected(scene)]
        if not rows:
            raise no_pair(self._top, *self._range)
        return rows

    @property
    def _range(self) -> tuple[float, float]:
        low, high = RANGES.get(self.benchmark, (0.0, 1.0))
        return max(low, self.min_overlap), min(high, self.max_overlap)

    def _selected(self, scene: Scene) -> NDArray[np.intp]:
        i, j = scene.arrays["numbers"].reshape(-1, 2).T
        tested = self.adjacent | (abs(j - i) > 1) | (len(scene.arrays["start"]) == 3)  # three bounds: two fragments
        low, high = (self.min_overlap, self.max_overlap) if scene.official else self._range
        return np.flatnonzero(tested & in_range(self._overlap(scene), low, high))

    def _overlap(self, scene: Scene) -> NDArray[np.float64]:
        """Return the overlap (n,) of every pair of a scene, of target or source."""
        return scene.arrays["target_overlap" if self.share == "target" else "overlap"]

    def _scene(self, files: SceneFiles) -> Scene:
        every_pair = self.benchmark == "3dlomatch" and not files.official
        name = f"fragments with both overlaps near {self.near} skip_bad {self.skip_bad} every_pair {every_pair}"
        inputs = [*files.clouds.values(), files.log, *([files.info] if files.info.is_file() else [])]
        arrays = load_or_compute(name, inputs, lambda: self._read_scene(files, every_pair))
        counted = self.benchmark == "3dmatch" and len(arrays["pairs"]) == OFFICIAL_PAIRS.get(files.name)
        return Scene(files.name, arrays, files.official or counted)

    def _read_scene(self, files: SceneFiles, every_pair: bool) -> dict[str, NDArray[np.generic]]:
        geometries, bad, _ = read_all(files.clouds.values(), self.skip_bad)
        clouds = {n: g.points for n, g in zip(files.clouds, geometries, strict=True) if g is not None}
        listed = self._listed(files)
        matrices = {p: T for p, T in (connected(listed) if every_pair else listed).items() if clouds.keys() >= set(p)}
        pairs = sorted(matrices)
        row = {number: r for r, number in enumerate(clouds)}
        T = [matrices[p] for p in pairs]
        target_overlap = self._target_overlaps(clouds, pairs, T)
        computed = [p not in listed and share > 0 for p, share in zip(pairs, target_overlap, strict=True)]
        return {
            **concatenate_clouds(list(clouds.values())),
            "pairs": np.array([(row[i], row[j]) for i, j in pairs], dtype=np.int64).reshape(-1, 2),
            "numbers": np.array(pairs, dtype=np.int64).reshape(-1, 2),
            "T": np.array(T).reshape(-1, 4, 4),
            "information": self._information(files, clouds, pairs, T, computed),
            "overlap": overlaps(clouds.__getitem__, pairs, T, self.near),
            "target_overlap": target_overlap,
            "bad": np.array(bad, dtype=np.str_),
        }

    def _target_overlaps(self, clouds: Clouds, pairs: list[Numbers], poses: list[Matrix]) -> NDArray[np.float64]:
        """Compute the share (n,) of each target's points with a source point within `near`."""
        order = sorted(range(len(pairs)), key=lambda k: pairs[k][1])  # `overlaps` builds one tree per run of a cloud
        swapped, back = [pairs[k][::-1] for k in order], [inverse(poses[k]) for k in order]
        shares = np.zeros(len(pairs))
        shares[order] = overlaps(clouds.__getitem__, swapped, back, self.near)
        return shares

    def _listed(self, files: SceneFiles) -> dict[Numbers, Matrix]:
        """Read the poses of the pairs in `gt.log`."""
        blocks = read_log(files.log, 4)
        check_rigid(np.array([m for _, _, m in blocks]), f"{files.log}: matrix {{row}} (from 0)")
        for i, j, _ in blocks:
            if missing := {i, j} - set(files.clouds):
                raise InputError(
                    f"{files.log}: names fragment {missing.pop()}, but its cloud_bin file is missing; copy it again"
                )
        return {(i, j): m for i, j, m in blocks}

    def _information(
        self, files: SceneFiles, clouds: Clouds, pairs: list[Numbers], poses: list[Matrix], computed: list[bool]
    ) -> Array:
        """Return the information matrices (n, 6, 6) of pairs in the order of 3DMatch, NaN if the file lacks one.

        A pair of `computed` without one gets that of its correspondences, target points with a source point within `near`.
        """
        from scipy.spatial import cKDTree

        known = {(i, j): m for i, j, m in read_log(files.info, 6)} if files.info.is_file() else {}
        matrices = np.full((len(pairs), 6, 6), np.nan)
        trees: dict[int, Any] = {}
        for k, ((i, j), T) in enumerate(zip(pairs, poses, strict=True)):
            if (i, j) not in known and not computed[k]:
                continue
            if j not in trees:
                trees[j] = cKDTree(clouds[j])
            sample = _sample(clouds[i])
            gaps, _ = trees[j].query(move(inverse(T), sample), distance_upper_bound=self.near)
            points = sample[np.isfinite(gaps)]
            if (i, j) not in known:
                matrices[k] = information_of(points) if len(points) else np.nan
                continue
            centre = portable.mean(points if len(points) else sample)
            centres = np.stack([move(inverse(T), centre[None])[0], centre])
            matrices[k] = standard_order(known[i, j], centres, f"{files.info}: block {i} {j}")
        return matrices


def _sample(cloud: NDArray[Any]) -> Array:
    """Return at most 5 000 points of a cloud, as many as 3DMatch counts."""
    rows = rng("information", len(cloud)).permutation(len(cloud))[:INFORMATION_POINTS]
    return np.asarray(cloud[np.sort(rows)], dtype=np.float64)


def connected(listed: dict[Numbers, Matrix]) -> dict[Numbers, Matrix]:
    """Return the pose of every pair (i, j), i < j, of fragments that listed pairs connect, composed along a shortest path.

    Listed poses are kept as they are.
    """
    steps: dict[int, dict[int, Matrix]] = {}
    for (i, j), T in listed.items():
        steps.setdefault(i, {})[j] = T
        steps.setdefault(j, {})[i] = inverse(T)
    poses: dict[Numbers, Matrix] = {}
    for i in steps:
        reached = {i: np.eye(4)}
        queue = [i]
        for near in queue:  # grows while it is read: breadth first
            for far, step in steps[near].items():
                if far not in reached:
                    reached[far] = portable.product(reached[near], step)
                    queue.append(far)
        poses |= {(i, j): T for j, T in reached.items() if i < j}
    return poses | listed


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
