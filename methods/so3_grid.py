"""Exhaustive search over rotations without features, for whole objects and for partial views, written from the papers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from common.rigid import inverse
from methods.base import Cloud, Method, NoSolution, Pose, rigid
from methods.geometry import search
from methods.geometry.search import Cloud as Searched
from methods.geometry.search import Pair, even, separate

Array = NDArray[np.float64]

MODES = ("auto", "whole", "partial")
CAMERAS = ("none", "z")
MAX_POINTS = 2048
"""Points of a cloud above which it is thinned evenly."""
FIELD_POINTS, FIRST_POINTS = 128, 256
"""Points by which fields score poses, and points of the first refinement of candidates."""
KEEP = 0.9
"""Share of the matches that is kept for whole objects."""
WHOLE, WHOLE_KEEP = 1.2, 0.97
"""Two-way distance of a whole object's best pose, over that between two samples of its density, from which views are tried, and
the share of the matches, the nearest, of which both distances are."""
LOCAL, LOCAL_POINTS, LOCAL_SHARE = 1.8, 24, 0.95
"""The same for the distance of so many neighbouring points, at this quantile: missing parts are together, noise is not."""
WHOLE_FIELD, SWEPT_FIELD, FINE_FIELD = (32, 1.1, 0.5), (48, 1.7, 0.1), (64, 1.7, 0.07)
"""Cells along each side of the fields, half the side of their cube, and the distance from which penalties are equal; lengths here
and below are in radii of the larger cloud. Views need short distances: longer ones favour poses with too much overlap."""
SWEPT, SCORED, SCORED_POINTS, SPREAD = 20000, 10000, 256, (10.0, 0.1)
"""Poses of a sweep that fine fields score in both directions and those compared after, the points that score them, and the angle
and distance between those that are kept."""
ALIKE = 4.0, 0.04
"""Angle and distance below which two refined poses are one."""
HIDDEN, SEEN = 0.4, 10.0
"""Cost of a point that is hidden from the other camera, and of one that it would have seen; a point without fit costs 1."""
DEPTH_CELLS, DEPTH_HALF, COLUMN = 96, 1.6, 0.06
"""Cells along each side of depth maps, half their side, and the radius of the column whose least depth a cell holds."""
FAR = 0.2
"""RMSE between two poses from which the second is another pose: the runner-up."""


class So3Grid(Method):
    """Score rotations of a grid by distance fields, refine the best by trimmed ICP, and return the best two-way fit.

    Exhaustive Grid Search (Bojanić et al. 2024 and 2022) evaluates all rotations of a fine grid with all translations of a voxel
    grid. Here the grid is coarse (super-Fibonacci, Alexa 2022) and ICP refines many candidates unlike each other.

    Translations move centroid onto centroid for whole objects. For partial views, all translations in a cube are scored by
    correlation with the fields, in both directions. Note `runner_up` is the cost of the best pose far from the returned one, over
    the cost of that: near 1, the clouds do not decide between the two.

    Parameters:
        mode: "whole", "partial", or "auto": whole, and also partial if the best whole pose leaves distances larger than
            those between samples of one surface; the pose that fits better is returned.
        camera: "z" if each cloud is what a distant depth camera that looks along the cloud's z axis saw of one whole
            object. A pose is then refused if it puts points where the other camera saw free space. "none" assumes nothing.
        rotations: of the grid.
        candidates: poses that are refined for whole objects.
        views: poses that are refined for partial views.
        finalists: poses that are refined with all points.
    """

    kind = "global"
    variants: ClassVar[dict[str, dict[str, Any]]] = {"so3_grid": {}, "so3_grid_camera": {"camera": "z"}}
    search = {
        "rotations": (1152, 2304, 4608),
        "candidates": (16, 24, 32),
        "views": (500, 1000, 2000),
        "finalists": (8, 16, 32),
    }

    mode: str = "auto"
    camera: str = "none"
    rotations: int = 2304
    candidates: int = 24
    views: int = 1000
    finalists: int = 16

    def __post_init__(self) -> None:
        for name, known in (("mode", MODES), ("camera", CAMERAS)):
            if getattr(self, name) not in known:
                raise InputError(f"so3_grid[{name}={getattr(self, name)}]: unknown; give one of {', '.join(known)}")
        for name in ("rotations", "candidates", "views", "finalists"):
            if getattr(self, name) < 1:
                raise InputError(f"so3_grid[{name}={getattr(self, name)}]: not above 0; give a whole number")

    def setup(self, device: str, seed: int, domain: str) -> None:
        """Load the kernel, which builds it on first use."""
        search.load_kernel()

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`.

        Raises:
            NoSolution: fewer than three points, a coordinate that is not finite, or a cloud of equal points.
        """
        clouds = [np.asarray(cloud, dtype=np.float64) for cloud in (source, target)]
        if any(c.ndim != 2 or c.shape[1] != 3 or len(c) < 3 or not np.isfinite(c).all() for c in clouds):
            raise NoSolution("a search needs three finite points or more")
        clouds = [even(cloud, MAX_POINTS) for cloud in clouds]
        centres = [cloud.mean(axis=0) for cloud in clouds]
        centred = [cloud - centre for cloud, centre in zip(clouds, centres, strict=True)]
        radii = [float(np.linalg.norm(cloud, axis=1).max()) for cloud in centred]
        if min(radii) <= 1e-6 * max(np.abs(cloud).max() for cloud in clouds):
            raise NoSolution("the points of a cloud are all equal")
        T = self._solve(*(Searched(cloud / max(radii)) for cloud in centred))
        return rigid(T[:3, :3], max(radii) * T[:3, 3] + centres[1] - T[:3, :3] @ centres[0])

    def _solve(self, source: Searched, target: Searched) -> Pose:
        """Return the pose (4, 4) between centred clouds of unit radius."""
        pair, poses, costs = Pair(source, target), np.zeros((0, 4, 4)), np.zeros(0)
        if self.mode != "partial":
            poses = self._whole(pair)
            costs = np.sqrt(pair.fits(poses, KEEP)[:, :, 0].mean(axis=1))
        if self.mode == "partial" or (self.mode == "auto" and not self._is_whole(pair, poses)):
            poses, costs = self._partial(pair, poses)
        best = int(costs.argmin())
        apart = _rmse(source.points, poses, poses[best])
        others = costs[apart >= FAR]
        runner_up = float(others.min() / max(costs[best], 1e-9)) if len(others) else np.inf
        self.note(runner_up=min(runner_up, 10.0), confidence=min(runner_up, 10.0), candidates=len(poses))
        return poses[best]

    def _is_whole(self, pair: Pair, poses: Array) -> bool:
        """Return whether the best of refined poses (n, 4, 4) of whole objects leaves no part without counterpart."""
        spacing, means = _spacing(pair.source, pair.target), pair.fits(poses, WHOLE_KEEP)[:, :, 0].mean(axis=1)
        spacings, local = np.sqrt(means.min()) / spacing, _local_distance(pair, poses[means.argmin()]) / spacing
        self.note(spacings=float(spacings), local=float(local))
        return bool(spacings <= WHOLE and local <= LOCAL)

    def _whole(self, pair: Pair) -> Array:
        """Return refined poses (n, 4, 4) of whole objects: rotations about the common centroid."""
        with self.stage("solve"):
            poses = _turns(self.rotations)
            scores = _two_way_scores(pair, poses, WHOLE_FIELD, FIELD_POINTS)
            poses = poses[np.argsort(scores, kind="stable")[: self.rotations // 4]]
            poses = poses[separate(poses, self.candidates, 20.0)]
        with self.stage("refine"):
            first = Pair(pair.source, pair.target, FIRST_POINTS // 2)
            poses = first.refine(poses, KEEP, steps=8)
            poses = poses[np.argsort(first.fits(poses, KEEP)[:, :, 0].sum(axis=1), kind="stable")]
            return pair.refine(poses[separate(poses, max(4, self.finalists // 4), 10.0)], KEEP)

    def _partial(self, pair: Pair, also: Array) -> tuple[Array, Array]:
        """Return refined poses (n, 4, 4) of partial views, those of `also` among them, and their costs (n,), the least first."""
        with self.stage("solve"):
            poses = self._sweep(pair)
        with self.stage("refine"):
            depths = tuple(cloud.depth(DEPTH_CELLS, DEPTH_HALF, COLUMN) for cloud in (pair.source, pair.target))
            for most, count, limits, steps in (
                (FIELD_POINTS, self.views, (0.1, 0.05), 8),
                (FIRST_POINTS, 4 * self.finalists, (0.08, 0.05), 8),
                (None, self.finalists, (0.08, 0.05), 10),
            ):
                chosen = Pair(pair.source, pair.target, most)
                poses = chosen.refine(
                    poses[:count] if most else np.concatenate([poses[:count], also]), 1.0, limits, steps
                )
                costs = self._costs(chosen, poses, depths, limits[1])
                order = np.argsort(costs, kind="stable")
                order = order[separate(poses[order], len(poses), *ALIKE)]
                poses, costs = poses[order], costs[order]
            return poses, costs

    def _sweep(self, pair: Pair) -> Array:
        """Return poses (n, 4, 4) unlike each other that fields propose, best first."""
        cells, half, _ = SWEPT_FIELD
        grid, step = search.rotations(self.rotations), 2 * half / (cells - 1)
        fields = [cloud.field(*SWEPT_FIELD) for cloud in (pair.source, pair.target)]
        points = [cloud.even(FIELD_POINTS) for cloud in (pair.source, pair.target)]
        there, shifts = search.sweep(fields[1], half, points[0], grid)
        back, shifts_back = search.sweep(fields[0], half, points[1], grid.transpose(0, 2, 1))
        order = np.argsort(np.concatenate([there, back]), axis=None, kind="stable")[:SWEPT]
        backwards, (row, block) = order >= there.size, np.unravel_index(order % there.size, there.shape)
        poses = np.tile(np.eye(4), (len(order), 1, 1))
        poses[:, :3, :3], poses[:, :3, 3] = grid[row], shifts[row, block] * step
        poses[backwards, :3, 3] = -np.einsum("nij,nj->ni", grid[row], shifts_back[row, block] * step)[backwards]
        poses = poses[np.argsort(_two_way_scores(pair, poses, FINE_FIELD, SCORED_POINTS), kind="stable")[:SCORED]]
        return poses[separate(poses, self.views, *SPREAD)]

    def _costs(self, pair: Pair, poses: Array, depths: tuple[Any, ...], limit: float) -> Array:
        """Return the costs (n,) of poses (n, 4, 4): the smaller, the better both clouds agree."""
        if self.camera == "none":
            return np.asarray(pair.fits(poses, 1.0, limit)[:, :, 1].sum(axis=1))
        shares = pair.views(poses, depths, DEPTH_HALF, limit).sum(axis=1)
        return np.asarray(shares @ np.array([1.0, HIDDEN, SEEN]))


def _turns(count: int) -> Array:
    poses = np.tile(np.eye(4), (count, 1, 1))
    poses[:, :3, :3] = search.rotations(count)
    return poses


def _two_way_scores(pair: Pair, poses: Array, field: tuple[int, float, float], most: int) -> NDArray[np.int32]:
    """Return the penalties (n,) of poses (n, 4, 4) by the fields of both clouds, at most so many points of the other."""
    there = search.scores(pair.target.field(*field), field[1], pair.source.even(most), poses)
    return there + search.scores(pair.source.field(*field), field[1], pair.target.even(most), inverse(poses))


def _spacing(source: Searched, target: Searched) -> float:
    """Return the two-way distance between samples of one surface as dense as these clouds: between their halves, over √2."""
    squares = []
    for cloud in (source, target):
        halves = Pair(Searched(cloud.points[::2]), Searched(cloud.points[1::2]))
        squares.append(halves.fits(np.eye(4)[None], WHOLE_KEEP)[0, :, 0].mean() / 2)
    return float(np.sqrt(np.mean(squares))) + 1e-9


def _local_distance(pair: Pair, T: Pose) -> float:
    """Return the largest distance (RMS) that neighbouring points of one cloud have to the other, but for the highest few."""
    from scipy.spatial import cKDTree

    values = []
    for cloud, other, pose in ((pair.source, pair.target, T), (pair.target, pair.source, inverse(T))):
        neighbours = cKDTree(cloud.points).query(cloud.points, k=min(LOCAL_POINTS, len(cloud.points)))[1]
        squares = other.distances(search.moved(cloud.points, pose))[neighbours] ** 2
        values.append(np.quantile(squares.mean(axis=1), LOCAL_SHARE))
    return float(np.sqrt(max(values)))


def _rmse(points: Array, poses: Array, other: Pose) -> Array:
    """Return the RMSE (n,) between poses (n, 4, 4) and another, over points (N, 3), from their mean and second moments."""
    rotations, translations = poses[:, :3, :3] - other[:3, :3], poses[:, :3, 3] - other[:3, 3]
    second, mean = points.T @ points / len(points), points.mean(axis=0)
    squares = np.einsum("nij,jk,nik->n", rotations, second, rotations) + 2 * np.einsum(
        "ni,nij,j->n", translations, rotations, mean
    )
    return np.asarray(np.sqrt(np.maximum(squares + (translations**2).sum(axis=1), 0)))
