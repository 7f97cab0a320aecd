"""Problems drawn again by code that was written from docs/protocol.md alone, and compared bit for bit.

Of the project it takes only the shape, the arithmetic of the page in its own code; nothing else of `datasets` draws here.
"""

import hashlib
import json
import math

import numpy as np
import pytest

from datasets.base import DataSet, PointShape
from datasets.problems import ProblemKey, make_problem
from datasets.shapes40 import Shapes40


def generator(*key):
    digest = hashlib.sha256(json.dumps(list(key)).encode()).hexdigest()
    return np.random.Generator(np.random.PCG64(int(digest, 16)))


def sin_cos(x):
    """By the page's steps: quarter turns, three parts of pi / 2, power series."""
    parts = [float.fromhex(t) for t in ("0x1.921fb544p+0", "0x0.42d18469p-32", "0x0.898cc51701b839a2p-64")]
    k = np.rint(x * (2 / np.pi))
    r = ((x - k * parts[0]) - k * parts[1]) - k * parts[2]
    t = r * r
    s, c = 0.0, 0.0
    for j in range(8, 0, -1):
        s = (s + (-1) ** j / math.factorial(2 * j + 1)) * t
        c = (c + (-1) ** j / math.factorial(2 * j)) * t
    s, c, k = r + r * s, 1 + c, k.astype(int) % 4
    return np.choose(k, [s, c, -s, -c]), np.choose(k, [c, -s, -c, s])


def log(x):
    m, e = np.frexp(x)
    low = m * m < 0.5
    m, e = np.where(low, 2 * m, m), np.where(low, e - 1, e)
    s = (m - 1) / (m + 1)
    series = 0.0
    for j in range(11, 0, -1):
        series = (series + 2 / (2 * j + 1)) * (s * s)
    high, rest = float.fromhex("0x0.b17217f7p+0"), float.fromhex("0x0.d1cf79abc9e3b398p-32")
    return e * high + (e * rest + (2 * s + s * series))


def normals(rng, n):
    u, v = rng.random((2, -(-n // 2)))
    radius = np.sqrt(-2 * log(1 - u))
    sine, cosine = sin_cos(2 * np.pi * v)
    return np.concatenate([radius * cosine, radius * sine])[:n]


def length(v):
    squares = [c * c for c in v]
    total = squares[0]
    for square in squares[1:]:
        total = total + square
    return np.sqrt(total)


def times(a, b):
    """Matrix product, summed in order."""
    return np.array(
        [[sum_of(a[i][k] * b[k][j] for k in range(len(b))) for j in range(len(b[0]))] for i in range(len(a))]
    )


def sum_of(terms):
    first, *rest = terms
    for term in rest:
        first = first + term
    return first


def poses(key):
    """T and A."""
    rng = generator("pose", key.dataset, key.split, key.sampler, *key.angles, key.seed, key.index)
    axis = normals(rng, 3)
    x, y, z = axis / length(axis)
    degrees = key.angles[0] + (key.angles[1] - key.angles[0]) * rng.random()
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    s, c = (float(a) for a in sin_cos(np.array(degrees * (np.pi / 180))))
    T, A = np.eye(4), np.eye(4)
    T[:3, :3] = np.eye(3) + s * K + (1 - c) * times(K, K)
    v = normals(rng, 3)
    T[:3, 3] = v / length(v) * (0.5 * rng.random())
    q = normals(rng, 4)
    w, x, y, z = q / length(q)
    A[0, :3] = 1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)
    A[1, :3] = 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)
    A[2, :3] = 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)
    return T, A


def samples(shape, n, count, rng):
    if hasattr(shape, "cloud"):
        rows = rng.permutation(len(shape.cloud))[: n * count].reshape(count, n)
        return [shape.cloud[r].astype(np.float64) for r in rows]
    a, b, c = (shape.triangles[:, k] for k in range(3))
    (ax, ay, az), (bx, by, bz) = (b - a).T, (c - a).T
    normal = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
    areas = np.cumsum(0.5 * length(normal))
    u = rng.random((3, n * count))
    row = np.minimum(np.searchsorted(areas, u[0] * areas[-1], side="right"), len(areas) - 1)
    root, second = np.sqrt(u[1])[:, None], u[2][:, None]
    points = (1 - root) * a[row] + root * (1 - second) * b[row] + root * second * c[row]
    return [points[k * n : (k + 1) * n] for k in range(count)]


def moved(T, points):
    x, y, z = points.T
    return np.stack([T[i, 0] * x + T[i, 1] * y + T[i, 2] * z + T[i, 3] for i in range(3)], axis=1)


