"""Triangle meshes from a few primitives.

A mesh is its triangles (T, 3, 3) float64. z is up, fronts face -y, lengths are about metres (every shape is scaled later).
Everything is computed as `common.portable` says, so that a shape has the same bits on every machine.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from common import portable
from common.keys import Random as Random  # what the modules of shapes draw with

Array = NDArray[np.float64]
Mesh = NDArray[np.float64]
Span = tuple[float, float]
LabelledMesh = tuple[Mesh, str]
T = TypeVar("T")

# With 48 sides a unit circle is true to 1 - cos(pi / 48) = 0.002: "Cinf" holds far below the noise of the protocol.
SIDES = 48

_CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=np.float64)
_FACES = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
_CUBE = _CORNERS[_FACES[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)]


def one_of(rng: Random, *options: T) -> T:
    """Return one of the options with equal probability."""
    return options[int(rng.integers(len(options)))]


def chance(rng: Random, probability: float) -> bool:
    """Return True with a probability."""
    return bool(rng.random() < probability)


def join(*meshes: Mesh) -> Mesh:
    """Concatenate the triangles of meshes."""
    return np.concatenate(meshes)


def move(mesh: Mesh, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Mesh:
    """Shift the mesh."""
    return np.asarray(mesh + np.array([x, y, z]))


def stretch(mesh: Mesh, x: float = 1.0, y: float = 1.0, z: float = 1.0) -> Mesh:
    """Scale the mesh about the origin along each axis."""
    return np.asarray(mesh * np.array([x, y, z]))


def turn(mesh: Mesh, axis: str, angle: float) -> Mesh:
    """Rotate the mesh counter-clockwise, in radians, about an axis "x", "y" or "z" through the origin."""
    i, j = {"x": (1, 2), "y": (2, 0), "z": (0, 1)}[axis]
    turned = mesh.copy()
    s, c = portable.sin_cos(angle)
    turned[..., i] = c * mesh[..., i] - s * mesh[..., j]
    turned[..., j] = s * mesh[..., i] + c * mesh[..., j]
    return turned


def around(mesh: Mesh, n: int) -> Mesh:
    """Join n copies of the mesh, evenly rotated about z."""
    copies = np.empty((n, *mesh.shape))
    x, y, copies[..., 2] = mesh[..., 0].copy(), mesh[..., 1].copy(), mesh[..., 2]
    for k, copy in enumerate(copies):
        s, c = portable.sin_cos(2 * np.pi * k / n)
        copy[..., 0], copy[..., 1] = c * x - s * y, s * x + c * y
    return copies.reshape(-1, 3, 3)


def both_sides(mesh: Mesh, axis: int = 0) -> Mesh:
    """Join the mesh and its mirror image across the plane where coordinate `axis` is 0."""
    both = join(mesh, mesh)
    both[len(mesh) :, :, axis] *= -1
    return both


def box(x: Span, y: Span, z: Span) -> Mesh:
    """Build the surface of a box, each side given as (low, high)."""
    spans = np.array([x, y, z])
    return np.asarray(_CUBE * (spans[:, 1] - spans[:, 0]) + spans[:, 0])


def boxes(low: ArrayLike, high: ArrayLike) -> Mesh:
    """Build boxes (n) between opposite corners (n, 3) and (n, 3), or arrays that broadcast to that."""
    a, b = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    return np.asarray(_CUBE * (b - a)[..., None, None, :] + a[..., None, None, :]).reshape(-1, 3, 3)


def columns(*coordinates: ArrayLike) -> Array:
    """Broadcast coordinates against each other and stack them as columns: (n, 3) from three."""
    columns = np.empty((*np.broadcast_shapes(*map(np.shape, coordinates)), len(coordinates)))
    for axis, values in enumerate(coordinates):
        columns[..., axis] = values
    return columns


def two_triangles(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the corners (..., 6) of the two triangles of quadrilaterals (...)."""
    return np.stack([a, b, c, a, c, d], axis=-1)


@lru_cache(maxsize=256)
def grid_faces(m: int, n: int, closed: bool = False, caps: bool = False) -> NDArray[np.intp]:
    """Return the rows (T, 3) of the corners of the surface through a grid of m x n points.

    Where it is closed, the last column is followed by the first. With caps, two points after those of the grid are the middles
    of its first and its last row.
    """
    place = np.arange(m)[:, None] * n + np.arange(n + closed) % n
    faces = [two_triangles(place[:-1, :-1], place[1:, :-1], place[1:, 1:], place[:-1, 1:]).reshape(-1, 3)]
    for middle, ring in enumerate(place[[0, -1]] if caps else [], m * n):
        faces.append(columns(ring[:-1], ring[1:], middle).astype(np.intp))
    return np.concatenate(faces)


