"""Depth camera: rays through pixel centres against triangles, and a sensor model. Pixels (h, w), z forward, y down."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from common import portable
from datasets.poses import Matrix, inverse, move
from datasets.shapes.primitives import Array, Mesh, Random, unit

NEAR_PLANE = 0.02
"""Depth in metres in front of which vertices are projected; of triangles that cross it every row is tested."""


@dataclass(frozen=True)
class Camera:
    """Pinhole camera with a structured-light sensor.

    Attributes:
        width, height: pixels.
        focal: focal length in pixels.
        near, far: range in metres.
        levels: disparity levels times metres: depths are levels / k with whole k.
        noise: factor of the standard deviation 0.0012 + 0.0019 (z - 0.4)² m of the axial noise (Nguyen et al. 2012).
        warp: standard deviation of the smooth distortion of depth, relative to the depth.
    """

    width: int = 128
    height: int = 96
    focal: float = 117.0
    near: float = 0.4
    far: float = 4.5
    levels: float = 348.0
    noise: float = 1.0
    warp: float = 0.004

    @cached_property
    def u(self) -> Array:
        """The x of the rays (w,) through the columns of pixels, with z = 1."""
        return np.asarray((np.arange(self.width) + 0.5 - self.width / 2) / self.focal)

    @cached_property
    def v(self) -> Array:
        """The y of the rays (h,) through the rows of pixels, with z = 1."""
        return np.asarray((np.arange(self.height) + 0.5 - self.height / 2) / self.focal)

    @cached_property
    def rays(self) -> Array:
        """Directions (h, w, 3) through pixel centres, with z = 1."""
        x, y = np.meshgrid(self.u, self.v)
        return np.stack([x, y, np.ones_like(x)], axis=2)


class View(NamedTuple):
    """True depth (h, w) in metres, inf without a surface, and the cosine (h, w) between ray and surface normal."""

    depth: Array
    cosine: Array


def look_at(position: Array, target: Array, up: Array) -> Matrix:
    """Return the pose (4, 4), camera to room, at a position (3,) that looks at a target (3,), with `up` (3,) upwards."""
    forward = unit(target - position)
    right = unit(np.cross(forward, up))
    pose = np.eye(4)
    pose[:3, :3] = np.stack([right, np.cross(forward, right), forward], axis=1)
    pose[:3, 3] = position
    return pose


def render(triangles: Mesh, pose: Matrix, camera: Camera) -> View:
    """Intersect the ray of every pixel with triangles (T, 3, 3) for a camera at a pose (4, 4), camera to room.

    With vertices a, b, c in the camera's frame, the ray d meets the triangle if d·(b × c), d·(c × a) and d·(a × b) have the
    sign of the volume a·(b × c), at the depth volume / their sum. Within a row of pixels these are linear in the column, so
    each gives one end of the interval of columns that meet the triangle.
    """
    local = move(inverse(pose), triangles.reshape(-1, 3)).reshape(-1, 3, 3)
    local = local[_in_view(local, camera)]
    a, b, c = local[:, 0], local[:, 1], local[:, 2]
    edges = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)], axis=1)
    volume = portable.dot(a, edges[:, 0])
    edges, volume = edges * np.sign(volume)[:, None, None], np.abs(volume)
    normals = edges[:, 0] + edges[:, 1] + edges[:, 2]
    triangle, row, column = _covered(local, edges, camera)
    slope = normals[triangle]
    total = slope[:, 0] * camera.u[column] + slope[:, 1] * camera.v[row] + slope[:, 2]
    front = total > 0
    triangle, pixel = triangle[front], (row * camera.width + column)[front]
    return _nearest(volume[triangle] / total[front], triangle, pixel, normals, camera)


def _nearest(depth: Array, triangle: NDArray[np.intp], pixel: NDArray[np.intp], normals: Array, camera: Camera) -> View:
    """Keep the smallest depth of every pixel, and the cosine at its triangle (the last of equally near ones)."""
    rays = camera.rays.reshape(-1, 3)
    nearest = np.full(len(rays), np.inf)
    np.minimum.at(nearest, pixel, depth)
    first = depth == nearest[pixel]
    owner = np.full(len(rays), -1)
    owner[pixel[first]] = triangle[first]
    seen = owner >= 0
    normal = normals[owner[seen]]
    cosine = np.zeros(len(rays))
    lengths = portable.norm(normal) * portable.norm(rays[seen])
    cosine[seen] = np.abs(portable.dot(normal, rays[seen])) / np.maximum(lengths, 1e-300)
    shape = camera.height, camera.width
    return View(nearest.reshape(shape), cosine.reshape(shape))


def _in_view(local: Mesh, camera: Camera) -> NDArray[np.bool_]:
    """Return which triangles (T, 3, 3) in the camera's frame are not wholly behind it, too far, or beside the image."""
    x, y, z = local[..., 0], local[..., 1], local[..., 2]
    wide, tall = camera.width / (2 * camera.focal) * z, camera.height / (2 * camera.focal) * z
    outside = (z <= NEAR_PLANE, z > camera.far, x < -wide, x > wide, y < -tall, y > tall)
    culled = np.zeros(len(local), dtype=bool)
    for corner in outside:
        culled |= corner[:, 0] & corner[:, 1] & corner[:, 2]
    return ~culled


