"""Fragments of a room: frames along a camera path, fused on a voxel grid in the frame of the first camera."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from common import portable
from datasets.indoor.camera import Camera, look_at, measure, render, smooth_field
from datasets.indoor.layout import Room
from datasets.poses import Matrix, inverse, move
from datasets.shapes.primitives import Array, Mesh, Random

VOXEL = 0.025
"""Edge of the voxels of the fusion in metres."""
FRAMES = 30
"""Frames of a fragment."""
_LEAST = 2
"""Frames, at least, that measure a voxel."""
_TRUNCATION = 0.06
"""Distance in metres to which offsets to the surface are truncated; more behind the surface, a voxel is hidden."""
_OFFSET = 1 << 20
"""Added to the numbers of voxels, so that none is negative."""
_FURNITURE = 0.85
"""Share of the scenes whose camera looks at furniture."""
_DRIFT = 0.0015
"""Standard deviation in metres of each step of the camera's estimated position."""


class Fragment(NamedTuple):
    """Fused points (n, 3) in metres in the fragment's frame, and the pose (4, 4) of that frame in the room."""

    points: Array
    pose: Matrix


class Path(NamedTuple):
    """Start and end of a camera's position and of the point that it looks at, (2, 3) each, and its upward direction (3,)."""

    positions: Array
    targets: Array
    up: Array

    def pose(self, share: float) -> Matrix:
        """Return the camera's pose (4, 4) after a share of the path."""
        position = self.positions[0] + share * (self.positions[1] - self.positions[0])
        target = self.targets[0] + share * (self.targets[1] - self.targets[0])
        return look_at(position, target, self.up)


def paths(rng: Random, room: Room, count: int) -> list[Path]:
    """Draw the paths of `count` fragments that look at one part of a room from different places."""
    about = _attraction(rng, room)
    for _ in range(50):
        centre = _viewpoint(rng, room)
        if 0.9 < portable.norm(about - centre) < 2.2:
            break
    return [_path(rng, room, centre, about) for _ in range(count)]


def _attraction(rng: Random, room: Room) -> Array:
    """Draw a point to look at: mostly at furniture, else anywhere."""
    if room.taken and rng.random() < _FURNITURE:
        x0, x1, y0, y1, top = room.taken[int(rng.integers(len(room.taken)))]
        return np.array([rng.uniform(x0, x1), rng.uniform(y0, y1), rng.uniform(0.3, 1.0) * min(top, 1.6)])
    return np.asarray(rng.uniform(np.array([0.0, 0.0, 0.2]), np.array([room.width, room.length, 1.6])))


def _viewpoint(rng: Random, room: Room) -> Array:
    """Draw a place where a camera can be; of the last tries any."""
    spread = np.array([0.35, 0.35, 1.1]), np.array([room.width - 0.35, room.length - 0.35, 1.8])
    for gap in [0.5] * 30 + [0.35] * 30:
        position = rng.uniform(*spread)
        if room.is_free(position, gap):
            break
    return np.asarray(position)


def _path(rng: Random, room: Room, centre: Array, about: Array) -> Path:
    """Draw a path near a place that looks near a point."""
    low, high = np.array([0.3, 0.3, 0.9]), np.array([room.width - 0.3, room.length - 0.3, 2.0])
    start = centre
    for _ in range(20):
        candidate = (centre + rng.standard_normal(3) * [0.7, 0.7, 0.2]).clip(low, high)
        if room.is_free(candidate, 0.3):
            start = candidate
            break
    end = (start + rng.standard_normal(3) * [0.2, 0.2, 0.08]).clip(low, high)
    first = about + rng.standard_normal(3) * [0.5, 0.5, 0.3]
    last = first + rng.standard_normal(3) * [0.6, 0.6, 0.25]
    targets = np.stack([_beyond(start, first), _beyond(end, last)])
    up = np.array([0.0, 0.0, 1.0]) + 0.06 * rng.standard_normal(3)
    return Path(np.stack([start, end]), targets, up)


def _beyond(position: Array, target: Array) -> Array:
    """Return a target that is at least a metre away and not straight below or above."""
    ray = target - position
    flat = np.sqrt(ray[0] * ray[0] + ray[1] * ray[1])
    if flat < 0.7:
        ray = ray + np.array([0.7, 0.3, 0.0])
    return np.asarray(position + ray / min(1.0, float(portable.norm(ray))))


