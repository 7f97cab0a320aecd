"""What sets of scans share: clouds of different size in one array, and how much two scans see of the same."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import combinations, groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import portable
from common.errors import InputError
from common.keys import rng
from datasets.base import Pair, PairSet
from datasets.cache import Arrays
from datasets.formats import bad_remark
from datasets.poses import Matrix, inverse, move

SAMPLE = 1000
"""Points of the source that an overlap is estimated on: its standard error is at most 0.016."""


def packed(clouds: Sequence[NDArray[Any]], kind: type[np.floating[Any]] = np.float32) -> Arrays:
    """Clouds (n_i, 3) as `points` (sum n_i, 3) of a kind and `start` (clouds + 1,), where each begins."""
    start = np.cumsum([0, *map(len, clouds)])
    return {"points": np.concatenate([np.zeros((0, 3)), *clouds]).astype(kind), "start": start}


def unpacked(arrays: Arrays, row: int) -> NDArray[Any]:
    """One cloud (n, 3) of `packed` ones."""
    first, last = arrays["start"][row : row + 2]
    return arrays["points"][first:last]


def overlaps(
    cloud: Callable[[int], NDArray[Any]], pairs: Sequence[tuple[int, int]], poses: Sequence[Matrix], near: float
) -> NDArray[np.float64]:
    """Share (n,) of each source's points that have a target point within `near`, estimated on at most 1 000 of them.

    Args:
        cloud: points (N, 3) of a scan's number.
        pairs: (target, source) numbers of n pairs, those of one target one after another.
        poses: T_target_source (4, 4) of each.
        near: distance up to which two points are the same place.
    """
    from scipy.spatial import cKDTree

    found: list[float] = []
    for target, group in groupby(zip(pairs, poses, strict=True), lambda item: item[0][0]):
        tree = cKDTree(cloud(target))
        for (_, source), T in group:
            points = cloud(source)
            some = points[np.sort(rng("overlap", len(points)).permutation(len(points))[:SAMPLE])]
            distance, _ = tree.query(move(T, some), distance_upper_bound=near)
            found.append(np.count_nonzero(np.isfinite(distance)) / len(some))
    return np.array(found)


def check_rigid(T: NDArray[Any], where: str) -> None:
    """Refuse matrices (..., 4, 4) that are no rigid motions.

    Raises:
        InputError: the first that is not, as `where` (with `{row}` for its number).
    """
    T = np.asarray(T, dtype=np.float64).reshape(-1, 4, 4)
    R = T[:, :3, :3]
    with np.errstate(all="ignore"):
        square = np.abs(portable.product(np.swapaxes(R, 1, 2), R) - np.eye(3)).max(axis=(1, 2)) < 1e-3
        good = square & (portable.dot(np.cross(R[:, 0], R[:, 1]), R[:, 2]) > 0) & (T[:, 3] == (0, 0, 0, 1)).all(axis=1)
        good &= np.isfinite(T).all(axis=(1, 2))
    if not good.all():
        row = int(np.argmin(good))
        raise InputError(
            f"{where.format(row=row)} is no rigid motion (rotation, translation, last row 0 0 0 1); mend it"
        )


class PosedScans(PairSet):
    """Pairs of scans with poses in one frame: of all pairs of a group, those with an overlap of at least `min_overlap`.

    The overlap is the share of the source with a target point within `near`. The source is the later scan of the two.
    """

    path: str = ""
    min_overlap: float = 0.3
    near: float = 0.02
    skip_bad: bool = False

    def check(self) -> None:
        if self.near <= 0 or not 0 <= self.min_overlap <= 1:
            raise ValueError("near must be above 0, and min_overlap between 0 and 1")

    @property
    @abstractmethod
    def groups(self) -> dict[str, Arrays]:
        """The arrays of `posed` of every group, by its name."""

    def __len__(self) -> int:
        return len(self._rows)

    def pair(self, row: int) -> Pair:
        """Two scans of a group, each in its own frame."""
        group, k = self._rows[row]
        arrays = self.groups[group]
        target, source = arrays["pairs"][k]
        T = portable.product(inverse(arrays["poses"][target]), arrays["poses"][source])
        name = f"{group}/{arrays['names'][source]}-{arrays['names'][target]}"
        clouds = unpacked(arrays, source), unpacked(arrays, target)
        return Pair(name, group, *clouds, T, float(arrays["overlap"][k]))

    @property
    def remarks(self) -> tuple[str, ...]:
        """How many files are left out."""
        return bad_remark([str(b) for arrays in self.groups.values() for b in arrays["bad"]])

    @cached_property
    def _rows(self) -> list[tuple[str, int]]:
        rows = [
            (name, int(k))
            for name, arrays in self.groups.items()
            for k in np.flatnonzero(arrays["overlap"] >= self.min_overlap)
        ]
        if not rows:
            raise InputError(
                f"{self.place(self.path)}: no pair with overlap {self.min_overlap:g} or more; lower min_overlap"
            )
        return rows


def posed(clouds: Mapping[str, NDArray[Any]], poses: Mapping[str, Matrix], near: float, bad: list[str]) -> Arrays:
    """What is kept of a group of scans.

    Args:
        clouds: points (n, 3) of each scan by its name.
        poses: (4, 4) of each, scan into the common frame.
        near: as in `overlaps`.
        bad: what does not read.

    Returns:
        `points` and `start` (see `packed`), `names` (n,), `poses` (n, 4, 4), `pairs` (k, 2) rows of target and source,
        `overlap` (k,), `bad`.
    """
    pairs = list(combinations(range(len(clouds)), 2))
    frames, held = [poses[name] for name in clouds], list(clouds.values())
    between = [portable.product(inverse(frames[target]), frames[source]) for target, source in pairs]
    return {
        **packed(held),
        "names": np.array(list(clouds)),
        "poses": np.array(frames),
        "pairs": np.array(pairs).reshape(-1, 2),
        "overlap": overlaps(held.__getitem__, pairs, between, near),
        "bad": np.array(bad, dtype=np.str_),
    }