def sheet(grid: Array) -> Mesh:
    """Build the open surface through a grid of points (m, n, 3)."""
    return grid.reshape(-1, 3).take(grid_faces(*grid.shape[:2]), axis=0)


def fan(ring: Array) -> Mesh:
    """Build the surface from a closed ring of points (n, 3) to their mean, which sees all of it."""
    mesh = np.empty((len(ring), 3, 3))
    mesh[:, 0], mesh[:-1, 1], mesh[-1, 1], mesh[:, 2] = ring, ring[1:], ring[0], portable.mean(ring)
    return mesh


def loft(sections: Array, caps: bool = True) -> Mesh:
    """Build the skin over closed sections (m, n, 3), with or without its two ends."""
    m, n = sections.shape[:2]
    points = np.empty((m * n + 2, 3))
    points[:-2] = sections.reshape(-1, 3)
    if caps:
        points[-2:] = portable.mean(sections[:: m - 1].swapaxes(0, 1))
    return points.take(grid_faces(m, n, closed=True, caps=caps), axis=0)


def on_circle(angle: Array) -> Array:
    """Return points (n, 2) of the unit circle at angles (n,) in radians."""
    sine, cosine = portable.sin_cos(angle)
    return np.stack([cosine, sine], axis=1)


def unit(vectors: Array) -> Array:
    """Divide vectors (..., 3) by their lengths."""
    return np.asarray(vectors / portable.norm(vectors)[..., None])


def plane_normal(points: Array) -> Array:
    """Return the unit normal (3,) of the plane of points (k, 3); of points on a line, one of the directions across it."""
    away = points - points[0]
    span = away[np.argmax(portable.dot(away, away))]
    across = portable.cross(span, away)
    normal = across[np.argmax(portable.dot(across, across))]
    if portable.norm(normal) < 1e-9 * portable.dot(span, span):
        normal = portable.cross(span, np.eye(3)[np.argmin(np.abs(span))])
    return unit(normal)


@lru_cache(maxsize=64)
def _circle(n: int) -> Array:
    ring = on_circle(2 * np.pi * np.arange(n) / n)
    ring.setflags(write=False)
    return ring


def oval(x: float = 1.0, y: float = 1.0, power: float = 1.0, n: int = SIDES) -> Array:
    """Return an outline (n, 2) with half axes x and y: an ellipse, and the nearer `power` is to 0 the more a rectangle."""
    return np.asarray(_outline(n, power) * np.array([x, y]))


@lru_cache(maxsize=64)
def _outline(n: int, power: float) -> Array:
    ring = _circle(n)
    shaped = ring if power == 1.0 else np.sign(ring) * portable.power(np.abs(ring), power)
    shaped.setflags(write=False)
    return shaped


def stack(outline: Array, profile: ArrayLike) -> Array:
    """Return sections (m, n, 3): an outline (n, 2) scaled and lifted as each row (scale, z) of a profile (m, 2) says."""
    rows = np.asarray(profile, dtype=np.float64)
    sections = np.empty((len(rows), len(outline), 3))
    sections[..., :2] = rows[:, None, :1] * outline
    sections[..., 2] = rows[:, 1:]
    return sections


def revolve(profile: ArrayLike, n: int = SIDES) -> Mesh:
    """Build the surface of revolution about z of a profile (m, 2) of rows (radius, z); n = 4, 6, ... gives a pyramid's sides."""
    return loft(stack(_circle(n), profile), caps=False)


def rounded(line: ArrayLike, times: int = 2) -> Array:
    """Cut the corners of an open line (m, d) `times` times (Chaikin); its ends are unchanged."""
    points = np.asarray(line, dtype=np.float64)
    for _ in range(times):
        a, b = points[:-1], points[1:]
        cut = np.stack([0.75 * a + 0.25 * b, 0.25 * a + 0.75 * b], axis=1).reshape(-1, points.shape[1])
        points = np.concatenate([points[:1], cut[1:-1], points[-1:]])
    return points


def disc(radius: float, low: float, high: float, n: int = SIDES) -> Mesh:
    """Build a closed upright cylinder."""
    return revolve([(0, low), (radius, low), (radius, high), (0, high)], n)


def cushion(x: Span, y: Span, z: Span, edge: float = 0.3) -> Mesh:
    """Build a box with soft edges; `edge` is the share of the smallest side that is rounded off."""
    low, high = np.array([x, y, z]).T
    half, middle = (high - low) / 2, (high + low) / 2
    cut = edge * half.min()
    inner = 1 - 0.7 * cut / half[:2].min()
    ends = [(inner, -half[2]), (1, cut - half[2]), (1, half[2] - cut), (inner, half[2])]
    return move(loft(stack(oval(half[0], half[1], 0.25, n=24), ends)), *middle)


