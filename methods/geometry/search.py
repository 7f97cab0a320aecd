"""Search over rigid poses without features: grids of rotations, distance fields, their scores, and two-way trimmed ICP.

The compiled kernel `methods.native.search` computes the operations where it can be built, and NumPy elsewhere.
"""

from __future__ import annotations

import os
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from common import portable
from common.parallel import MAX_WORKERS
from common.rigid import inverse
from methods.native import search as native

Array = NDArray[np.float64]
Field = NDArray[np.uint8]
STEP = 255
"""Value of a penalty at the cap of the distances."""


def threads() -> int:
    """Return the number of threads: BENCH_THREADS, which limits methods, else the number of processors, at most 4.

    Results do not depend on it.
    """
    return max(1, int(os.environ.get("BENCH_THREADS") or min(MAX_WORKERS, os.cpu_count() or 1)))


def load_kernel() -> bool:
    """Load the kernel, after building it if necessary; return whether it is available."""
    return native.library() is not None


@cache
def rotations(count: int) -> Array:
    """Return rotations (count, 3, 3) spread evenly by super-Fibonacci sampling (Alexa 2022); read-only.

    >>> grid = rotations(100)
    >>> bool(np.allclose(grid @ grid.transpose(0, 2, 1), np.eye(3)))
    True
    """
    s = np.arange(count) + 0.5
    inner, outer = np.sqrt(s / count), np.sqrt(1 - s / count)
    (sin_a, cos_a), (sin_b, cos_b) = (
        portable.sin_cos(np.asarray(2 * np.pi * s / ratio, dtype=np.float64))
        for ratio in (np.sqrt(2), 1.533751168755204288118041)
    )
    x, y, z, w = inner * sin_a, inner * cos_a, outer * sin_b, outer * cos_b
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    grid = np.ascontiguousarray(np.moveaxis(np.array(rows), 2, 0))
    grid.flags.writeable = False
    return grid


class Cloud:
    """A cloud (N, 3) and the structure by which its nearest points are found."""

    def __init__(self, points: NDArray[np.floating], use_kernel: bool = True) -> None:
        self.points = np.ascontiguousarray(points, dtype=np.float64)
        kernel = native.library() if use_kernel else None
        self.native = native.Tree(kernel, self.points) if kernel else None

    @cached_property
    def tree(self):  # type: ignore[no-untyped-def]
        """The tree of SciPy, used without the kernel."""
        from scipy.spatial import cKDTree

        return cKDTree(self.points)

    def distances(self, queries: Array) -> Array:
        """Return the distances (...) of queries (..., 3) to their nearest points, which the kernel finds in float32."""
        if self.native:
            return self.native.distances(queries, threads())
        return np.asarray(self.tree.query(queries)[0])

    def even(self, most: int) -> Array:
        """Return at most `most` points, evenly spaced among the rows."""
        return even(self.points, most)

    def field(self, cells: int, half: float, cap: float) -> Field:
        """Return penalties (cells, cells, cells), indexed z, y, x: 255 min(d / cap, 1)², rounded.

        d is the distance of a cell's centre to the cloud. The first and last centres along each axis are at -half and half.
        """
        if self.native:
            return self.native.field(cells, half, cap, threads())
        centres = np.arange(cells, dtype=np.float32) * np.float32(2 * half / (cells - 1)) - np.float32(half)
        z, y, x = np.meshgrid(centres, centres, centres, indexing="ij")
        distances = self.tree.query(np.stack([x, y, z], axis=-1), distance_upper_bound=cap)[0]
        return np.asarray(np.minimum(distances / cap, 1) ** 2 * STEP + 0.5, dtype=np.uint8)

    def depth(self, cells: int, half: float, radius: float) -> NDArray[np.float32]:
        """Return the least z (cells, cells), indexed y, x, of the points within a radius of each column; infinite without points.

        It is what an orthographic camera that looks along z saw: in front of it, and where it saw nothing, is free space.
        """
        step = 2 * half / (cells - 1)
        reach = np.arange(-int(radius / step) - 1, int(radius / step) + 2)
        column = np.rint((self.points[:, :2] + half) / step).astype(np.int64)
        depth = np.full((cells, cells), np.inf, dtype=np.float32)
        for dx in reach:
            for dy in reach:
                x, y = np.clip(column + np.array([dx, dy]), 0, cells - 1).T
                apart = np.hypot(x * step - half - self.points[:, 0], y * step - half - self.points[:, 1])
                inside = apart <= radius
                np.minimum.at(depth, (y[inside], x[inside]), self.points[inside, 2].astype(np.float32))
        return depth


def even(points: Array, most: int) -> Array:
    """Return at most `most` of the points (N, 3), evenly spaced among the rows."""
    rows = np.unique(np.linspace(0, len(points) - 1, min(most, len(points))).astype(int))
    return np.ascontiguousarray(points[rows])