def cropped(name, clouds, n, rng):
    """Rows of both clouds of `crop` (keep 0.7) and `nearest` (keep 0.75)."""
    keep = 0.7 if name == "crop" else 0.75
    size, kept = -int(-keep * n // 1), []
    viewpoint = 500.0 * unit(rng) if name == "nearest" else None
    for cloud in clouds:
        if name == "nearest":
            order = np.argsort(length((cloud - viewpoint).T), kind="stable")
            kept.append(np.sort(order[:size]))
            continue
        centre = np.array([sum_of(column) for column in cloud.T]) / len(cloud)
        normal = unit(rng)
        height = sum_of(column * c for column, c in zip((cloud - centre).T, normal, strict=True))
        lost = int(np.floor((len(cloud) - 1) * (1 - keep))) + 1
        kept.append(np.sort(np.argsort(height, kind="stable")[lost:]))
    return [rng.permutation(rows)[:size] for rows in kept]


def unit(rng):
    v = normals(rng, 3)
    return v / length(v)


def disturbed(condition, cloud, rng):
    if condition == "clean":
        return cloud
    noise = 0.01 * normals(rng, cloud.size).reshape(cloud.shape)
    noisy = cloud + np.minimum(np.maximum(noise, -0.05), 0.05)
    if condition == "outliers":
        rows = rng.permutation(len(cloud))[: round(0.3 * len(cloud))]
        mean = np.array([sum_of(column) for column in cloud.T]) / len(cloud)
        noisy[rows] = mean + (-1 + 2 * rng.random((len(rows), 3)))
    return noisy


def redraw(shape, key):
    """Source, target, T and evaluation points."""
    T, A = poses(key)
    rng = generator(
        "clouds", key.dataset, key.split, key.sampler, *key.angles, key.seed, key.index, key.condition, key.points
    )
    if key.condition == "density":
        (both,) = samples(shape, key.points + 512, 1, rng)
        source, target = moved(A, both[: key.points]), moved(times(T, A), both[key.points :])
    elif key.condition in ("crop", "nearest"):
        (both,) = samples(shape, key.points * (2 if key.condition == "crop" else 1), 1, rng)
        clouds = moved(A, both), moved(times(T, A), both)
        rows = cropped(key.condition, clouds, key.points, rng)
        source, target = (cloud[r] for cloud, r in zip(clouds, rows, strict=True))
    else:
        drawn = samples(shape, key.points, 2 if key.condition == "resampled" else 1, rng)
        source, target = moved(A, drawn[0]), moved(times(T, A), rng.permutation(drawn[-1]))
    source = disturbed(key.condition, source, rng).astype(np.float32)
    target = disturbed(key.condition, target, rng).astype(np.float32)
    identity = f"{key.dataset}/{key.condition}/{key.points}/{key.index:05d}"
    rows = generator("evaluation", identity, key.seed).choice(len(source), 500, replace=len(source) < 500)
    return source, target, T, source[rows]


class Fixed(DataSet):
    """Ten fixed point sets of two categories."""

    categories = ("a", "b")
    fixed_points = 1200

    def labels(self, split):
        return np.arange(10) % 2

    def shape(self, split, index):
        cloud = np.random.default_rng(index).random((1200, 3)).astype(np.float32)
        return PointShape(f"{index}", self.categories[index % 2], cloud)


def object_of(dataset, key):
    if isinstance(dataset, Fixed):
        return int(generator("order", key.split, key.seed).permutation(np.arange(10))[key.index % 10])
    turn, place = divmod(key.index, 40)
    return (int(generator("pick", key.split, key.seed).integers(2**20)) + turn) * 40 + place


@pytest.mark.parametrize("condition", ["clean", "noisy", "resampled", "outliers", "density", "crop", "nearest"])
@pytest.mark.parametrize("dataset", [Shapes40(), Fixed()], ids=["triangles", "fixed points"])
@pytest.mark.parametrize(("index", "seed", "points"), [(0, 0, 512), (53, 2, 300)])
def test_the_page_suffices_to_draw_a_problem_again(dataset, condition, index, seed, points):
    key = ProblemKey("set", condition, points, index, seed)
    problem = make_problem(dataset, key)
    redrawn = redraw(dataset.shape("test", object_of(dataset, key)), key)
    expected = problem.source, problem.target, problem.T_target_source, problem.evaluation_points
    for ours, theirs in zip(redrawn, expected, strict=True):
        assert ours.dtype == theirs.dtype and ours.tobytes() == np.ascontiguousarray(theirs).tobytes()
    whole = hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in redrawn[:3]))
    assert whole.digest() == problem.sha256()


def test_preparing_a_set_returns_the_number_of_objects_of_each_split():
    assert Shapes40().prepare() == "endless train objects, endless test objects"
    for count, words in ((1, "1 train object, 1 test object"), (7, "7 train objects, 7 test objects")):
        dataset = Fixed()
        dataset.labels = lambda _, count=count: np.zeros(count, int)
        assert dataset.prepare() == words
