"""The search over rotations: whole objects, partial views, the camera's free space, and the runner-up."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from bench.evaluation.metrics import rmse
from common.errors import InputError
from datasets.problems import ProblemKey, make_problem
from datasets.registry import DataRegistry
from methods import so3_grid
from methods.base import NoSolution
from methods.geometry import search
from methods.geometry.search import Cloud, Pair
from methods.native import search as native
from methods.so3_grid import So3Grid, _local_distance, _rmse
from tests.methods.clouds import lumpy, moved, pose, solve


def tapered(n: int, seed: int = 0) -> np.ndarray:
    """Points (n, 3) of a closed surface without symmetry: `lumpy`, which half a turn about x maps onto itself, tapered."""
    x = lumpy(n, seed)
    return x * (1 + 0.6 * x[:, 1:2])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_other_samples_of_a_whole_object(seed: int, scale: float) -> None:
    T = pose(seed, 2.0)
    T[:3, 3] *= scale
    method = So3Grid()
    found = solve(method, (scale * tapered(400)).astype(np.float32), moved(T, scale * tapered(400, seed + 1)))
    assert rmse(found, T, scale * lumpy(100)) < 0.1 * scale
    assert method.scratch.notes["spacings"] < 1.2 and method.scratch.notes["runner_up"] > 1.2
    assert method.scratch.notes["confidence"] == method.scratch.notes["runner_up"]


def test_numpy_finds_the_pose_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the search of the whole, and then by that of views."""
    if native.library() is None:
        pytest.skip("the kernel cannot be had here")
    clouds = tapered(200).astype(np.float32), moved(pose(3), tapered(200, 1))
    method = So3Grid(rotations=288, views=30)
    by_kernel = solve(method, *clouds)
    assert method.scratch.notes["candidates"] > 4
    monkeypatch.setattr(native, "library", lambda: None)
    np.testing.assert_allclose(solve(So3Grid(rotations=288, views=30), *clouds), by_kernel, atol=1e-3)


def test_the_runner_up_shows_a_symmetric_object() -> None:
    draw = np.random.default_rng(0)
    oblong = draw.uniform(-1, 1, (2, 500, 3)) * (0.8, 0.5, 0.2)
    method = So3Grid()
    solve(method, oblong[0].astype(np.float32), moved(pose(2), oblong[1]))
    assert 1 <= method.scratch.notes["runner_up"] < 1.1  # the cost of another pose is never less than that of the best


def test_cameras_find_views_that_overlap_alone_confuses() -> None:
    """Partial views of training objects: with the cameras more are found than without, by the same search."""
    data = DataRegistry.at(None, None).spec("shapes40").build()
    right = {"none": 0, "z": 0}
    for index in (1, 2, 45, 50):
        problem = make_problem(data, ProblemKey("shapes40", "partial", 512, index, split="train"))
        for camera in right:
            method = So3Grid(mode="partial", camera=camera, views=100)
            found = solve(method, problem.source, problem.target)
            right[camera] += rmse(found, problem.T_target_source, problem.evaluation_points) < 0.2
    assert right["z"] >= right["none"] + 2


def test_it_tries_views_only_if_the_whole_does_not_fit() -> None:
    method = So3Grid()
    solve(method, lumpy(300).astype(np.float32), moved(pose(1), lumpy(300, 1)))
    whole = method.scratch.notes["candidates"]
    front = lumpy(600)[lumpy(600)[:, 0] > -0.1]
    solve(method, front[:300].astype(np.float32), moved(pose(1), lumpy(300, 1)))
    assert whole <= 4 < method.scratch.notes["candidates"]


