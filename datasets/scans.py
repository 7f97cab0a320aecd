"""Common parts of data sets of scans: clouds of different size in one array, overlaps, and pairs of posed scans."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import combinations, groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import portable
from common.errors import InputError
from common.keys import rng
from datasets.base import Pair, PairSet
from datasets.cache import Arrays
from datasets.formats import skipped_remark
from datasets.poses import Matrix, inverse, move

OVERLAP_POINTS = 1000
"""Points of a scan on which an overlap is estimated; its standard error is at most 0.016."""


def concatenate_clouds(clouds: Sequence[NDArray[Any]], dtype: type[np.floating[Any]] = np.float32) -> Arrays:
    """Concatenate clouds (n_i, 3) to `points` (sum n_i, 3); `start` (clouds + 1,) holds where each begins."""
    start = np.cumsum([0, *map(len, clouds)])
    return {"points": np.concatenate([np.zeros((0, 3)), *clouds]).astype(dtype), "start": start}


def cloud_at(arrays: Arrays, row: int) -> NDArray[Any]:
    """Return a cloud (n, 3) of those that `concatenate_clouds` joined."""
    first, last = arrays["start"][row : row + 2]
    return arrays["points"][first:last]


def overlaps(
    cloud: Callable[[int], NDArray[Any]], pairs: Sequence[tuple[int, int]], poses: Sequence[Matrix], near: float
) -> NDArray[np.float64]:
    """Estimate the share (n,) of each source's points with a target point within `near`, on at most 1 000 of them.

    Args:
        cloud: returns the points (N, 3) of a scan by its number.
        pairs: (target, source) numbers of n pairs; pairs of one target are adjacent.
        poses: T_target_source (4, 4) of each pair.
        near: distance up to which two points are of the same part of the surface.
    """
    from scipy.spatial import cKDTree

    shares: list[float] = []
    for target, group in groupby(zip(pairs, poses, strict=True), lambda item: item[0][0]):
        tree = cKDTree(cloud(target))
        for (_, source), T in group:
            points = cloud(source)
            sample = points[np.sort(rng("overlap", len(points)).permutation(len(points))[:OVERLAP_POINTS])]
            distance, _ = tree.query(move(T, sample), distance_upper_bound=near)
            shares.append(np.count_nonzero(np.isfinite(distance)) / len(sample))
    return np.array(shares)


def in_range(overlap: NDArray[Any], low: float, high: float) -> NDArray[np.bool_]:
    """Return which overlaps (n,) are at least `low` and below `high`; 1 as upper bound is included.

    >>> in_range(np.array([0.1, 0.3, 1.0]), 0.1, 0.3).tolist(), in_range(np.array([0.3, 1.0]), 0.3, 1.0).tolist()
    ([True, False, False], [True, True])
    """
    return np.asarray((overlap >= low) & ((overlap < high) | (high >= 1)))


def check_overlaps(near: float, low: float, high: float) -> None:
    """Raise ValueError if the distance or the bounds of the overlap are out of range."""
    if near <= 0 or not 0 <= low <= high <= 1:
        raise ValueError("near must be above 0, and min_overlap and max_overlap rise within 0 and 1")


def check_rigid(T: NDArray[Any], origin: str) -> None:
    """Raise an error if a matrix (..., 4, 4) is not a rigid motion.

    Args:
        T: the matrices.
        origin: names the matrices in the error; `{row}` in it becomes the number of the first invalid one.

    Raises:
        InputError: a matrix is not a rigid motion.
    """
    T = np.asarray(T, dtype=np.float64).reshape(-1, 4, 4)
    R = T[:, :3, :3]
    with np.errstate(all="ignore"):
        orthogonal = np.abs(portable.product(np.swapaxes(R, 1, 2), R) - np.eye(3)).max(axis=(1, 2)) < 1e-3
        rigid = (
            orthogonal & (portable.dot(np.cross(R[:, 0], R[:, 1]), R[:, 2]) > 0) & (T[:, 3] == (0, 0, 0, 1)).all(axis=1)
        )
        rigid &= np.isfinite(T).all(axis=(1, 2))
    if not rigid.all():
        row = int(np.argmin(rigid))
        raise InputError(
            f"{origin.format(row=row)} is no rigid motion (rotation, translation, last row 0 0 0 1); fix it"
        )


class PosedScans(PairSet):
    """Pairs of scans with poses in one frame: all pairs of a group with an overlap from `min_overlap` to `max_overlap`.

    The overlap is the share of the source with a target point within `near`. The source is the later of the two scans.
    """

    path: str = ""
    min_overlap: float = 0.3
    near: float = 0.02
    skip_bad: bool = False
    max_overlap: float = 1.0

    def check(self) -> None:
        check_overlaps(self.near, self.min_overlap, self.max_overlap)

    @property
    @abstractmethod
    def groups(self) -> dict[str, Arrays]:
        """Arrays of every group by its name (see `posed_scans`)."""

    def __len__(self) -> int:
        return len(self._pair_rows)

    def pair(self, row: int) -> Pair:
        """Return two scans of a group, each in its own frame."""
        group, k = self._pair_rows[row]
        arrays = self.groups[group]
        target, source = arrays["pairs"][k]
        T = portable.product(inverse(arrays["poses"][target]), arrays["poses"][source])
        name = f"{group}/{arrays['names'][source]}-{arrays['names'][target]}"
        clouds = cloud_at(arrays, source), cloud_at(arrays, target)
        return Pair(name, group, *clouds, T, float(arrays["overlap"][k]))

    @property
    def remarks(self) -> tuple[str, ...]:
        """Number of skipped files."""
        return skipped_remark([str(b) for arrays in self.groups.values() for b in arrays["bad"]])

    @cached_property
    def _pair_rows(self) -> list[tuple[str, int]]:
        rows = [
            (name, int(k))
            for name, arrays in self.groups.items()
            for k in np.flatnonzero(in_range(arrays["overlap"], self.min_overlap, self.max_overlap))
        ]
        if not rows:
            raise no_pair(self.place(self.path), self.min_overlap, self.max_overlap)
        return rows


def no_pair(place: Path, low: float, high: float) -> InputError:
    """Return the error that no pair has an overlap within the bounds."""
    upper = "" if high >= 1 else f" and below {high:g}"
    return InputError(f"{place}: no pair with overlap {low:g} or more{upper}; lower min_overlap or raise max_overlap")


def posed_scans(
    clouds: Mapping[str, NDArray[Any]], poses: Mapping[str, Matrix], near: float, errors: list[str]
) -> Arrays:
    """Compute the arrays of a group of scans.

    Args:
        clouds: points (n, 3) of each scan by its name.
        poses: poses (4, 4) of the scans in the common frame.
        near: as in `overlaps`.
        errors: errors of the files that cannot be read.

    Returns:
        `points` and `start` (see `concatenate_clouds`), `names` (n,), `poses` (n, 4, 4), `pairs` (k, 2) rows of target and
        source, `overlap` (k,), and `bad`, the errors.
    """
    pairs = list(combinations(range(len(clouds)), 2))
    frames, scans = [poses[name] for name in clouds], list(clouds.values())
    relative = [portable.product(inverse(frames[target]), frames[source]) for target, source in pairs]
    return {
        **concatenate_clouds(scans),
        "names": np.array(list(clouds)),
        "poses": np.array(frames),
        "pairs": np.array(pairs).reshape(-1, 2),
        "overlap": overlaps(scans.__getitem__, pairs, relative, near),
        "bad": np.array(errors, dtype=np.str_),
    }