def _covered(
    local: Mesh, edges: Array, camera: Camera
) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.int64]]:
    """Return triangle, row and column (K,) of the pixels whose rays meet triangles.

    Args:
        local: triangles (T, 3, 3) in the camera's frame.
        edges: normals (T, 3, 3) of the planes through the camera and each edge, towards the triangle.
        camera: gives the pixels.
    """
    z, size = local[..., 2], camera.height
    whole = z.min(axis=1) > NEAR_PLANE
    at = local[..., 1] / np.where(whole[:, None], z, 1.0) * camera.focal + (size / 2 - 0.5)
    top = np.where(whole, np.ceil(at.min(axis=1).clip(-1, size)), 0).astype(np.int64).clip(0)
    bottom = np.where(whole, np.floor(at.max(axis=1).clip(-1, size)), size - 1).astype(np.int64).clip(max=size - 1)
    triangle, row = _expand((bottom - top + 1).clip(0))
    row = row + top[triangle]
    low, high = np.zeros(len(row)), np.full(len(row), camera.width - 1.0)
    for k in range(3):
        slope = edges[:, k, 0][triangle]
        rest = edges[:, k, 1][triangle] * camera.v[row] + edges[:, k, 2][triangle]
        flat = slope == 0
        bound = -rest / np.where(flat, 1.0, slope) * camera.focal + (camera.width / 2 - 0.5)
        np.maximum(low, np.where(flat, np.where(rest < 0, camera.width, 0.0), np.where(slope > 0, bound, 0.0)), out=low)
        np.minimum(high, np.where(slope < 0, bound, camera.width), out=high)
    first = np.ceil(low.clip(0, camera.width)).astype(np.int64)
    counts = np.floor(high.clip(-1, camera.width - 1)).astype(np.int64) - first + 1
    owner, column = _expand(counts.clip(0))
    return triangle[owner], row[owner], column + first[owner]


def _expand(counts: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return the owner and the number within it (from 0) of each of sum(counts) items."""
    owner = np.repeat(np.arange(len(counts)), counts)
    first = np.cumsum(counts) - counts
    return owner, np.arange(len(owner)) - first[owner]


def measure(view: View, camera: Camera, warp: Array, rng: Random) -> Array:
    """Return the depth image (h, w) that the sensor measures of a view, 0 where it measures nothing.

    The depth is distorted by the factor 1 + `warp` (h, w), gets axial noise that grows with z², and is quantised in disparity.
    Pixels without a surface in range are dropped, and at random those at grazing angles and at depth edges.
    """
    drop = rng.random(view.depth.shape)
    seen = np.isfinite(view.depth) & (drop > _dropout(view))
    z = view.depth[seen]
    away = z - 0.4
    z = z * (1 + warp[seen]) + camera.noise * (0.0012 + 0.0019 * away * away) * rng.standard_normal(len(z))
    z = camera.levels / np.maximum(np.rint(camera.levels / np.maximum(z, 0.1)), 1.0)
    image = np.zeros(view.depth.shape)
    image[seen] = np.where((z >= camera.near) & (z <= camera.far), z, 0.0)
    return image


def _dropout(view: View) -> Array:
    """Return the probability (h, w) that a pixel measures nothing: at grazing angles, at depth edges, and anywhere."""
    grazing = (1 - (view.cosine - 0.08) / 0.2).clip(0, 1)
    depth = np.where(np.isfinite(view.depth), view.depth, 99.0)
    edge = np.zeros(depth.shape, dtype=bool)
    for axis in (0, 1):
        jump = np.abs(np.roll(depth, -1, axis) - depth) > 0.04 * depth
        edge |= jump | np.roll(jump, 1, axis)
    return np.maximum(np.maximum(grazing, 0.02), np.where(edge, 0.7, 0.0))


def smooth_field(rng: Random, camera: Camera, cells: int = 8) -> Array:
    """Return a smooth random field (h, w): normal numbers at `cells` x `cells` knots, interpolated bilinearly."""
    knots = rng.standard_normal((cells, cells))
    weights = []
    for size in (camera.height, camera.width):
        at = np.linspace(0, cells - 1.001, size)
        low = np.floor(at).astype(np.int64)
        weights.append((low, at - low))
    (i, s), (j, t) = weights
    rows = knots[i] * (1 - s)[:, None] + knots[i + 1] * s[:, None]
    return np.asarray(rows[:, j] * (1 - t) + rows[:, j + 1] * t)
