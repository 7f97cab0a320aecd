"""FPFH features: the kernel against Open3D, and the nearest features against all distances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from methods.base import Unavailable
from methods.geometry import fpfh
from methods.geometry.features import normals
from methods.native import build
from methods.native import fpfh as native
from tests.methods.clouds import blob, pose

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def kernel() -> None:
    try:
        native.build_kernel()
    except Unavailable as reason:
        pytest.skip(f"the kernel cannot be had here: {reason}")
    assert fpfh.implementation() == "native"


def by_open3d(points: np.ndarray, directions: np.ndarray, radius: float, neighbours: int) -> np.ndarray:
    """`fpfh.fpfh_features` without the kernel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "library", lambda: None)
        assert fpfh.implementation() == "open3d"
        return fpfh.describe(points, directions, radius, neighbours)


def directions_of(points: np.ndarray) -> np.ndarray:
    """Unit vectors (N, 3) that nothing relates to the points."""
    n = np.random.default_rng(len(points)).normal(size=points.shape)
    return n / np.linalg.norm(n, axis=1, keepdims=True)


CLOUDS = {
    "a body": blob(400).astype(np.float64),
    "uniform": RNG.uniform(-1, 1, (300, 3)),
    "two clusters of unequal density": np.concatenate([RNG.normal(size=(200, 3)), 3 + RNG.normal(0, 0.01, (100, 3))]),
    "far outliers": np.concatenate([RNG.normal(size=(200, 3)), 1e4 * RNG.normal(size=(5, 3))]),
    "duplicates": np.repeat(RNG.normal(size=(80, 3)), 3, axis=0),
    "all equal": np.ones((20, 3)),
    "a line": np.outer(RNG.uniform(-1, 1, 60), [1, 2, 3]),
    "far from the origin": 1e6 + RNG.normal(size=(150, 3)),
    "two points": np.array([[0.0, 0, 0], [0.1, 0, 0]]),
    "one point": np.zeros((1, 3)),
}


@pytest.mark.parametrize("neighbours", [2, 20, 100, 4000])
@pytest.mark.parametrize("radius", [0.05, 0.4, 3.0])
@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.usefixtures("kernel")
def test_the_kernel_computes_the_features_of_open3d(name: str, radius: float, neighbours: int) -> None:
    points = CLOUDS[name]
    if name == "duplicates" and neighbours < len(points) and radius > 0.05:
        pytest.skip("which of equally near points is left out is not defined")
    n = directions_of(points)
    ours, theirs = fpfh.describe(points, n, radius, neighbours), by_open3d(points, n, radius, neighbours)
    assert ours.shape == (len(points), 33) and np.isfinite(ours).all()
    assert np.abs(ours - theirs).max() < 1e-9


@pytest.mark.usefixtures("kernel")
def test_the_matches_of_surfaces_with_estimated_normals_are_those_of_open3d() -> None:
    T = pose(120)
    source = blob(500).astype(np.float64)
    target = source[::-1] @ T[:3, :3].T + RNG.normal(scale=0.005, size=source.shape)
    n = [normals(c, 0.2, "outward") for c in (source, target)]
    ours, theirs = (
        [describe(c, d, 0.5, 100) for c, d in zip((source, target), n, strict=True)]
        for describe in (fpfh.describe, by_open3d)
    )
    assert (fpfh.matches(*ours, True) == fpfh.matches(*theirs, True)).all()  # type: ignore[misc]


@pytest.mark.usefixtures("kernel")
def test_features_have_the_same_bits_for_any_number_of_threads_and_follow_the_order_of_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = blob(300).astype(np.float64)
    n, order = directions_of(points), RNG.permutation(300)
    one = fpfh.describe(points, n, 0.5, 50)
    monkeypatch.setenv("BENCH_THREADS", "3")
    assert (fpfh.describe(points, n, 0.5, 50) == one).all()
    assert fpfh.describe(points[order], n[order], 0.5, 50) == pytest.approx(one[order], abs=1e-9)


@pytest.mark.usefixtures("kernel")
def test_features_do_not_change_under_rigid_motion() -> None:
    points, T = blob(300).astype(np.float64), pose(70)
    n = directions_of(points)
    moved = fpfh.describe(points @ T[:3, :3].T + T[:3, 3], n @ T[:3, :3].T, 0.5, 400)
    assert (np.abs(moved - fpfh.describe(points, n, 0.5, 400)).max(axis=1) < 1e-6).mean() > 0.99  # bins have edges


@pytest.mark.usefixtures("kernel")
def test_each_histogram_sums_to_200_where_there_are_neighbours() -> None:
    points = CLOUDS["a body"]
    sums = fpfh.describe(points, directions_of(points), 0.5, 100).reshape(-1, 3, 11).sum(axis=2)
    alone = (cdist(points, points) < 0.5).sum(axis=1) == 1
    assert sums[~alone] == pytest.approx(200) and (sums[alone] == 0).all() and alone.mean() < 0.1
    assert (fpfh.describe(points, directions_of(points), 1e-6, 100) == 0).all()


def test_the_nearest_features_are_those_of_all_distances() -> None:
    a, b = 20 * RNG.random((150, 33)), 20 * RNG.random((300, 33))
    gap = cdist(a, b)
    assert (fpfh.nearest_features(a, b) == gap.argmin(axis=1)).all()
    one_way, mutual = fpfh.matches(a, b, False), fpfh.matches(a, b, True)
    assert (one_way == np.stack([np.arange(150), gap.argmin(axis=1)], axis=1)).all()
    both = [(i, j) for i, j in enumerate(gap.argmin(axis=1)) if gap[:, j].argmin() == i]
    assert mutual.tolist() == [list(pair) for pair in both] and 0 < len(mutual) < 150


def test_without_a_compiler_open3d_computes_the_features(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "COMPILER", "no-such-compiler")
    native.library.cache_clear()
    try:
        assert fpfh.implementation() == "open3d"
    finally:
        native.library.cache_clear()
