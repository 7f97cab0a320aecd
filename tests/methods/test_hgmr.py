"""HGMR: the tree against scikit-learn and closed forms, the registration by its properties."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from common.errors import InputError
from datasets.problems import ProblemKey, make_problem
from methods.base import NoSolution, Pose, rigid
from methods.geometry import hgmm as hgmm
from methods.hgmr import Hgmr
from tests.catalog import build, open_data
from tests.methods.made import lumpy

GROWTH = hgmm.Growth(levels=3, floor=1e-4, flat=0.0, least=32, iterations=30, tolerance=0.0)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def turn(degrees: float, seed: int = 1) -> np.ndarray:
    axis = np.random.default_rng(seed).normal(size=3)
    return Rotation.from_rotvec(np.deg2rad(degrees) * axis / np.linalg.norm(axis)).as_matrix()


def problem(degrees: float, seed: int = 1, noise: float = 0.0, n: int = 600) -> tuple[np.ndarray, np.ndarray, Pose]:
    """Source, shuffled target, and the true pose."""
    rng = np.random.default_rng(seed)
    T = rigid(turn(degrees, seed), np.array([0.1, -0.05, 0.1]))
    source = lumpy(n)
    target = rng.permutation(source @ T[:3, :3].T + T[:3, 3])
    pair = (c + rng.normal(scale=noise, size=c.shape) if noise else c for c in (source, target))
    first, second = (c.astype(np.float32) for c in pair)
    return first, second, T


def solve(method: Hgmr, *clouds: np.ndarray) -> Pose:
    method.begin(0)
    return method.register(*clouds)


def angle(T: Pose, truth: Pose) -> float:
    """Degrees between two poses' rotations."""
    return float(np.rad2deg(Rotation.from_matrix(T[:3, :3].T @ truth[:3, :3]).magnitude()))


def grown(points: np.ndarray, how: hgmm.Growth = GROWTH) -> hgmm.Tree:
    return hgmm.grow(torch.as_tensor(points), how)


# The tree


@pytest.mark.parametrize(
    "points",
    [
        lumpy(3000),
        lumpy(3000) * [1, 1, 0],
        np.random.default_rng(0).normal(size=(3000, 3)),
        np.repeat(lumpy(300), 10, 0),
    ],
    ids=["surface", "plane", "normal", "duplicates"],
)
def test_the_likelihood_never_falls_during_em_in_any_level(points: np.ndarray) -> None:
    tree = grown(points)
    assert len(tree.levels) >= 2
    for told in tree.history:
        assert len(told) > 1 and np.diff(told).min() > -1e-9 and told[-1] > told[0]


def test_one_level_agrees_with_scikit_learn_from_the_same_start() -> None:
    points = lumpy(2000)
    how = GROWTH._replace(levels=1, floor=1e-6, iterations=16)
    first = hgmm.grow(torch.as_tensor(points), how._replace(iterations=1)).levels[0]
    level = hgmm.grow(torch.as_tensor(points), how).levels[0]
    start = (first.axes / first.variance[:, None, :]) @ first.axes.transpose(1, 2)
    other = GaussianMixture(
        8,
        reg_covar=0,
        tol=0,
        max_iter=15,
        means_init=first.mean,
        weights_init=first.log_weight.exp(),
        precisions_init=start,
    )
    with pytest.warns(Warning, match="did not converge"):
        other.fit(points)
    assert np.allclose(level.mean, other.means_, atol=1e-8)
    assert np.allclose(level.log_weight.exp(), other.weights_, atol=1e-8)
    covariance = (level.axes * level.variance[:, None, :]) @ level.axes.transpose(1, 2)
    assert np.allclose(covariance, other.covariances_, atol=1e-8)


def test_coefficients_are_logarithms_of_weighted_densities() -> None:
    points = lumpy(500)
    level = grown(points).levels[0]
    for blur in (0.0, 0.2):
        found = level.coefficients(blur) @ hgmm.monomials(torch.as_tensor(points[:20])).T
        for k in range(8):
            covariance = (level.axes[k] * level.variance[k]) @ level.axes[k].T + blur**2 * torch.eye(3)
            expected = multivariate_normal(level.mean[k].numpy(), covariance.numpy()).logpdf(points[:20])
            assert np.allclose(found[k], expected + float(level.log_weight[k]))