def fragment(rng: Random, triangles: Mesh, path: Path, camera: Camera, frames: int = FRAMES) -> Fragment:
    """Render, measure and fuse the frames of a path through triangles (T, 3, 3).

    The estimated poses of the frames drift, as those of visual odometry do.
    """
    frame = path.pose(0.0)
    to_frame = inverse(frame)
    warp, drift = camera.warp * smooth_field(rng, camera), np.zeros(3)
    images, poses = [], []
    for k in range(frames):
        pose = path.pose(k / (frames - 1))
        images.append(measure(render(triangles, pose, camera), camera, warp, rng))
        drift = drift + _DRIFT * rng.standard_normal(3)
        estimated = portable.product(to_frame, pose)
        estimated[:3, 3] += drift
        poses.append(estimated)
    return Fragment(fuse(images, poses, camera), frame)


def fuse(images: list[Array], poses: list[Matrix], camera: Camera, voxel: float = VOXEL) -> Array:
    """Fuse depth images by a truncated signed distance function (Curless and Levoy 1996), sampled where points were measured.

    In every voxel, the offsets from its centre to the measured surface, along each camera's ray, are averaged; its point is
    the centre plus the mean offset, if that is within the voxel and at least two frames contribute.

    Args:
        images: depth (h, w) of each frame, 0 where nothing was measured.
        poses: camera to fragment (4, 4) of each frame.
        camera: the camera of the frames.
        voxel: edge of the voxels in metres.

    Returns:
        Points (m, 3), at most one a voxel.
    """
    centres = _occupied([_points(image, pose, camera) for image, pose in zip(images, poses, strict=True)], voxel)
    offsets, weights, counts = np.zeros_like(centres), np.zeros(len(centres)), np.zeros(len(centres), dtype=np.int64)
    for image, pose in zip(images, poses, strict=True):
        rows, offset, z = _offsets(centres, image, pose, camera)
        weight = 1 / (0.3 + z * z * z * z)
        offsets[rows] += offset * weight[:, None]
        weights[rows] += weight
        counts[rows] += 1
    seen = counts >= _LEAST
    mean = offsets[seen] / weights[seen][:, None]
    inside = np.abs(mean).max(axis=1) <= voxel / 2
    return np.asarray(centres[seen][inside] + mean[inside])


def _points(image: Array, pose: Matrix, camera: Camera) -> Array:
    """Return the points (n, 3) of a depth image (h, w) in the fragment's frame."""
    seen = image > 0
    return move(pose, camera.rays[seen] * image[seen][:, None])


def _occupied(frames: list[Array], voxel: float) -> Array:
    """Return the centres (m, 3) of the voxels with a point of any frame, in ascending order."""
    cell = np.floor(np.concatenate(frames) / voxel).astype(np.int64) + _OFFSET
    code = np.unique((cell[:, 0] << 42) | (cell[:, 1] << 21) | cell[:, 2])
    mask = (1 << 21) - 1
    cells = np.stack([code >> 42, (code >> 21) & mask, code & mask], axis=1) - _OFFSET
    return np.asarray((cells + 0.5) * voxel)


def _offsets(centres: Array, image: Array, pose: Matrix, camera: Camera) -> tuple[NDArray[np.intp], Array, Array]:
    """Return rows (k,) of the centres that a frame sees, the offset (k, 3) of each to the surface, and its depth (k,).

    Offsets are truncated in front of the surface; centres that lie deeper behind it are hidden.
    """
    local = move(inverse(pose), centres)
    z = np.maximum(local[:, 2], 0.1)
    column = np.rint(local[:, 0] / z * camera.focal + (camera.width / 2 - 0.5)).astype(np.int64)
    row = np.rint(local[:, 1] / z * camera.focal + (camera.height / 2 - 0.5)).astype(np.int64)
    inside = (local[:, 2] > 0.1) & (column >= 0) & (column < camera.width) & (row >= 0) & (row < camera.height)
    rows = np.flatnonzero(inside)
    distance = image[row[rows], column[rows]] - z[rows]
    known = (image[row[rows], column[rows]] > 0) & (distance > -_TRUNCATION)
    rows, distance = rows[known], np.minimum(distance[known], _TRUNCATION)
    ray = local[rows] / z[rows][:, None]
    turned = ray[:, :1] * pose[:3, 0] + ray[:, 1:2] * pose[:3, 1] + ray[:, 2:] * pose[:3, 2]
    return rows, turned * distance[:, None], z[rows]
