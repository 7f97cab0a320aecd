"""The operations of the search over poses: the kernel against NumPy, and both against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from methods.geometry import search
from methods.geometry.search import Cloud, Pair, moved
from methods.native import search as native
from tests.methods.clouds import lumpy, pose

HALF, CAP = 1.5, 0.4


@pytest.fixture(params=["kernel", "numpy"])
def cloud(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """How clouds are made: with the kernel, or without."""
    if request.param == "numpy":
        monkeypatch.setattr(native, "library", lambda: None)
    elif native.library() is None:
        pytest.skip("the kernel cannot be had here")
    return Cloud


def starts(count: int = 5) -> np.ndarray:
    """Poses (count, 4, 4) near the identity and far from it."""
    return np.stack([np.eye(4), *(pose(seed, 0.2) for seed in range(count - 1))])


def test_the_grid_is_even() -> None:
    grid = search.rotations(2304)
    np.testing.assert_allclose(grid @ grid.transpose(0, 2, 1), np.broadcast_to(np.eye(3), grid.shape), atol=1e-12)
    assert np.allclose(np.linalg.det(grid), 1)
    others = Rotation.random(200, random_state=0).as_matrix()
    trace = np.einsum("aij,bij->ab", others, grid).max(axis=1)
    assert np.degrees(np.arccos((trace - 1) / 2)).max() < 20  # every rotation has one of the grid near it


def test_a_field_holds_the_penalty_of_the_distance(cloud) -> None:  # type: ignore[no-untyped-def]
    points = lumpy(300)
    field = cloud(points).field(20, HALF, CAP)
    axis = np.linspace(-HALF, HALF, 20)
    for z, y, x in ((0, 0, 0), (10, 9, 12), (10, 14, 6), (5, 10, 10)):
        distance = cKDTree(points).query([axis[x], axis[y], axis[z]])[0]
        assert abs(int(field[z, y, x]) - 255 * min(distance / CAP, 1) ** 2) <= 1


def test_distances_are_to_the_nearest_point(cloud) -> None:  # type: ignore[no-untyped-def]
    points = lumpy(300).astype(np.float64)
    queries = np.random.default_rng(1).uniform(-2, 2, (7, 90, 3))
    measured = cloud(points).distances(queries)
    assert measured.shape == (7, 90) and measured == pytest.approx(cKDTree(points).query(queries)[0], abs=1e-6)
    assert cloud(points[:1]).distances(queries[0]) == pytest.approx(np.linalg.norm(queries[0] - points[0], axis=1))
    assert cloud(points).distances(points).max() == 0


def test_scores_and_sweeps_add_penalties_at_moved_points(cloud) -> None:  # type: ignore[no-untyped-def]
    field = cloud(lumpy(300)).field(32, HALF, CAP)
    points, grid, step = 0.6 * lumpy(40, 1), search.rotations(6), 2 * HALF / 31

    def by_definition(T: np.ndarray) -> int:
        x, y, z = np.floor((moved(points, T) + HALF) / step + 0.5).astype(int).clip(0, 31).T
        return int(field[z, y, x].sum(dtype=int))

    poses = starts()
    assert search.scores(field, HALF, points, poses).tolist() == [by_definition(T) for T in poses]
    sums, shifts = search.sweep(field, HALF, points, grid)
    assert sums.shape == (6, 64) and shifts.min() >= -8 and shifts.max() <= 7
    for k in range(6):
        T = np.eye(4)
        T[:3, :3] = grid[k]
        for b, block in enumerate(np.ndindex(4, 4, 4)):
            low = 4 * np.array(block[::-1]) - 8
            assert (shifts[k, b] >= low).all() and (shifts[k, b] < low + 4).all()
            totals = []
            for offset in np.ndindex(4, 4, 4) if k == 0 else [tuple(shifts[k, b] - low)]:
                T[:3, 3] = (low + offset) * step
                totals.append(by_definition(T))
            assert sums[k, b] == pytest.approx(min(totals), rel=0.02)  # a point on a cell's border may round either way


def test_fits_are_trimmed_and_truncated_means(cloud) -> None:  # type: ignore[no-untyped-def]
    a, b = lumpy(60), lumpy(70, 1)
    T, pair = pose(3, 0.1), Pair(cloud(a), cloud(b))
    apart = np.linalg.norm(moved(a, T)[:, None] - b, axis=2)
    fits = pair.fits(T[None], 0.8, 0.1)[0]
    for axis, row in ((1, fits[0]), (0, fits[1])):
        nearest = np.sort(apart.min(axis=axis))
        assert row[0] == pytest.approx((nearest[: round(0.8 * len(nearest))] ** 2).mean(), rel=1e-5)
        assert row[1] == pytest.approx(np.minimum((nearest / 0.1) ** 2, 1).mean(), rel=1e-5)


@pytest.mark.parametrize("limits", [(np.inf, np.inf), (0.5, 0.1), (0.2, 0.2)])
def test_refinement_of_the_kernel_is_that_of_numpy(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[float, float]
) -> None:
    if native.library() is None:
        pytest.skip("the kernel cannot be had here")
    clouds = lumpy(300), moved(lumpy(280, 1), pose(1, 0.05))
    ours = Pair(*(Cloud(c) for c in clouds), most=120).refine(starts(), 0.9, limits, 8)
    theirs = Pair(*(Cloud(c, use_kernel=False) for c in clouds), most=120).refine(starts(), 0.9, limits, 8)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_refinement_finds_a_small_pose(cloud) -> None:  # type: ignore[no-untyped-def]
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = Rotation.from_euler("xyz", [6, -4, 8], degrees=True).as_matrix(), (0.03, -0.02, 0.01)
    pair = Pair(cloud(lumpy(500)), cloud(moved(lumpy(500), T)))
    np.testing.assert_allclose(pair.refine(np.eye(4)[None], 0.9, steps=50, tolerance=0)[0], T, atol=1e-5)


def test_a_camera_refuses_points_in_free_space(cloud) -> None:  # type: ignore[no-untyped-def]
    """A plate seen from below: points behind it are hidden, points before it or beside it would have been seen."""
    plate = np.stack(
        [*np.meshgrid(np.linspace(-0.5, 0.5, 21), np.linspace(-0.5, 0.5, 21)), np.zeros((21, 21))], axis=-1
    )
    plate = plate.reshape(-1, 3)
    pair, depth = Pair(cloud(plate[:60]), cloud(plate)), cloud(plate).depth(64, 1.6, 0.06)
    assert np.isfinite(depth).mean() == pytest.approx((1.1 / 3.25) ** 2, abs=0.02)
    for shift, expected in (((0, 0, 0), 0), ((0, 0, 0.4), 1), ((0, 0, -0.4), 2), ((0, 1.2, 0), 2)):
        T = np.eye(4)
        T[:3, 3] = shift
        shares = pair.views(T[None], (depth, depth), 1.6, 0.1)[0, 0]
        assert shares[1:].tolist() == [float(expected == 1), float(expected == 2)]


def test_separate_keeps_the_first_of_poses_alike(cloud) -> None:  # type: ignore[no-untyped-def]
    poses = starts(4)[[0, 0, 1, 2, 1, 3]]
    assert search.separate(poses, 10, 5.0).tolist() == [0, 2, 3, 5]
    assert search.separate(poses, 2, 5.0).tolist() == [0, 2]
    shifted = np.stack([np.eye(4)] * 3)
    shifted[1, 0, 3], shifted[2, 0, 3] = 0.05, 0.2
    assert search.separate(shifted, 9, 5.0, 0.1).tolist() == [0, 2]
    assert search.separate(shifted[:0], 9, 5.0).tolist() == []


def test_separate_of_the_kernel_is_that_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    if native.library() is None:
        pytest.skip("the kernel cannot be had here")
    poses = np.stack([pose(seed, 0.3) for seed in range(150)])
    ours = [search.separate(poses, 100, 60.0, distance).tolist() for distance in (0.2, np.inf)]
    monkeypatch.setattr(native, "library", lambda: None)
    assert ours == [search.separate(poses, 100, 60.0, distance).tolist() for distance in (0.2, np.inf)]
    assert len(ours[0]) > len(ours[1]) > 1


@pytest.mark.parametrize(
    ("given", "processors", "expected"),
    [("", 3, 3), ("", 64, search.MAX_WORKERS), ("", None, 1), ("7", 3, 7), ("0", 3, 1)],
)
def test_threads_are_those_given_or_one_per_processor(
    monkeypatch: pytest.MonkeyPatch, given: str, processors: int | None, expected: int
) -> None:
    monkeypatch.setenv("BENCH_THREADS", given)
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    assert search.threads() == expected


def test_results_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    clouds, results = (lumpy(200), lumpy(210, 1)), []
    for threads in ("1", "3"):
        monkeypatch.setenv("BENCH_THREADS", threads)
        pair = Pair(*map(Cloud, clouds))
        results.append((pair.refine(starts(), 0.9), pair.target.field(24, HALF, CAP)))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_views_and_fits_of_the_kernel_are_those_of_numpy_in_both_directions() -> None:
    """Of clouds of other sizes and shapes, depth maps of each, and more poses than one."""
    if native.library() is None:
        pytest.skip("the kernel cannot be had here")
    clouds = lumpy(300), 0.7 * moved(lumpy(150, 1), pose(1, 0.2))
    pairs = [Pair(*(Cloud(c, use_kernel=kernel) for c in clouds), most=120) for kernel in (True, False)]
    depths = tuple(Cloud(c).depth(48, 1.6, 0.06) for c in clouds)
    ours, theirs = (pair.views(starts(), depths, 1.6, 0.08) for pair in pairs)
    np.testing.assert_allclose(ours, theirs, atol=2 / 120)
    assert np.abs(theirs[:, 0] - theirs[:, 1]).max() > 0.1 and (theirs.std(axis=0) > 0.01).sum() >= 4
    ours, theirs = (pair.fits(starts(), 0.8, 0.1) for pair in pairs)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