def test_few_and_many_components_are_evaluated_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    points = torch.as_tensor(lumpy(2000))
    tree = grown(lumpy(4000))
    coefficients = [level.coefficients() for level in tree.levels]
    dense = hgmm.descend(tree.levels, coefficients, points)
    monkeypatch.setattr(hgmm, "_DENSE", 0)
    gathered = hgmm.descend(tree.levels, coefficients, points)
    assert all(torch.allclose(a, b, atol=1e-9) for a, b in zip(dense, gathered, strict=True))


def test_nodes_that_are_flat_or_have_few_points_are_leaves() -> None:
    box = np.random.default_rng(0).uniform(-1, 1, size=(2000, 3))
    assert len(grown(box * [1, 1, 0], GROWTH._replace(flat=0.01)).levels) == 1
    assert len(grown(box, GROWTH._replace(flat=0.01)).levels) == 3
    assert len(grown(box, GROWTH._replace(least=2000)).levels) == 1
    tree = grown(box)
    for level, below in zip(tree.levels, tree.levels[1:], strict=False):
        children = below.log_weight.exp().view(-1, 8).sum(dim=1)
        assert torch.allclose(children, level.open.double())


def test_seeds_turn_with_the_points() -> None:
    points = torch.as_tensor(lumpy(400))
    node = torch.as_tensor(np.arange(400) % 3)
    turned = points @ torch.as_tensor(turn(70)).T
    assert torch.equal(hgmm.seeds(points, node, 3), hgmm.seeds(turned, node, 3))
    assert len(hgmm.seeds(points, node, 3).unique()) == 8


def test_a_step_is_the_least_squares_step_along_principal_axes() -> None:
    tree = grown(lumpy(800), GROWTH._replace(levels=1))
    level, points = tree.levels[0], torch.as_tensor(lumpy(50, 3) @ turn(5).T)
    bound, _ = hgmm.descend(tree.levels, [level.coefficients()], points)
    share, _ = hgmm.shares((level.coefficients() @ hgmm.monomials(points).T).T)
    rows, sides = [], []
    for p, weights in zip(points.numpy(), share.numpy(), strict=True):
        for k in range(8):
            for a in range(3):
                n = level.axes[k, :, a].numpy()
                w = np.sqrt(weights[k] / float(level.variance[k, a]))
                rows.append(w * np.hstack([np.cross(p, n), n]))
                sides.append(w * n @ (level.mean[k].numpy() - p))
    expected = np.linalg.lstsq(np.array(rows), np.array(sides), rcond=None)[0]
    assert np.allclose(hgmm.newton_step(points, bound, 0.0), expected, atol=1e-8)


# The registration


@pytest.mark.parametrize("index", range(0, 40, 5))
@pytest.mark.parametrize("condition", ["clean", "noisy"])
def test_small_turns_are_undone_on_shapes(condition: str, index: int) -> None:
    shapes = open_data("shapes40")
    made = make_problem(shapes, ProblemKey("shapes40", condition, 512, index, split="train", angles=(0.0, 15.0)))
    T = solve(Hgmr(), made.source, made.target)
    difference = T - made.T_target_source
    error = made.source @ difference[:3, :3].T + difference[:3, 3]
    assert np.sqrt(np.square(error).sum(axis=1).mean()) < 0.03


def test_a_noisy_pair_is_aligned_and_it_says_so() -> None:
    source, target, truth = problem(15, noise=0.01)
    method = Hgmr()
    T = solve(method, source, target)
    assert angle(T, truth) < 1 and np.abs(T[:3, 3] - truth[:3, 3]).max() < 0.01
    notes = method.scratch.notes
    assert notes["converged"] and notes["iterations"] < 60 and notes["confidence"] > 0.95
    assert set(method.scratch.stages) == {"tree", "solve"}


def test_confidence_is_lower_where_it_is_lost() -> None:
    method, said = Hgmr(), {}
    for degrees in (10, 170):
        source, target, _ = problem(degrees)
        solve(method, source, target)
        said[degrees] = method.scratch.notes["confidence"]
    assert said[170] < said[10]


