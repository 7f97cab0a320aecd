import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bench.evaluation import metrics
from bench.evaluation.loader import scenes_of
from datasets.symmetry import rotations


def poses(n, seed=0, length=0.5):
    draw = np.random.default_rng(seed)
    T = np.tile(np.eye(4), (n, 1, 1))
    T[:, :3, :3] = Rotation.random(n, rng=draw).as_matrix()
    T[:, :3, 3] = draw.normal(size=(n, 3)) * length
    return T


def turned(degrees, axis=(0, 0, 1)):
    T = np.eye(4)
    T[:3, :3] = Rotation.from_rotvec(np.radians(degrees) * np.array(axis) / np.linalg.norm(axis)).as_matrix()
    return T


def moved(T, points):
    return points @ T[:3, :3].T + T[:3, 3]


@pytest.fixture
def scene():
    draw = np.random.default_rng(3)
    return poses(20, 1), poses(20, 2), draw.uniform(-1, 1, size=(20, 500, 3)).astype(np.float32)


def test_point_errors_are_their_formulas(scene):
    T, truth, points = scene
    for i in range(len(T)):
        p = points[i].astype(np.float64)
        gap = moved(T[i], p) - moved(truth[i], p)
        far = np.linalg.norm(gap, axis=1)
        assert metrics.rmse(T, truth, points)[i] == pytest.approx(np.sqrt((far**2).mean()), rel=1e-12)
        assert metrics.rmse_paper(T, truth, points)[i] == pytest.approx(np.sqrt((far**2).sum()) / 500, rel=1e-12)
        assert metrics.rmse_coordinate(T, truth, points)[i] == pytest.approx(np.sqrt((gap**2).mean()), rel=1e-12)
        assert metrics.mean_distance(T, truth, points)[i] == pytest.approx(far[:100].mean(), rel=1e-12)
        assert metrics.rte(T, truth)[i] == pytest.approx(np.linalg.norm(T[i, :3, 3] - truth[i, :3, 3]), rel=1e-12)


def test_one_cloud_serves_a_batch(scene):
    T, truth, points = scene
    errors = metrics.rmse(T, truth, points[0])
    assert errors.shape == (20,)
    assert errors[7] == pytest.approx(float(metrics.rmse(T[7], truth[7], points[0])), rel=1e-12)


def test_the_scale_the_protocol_quotes():
    """20° on a unit object: mean_distance .132, rmse .141, rmse_paper .0063, rmse_coordinate .082."""
    draw = np.random.default_rng(0)
    points = draw.normal(size=(100_000, 3))
    points *= 0.497 / np.sqrt((points**2).sum(axis=1).mean() * 2 / 3)  # rms distance to the axis
    T = turned(20)
    factor = 2 * np.sin(np.radians(10)) * 0.497
    assert metrics.rmse(T, np.eye(4), points) == pytest.approx(factor, rel=0.01)
    assert metrics.rmse_coordinate(T, np.eye(4), points) == pytest.approx(factor / np.sqrt(3), rel=0.01)


def test_exact_answers_are_exactly_zero(scene):
    T, _, points = scene
    assert (metrics.rmse(T, T, points) == 0).all()
    assert (metrics.mean_distance(T, T, points) == 0).all()
    assert (metrics.rte(T, T) == 0).all()
    assert (metrics.rre_deg(T, T) < 1e-13).all()


@pytest.mark.parametrize(
    "points", [np.zeros((1, 3)), np.ones((5, 3)), np.outer(np.arange(9.0), [1, 2, 3]), np.eye(3)[:2]]
)
def test_degenerate_clouds(points):
    T, truth = poses(4, 5), poses(4, 6)
    brute = [
        np.sqrt(((moved(a, points) - moved(b, points)) ** 2).sum(axis=1).mean()) for a, b in zip(T, truth, strict=True)
    ]
    assert np.allclose(metrics.rmse(T, truth, points), brute, rtol=1e-12)


@pytest.mark.parametrize("degrees", [0, 1e-12, 1e-7, 1e-3, 20, 90, 179, 180 - 1e-6, 180 - 1e-10, 180])
def test_angles_are_accurate_everywhere(degrees):
    truth = poses(50, 8)
    T = truth @ turned(degrees, (1, 2, -3))
    assert np.allclose(metrics.rre_deg(T, truth), degrees, rtol=1e-9, atol=5e-14)