@pytest.mark.parametrize("seed", range(2))
def test_crops_with_little_overlap_at_any_rotation(seed: int) -> None:
    """Crops on opposite sides of two planes, of noisy halves of 700 points: the best overlap is not that of the true pose."""
    draw = np.random.default_rng(seed)
    points, normal, T = tapered(1000, seed), draw.normal(size=3), pose(seed + 7, 1.0)
    along = points @ normal
    kept = [draw.permutation(np.argsort(sign * along)[:700])[:350] for sign in (1, -1)]
    source, target = (points[rows] + draw.normal(0, 0.01, (350, 3)) for rows in kept)
    method = So3Grid()
    found = solve(method, source.astype(np.float32), moved(T, target))
    assert rmse(found, T, points) < 0.1
    assert method.scratch.notes["spacings"] > 1.2 or method.scratch.notes["local"] > 1.8


@pytest.mark.parametrize(
    ("spacings", "local", "whole"),
    [(1.1, 1.7, True), (1.1, 1.9, False), (1.3, 1.7, False), (1.3, 1.9, False)],
)
def test_objects_are_whole_if_neither_distance_shows_a_missing_part(
    monkeypatch: pytest.MonkeyPatch, spacings: float, local: float, whole: bool
) -> None:
    """Distances of the best of the poses, over that between two samples of one surface."""
    method, poses = So3Grid(), np.stack([pose(seed) for seed in range(3)])
    squares = np.array([9.0, (0.5 * spacings) ** 2, 7.0])
    pair = SimpleNamespace(source=None, target=None, fits=lambda *_: np.tile(squares[:, None, None], (1, 2, 2)))
    judged: list[np.ndarray] = []
    monkeypatch.setattr(so3_grid, "_spacing", lambda *_: 0.5)
    monkeypatch.setattr(so3_grid, "_local_distance", lambda _, T: judged.append(T) or 0.5 * local)
    method.begin(0)
    assert method._is_whole(pair, poses) is whole  # type: ignore[arg-type]
    assert np.array_equal(judged[0], poses[1])
    assert method.scratch.notes == pytest.approx({"spacings": spacings, "local": local})


def test_fields_hold_clouds_of_radius_one_under_the_rotations_and_translations_that_they_score() -> None:
    """A point outside of a field gets the penalty of its border, whatever its distance."""
    step = 2 * so3_grid.SWEPT_FIELD[1] / (so3_grid.SWEPT_FIELD[0] - 1)
    margin = native.ROW // 2 * step  # cells from the border to which a sweep clamps rotated points
    assert so3_grid.SWEPT_FIELD[1] - margin >= 1 and so3_grid.WHOLE_FIELD[1] >= 1
    assert min(so3_grid.FINE_FIELD[1], so3_grid.DEPTH_HALF) >= 1 + margin


@pytest.mark.parametrize("used", range(2))
def test_each_direction_of_a_sweep_alone_proposes_the_true_pose(monkeypatch: pytest.MonkeyPatch, used: int) -> None:
    """Points of the source in the field of the target, or those of the target in that of the source."""
    directions, usual = iter(range(2)), search.sweep

    def sweep(*arguments):  # type: ignore[no-untyped-def]
        sums, shifts = usual(*arguments)
        return sums + 10**6 * (next(directions) != used), shifts

    monkeypatch.setattr(search, "sweep", sweep)
    T, points = np.eye(4), tapered(300)
    T[:3, :3], T[:3, 3] = search.rotations(400)[9], (0.3, -0.2, 0.15)
    method = So3Grid(rotations=400, views=5)
    method.begin(0)
    proposed = method._sweep(Pair(Cloud(points), Cloud(moved(T, tapered(300, 1)).astype(np.float64))))
    assert rmse(proposed[0], T, points) < 0.1


def test_local_distances_are_those_of_neighbours() -> None:
    clouds, T = (lumpy(60), lumpy(50, 1)), pose(3, 0.1)
    expected = []
    apart = np.linalg.norm((clouds[0] @ T[:3, :3].T + T[:3, 3])[:, None] - clouds[1], axis=2)
    for cloud, squares in zip(clouds, (apart.min(axis=1) ** 2, apart.min(axis=0) ** 2), strict=True):
        near = np.linalg.norm(cloud[:, None] - cloud, axis=2).argsort(axis=1)[:, :24]
        expected.append(np.quantile(squares[near].mean(axis=1), 0.95))
    assert _local_distance(Pair(*map(Cloud, clouds)), T) == pytest.approx(np.sqrt(max(expected)), rel=1e-6)