def hollow(profile: ArrayLike, wall: float) -> Array:
    """Return the profile (k, 2) of a vessel with a floor and a wall, from its outside (m, 2), rows (radius, z) upwards."""
    outside = np.asarray(profile, dtype=np.float64)
    floor = outside[0, 1]
    inside = np.maximum(outside[::-1] - [wall, 0.0], [0.0, floor + wall])
    return np.concatenate([[(0.0, floor)], outside, inside, [(0.0, floor + wall)]])


def prism(outline: Array, low: float, high: float) -> Mesh:
    """Build a closed upright prism over an outline (n, 2) whose mean sees all of it."""
    return loft(stack(outline, [(1, low), (1, high)]))


def ellipsoid(x: float, y: float, z: float, centre: ArrayLike = (0, 0, 0), n: int = 16) -> Mesh:
    """Build an ellipsoid with half axes x, y, z and n sides about z (n a multiple of 4)."""
    return np.asarray(_ball(n) * np.array([x, y, z]) + np.asarray(centre, dtype=np.float64))


@lru_cache(maxsize=16)
def _ball(n: int) -> Mesh:
    ball = revolve(on_circle(np.linspace(-np.pi / 2, np.pi / 2, n // 2 + 1)), n)
    ball.setflags(write=False)
    return ball


def rods(start: ArrayLike, end: ArrayLike, radius: ArrayLike, end_radius: ArrayLike | None = None, n: int = 8) -> Mesh:
    """Build straight round rods between points (k, 3) and (k, 3), open at their ends; radius (k,) or one for all."""
    a, b = np.broadcast_arrays(np.atleast_2d(np.asarray(start, float)), np.atleast_2d(np.asarray(end, float)))
    along = unit(b - a)
    helper = np.where(np.abs(along[:, :1]) < 0.8, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    v = unit(portable.cross(along, helper))
    u = portable.cross(v, along)
    ring = _circle(n)[:, 0, None, None] * u + _circle(n)[:, 1, None, None] * v
    first = np.asarray(radius, dtype=np.float64)[..., None]
    last = first if end_radius is None else np.asarray(end_radius, dtype=np.float64)[..., None]
    points = np.concatenate([a + first * ring, b + last * ring]).reshape(-1, 3)
    return points.take(_rod_faces(n, len(a)), axis=0)


@lru_cache(maxsize=256)
def _rod_faces(n: int, k: int) -> NDArray[np.intp]:
    """Return the rows (T, 3) of the corners of k rods with n sides, in points (2, n, k): the start, then the end."""
    low, high = np.arange(2 * n * k).reshape(2, n, k)
    corners = two_triangles(low, np.roll(low, -1, axis=0), np.roll(high, -1, axis=0), high)
    return np.asarray(corners.reshape(-1, 3))


def tube(path: ArrayLike, radius: ArrayLike, n: int = 8) -> Mesh:
    """Build a round tube along a plane path (k, 3), closed at its ends; radius (k,) or one for all."""
    points = np.asarray(path, dtype=np.float64)
    along = np.empty(points.shape)  # as `numpy.gradient`, which takes longer
    along[0], along[1:-1], along[-1] = points[1] - points[0], (points[2:] - points[:-2]) / 2, points[-1] - points[-2]
    along = unit(along)
    normal = plane_normal(points)
    side = portable.cross(along, normal)
    ring = _circle(n)
    thick = np.broadcast_to(np.asarray(radius, dtype=np.float64), len(points))[:, None, None]
    offset = ring[None, :, :1] * side[:, None] + ring[None, :, 1:] * normal
    return loft(points[:, None] + thick * offset)


def arc(start: float, stop: float, n: int = 12) -> Array:
    """Return points (n, 2) of the unit circle between two angles in radians."""
    return on_circle(np.linspace(start, stop, n))


def corner_legs(rng: Random, x: float, y: float, height: float, thick: float) -> Mesh:
    """Build four legs from the floor up to `height` below (+-x, +-y): square or round, straight, tapered or splayed."""
    corners = np.array([[-x, -y], [x, -y], [x, y], [-x, y]])
    if chance(rng, 0.5):
        low = columns(corners[:, 0] - thick / 2, corners[:, 1] - thick / 2, 0)
        return boxes(low, columns(low[:, 0] + thick, low[:, 1] + thick, height))
    splay = one_of(rng, 1.0, rng.uniform(1.0, 1.25))
    low, high = columns(splay * corners[:, 0], splay * corners[:, 1], 0), columns(corners[:, 0], corners[:, 1], height)
    return rods(low, high, rng.uniform(0.25, 0.5) * thick, 0.6 * thick, n=12)