def test_it_degrades_with_rotation_and_the_blur_widens_its_reach() -> None:
    found = {}
    for blur in (0.0, 0.3):
        for degrees in (20, 60, 160):
            runs = [problem(degrees, seed) for seed in range(6)]
            found[blur, degrees] = np.mean([angle(solve(Hgmr(blur=blur), s, t), T) < 5 for s, t, T in runs])
    assert found[0.3, 20] == 1 and found[0.3, 60] > found[0.0, 60] and found[0.3, 160] < 0.5


def test_turning_both_clouds_conjugates_the_answer() -> None:
    source, target, _ = problem(15, noise=0.005)
    Q = rigid(turn(20, 5), np.zeros(3))
    T = solve(Hgmr(), source, target)
    turned = solve(Hgmr(), *((c @ Q[:3, :3].T).astype(np.float32) for c in (source, target)))
    assert np.allclose(turned, Q @ T @ Q.T, atol=1e-3)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_scale_changes_nothing_but_the_translation(scale: float) -> None:
    source, target, _ = problem(12)
    a, b = solve(Hgmr(), source, target), solve(Hgmr(), source * np.float32(scale), target * np.float32(scale))
    assert np.allclose(a[:3, :3], b[:3, :3], atol=1e-4) and np.allclose(scale * a[:3, 3], b[:3, 3], atol=1e-3 * scale)


def test_it_starts_where_it_is_told_and_follows_others() -> None:
    source, target, truth = problem(150)
    near = truth @ rigid(turn(10, 3), np.array([0.02, 0.0, 0.0]))
    assert angle(solve(Hgmr(), source, target), truth) > 10
    assert angle(solve(Hgmr(), source, target, near), truth) < 0.2
    chain = build("index_match+hgmr")
    chain.setup("cpu", 0, "shapes40")
    chain.begin(0)
    ordered = (source @ truth[:3, :3].T + truth[:3, 3]).astype(np.float32)
    assert angle(chain.register(source, ordered), truth) < 0.2


def test_outliers_are_withstood() -> None:
    source, target, truth = problem(8)
    stray = np.random.default_rng(0).uniform(0.8, 1.2, size=(60, 3)).astype(np.float32)
    error = [angle(solve(Hgmr(outliers=o), np.vstack([source, stray]), target), truth) for o in (0.0, 1e-3)]
    assert error[1] < 0.5 and error[0] > 10


def test_clouds_out_of_reach_are_told() -> None:
    source, target, _ = problem(5)
    with pytest.raises(NoSolution, match="nearer"):
        solve(Hgmr(), source, target + np.float32(20))


POOR = {
    "three points": np.eye(3),
    "few": lumpy(9),
    "plane": lumpy(200) * [1, 1, 0],
    "duplicates": np.repeat(lumpy(20), 10, axis=0),
    "line": np.outer(np.arange(50.0), [1, 2, 3]),
    "equal": np.ones((50, 3)),
    "one far point": np.vstack([lumpy(200), [[1e6, 0, 0]]]),
    "nan": np.full((50, 3), np.nan),
}


@pytest.mark.parametrize("name", POOR)
def test_poor_clouds_give_a_rigid_pose_or_a_reason(name: str) -> None:
    poor, good = POOR[name].astype(np.float32), lumpy(200).astype(np.float32)
    for clouds in ((poor, poor[::-1].copy()), (poor, good), (good, poor)):
        try:
            T = solve(Hgmr(levels=3, least_points=1), *clouds)
        except NoSolution as reason:
            assert str(reason)
        else:
            assert np.allclose(T[:3, :3] @ T[:3, :3].T, np.eye(3), atol=1e-6) and np.linalg.det(T[:3, :3]) > 0


def test_what_it_keeps_grows_with_the_points_not_with_their_square() -> None:
    large = lumpy(65_536).astype(np.float32)
    T = solve(Hgmr(levels=3, iterations=2), large, large)
    assert angle(T, np.eye(4)) < 1


def test_bad_parameters_are_one_line() -> None:
    for given in ({"levels": 0}, {"blur": -1.0}, {"outliers": np.inf}, {"floor": 0.0}):
        with pytest.raises(InputError) as caught:
            Hgmr(**given)
        assert "\n" not in str(caught.value)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_agrees_with_the_cpu() -> None:
    source, target, _ = problem(20, noise=0.01)
    on_gpu = Hgmr()
    on_gpu.setup("cuda", 0, "")
    assert np.allclose(solve(on_gpu, source, target), solve(Hgmr(), source, target), atol=1e-4)