def test_distances_between_poses_are_those_on_the_points() -> None:
    points, poses = lumpy(50) + 0.3, np.stack([pose(seed) for seed in range(4)])
    expected = [rmse(T, poses[0], points) for T in poses]
    np.testing.assert_allclose(_rmse(points, poses, poses[0]), expected, atol=1e-7)


def test_bad_input() -> None:
    for bad in (lumpy(2), np.full((9, 3), np.nan), np.ones((9, 3))):
        with pytest.raises(NoSolution):
            solve(So3Grid(), bad.astype(np.float32), lumpy(50).astype(np.float32))
    for parameters in ({"mode": "half"}, {"camera": "x"}, {"rotations": 0}):
        with pytest.raises(InputError, match="so3_grid"):
            So3Grid(**parameters)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_points_are_equal_if_they_differ_by_a_millionth_of_their_coordinates(
    monkeypatch: pytest.MonkeyPatch, scale: float
) -> None:
    """In any unit, and if either cloud is one; other clouds are searched at radius one, and the pose is in their unit."""
    clouds = []
    monkeypatch.setattr(So3Grid, "_solve", lambda self, *pair: clouds.extend(pair) or pose(3))
    shape = lumpy(40)
    for spread, equal in ((2e-7, True), (1e-5, False)):
        near, plain = scale * (1 + spread * shape), scale * shape
        for source, target in ((near, plain), (plain, near), (near, near)):
            with pytest.raises(NoSolution, match="all equal") if equal else nullcontext():
                T = So3Grid().register(source, target)
                radii = [np.linalg.norm(cloud - cloud.mean(axis=0), axis=1).max() for cloud in (source, target)]
                centres = [cloud.mean(axis=0) for cloud in (source, target)]
                np.testing.assert_array_equal(T[:3, :3], pose(3)[:3, :3])
                moved_centre = T[:3, :3] @ centres[0] + T[:3, 3]
                np.testing.assert_allclose(moved_centre, centres[1] + max(radii) * pose(3)[:3, 3], atol=1e-12 * scale)
                sizes = [np.linalg.norm(cloud.points, axis=1).max() for cloud in clouds[-2:]]
                np.testing.assert_allclose(sizes, np.array(radii) / max(radii), rtol=1e-4)


