"""ICP, FGR, RANSAC and what they share, against SciPy, closed forms and properties."""

import itertools

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from common.errors import InputError
from methods.base import Method, NoSolution, rigid
from methods.fgr import Fgr
from methods.geometry import ransac
from methods.geometry.features import normals, radius, unit_pair
from methods.geometry.icp import FLAT, KERNELS, METRICS, directions, step, thinned
from methods.icp import Icp
from methods.ransac import Ransac
from tests.methods.made import lumpy

METHODS: list[Method] = [Icp(), Fgr(), Ransac(iterations=2000)]
GLOBAL = METHODS[1:]


def problem(
    degrees: float, seed: int = 1, n: int = 600, scale: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Source, shuffled target, and the true pose of source in the target's frame."""
    rng = np.random.default_rng(seed)
    axis = rng.normal(size=3)
    R = Rotation.from_rotvec(np.deg2rad(degrees) * axis / np.linalg.norm(axis)).as_matrix()
    T = rigid(R, scale * np.array([0.2, -0.1, 0.15]))
    source = scale * lumpy(n)
    target = rng.permutation(source @ R.T + T[:3, 3])
    return source.astype(np.float32), target.astype(np.float32), T


def solve(method: Method, *clouds: np.ndarray, seed: int = 5) -> np.ndarray:
    method.begin(seed)
    return method.register(*clouds)


@pytest.mark.parametrize("method", GLOBAL, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("degrees", [5, 100, 179])
def test_global_methods_map_source_into_target_at_any_angle(method: Method, degrees: float) -> None:
    source, target, truth = problem(degrees)
    assert np.abs(solve(method, source, target) - truth).max() < 1e-3


def test_icp_is_exact_from_a_near_start_and_says_so() -> None:
    source, target, truth = problem(10)
    icp = Icp()
    assert np.abs(solve(icp, source, target) - truth).max() < 1e-4
    assert icp.scratch.notes["converged"] and icp.scratch.notes["iterations"] < 50
    assert set(icp.scratch.stages) == {"normals", "refine"}


def test_icp_starts_where_it_is_told() -> None:
    source, target, truth = problem(150)
    near = truth @ rigid(Rotation.from_euler("z", 5, degrees=True).as_matrix(), np.array([0.02, 0.0, 0.0]))
    assert np.abs(solve(Icp(), source, target) - truth).max() > 0.1  # from the identity it is lost
    assert np.abs(solve(Icp(), source, target, near) - truth).max() < 1e-4
    assert np.allclose(solve(Icp(tolerance=10), source, target, truth), truth, atol=1e-5)


def test_trimming_withstands_points_without_a_match() -> None:
    source, target, truth = problem(8)
    stray = np.random.default_rng(0).uniform(1.5, 2, size=(60, 3)).astype(np.float32)
    error = [np.abs(solve(Icp(trim=t), np.vstack([source, stray]), target) - truth).max() for t in (0.0, 0.2)]
    assert error[1] < 1e-4 < 1e-2 < error[0]


def test_point_to_plane_step_undoes_a_small_move_but_for_its_damping() -> None:
    rng = np.random.default_rng(3)
    p, n = rng.normal(size=(2, 500, 3))
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    turn, shift = np.array([2e-4, -1e-4, 3e-4]), np.array([1e-4, 2e-4, -1e-4])
    T, size = step(p, p @ Rotation.from_rotvec(turn).as_matrix().T + shift, n[:, None])
    assert np.allclose(Rotation.from_matrix(T[:3, :3]).as_rotvec(), turn, rtol=0.05, atol=2e-6)
    assert np.allclose(T[:3, 3], shift, rtol=0.05, atol=2e-6)
    assert size == pytest.approx(np.linalg.norm(turn), rel=0.05)


@pytest.mark.parametrize("kernel", ["none", *KERNELS])
@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_and_kernel_is_exact_from_a_near_start(metric: str, kernel: str) -> None:
    source, target, truth = problem(12)
    found = solve(Icp(metric=metric, kernel=kernel, width=0.3, iterations=200), source, target)
    assert np.abs(found - truth).max() < 1e-3


def test_point_to_point_converges_to_the_least_squares_pose_of_its_matches() -> None:
    source, target, _ = problem(8)
    noisy = (target + np.random.default_rng(2).normal(scale=0.01, size=target.shape)).astype(np.float32)
    T = solve(Icp(metric="point", trim=0.0, iterations=500, tolerance=1e-9), source, noisy)
    moved = source @ T[:3, :3].T + T[:3, 3]
    nearest = noisy[cdist(moved, noisy).argmin(axis=1)]
    R, _ = Rotation.align_vectors(nearest - nearest.mean(axis=0), source - source.mean(axis=0))
    assert np.abs(T[:3, :3] - R.as_matrix()).max() < 1e-4


def test_generalized_weighs_residuals_by_the_inverse_of_both_covariances() -> None:
    rng = np.random.default_rng(4)
    n, m, r = rng.normal(size=(3, 20, 3))
    n, m = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (n, m))
    ours = (np.einsum("kdj,kj->kd", directions("generalized", n, m), r) ** 2).sum(axis=1)
    for k in range(20):
        flat = []
        for normal in (n[k], m[k]):
            Q = np.linalg.svd(normal[None])[2]  # the first row is the normal, the others span its plane
            flat.append(Q.T @ np.diag([FLAT, 1, 1]) @ Q)
        assert ours[k] == pytest.approx(2 * FLAT * r[k] @ np.linalg.inv(flat[0] + flat[1]) @ r[k])


@pytest.mark.parametrize("kernel", KERNELS)
def test_robust_kernels_resist_strays_that_are_not_trimmed(kernel: str) -> None:
    source, target, truth = problem(2)
    stray = np.random.default_rng(5).uniform(0.3, 0.7, size=(200, 3)).astype(np.float32)
    error = [
        np.abs(
            solve(Icp(trim=0.0, kernel=k, width=0.05, iterations=200), np.vstack([source, stray]), target) - truth
        ).max()
        for k in ("none", kernel)
    ]
    assert error[1] < (0.8 if kernel == "huber" else 0.5) * error[0]  # Huber's only bounds their pull


def test_from_coarse_to_fine_reaches_farther() -> None:
    starts = [problem(angle, seed) for angle in (50, 65, 80) for seed in range(6)]
    won = [
        sum(np.abs(solve(Icp(levels=levels, iterations=100), a, b) - truth).max() < 0.01 for a, b, truth in starts)
        for levels in (1, 3)
    ]
    assert won[1] >= won[0] and won[1] > 0


def test_thinned_keeps_one_point_of_each_cell() -> None:
    cloud = np.random.default_rng(6).uniform(size=(400, 3))
    rows = thinned(cloud, 0.3)
    cells = np.floor((cloud - cloud.min(axis=0)) / 0.3)
    assert len(rows) == len(np.unique(cells, axis=0)) == len(np.unique(cells[rows], axis=0))


def test_after_another_method_far_partners_are_left_out() -> None:
    """A half without counterpart pulls on what is already right, unless a distance bounds the matches."""
    source, target, truth = problem(20)
    seen = target[((target - target.mean(axis=0)) @ truth[:3, 0]) > 0]
    error = [np.abs(solve(Icp(distance=d), source, seen, truth) - truth).max() for d in (np.inf, None)]
    assert error[1] <= error[0]


def test_a_noisy_plate_does_not_slide_away() -> None:
    rng = np.random.default_rng(0)
    source, target = (rng.uniform(-1, 1, size=(2, 300, 3)) * [1, 1, 0]) + rng.normal(scale=0.01, size=(2, 300, 3))
    T = solve(Icp(), source.astype(np.float32), target.astype(np.float32))
    assert np.abs(T[:3, 3]).max() < 0.5


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_same_seed_same_bits(method: Method) -> None:
    source, target, _ = problem(15)
    noisy = source + np.random.default_rng(0).normal(scale=0.01, size=source.shape).astype(np.float32)
    first, again = solve(method, noisy, target), solve(method, noisy, target)
    assert first.tobytes() == again.tobytes()


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_scale_changes_nothing_but_the_translation(method: Method) -> None:
    unit, large = problem(12)[:2], problem(12, scale=1000.0)[:2]
    a, b = solve(method, *unit), solve(method, *large)
    a[:3, 3] *= 1000
    assert np.allclose(a[:3, :3], b[:3, :3], atol=1e-4)
    assert np.allclose(a[:3, 3], b[:3, 3], atol=0.5)


LINE = np.outer(np.linspace(0, 1, 50), [1.0, 2.0, 3.0])
BAD = {
    "empty": np.zeros((0, 3)),
    "one": np.ones((1, 3)),
    "two": np.eye(3)[:2],
    "equal": np.full((50, 3), 0.3),
    "line": LINE,
    "line far away": LINE + 1e4,
    "nan": np.where(np.arange(150).reshape(50, 3) == 7, np.nan, lumpy(50)),
    "inf": np.where(np.arange(150).reshape(50, 3) == 7, np.inf, lumpy(50)),
    "shape": np.zeros((50, 2)),
}


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(("name", "side"), list(itertools.product(BAD, (0, 1))))
def test_clouds_that_fix_no_pose_are_refused_with_a_reason(method: Method, name: str, side: int) -> None:
    clouds = [lumpy(50).astype(np.float32)] * 2
    clouds[side] = BAD[name].astype(np.float32)
    with pytest.raises(NoSolution, match="target" if side else "source"):
        solve(method, *clouds)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("cloud", [np.eye(3), lumpy(4), lumpy(40) * [1, 1, 0], lumpy(40) * 1e6, lumpy(40) * 1e-6])
def test_poor_clouds_give_a_rigid_pose_or_a_reason(method: Method, cloud: np.ndarray) -> None:
    try:
        T = solve(method, cloud.astype(np.float32), cloud[::-1].astype(np.float32))
    except NoSolution as reason:
        assert str(reason)
    else:
        assert np.isfinite(T).all()
        assert np.allclose(T[:3, :3] @ T[:3, :3].T, np.eye(3), atol=1e-6) and np.linalg.det(T[:3, :3]) > 0


def test_unit_pair_is_the_same_under_rotation_and_its_poses_go_there_and_back() -> None:
    source, target, truth = problem(120)
    pair = unit_pair(source, target)
    assert unit_pair(source @ truth[:3, :3].T, target).scale == pytest.approx(pair.scale, rel=1e-5)
    assert np.allclose(pair.answer(pair.to_unit(truth)), truth)
    moved = source @ truth[:3, :3].T + truth[:3, 3]
    unit = pair.source @ pair.to_unit(truth)[:3, :3].T + pair.to_unit(truth)[:3, 3]
    assert np.allclose(unit * pair.scale + pair.target_centre, moved, atol=1e-5)
    with pytest.raises(NoSolution, match="not a rotation"):
        pair.answer(np.diag([1.0, 1.0, -1.0, 1.0]))
    with pytest.raises(NoSolution, match="not finite"):
        pair.answer(np.full((4, 4), np.nan))


def test_an_answer_is_a_rotation_to_rounding_and_nothing_else() -> None:
    source, target, _ = problem(120)
    pair = unit_pair(source, target)
    for R in Rotation.random(50, random_state=0).as_matrix():
        np.testing.assert_array_equal(pair.answer(rigid(R, np.ones(3)))[:3, :3], R)
        sheared = R + 1e-4 * np.outer(R[0], R[1])
        for wrong in (-R, R[:, [1, 0, 2]], 1.001 * R, 0.999 * R, sheared, np.zeros((3, 3))):
            with pytest.raises(NoSolution, match="not a rotation"):
                pair.answer(rigid(wrong, np.ones(3)))


@pytest.mark.parametrize("n", [3, 4, 20, 21, 1000])
def test_the_radius_is_numpys_quantile(n: int) -> None:
    cloud = lumpy(n)
    assert radius((cloud**2).sum(axis=1)) == pytest.approx(np.quantile(np.linalg.norm(cloud, axis=1), 0.95), rel=1e-12)


def test_three_points_are_enough_for_the_check() -> None:
    corners = np.eye(3, dtype=np.float32)
    assert unit_pair(corners, corners).source.shape == (3, 3)


@pytest.mark.parametrize("orientation", ["outward", "tangent_plane"])
def test_normals_of_a_sphere_point_outward(orientation: str) -> None:
    u = lumpy(800)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    n = normals(u, 0.3, orientation)
    assert np.mean(np.einsum("ij,ij->i", n, u) > 0.9) > 0.99


def test_bad_parameters_are_one_line() -> None:
    for make in (
        lambda: Icp(trim=1.0),
        lambda: Icp(distance=0.0),
        lambda: Icp(metric="plain"),
        lambda: Icp(kernel="hubert"),
        lambda: Icp(iterations=0),
        lambda: Fgr(orientation="outwards"),
        lambda: Ransac(distance=-1.0),
    ):
        with pytest.raises(InputError) as caught:
            make()
        assert "\n" not in str(caught.value)


def test_triple_poses_are_least_squares() -> None:
    rng = np.random.default_rng(2)
    p = rng.normal(size=(30, 3, 3))
    q = p @ Rotation.random(random_state=4).as_matrix().T + rng.normal(scale=0.02, size=p.shape)
    R, t = ransac.triple_poses(*(x.transpose(2, 1, 0).astype(np.float32) for x in (p, q)))
    for b in range(30):
        expected, _ = Rotation.align_vectors(q[b] - q[b].mean(axis=0), p[b] - p[b].mean(axis=0))
        assert np.allclose(R[..., b], expected.as_matrix(), atol=1e-4)
        assert np.allclose(t[:, b], q[b].mean(axis=0) - R[..., b] @ p[b].mean(axis=0), atol=1e-5)


def test_scores_are_counts_of_inliers() -> None:
    rng = np.random.default_rng(2)
    p = rng.normal(size=(300, 3))
    truth = rigid(Rotation.random(random_state=1).as_matrix(), rng.normal(size=3))
    q = p @ truth[:3, :3].T + truth[:3, 3] + rng.normal(scale=0.05, size=p.shape)
    turns = Rotation.from_rotvec(rng.normal(scale=0.05, size=(40, 3))).as_matrix() @ truth[:3, :3]
    moved = np.einsum("bij,kj->bki", turns, p) + truth[:3, 3]
    counts = (np.linalg.norm(moved - q, axis=2) < 0.1).sum(axis=1)
    t = np.repeat(truth[:3, 3:], 40, axis=1)
    poses = ransac.pose_features(turns.transpose(1, 2, 0).astype(np.float32), t.astype(np.float32))
    features = ransac.match_features(p, q, 0.1)
    assert ransac.best_pose(poses, features, 0) == (counts.argmax(), counts.max())
    assert ransac.best_pose(poses, features, int(counts.max()) - 1) == (counts.argmax(), counts.max())
    assert ransac.best_pose(poses, features, int(counts.max())) == (0, 0)


def test_least_squares_agrees_with_scipy() -> None:
    rng = np.random.default_rng(8)
    p, q = rng.normal(size=(2, 40, 3))
    T = ransac.least_squares(p, q)
    expected, _ = Rotation.align_vectors(q - q.mean(axis=0), p - p.mean(axis=0))
    assert np.allclose(T[:3, :3], expected.as_matrix(), atol=1e-9)
    assert np.allclose(p.mean(axis=0) @ T[:3, :3].T + T[:3, 3], q.mean(axis=0))
    with pytest.raises(NoSolution, match="line"):
        ransac.least_squares(LINE, LINE)


def test_ransac_finds_one_right_match_in_twenty_if_it_tries_often_enough() -> None:
    rng = np.random.default_rng(0)
    p, q = rng.uniform(-1, 1, size=(2, 400, 3))
    truth = rigid(Rotation.random(random_state=3).as_matrix(), np.array([0.1, 0.2, 0.3]))
    q[:20] = p[:20] @ truth[:3, :3].T + truth[:3, 3]
    T, inliers = ransac.ransac(p, q, 200_000, 0.05, 0.9, np.random.default_rng(1))
    assert 20 <= inliers <= 30
    assert np.abs(T - truth).max() < 0.05
    with pytest.raises(NoSolution, match="none of 10 triples"):
        ransac.ransac(p[20:], q[20:], 10, 1e-4, 0.9, np.random.default_rng(1))


def test_the_two_ransacs_do_all_their_iterations() -> None:
    assert {k: v["iterations"] for k, v in Ransac.variants.items()} == {"ransac10k": 10_000, "ransac10m": 10_000_000}
    source, target, _ = problem(30)
    method = Ransac(iterations=30_001)
    solve(method, source, target)
    assert method.scratch.notes["iterations"] == 30_001
    assert set(method.scratch.stages) == {"normals", "features", "matching", "solve"}