def test_angles_are_scipys(scene):
    T, truth, _ = scene
    relative = Rotation.from_matrix(truth[:, :3, :3]).inv() * Rotation.from_matrix(T[:, :3, :3])
    assert np.allclose(metrics.rre_deg(T, truth), np.degrees(relative.magnitude()))


def test_euler_angles_are_scipys(scene):
    T = scene[0]
    ours = metrics.euler_zyx_deg(T)
    theirs = Rotation.from_matrix(T[:, :3, :3]).as_euler("zyx", degrees=True)
    assert np.allclose(ours, theirs)
    assert metrics.mae_euler_deg(turned(179), turned(-179)) == pytest.approx(2 / 3)
    small, other = turned(10), turned(4, (1, 0, 0))
    assert metrics.mae_euler_deg(small, other) == pytest.approx(14 / 3)


def _brute_symmetric(T, truth, A, points, symmetry, steps=720):
    axis, cosets = rotations(symmetry)
    turns = (
        [np.eye(3)]
        if axis is None
        else Rotation.from_rotvec(np.linspace(0, 2 * np.pi, steps)[:, None] * axis).as_matrix()
    )
    best = np.inf
    for turn in turns:
        for matrix in cosets:
            g = np.eye(4)
            g[:3, :3] = turn @ matrix
            gap = moved(T, points) - moved(truth @ A @ g @ np.linalg.inv(A), points)
            best = min(best, np.sqrt((gap**2).sum(axis=1).mean()))
    return best


@pytest.mark.parametrize("symmetry", ["C1", "C2x", "C5", "D2", "D3y", "O", "Cinf", "Cinfx", "Dinf", "Dinfy"])
def test_symmetric_error_is_the_brute_force_minimum(scene, symmetry):
    T, truth, points = scene
    A = poses(20, 11)
    ours = metrics.rmse_symmetric(T, truth, A, points, symmetry)
    for i in range(6):
        brute = _brute_symmetric(T[i], truth[i], A[i], points[i].astype(float), symmetry)
        assert ours[i] <= brute + 1e-12
        assert ours[i] == pytest.approx(brute, rel=1e-4)


@pytest.mark.parametrize("symmetry", ["C1", "C4", "D6x", "O", "Cinf", "Dinfy"])
def test_every_symmetric_pose_is_as_good_as_the_truth(scene, symmetry):
    _, truth, points = scene
    A = poses(20, 12)
    axis, cosets = rotations(symmetry)
    turn = np.eye(3) if axis is None else Rotation.from_rotvec(1.234 * axis).as_matrix()
    for matrix in cosets:
        g = np.eye(4)
        g[:3, :3] = turn @ matrix
        assert metrics.rmse_symmetric(truth @ A @ g @ np.linalg.inv(A), truth, A, points, symmetry).max() < 1e-14
    no_better = metrics.rmse_symmetric(truth, truth, A, points, "C1")
    assert no_better.max() < 1e-14


def test_evaluate_is_the_functions_one_by_one(scene):
    T, truth, points = scene
    A, which = poses(20, 13), np.array([3, 3, 19, 0])
    few = [p[: 60 if i == 19 else 500] for i, p in enumerate(points)]
    scenes = scenes_of(truth, A, few)
    table = metrics.evaluate(T[:4], which, scenes, "D2")
    assert tuple(table) == metrics.COLUMNS
    for row, problem in enumerate(which):
        for name in ("rmse", "rmse_paper", "rmse_coordinate", "mean_distance"):
            alone = getattr(metrics, name)(T[row], truth[problem], few[problem])
            assert table[name][row] == pytest.approx(float(alone), rel=1e-12)
        alone = metrics.rmse_symmetric(T[row], truth[problem], A[problem], few[problem], "D2")
        assert table["rmse_symmetric"][row] == pytest.approx(float(alone), rel=1e-12)
    for name in ("rre_deg", "rte", "mae_euler_deg"):
        assert np.allclose(table[name], getattr(metrics, name)(T[:4], truth[which]), rtol=1e-12)
    assert np.isnan(metrics.evaluate(T[:4], which, scenes, None)["rmse_symmetric"]).all()
    assert len(metrics.evaluate(T[:0], which[:0], scenes, None)["rmse"]) == 0