def test_the_levels_of_the_search_are_those_of_the_reference_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points, poses, share of pairs, limits and steps of each refinement, and what is kept between them."""
    calls: list[tuple[object, ...]] = []

    class Recorded:
        def __init__(self, source: object, target: object, most: int | None = None) -> None:
            self.source, self.target, self.most = source, target, most

        def refine(self, poses: np.ndarray, keep: float, limits: object = None, steps: int | None = None) -> np.ndarray:
            calls.append(("refine", self.most, len(poses), keep, limits, steps))
            return poses

        def fits(self, poses: np.ndarray, keep: float, limit: float = np.inf) -> np.ndarray:
            calls.append(("fits", self.most, keep, limit))
            return np.tile(np.arange(len(poses), dtype=float)[:, None, None], (1, 2, 2))

    def separate(poses: np.ndarray, most: int, *far: float) -> np.ndarray:
        calls.append(("separate", len(poses), most, *far))
        return np.arange(min(most, len(poses)))

    monkeypatch.setattr(so3_grid, "Pair", Recorded)
    monkeypatch.setattr(so3_grid, "separate", separate)
    monkeypatch.setattr(
        so3_grid,
        "_two_way_scores",
        lambda pair, poses, field, most: calls.append((field, most)) or np.arange(len(poses)),
    )
    method = So3Grid(rotations=96, candidates=10, views=300, finalists=20)
    cloud = SimpleNamespace(depth=lambda *numbers: calls.append(("depth", *numbers)))
    pair = Recorded(cloud, cloud)
    assert len(method._whole(pair)) == 5
    assert calls == [
        ((32, 1.1, 0.5), 128),
        ("separate", 24, 10, 20.0),
        ("refine", 128, 10, 0.9, None, 8),
        ("fits", 128, 0.9, np.inf),
        ("separate", 10, 5, 10.0),
        ("refine", None, 5, 0.9, None, None),
    ]
    calls.clear()
    poses = np.tile(np.eye(4), (400, 1, 1))
    monkeypatch.setattr(So3Grid, "_sweep", lambda *_: poses)
    found, costs = method._partial(pair, poses[:3])
    assert len(found) == len(costs) == 23 and (np.diff(costs) >= 0).all()
    assert calls == [
        *[("depth", 96, 1.6, 0.06)] * 2,
        ("refine", 128, 300, 1.0, (0.1, 0.05), 8),
        ("fits", 128, 1.0, 0.05),
        ("separate", 300, 300, 4.0, 0.04),
        ("refine", 256, 80, 1.0, (0.08, 0.05), 8),
        ("fits", 256, 1.0, 0.05),
        ("separate", 80, 80, 4.0, 0.04),
        ("refine", None, 23, 1.0, (0.08, 0.05), 10),
        ("fits", None, 1.0, 0.05),
        ("separate", 23, 23, 4.0, 0.04),
    ]


def test_the_kernel_is_loaded_before_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[bool] = []
    monkeypatch.setattr(search, "load_kernel", lambda: loaded.append(True))
    So3Grid().setup("cpu", 0, "shapes40")
    assert loaded == [True]


@pytest.mark.parametrize("name", ["rotations", "candidates", "views", "finalists"])
def test_counts_are_above_zero(name: str) -> None:
    So3Grid(**{name: 1})
    with pytest.raises(InputError, match=rf"so3_grid\[{name}=0\]: not above 0"):
        So3Grid(**{name: 0})


@pytest.mark.parametrize("side", [0, 1])
def test_clouds_are_three_finite_points_or_more_thinned_to_2048(monkeypatch: pytest.MonkeyPatch, side: int) -> None:
    sizes: list[list[int]] = []
    monkeypatch.setattr(
        So3Grid, "_solve", lambda self, *pair: sizes.append([len(cloud.points) for cloud in pair]) or np.eye(4)
    )
    good = lumpy(5000)
    for bad in (good[:2], good[:, :2], good[0], good * [1, np.nan, 1], np.where(good == good[7, 1], np.inf, good)):
        with pytest.raises(NoSolution, match="three finite points or more"):
            So3Grid().register(*((bad, good) if side == 0 else (good, bad)))  # type: ignore[arg-type]
    for count, used in ((3, 3), (2048, 2048), (2049, 2048), (5000, 2048)):
        clouds = (good[:count], good[:9]) if side == 0 else (good[:9], good[:count])
        So3Grid().register(*clouds)  # type: ignore[arg-type]
        assert sorted(sizes[-1]) == sorted([used, 9]) and sizes[-1][side] == used
    near = -1 + 2e-7 * lumpy(40)  # of negative coordinates, too
    with pytest.raises(NoSolution, match="all equal"):
        So3Grid().register(near, -lumpy(40) - 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["auto", "whole", "partial"])
@pytest.mark.parametrize("is_whole", [False, True])
def test_the_mode_chooses_the_searches_and_the_runner_up_is_the_best_pose_elsewhere(
    monkeypatch: pytest.MonkeyPatch, mode: str, is_whole: bool
) -> None:
    """Poses are shifted copies of one; those at 0.2 or more from the best are other poses."""
    points = tapered(60)

    def shifted(*amounts: float) -> np.ndarray:
        poses = np.tile(pose(1), (len(amounts), 1, 1))
        poses[:, 0, 3] += amounts
        return poses

    asked: list[object] = []
    whole, partial = shifted(0.1, 0.0, 0.21, 0.5), shifted(0.0, 0.19, 0.3)
    squares = np.array([[0.02, 0.06], [0.01, 0.01], [0.03, 0.05], [0.09, 0.09]])
    monkeypatch.setattr(so3_grid, "Pair", lambda a, b: SimpleNamespace(fits=fits, source=a, target=b))
    monkeypatch.setattr(So3Grid, "_whole", lambda self, pair: whole)
    monkeypatch.setattr(So3Grid, "_is_whole", lambda self, pair, poses: asked.append(poses) or is_whole)
    monkeypatch.setattr(
        So3Grid, "_partial", lambda self, pair, also: asked.append(len(also)) or (partial, np.array([0.5, 0.6, 1.25]))
    )

    def fits(poses: np.ndarray, keep: float) -> np.ndarray:
        assert poses is whole and keep == 0.9
        return np.stack([squares, np.full_like(squares, 7.0)], axis=2)

    method = So3Grid(mode=mode)
    method.begin(0)
    T = method._solve(Cloud(points), Cloud(points[:50]))
    views = mode == "partial" or (mode == "auto" and not is_whole)
    assert np.array_equal(T, pose(1))
    runner_up = 1.25 / 0.5 if views else np.sqrt(0.04) / 0.1
    assert method.scratch.notes == {
        "runner_up": pytest.approx(runner_up),
        "confidence": pytest.approx(runner_up),
        "candidates": 3 if views else 4,
    }
    expected: list[object] = [whole] if mode == "auto" else []
    expected += [0 if mode == "partial" else 4] * views
    assert len(asked) == len(expected) and all(a is b or a == b for a, b in zip(asked, expected, strict=True))


@pytest.mark.parametrize(
    ("costs", "runner_up"), [([0.0, 0.5], 10.0), ([0.1, 0.9], 9.0), ([0.1, 2.0], 10.0), ([0.1], 10.0)]
)
def test_the_runner_up_is_at_most_ten(monkeypatch: pytest.MonkeyPatch, costs: list[float], runner_up: float) -> None:
    poses = np.tile(np.eye(4), (len(costs), 1, 1))
    poses[1:, 0, 3] = 0.5
    monkeypatch.setattr(So3Grid, "_partial", lambda self, pair, also: (poses, np.array(costs)))
    method = So3Grid(mode="partial")
    method.begin(0)
    method._solve(Cloud(lumpy(9)), Cloud(lumpy(9)))
    assert method.scratch.notes["runner_up"] == method.scratch.notes["confidence"] == pytest.approx(runner_up)


@pytest.mark.parametrize("rotations", [3, 160])
def test_a_sweep_proposes_the_poses_of_the_least_sums_in_both_directions(
    monkeypatch: pytest.MonkeyPatch, rotations: int
) -> None:
    """Of a rotation R and a shift s of the source; or of Rᵀ and s of the target, which moves the source by R and -R s."""
    draw, calls = np.random.default_rng(0), []
    sums = draw.integers(0, 10**6, (2, rotations, 64))
    shifts = draw.integers(-8, 8, (2, rotations, 64, 3))

    def sweep(field: object, half: float, points: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        calls.append((field, half, points, grid))
        return sums[len(calls) - 1], shifts[len(calls) - 1]

    seen: list[tuple[object, ...]] = []
    monkeypatch.setattr(search, "sweep", sweep)
    monkeypatch.setattr(
        so3_grid, "_two_way_scores", lambda pair, poses, *rest: seen.append((poses, *rest)) or -np.arange(len(poses))
    )
    monkeypatch.setattr(
        so3_grid, "separate", lambda poses, *rest: seen.append((poses, *rest)) or np.arange(min(9, len(poses)))
    )
    clouds = [
        SimpleNamespace(
            field=lambda *numbers, name=name: (name, *numbers),
            even=lambda most, name=name: np.full(3, f"{name} {most}"),
        )
        for name in ("source", "target")
    ]
    found = So3Grid(rotations=rotations, views=70)._sweep(SimpleNamespace(source=clouds[0], target=clouds[1]))  # type: ignore[arg-type]
    grid = search.rotations(rotations)
    for call, (of, points, turns) in zip(
        calls, (("target", "source 128", grid), ("source", "target 128", grid.transpose(0, 2, 1))), strict=True
    ):
        assert call[:2] == ((of, 48, 1.7, 0.1), 1.7) and call[2][0] == points and np.array_equal(call[3], turns)
    step, expected = 3.4 / 47, []
    for total, way, row, block in sorted(
        (sums[way, row, block], way, row, block) for way in range(2) for row in range(rotations) for block in range(64)
    )[:20000]:
        R, s = grid[row], shifts[way, row, block] * step
        expected.append((total, np.c_[R, -R @ s if way else s]))
    (proposed, *by), (scored, *apart) = seen
    assert len(proposed) == min(20000, 2 * 64 * rotations) and by == [(64, 1.7, 0.07), 256]
    assert (
        proposed[:, :3] == pytest.approx(np.array([T for _, T in expected])) and (proposed[:, 3] == [0, 0, 0, 1]).all()
    )
    assert np.array_equal(scored, proposed[::-1][:10000]) and apart == [70, 10.0, 0.1]
    assert np.array_equal(found, scored[:9])


@pytest.mark.parametrize("camera", ["none", "z"])
def test_costs_of_views_weigh_what_cameras_hide_and_would_have_seen(camera: str) -> None:
    draw, poses = np.random.default_rng(0), np.tile(np.eye(4), (5, 1, 1))
    fits, views = draw.uniform(size=(5, 2, 2)), draw.uniform(size=(5, 2, 3))
    calls: list[tuple[object, ...]] = []
    pair = SimpleNamespace(
        fits=lambda *given: calls.append(given) or fits, views=lambda *given: calls.append(given) or views
    )
    costs = So3Grid(camera=camera)._costs(pair, poses, ("a", "b"), 0.07)  # type: ignore[arg-type]
    ((given, *rest),) = calls
    assert given is poses and rest == ([1.0, 0.07] if camera == "none" else [("a", "b"), 1.6, 0.07])
    expected = fits[..., 1].sum(axis=1)
    if camera == "z":
        expected = sum(views[:, side] @ (1.0, 0.4, 10.0) for side in range(2))
    np.testing.assert_allclose(costs, expected)


def test_the_spacing_is_the_distance_between_halves_of_the_clouds() -> None:
    """Root mean square over the nearest 97 % of both halves, of both clouds; a half is half as dense."""
    clouds, squares = (tapered(80), tapered(61, 1)), []
    for cloud in clouds:
        apart = np.linalg.norm(cloud[::2][:, None] - cloud[1::2], axis=2)
        for nearest in (apart.min(axis=1), apart.min(axis=0)):
            squares.append(np.mean(np.sort(nearest)[: round(0.97 * len(nearest))] ** 2) / 2)
    assert so3_grid._spacing(*map(Cloud, clouds)) == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-5)


def test_scores_add_the_penalties_of_both_clouds_at_the_points_of_the_other() -> None:
    clouds, poses = (Cloud(tapered(90)), Cloud(tapered(70, 1))), np.stack([pose(seed, 0.2) for seed in range(4)])
    found = so3_grid._two_way_scores(Pair(*clouds), poses, (32, 1.9, 0.5), 40)
    expected = np.zeros(4)
    for own, other, turns in ((0, 1, poses), (1, 0, np.linalg.inv(poses))):
        points = search.even(clouds[own].points, 40)
        for row, T in enumerate(turns):
            nearest = np.linalg.norm(moved(T, points)[:, None] - clouds[other].points, axis=2).min(axis=1)
            expected[row] += (255 * np.minimum(nearest / 0.5, 1) ** 2).sum()
    np.testing.assert_allclose(found, expected, rtol=0.05)
    assert so3_grid._turns(7)[:, :3, :3] == pytest.approx(search.rotations(7))