def scores(field: Field, half: float, points: Array, poses: Array) -> NDArray[np.int32]:
    """Return the sum (B,) of the penalties at the points (n, 3) moved by each pose (B, 4, 4), clamped to the field's border."""
    kernel = native.library()
    if kernel:
        return native.scores(kernel, field, half, points, poses, threads())
    moved = points.astype(np.float32) @ poses[:, :3, :3].astype(np.float32).transpose(0, 2, 1)
    x, y, z = np.moveaxis(_cells(moved + poses[:, None, :3, 3].astype(np.float32), half, len(field)), 2, 0)
    return np.asarray(field[z, y, x].sum(axis=1, dtype=np.int32))


def sweep(field: Field, half: float, points: Array, grid: Array) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the best translations of each rotation (B, 3, 3), the best of each of 64 blocks of 4 x 4 x 4 cells.

    Args:
        field: penalties, see `Cloud.field`.
        half: its half width.
        points: at most 257 points (n, 3). The rotated ones are clamped to 8 cells from the border, so that none leaves the field.
        grid: rotations.

    Returns:
        Sums of penalties (B, 64), and translations (B, 64, 3) in cells from -8 to 7.
    """
    kernel = native.library()
    if kernel:
        return native.sweep(kernel, field, half, points, grid, threads())
    low, part, across = native.ROW // 2, np.arange(native.ROW) // native.BLOCK, native.ROW // native.BLOCK
    block = (part[None, None, :] + across * (part[None, :, None] + across * part[:, None, None])).ravel()
    members = np.stack([np.flatnonzero(block == b) for b in range(native.BLOCKS)])
    windows = np.lib.stride_tricks.sliding_window_view(field, (native.ROW,) * 3)
    sums, shifts = [], []
    for R in grid.astype(np.float32):
        cells = _cells(points.astype(np.float32) @ R.T, half, len(field)).clip(low, len(field) - low) - low
        total = windows[cells[:, 2], cells[:, 1], cells[:, 0]].sum(axis=0, dtype=np.int32).ravel()[members]
        first = total.argmin(axis=1)
        sums.append(total[np.arange(native.BLOCKS), first])
        z, y, x = np.unravel_index(members[np.arange(native.BLOCKS), first], (native.ROW,) * 3)
        shifts.append(np.stack([x, y, z], axis=1) - low)
    return np.array(sums, dtype=np.int32), np.array(shifts, dtype=np.int32)


def _cells(points: NDArray[np.float32], half: float, cells: int) -> NDArray[np.int32]:
    per_cell = np.float32(cells - 1) / np.float32(2 * half)
    return np.floor((points + np.float32(half)) * per_cell + np.float32(0.5)).astype(np.int32).clip(0, cells - 1)


class Pair:
    """Two clouds, and the points of each that are matched to the other."""

    def __init__(self, source: Cloud, target: Cloud, most: int | None = None) -> None:
        self.source, self.target = source, target
        self.queries = (source.points, target.points) if most is None else (source.even(most), target.even(most))

    def refine(
        self,
        poses: Array,
        keep: float,
        limits: tuple[float, float] = (np.inf, np.inf),
        steps: int = 20,
        tolerance: float = 1e-4,
    ) -> Array:
        """Refine poses (B, 4, 4) by trimmed point-to-point ICP with the matches of both directions.

        Args:
            poses: T_target_source.
            keep: share of the matches of each direction that a step uses, the nearest.
            limits: distances above which a match is left out, too, of the first step and the last; linear between them.
            steps: maximum number of steps.
            tolerance: relative decrease of the mean distance below which it stops, if the limits are equal.
        """
        if self.source.native and self.target.native:
            settings = keep, limits, steps, tolerance, threads()
            return native.refine(self.source.native, self.target.native, self.queries, poses, *settings)
        return np.array([self._refined(T, keep, limits, steps, tolerance) for T in poses]).reshape(-1, 4, 4)

    def _refined(self, T: Array, keep: float, limits: tuple[float, float], steps: int, tolerance: float) -> Array:
        last, shrinks = np.inf, limits[0] != limits[1]
        for step in range(steps):
            limit = limits[0] + (limits[1] - limits[0]) * step / max(steps - 1, 1) if shrinks else limits[0]
            (there, i), (back, j) = self._matches(T)
            rows, columns = (_nearest(d, keep, limit) for d in (there, back))
            if len(rows) + len(columns) < 3:
                break
            T = kabsch(
                np.concatenate([self.queries[0][rows], self.source.points[j[columns]]]),
                np.concatenate([self.target.points[i[rows]], self.queries[1][columns]]),
            )
            mean = sum(float(d[kept].mean()) if len(kept) else 0.0 for d, kept in ((there, rows), (back, columns)))
            if not shrinks and last - mean < tolerance * mean:
                break
            last = mean
        return T

    def fits(self, poses: Array, keep: float, limit: float = np.inf) -> Array:
        """Return two measures (B, 2, 2) of each pose (B, 4, 4), from source to target and back.

        The first is the mean of the squared distances to the nearest points over the nearest share `keep`; the second the mean
        of min(d / limit, 1)², over all points.
        """
        if self.source.native and self.target.native:
            return native.fits(self.source.native, self.target.native, self.queries, poses, keep, limit, threads())
        values = [
            [
                (float((d[_nearest(d, keep)] ** 2).mean()), float(np.minimum((d / limit) ** 2, 1).mean()))
                for d, _ in self._matches(T)
            ]
            for T in poses
        ]
        return np.array(values).reshape(-1, 2, 2)

    def views(
        self, poses: Array, depths: tuple[NDArray[np.float32], NDArray[np.float32]], half: float, limit: float
    ) -> Array:
        """Return how both cameras explain each pose (B, 4, 4), from source to target and back: (B, 2, 3).

        The first value is the sum of (d / limit)² over the points with a distance d below the limit to the other cloud, over the
        number of all points. The second is the share of the other points that the other cloud hides from its camera, the third
        that of points which the camera would have seen.

        Args:
            poses: T_target_source.
            depths: `Cloud.depth` of source and target.
            half: half width of the depth maps.
            limit: distance.
        """
        if self.source.native and self.target.native:
            at = self.queries, depths, half, poses, limit, threads()
            return native.views(self.source.native, self.target.native, *at)
        values = []
        for T in poses:
            row = []
            both = zip(self._matches(T), self.queries, (T, inverse(T)), depths[::-1], strict=True)
            for (d, _), queries, pose, depth in both:
                placed = moved(queries, pose).astype(np.float32)
                x, y, _ = _cells(placed, half, len(depth)).T
                seen = placed[:, 2] < depth[y, x]
                near = d < limit
                row.append((((d[near] / limit) ** 2).sum() / len(d), (~near & ~seen).mean(), (~near & seen).mean()))
            values.append(row)
        return np.array(values).reshape(-1, 2, 3)

    def _matches(self, T: Array) -> list[tuple[Array, NDArray[np.intp]]]:
        """Return distances and rows of the nearest points, from source to target and back."""
        there = self.target.tree.query(moved(self.queries[0], T))
        back = self.source.tree.query(moved(self.queries[1], inverse(T)))
        return [(np.asarray(d, dtype=np.float64), np.asarray(i, dtype=np.intp)) for d, i in (there, back)]


def moved(points: Array, T: Array) -> Array:
    """Apply a pose (4, 4) to points (N, 3)."""
    return np.asarray(points @ T[:3, :3].T + T[:3, 3])


def _nearest(distances: Array, keep: float, limit: float = np.inf) -> NDArray[np.intp]:
    """Return the rows of the smallest share `keep` of distances (n,), at least three, that are within the limit."""
    count = min(len(distances), max(3, round(keep * len(distances))))
    rows = np.argpartition(distances, count - 1)[:count]
    return rows[distances[rows] <= limit]


def kabsch(source: Array, target: Array) -> Array:
    """Return the rigid motion (4, 4) of least squares between matched points (n, 3)."""
    a, b = source.mean(axis=0), target.mean(axis=0)
    U, _, Vt = np.linalg.svd((source - a).T @ (target - b))
    sign = np.array([1, 1, np.sign(np.linalg.det(U @ Vt))])
    T = np.eye(4)
    T[:3, :3] = (Vt.T * sign) @ U.T
    T[:3, 3] = b - T[:3, :3] @ a
    return T


def separate(poses: Array, most: int, angle_deg: float, distance: float = np.inf) -> NDArray[np.intp]:
    """Return the rows of the first `most` poses (B, 4, 4), each unlike all before it.

    Two poses are unlike if their rotations differ by the angle or more, or their translations by the distance or more.
    """
    kernel, limit = native.library(), 1 + 2 * np.cos(np.radians(angle_deg))
    if kernel:
        return native.separate(kernel, poses, most, float(limit), distance**2)
    R, t = poses[:, :3, :3].reshape(-1, 9), poses[:, :3, 3]
    free, chosen = np.ones(len(poses), dtype=bool), list[int]()
    while len(chosen) < most and free.any():
        i = int(free.argmax())
        chosen.append(i)
        like = (R @ R[i] > limit) & (((t - t[i]) ** 2).sum(axis=1) < distance**2)
        free &= ~like
        free[i] = False
    return np.array(chosen, dtype=np.intp)