def test_the_error_by_information_is_the_rmse_over_the_correspondences_of_small_errors(scene):
    """Λ summed as Choi's tool does, rows of G = [I | 2 [p]ₓᵀ], so that G ξ is the motion of p for half-angle quaternions."""
    _, truth, points = scene
    p = points[0].astype(float)
    for point_error, tolerance in ((1e-3, 1e-3), (0.05, 0.03)):
        T = truth[0] @ turned(np.degrees(point_error), (1, 2, 3))
        T[:3, 3] += point_error * np.array([0.3, -0.5, 0.2])
        G = np.zeros((len(p), 3, 6))
        G[:, :, :3] = np.eye(3)
        for axis in range(3):
            G[:, :, 3 + axis] = 2 * np.cross(np.eye(3)[axis], p)
        information = np.einsum("nki,nkj->ij", G, G)
        assert information[0, 0] == len(p)
        ours = float(metrics.information_rmse(T, truth[0], information))
        assert ours == pytest.approx(float(metrics.rmse(T, truth[0], p)), rel=tolerance)
    assert float(metrics.information_rmse(truth[0], truth[0], information)) < 1e-6


def test_the_error_by_information_weighs_translation_and_half_angle_vector_of_any_rotation():
    """Λ couples them, so that the sign of the quaternion matters; angles up to 180 degrees."""
    draw = np.random.default_rng(3)
    for angle in (0.1, 1.0, 2.0, 3.1):
        axis, root = draw.normal(size=3), draw.normal(size=(6, 6))
        vector, information = angle * axis / np.linalg.norm(axis), root @ root.T
        truth, step = np.eye(4), np.eye(4)
        truth[:3, :3], truth[:3, 3] = Rotation.random(random_state=int(10 * angle)).as_matrix(), draw.normal(size=3)
        step[:3, :3], step[:3, 3] = Rotation.from_rotvec(vector).as_matrix(), draw.normal(size=3)
        xi = np.r_[step[:3, 3], np.sin(angle / 2) * vector / angle]
        expected = np.sqrt(xi @ information @ xi / information[0, 0])
        assert metrics.information_rmse(truth @ step, truth, information) == pytest.approx(expected)


@pytest.mark.parametrize("size", [1, 60, 99, 100, 101, 500])
def test_the_mean_distance_of_a_run_is_over_the_first_hundred_points_there_are(size):
    draw = np.random.default_rng(size)
    points = draw.normal(size=(3, size, 3)).astype(np.float32)
    R = Rotation.random(6, random_state=0).as_matrix()
    T, truth = np.tile(np.eye(4), (2, 3, 1, 1))
    T[:, :3, :3], truth[:, :3, :3] = R[:3], R[3:]
    T[:, :3, 3], truth[:, :3, 3] = draw.normal(size=(2, 3, 3))
    first = np.zeros((3, 100, 3), np.float32)
    first[:, : min(size, 100)] = points[:, :100]
    scenes = metrics.Scenes(truth, truth, metrics.moments(points), first, np.full(3, size))
    which = np.array([2, 0, 1, 1])
    errors = metrics.evaluate(T[which], which, scenes, None)
    for row, k in enumerate(which):
        gap = np.linalg.norm(points[k] @ (T[k] - truth[k])[:3, :3].T + (T[k] - truth[k])[:3, 3], axis=1)
        assert errors["mean_distance"][row] == pytest.approx(gap[:100].mean(), rel=1e-5)
        assert errors["rmse_paper"][row] == pytest.approx(np.sqrt((gap**2).sum()) / size, rel=1e-5)


@pytest.mark.parametrize("shape", [(1,), (5,), (2, 3)])
def test_errors_of_a_batch_are_those_of_its_poses(scene, shape):
    """Of any shape in front, with a cloud, a true pose and a matrix for each."""
    count = int(np.prod(shape))
    T, truth, points = (part[:count] for part in scene)
    draw = np.random.default_rng(5)
    roots = draw.normal(size=(count, 6, 6))
    information = roots @ np.swapaxes(roots, 1, 2)
    of_points = dict.fromkeys(("rmse", "rmse_paper", "rmse_coordinate", "mean_distance"), (truth, points))
    of_poses = dict.fromkeys(("rre_deg", "rte", "mae_euler_deg"), (truth,))
    symmetric = {"rmse_symmetric": (truth, poses(count, 9), points)}
    others = of_points | of_poses | symmetric | {"information_rmse": (truth, information)}
    for name, given in others.items():
        more = ("C4",) if name == "rmse_symmetric" else ()
        error = getattr(metrics, name)
        batch = error(*(part.reshape(*shape, *part.shape[1:]) for part in (T, *given)), *more)
        alone = [float(error(T[i], *(part[i] for part in given), *more)) for i in range(count)]
        assert batch.shape == shape and batch.ravel() == pytest.approx(alone, rel=1e-9), name
