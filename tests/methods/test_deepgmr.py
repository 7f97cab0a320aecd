"""DeepGMR: features against the definition, compute blocks against SciPy and finite differences, the method by its properties."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

from common.errors import InputError
from methods.base import NoSolution, Unavailable
from methods.deepgmr import PRECISIONS, DeepGMR, usable_precision
from methods.learned.weights import Card, choose, read_card, read_tensors, save
from methods.nn import pointnet as pointnet_module
from methods.nn import rri as rri_module
from methods.nn.gmm import Mixture, align, kabsch, mixture, pose_loss, rotation_of
from methods.nn.gmr import GmrConfig, GmrNet
from methods.nn.pointnet import FoldedLayer, PointNet, QuantisedLayer, RoundingLayer, max_pool
from methods.nn.rri import rigid_invariant_features
from tests.methods.made import moved, pose

SMALL = GmrConfig(k=8, local=(16, 32), head=(24, 16), components=6)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def blob(n: int, seed: int = 0) -> np.ndarray:
    """An asymmetric cloud (n, 3) of about unit size."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, 3)) * [0.5, 0.3, 0.2]
    return (x + 0.2 * np.abs(x[:, [1, 2, 0]])).astype(np.float32)


# Features


def by_definition(cloud: np.ndarray, k: int) -> np.ndarray:
    """RRI point by point, neighbour by neighbour, as the paper's prose has it."""
    x = cloud - cloud.mean(0)
    rows = []
    for i, p in enumerate(x):
        near = sorted((j for j in range(len(x)) if j != i), key=lambda j: np.linalg.norm(x[j] - p))[:k]
        normal = p / np.linalg.norm(p)
        flat = [x[j] - (x[j] @ normal) * normal for j in near]

        def turn(a: np.ndarray, b: np.ndarray, n: np.ndarray = normal) -> float:
            return math.atan2(float(np.cross(a, b) @ n), float(a @ b)) % (2 * math.pi)

        angle = [math.acos(np.clip(normal @ x[j] / np.linalg.norm(x[j]), -1, 1)) for j in near]
        gap = [min(turn(a, b) for m, b in enumerate(flat) if m != r) for r, a in enumerate(flat)]
        rows.append([np.linalg.norm(p)] * k + [np.linalg.norm(x[j]) for j in near] + angle + gap)
    return np.array(rows)


def test_rri_is_its_definition() -> None:
    cloud = blob(60).astype(np.float64)
    ours = rigid_invariant_features(torch.from_numpy(cloud)[None], 7)[0].numpy()
    np.testing.assert_allclose(ours, by_definition(cloud, 7), atol=1e-9)


def test_rri_does_not_change_with_the_pose() -> None:
    cloud = blob(300).astype(np.float64)
    other = cloud @ pose(3)[:3, :3].T + [5.0, -2.0, 1.0]
    both = rigid_invariant_features(torch.from_numpy(np.stack([cloud, other])))
    assert both.shape == (2, 300, 80)
    torch.testing.assert_close(both[0], both[1], atol=1e-8, rtol=0)


def test_rri_changes_under_reflection() -> None:
    cloud = torch.from_numpy(blob(200).astype(np.float64))[None]
    assert (
        rigid_invariant_features(cloud) - rigid_invariant_features(cloud * torch.tensor([-1.0, 1.0, 1.0]))
    ).abs().max() > 0.1


def test_rri_follows_the_order_of_points() -> None:
    cloud = torch.from_numpy(blob(200).astype(np.float64))[None]
    order = torch.randperm(200)
    torch.testing.assert_close(
        rigid_invariant_features(cloud[:, order]), rigid_invariant_features(cloud)[:, order], atol=1e-9, rtol=0
    )


def test_brute_force_neighbours_are_the_tree_s() -> None:
    cloud = torch.from_numpy(blob(500).astype(np.float64))
    tree, blocks = rri_module._Tree(cloud), rri_module._Blocks(cloud)
    for rows in (slice(0, 500), slice(120, 301)):
        assert torch.equal(blocks(rows, 20), tree(rows, 20))


def test_neighbours_where_duplicates_crowd_a_point_out() -> None:
    cloud = torch.from_numpy(np.repeat(blob(6), 10, axis=0).astype(np.float64))
    for search in (rri_module._Tree(cloud), rri_module._Blocks(cloud)):
        found = search(slice(0, 60), 5)
        assert found.shape == (60, 5) and (found // 10 == torch.arange(60)[:, None] // 10).all()
        assert not (found == torch.arange(60)[:, None]).any()


@pytest.mark.parametrize("n", [128, 1024, 1025, 2500])
def test_rri_in_blocks_and_threads_is_rri(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    clouds = torch.from_numpy(np.stack([blob(n, s) for s in range(3)]))
    usual = rigid_invariant_features(clouds)
    torch.set_num_threads(3)
    assert torch.equal(rigid_invariant_features(clouds), usual)
    monkeypatch.setattr(rri_module, "_ROWS", 100)
    torch.testing.assert_close(rigid_invariant_features(clouds), usual, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "cloud",
    [
        np.zeros((30, 3)),
        np.outer(np.linspace(-1, 1, 31), [1.0, 2.0, 3.0]),
        np.repeat(blob(10), 5, axis=0),
        np.vstack([np.zeros((1, 3)), blob(30) - blob(30).mean(0)]),
    ],
    ids=["all equal", "collinear", "duplicates", "a point at the centroid"],
)
def test_rri_is_defined_everywhere(cloud: np.ndarray) -> None:
    features = rigid_invariant_features(torch.from_numpy(cloud.astype(np.float64))[None])[0]
    assert torch.isfinite(features).all()
    assert (features >= 0).all()
    assert (features[:, 40:60] <= math.pi + 1e-9).all() and (features[:, 60:] <= 2 * math.pi + 1e-9).all()


def test_rri_of_a_parallel_neighbour_and_of_the_centroid() -> None:
    cross = np.array(
        [[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 0], [0.5, 0, 0], [-0.5, 0, 0]], dtype=np.float64
    )
    features = rigid_invariant_features(torch.from_numpy(cross)[None], 6)[0].reshape(7, 4, 6).numpy()
    assert features[4, 2].tolist() == [0] * 6 and features[4, 3].tolist() == [0] * 6
    near = features[0, 3]  # of (1, 0, 0): only (0, ±1, 0) have a direction around it, half a turn apart
    assert sorted(np.round(near, 6)) == [0, 0, 0, 0, round(math.pi, 6), round(math.pi, 6)]


def test_rri_needs_k_and_one_points() -> None:
    with pytest.raises(ValueError, match="at least 21"):
        rigid_invariant_features(torch.zeros(1, 20, 3))


# The two blocks


def test_mixture_is_the_weighted_moments() -> None:
    x = torch.from_numpy(blob(100).astype(np.float64)) + 3
    gamma = torch.rand(100, 5, dtype=torch.float64).softmax(-1)
    made = mixture(gamma[None], x[None])
    for j in range(5):
        w = gamma[:, j].numpy()
        mean = np.average(x.numpy(), axis=0, weights=w)
        scatter = np.cov(x.numpy().T, aweights=w, ddof=0)
        assert made.pi[0, j].item() == pytest.approx(w.mean())
        np.testing.assert_allclose(made.mu[0, j], mean, atol=1e-12)
        assert made.sigma2[0, j].item() == pytest.approx(np.trace(scatter) / 3)


def random_mixtures(seed: int) -> tuple[Mixture, Mixture]:
    draw = np.random.default_rng(seed)

    def one() -> Mixture:
        parts = draw.dirichlet(np.ones(8)), draw.normal(size=(8, 3)), draw.uniform(0.01, 0.3, 8)
        return Mixture(*(torch.from_numpy(p)[None] for p in parts))

    return one(), one()


@pytest.mark.parametrize("seed", range(4))
def test_align_is_the_optimum_scipy_finds(seed: int) -> None:
    source, target = random_mixtures(seed)
    w = (source.pi / target.sigma2)[0].numpy()
    mu_s, mu_t = source.mu[0].numpy(), target.mu[0].numpy()

    def cost(x: np.ndarray) -> float:
        apart = Rotation.from_rotvec(x[:3]).apply(mu_s) + x[3:] - mu_t
        return float(w @ (apart**2).sum(1))

    T = align(source, target)[0].numpy()
    ours = cost(np.concatenate([Rotation.from_matrix(T[:3, :3]).as_rotvec(), T[:3, 3]]))
    starts = [np.concatenate([Rotation.random(random_state=s).as_rotvec(), mu_t.mean(0)]) for s in range(12)]
    best = min(minimize(cost, start, method="BFGS").fun for start in starts)
    assert ours == pytest.approx(best, rel=1e-6)
    printed = align(source, target, "printed")[0].numpy()
    assert cost(np.concatenate([Rotation.from_matrix(printed[:3, :3]).as_rotvec(), printed[:3, 3]])) > ours


def test_kabsch_is_scipy_s_align_vectors() -> None:
    draw = np.random.default_rng(1)
    a, b, w = draw.normal(size=(10, 3)), draw.normal(size=(10, 3)), draw.dirichlet(np.ones(10))
    theirs = Rotation.align_vectors(b - w @ b, a - w @ a, weights=w)[0].as_matrix()
    weight = torch.from_numpy(w)[None]
    T = kabsch(torch.from_numpy(a)[None], torch.from_numpy(b)[None], weight, weight)[0].numpy()
    np.testing.assert_allclose(T[:3, :3], theirs, atol=1e-9)
    np.testing.assert_allclose(T[:3, 3], w @ b - theirs @ (w @ a), atol=1e-9)


def test_rotation_is_proper_even_for_a_reflection() -> None:
    M = torch.diag(torch.tensor([-2.0, 1.0, 0.5], dtype=torch.float64))[None]
    R = rotation_of(M)
    assert torch.linalg.det(R).item() == pytest.approx(1)
    best = max(np.trace(Rotation.random(random_state=s).as_matrix().T @ M[0].numpy()) for s in range(500))
    assert torch.trace(R[0].T @ M[0]).item() >= best


def test_gradients_of_the_blocks_against_finite_differences() -> None:
    x, y = (torch.from_numpy(blob(12, s).astype(np.float64))[None] for s in (0, 1))
    T_true = torch.from_numpy(pose(0))[None]

    def through(scores_x: torch.Tensor, scores_y: torch.Tensor) -> torch.Tensor:
        source, target = mixture(scores_x.softmax(-1), x), mixture(scores_y.softmax(-1), y)
        return pose_loss(align(source, target), align(target, source), T_true[:, None]).mean()

    scores = [torch.randn(1, 12, 4, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(through, scores)
    assert torch.autograd.gradcheck(rotation_of, torch.randn(5, 3, 3, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("means", [torch.eye(3)[[0, 1, 2, 0]], torch.ones(4, 3), torch.eye(3)[[0, 0, 1, 1]]])
def test_gradients_stay_finite_where_the_pose_is_ambiguous(means: torch.Tensor) -> None:
    mu = means.double()[None].requires_grad_()
    weight = torch.full((1, 4), 0.25, dtype=torch.float64)
    kabsch(mu, mu.detach() * 2, weight, weight).square().sum().backward()
    assert mu.grad is not None and torch.isfinite(mu.grad).all()


# The network


def test_max_pool_is_amax_with_its_gradient() -> None:
    for kind in (torch.float32, torch.bfloat16):
        x = torch.rand(3, 50, 8).to(kind).unique().view(-1)[: 3 * 16 * 8 // 2].reshape(3, 8, 8)[:, torch.randperm(8)]
        ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        weight = torch.rand(3, 8).to(kind)
        (max_pool(ours) * weight).sum().backward()
        (theirs.amax(1) * weight).sum().backward()
        assert torch.equal(max_pool(x), x.amax(1)) and torch.equal(ours.grad, theirs.grad)  # type: ignore[arg-type]


def test_max_pool_gives_ties_one_gradient() -> None:
    x = torch.zeros(1, 4, 8, requires_grad=True)
    max_pool(x).sum().backward()
    assert x.grad is not None and x.grad.sum(1).tolist() == [[1.0] * 8]


def trained_a_little(net: torch.nn.Module, inputs: int) -> None:
    """Move the running statistics and scales away from where they start."""
    for _ in range(3):
        net(torch.rand(4, 40, inputs))
    for norm in (m for m in net.modules() if isinstance(m, torch.nn.BatchNorm1d)):
        torch.nn.init.uniform_(norm.weight, -1, 2)
        torch.nn.init.uniform_(norm.bias, -1, 1)


def test_folding_the_batch_norm_changes_nothing() -> None:
    net = PointNet(9, (16, 32), (24, 16), 5)
    trained_a_little(net, 9)
    x = torch.rand(2, 30, 9)
    before = net.eval()(x)
    net.fold()
    assert not any(isinstance(m, torch.nn.BatchNorm1d) for m in net.modules())
    torch.testing.assert_close(net.eval()(x), before, atol=1e-5, rtol=1e-4)


def test_folded_network_in_pieces_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    net = PointNet(9, (16, 32), (24, 16), 5).eval()
    trained_a_little(net.train(), 9)
    x = torch.rand(5, 70, 9)
    with torch.no_grad():
        whole = net.eval()(x)
        net.fold()
        monkeypatch.setattr(pointnet_module, "_ROWS", 16)
        monkeypatch.setattr(pointnet_module, "_HELD", 150)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            torch.testing.assert_close(net(x), whole, atol=1e-5, rtol=1e-4)
        at_once = net._scores(net.local(x), max_pool(net.local(x)))  # the way of a GPU
        torch.testing.assert_close(at_once, whole, atol=1e-5, rtol=1e-4)
        net.narrow()
        torch.testing.assert_close(net(x), whole, atol=0.1, rtol=0.05)
        packed = net(x)
        for layer in (m for m in net.modules() if isinstance(m, FoldedLayer)):
            layer.packed = None
        torch.testing.assert_close(net(x), packed, atol=0.05, rtol=0.05)
    assert net(x).dtype == torch.float32


@pytest.mark.skipif(
    not pointnet_module.can_quantise(), reason="this processor has no instruction for products of 8 bits"
)
def test_a_quantised_network_is_as_near_as_its_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    net = PointNet(9, (32, 32, 64, 96), (64, 48, 32), 5).eval()
    trained_a_little(net.train(), 9)
    x = torch.rand(5, 70, 9)
    with torch.no_grad():
        whole = net.eval()(x)
        net.fold()
        net.quantise()
        torch.testing.assert_close(net(x), whole, atol=0.03 * float(whole.std()), rtol=0.03)
        at_once = net(x)
        monkeypatch.setattr(pointnet_module, "_ROWS", 16)
        torch.testing.assert_close(net(x), at_once, atol=1e-5, rtol=1e-5)  # sums of integers have no order
    layers = [m for m in net.modules() if isinstance(m, QuantisedLayer)]
    assert [layer.kind for layer in layers] == [torch.uint8] * 5 + [torch.float32]


def test_levels_are_rounded_and_end_at_the_largest() -> None:
    weight, reach = torch.eye(3), torch.tensor([1.0, 2.0, 0.5])
    layer = RoundingLayer(FoldedLayer(weight, torch.tensor([0.0, 0.1, 0.0]), None, reach))
    x = torch.rand(1, 5000, 3) * 2 - 0.5
    exact = 255 * torch.relu(x + torch.tensor([0.0, 0.1, 0.0])) / reach
    levels = layer(x)
    assert levels.dtype == torch.uint8 and levels.max() == 255 and levels.min() == 0
    inside = exact < 255
    assert (levels.double() - exact)[inside].abs().max() < 0.501
    assert (levels.double() - exact)[inside & (exact > 0)].mean().abs() < 0.02
    assert (levels[~inside] == 255).all() and (~inside).any()


def test_split_join_is_a_layer_on_the_concatenation() -> None:
    join = PointNet(4, (8,), (6,), 2).join
    x, cloud = torch.rand(2, 5, 8), torch.rand(2, 8)
    joined = torch.cat([x, cloud[:, None].expand(2, 5, 8)], -1)
    whole = joined @ torch.cat([join.linear.weight, join.context.weight], 1).T  # type: ignore[union-attr]
    torch.testing.assert_close(join(x, cloud), torch.relu(join.norm(whole.view(10, 6))).view(2, 5, 6))


# The method


@pytest.fixture(scope="module")
def control() -> DeepGMR:
    method = DeepGMR(untrained=True)
    method.setup("cpu", 0, "shapes40")
    return method


def test_paper_sizes(control: DeepGMR) -> None:
    shapes = [m.weight.shape for m in control.state["net"].modules() if isinstance(m, torch.nn.Linear)]
    sizes = [(64, 80), (128, 64), (256, 128), (1024, 256), (512, 1024), (512, 1024), (256, 512), (128, 256), (16, 128)]
    assert [tuple(s) for s in shapes] == sizes


@pytest.mark.parametrize("seed", range(3))
def test_untrained_is_exact_on_clean_clouds(control: DeepGMR, seed: int) -> None:
    source, T = blob(256, seed), pose(seed)
    target = np.random.default_rng(seed).permutation(moved(T, source))
    control.begin(0)
    found = control.register(source, target)
    np.testing.assert_allclose(found, T, atol=2e-3)
    np.testing.assert_allclose(control.register(target, source) @ found, np.eye(4), atol=2e-3)
    assert set(control.scratch.stages) == {"features", "network", "solve"}


def test_order_of_points_does_not_matter(control: DeepGMR) -> None:
    source, target = blob(200, 1), moved(pose(1), blob(150, 1))
    shuffled = control.register(np.random.default_rng(0).permutation(source), target)
    np.testing.assert_allclose(shuffled, control.register(source, target), atol=1e-3)


@pytest.mark.parametrize(("scale", "shift"), [(1e6, 0.0), (1e-3, 0.0), (1.0, 1e4)])
def test_other_units_and_places(control: DeepGMR, scale: float, shift: float) -> None:
    source, T = blob(256, 5), pose(5)
    target = source.astype(np.float64) @ T[:3, :3].T + T[:3, 3]
    found = control.register((scale * source).astype(np.float32), scale * target + shift)  # type: ignore[arg-type]
    np.testing.assert_allclose(found[:3, :3], T[:3, :3], atol=5e-3)
    assert np.abs(found[:3, 3] - scale * T[:3, 3] - shift).max() < 5e-3 * scale


@pytest.mark.parametrize(
    ("cloud", "why"),
    [
        (np.zeros((0, 3)), "0 points"),
        (blob(20), "need 21"),
        (np.full((50, 3), np.nan), "not finite"),
        (np.ones((50, 3)), "equal"),
    ],
)
def test_no_solution(control: DeepGMR, cloud: np.ndarray, why: str) -> None:
    with pytest.raises(NoSolution, match=why):
        control.register(cloud.astype(np.float32), cloud.astype(np.float32))


@pytest.fixture(scope="module")
def trained() -> dict[str, DeepGMR]:
    """Ready with trained weights, by the narrowest precision allowed; some may compute in a wider one here."""
    made = {precision: DeepGMR(precision=precision) for precision in PRECISIONS}
    for method in made.values():
        method.begin(0)
        method.setup("cpu", 0, "shapes40")
    return made


def in_float64(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The pose by the same weights, with every layer as trained, in float64."""
    from methods.learned.base import FOLDER

    file = FOLDER / "deepgmr_shapes40_noisy.safetensors"
    net = GmrNet(GmrConfig())
    net.load_state_dict(read_tensors(file, net.state_dict()))
    net = net.double().eval()
    clouds = [torch.from_numpy(x.astype(np.float64))[None] for x in (source, target)]
    with torch.no_grad():
        return net.poses((net(net.describe(clouds[0])), net(net.describe(clouds[1]))), tuple(clouds))[0][0].numpy()


@pytest.mark.parametrize("n", [128, 1000, 8192])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_fast_is_float64_on_clean_clouds(trained: dict[str, DeepGMR], n: int, precision: str) -> None:
    source, T = blob(n, 3), pose(3)
    found = trained[precision].register(source, np.random.default_rng(0).permutation(moved(T, source)))
    np.testing.assert_allclose(found, T, atol=1e-3)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_fast_is_float64_on_noisy_clouds(trained: dict[str, DeepGMR], precision: str) -> None:
    draw = np.random.default_rng(1)
    for seed in range(3):
        source = blob(500, seed)
        target = (moved(pose(seed), source) + draw.normal(scale=0.01, size=(500, 3))).astype(np.float32)[:450]
        expected, apart = in_float64(source, target), {"float32": 1e-4, "bfloat16": 5e-3, "int8": 2e-2}[precision]
        np.testing.assert_allclose(trained[precision].register(source, target), expected, atol=apart)


def test_a_batch_is_its_pairs(trained: dict[str, DeepGMR]) -> None:
    sources = [blob(300, seed) for seed in range(6)]
    for m in (300, 260):
        targets = [moved(pose(seed), x)[:m] for seed, x in enumerate(sources)]
        targets[2] = np.full((m, 3), np.nan, dtype=np.float32)
        targets[4] = (1e3 * targets[4]).astype(np.float32)
        method = trained["int8"]
        answers = method.register_batch(sources, targets)
        assert isinstance(answers[2], NoSolution) and "not finite" in str(answers[2])
        for i in (0, 1, 3, 4, 5):
            alone = method.register(sources[i], targets[i])
            np.testing.assert_allclose(answers[i], alone, atol=1e-3 * max(1, np.abs(alone).max()))
        torch.set_num_threads(2)
        twice = method.register_batch(sources, targets)
        torch.set_num_threads(1)
        np.testing.assert_allclose(np.stack(answers[:2]), np.stack(twice[:2]), atol=1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize("m", [300, 260, 100])
def test_threads_do_not_change_a_pair(trained: dict[str, DeepGMR], m: int) -> None:
    source = blob(300, 7)
    target = moved(pose(7), source)[:m]
    alone = trained["int8"].register(source, target)
    for threads in (2, 3, 5):
        torch.set_num_threads(threads)
        np.testing.assert_allclose(trained["int8"].register(source, target), alone, atol=1e-6)
        assert torch.get_num_threads() == threads


def test_the_precision_is_noted(trained: dict[str, DeepGMR]) -> None:
    for precision, method in trained.items():
        assert method.scratch.notes["precision"] == usable_precision(precision, "cpu")
    assert usable_precision("float32", "cpu") == "float32" and usable_precision("bfloat16", "cpu") != "int8"
    with pytest.raises(InputError, match="int9"):
        DeepGMR(precision="int9")


def test_collinear_and_duplicate_clouds_do_not_crash(control: DeepGMR) -> None:
    for cloud in (np.outer(np.linspace(-1, 1, 60), [1, 0, 0]), np.repeat(blob(12), 5, axis=0)):
        T = control.register(cloud.astype(np.float32), cloud.astype(np.float32))
        np.testing.assert_allclose(T[:3, :3] @ T[:3, :3].T, np.eye(3), atol=1e-6)


def test_setup_is_deterministic_and_leaves_the_global_generator(control: DeepGMR) -> None:
    before = torch.random.get_rng_state()
    again = DeepGMR(untrained=True)
    again.setup("cpu", 99, "modelnet40")
    assert torch.equal(before, torch.random.get_rng_state())
    source, target = blob(100, 2), blob(100, 3)
    assert (again.register(source, target) == control.register(source, target)).all()


# Weight files


PROVENANCE: dict[str, Any] = {
    "dataset": "modelnet40",
    "condition": "noisy",
    "sampler": "axis_angle",
    "dataset_categories": ["bed", "airplane", "cup", "door"],
    "categories": ["bed", "airplane", "cup", "door"],
}


def write(file: Path, config: GmrConfig = SMALL, method: str = "deepgmr", **told: Any) -> Path:
    from dataclasses import asdict

    save(file, GmrNet(SMALL).state_dict(), Card(method, asdict(config), PROVENANCE | told))
    return file


def test_weights_come_back(tmp_path: Path) -> None:
    file = write(tmp_path / "w.safetensors")
    method = DeepGMR(weights=str(file))
    method.setup("cpu", 0, "anything")
    assert method.state["weights"] == "w.safetensors" and method.scratch.notes["weights"] == "w.safetensors"
    assert len(method.scratch.notes["sha256"]) == 64
    assert DeepGMR.load(file).config == SMALL
    found = method.register(blob(64), moved(pose(0), blob(64)))
    np.testing.assert_allclose(found, pose(0), atol=5e-3)


def test_a_pickle_is_refused(tmp_path: Path) -> None:
    torch.save({}, tmp_path / "w.pt")
    with pytest.raises(InputError, match=r"w\.pt: a pickle .*save_file"):
        read_card(tmp_path / "w.pt")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: f.unlink(), "no such weight file"),
        (lambda f: f.write_bytes(f.read_bytes()[:2000]), "not a whole safetensors"),
        (lambda f: f.write_text("hello"), "not a whole safetensors"),
        (lambda f: write(f, method="dcp"), "field 'method' is 'dcp'"),
        (lambda f: write(f, GmrConfig(features="fpfh", k=8)), "field 'config.features' is 'fpfh'"),
        (
            lambda f: write(f, GmrConfig(**{**vars(SMALL), "k": 20})),
            r"backbone.local.0.linear.weight' is \(16, 32\), .*\(16, 80\)",
        ),
        (lambda f: write(f, GmrConfig(**{**vars(SMALL), "components": 16})), "backbone.last.bias"),
        (
            lambda f: write(f, GmrConfig(**{**vars(SMALL), "head": (24, 16, 8)})),
            r"head.1.linear.weight' is missing, the network wants",
        ),
    ],
)
def test_wrong_weight_files(tmp_path: Path, spoil: Any, message: str) -> None:
    file = write(tmp_path / "w.safetensors")
    spoil(file)
    with pytest.raises(InputError, match=message) as caught:
        DeepGMR.load(file)
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_without_a_card(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file(GmrNet(SMALL).state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(InputError, match="'card' is missing"):
        DeepGMR.load(tmp_path / "w.safetensors")


def test_weights_can_be_read_by_whom_the_umask_lets(tmp_path: Path) -> None:
    file = write(tmp_path / "w.safetensors")
    (tmp_path / "usual").touch()
    assert file.stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_weights_by_domain(tmp_path: Path) -> None:
    own, embedded = write(tmp_path / "a.safetensors"), write(tmp_path / "b.safetensors", dataset="shapes40")
    assert choose("deepgmr", "modelnet40", "noisy", tmp_path) == own
    assert choose("deepgmr", "shapes40", "noisy", tmp_path) == embedded
    assert choose("deepgmr", "icl_nuim", "noisy", tmp_path) == embedded
    with pytest.raises(Unavailable, match="--dataset modelnet40 --condition unseen"):
        choose("deepgmr", "modelnet40/first2", "noisy", tmp_path)
    half = write(tmp_path / "c.safetensors", condition="unseen", categories=["airplane", "bed"])
    assert choose("deepgmr", "modelnet40/first2", "noisy", tmp_path) == half
    assert choose("deepgmr", "modelnet40", "noisy", tmp_path) == own
    with pytest.raises(Unavailable, match="condition resampled"):
        choose("deepgmr", "modelnet40", "resampled", tmp_path)
    assert choose("deepgmr", "modelnet40/first2", "resampled", tmp_path) == half, (
        "what the message asks to train is taken"
    )


def test_the_gaussians_shown_are_those_of_the_shares_and_move_with_the_cloud() -> None:
    method = DeepGMR(untrained=True)
    method.setup("cpu", 0, "shapes40")
    cloud, T = 3.0 * blob(300, 0) + 7.0, pose(1)
    moved = (cloud @ T[:3, :3].T + T[:3, 3]).astype(np.float32)
    method.begin(0)
    plain, other = method.gaussians(cloud.astype(np.float32), moved)
    assert plain.shares.shape == (300, 16) and np.allclose(plain.shares.sum(axis=1), 1)
    assert plain.weights == pytest.approx(plain.shares.mean(axis=0))
    means = plain.shares.T @ cloud / plain.shares.sum(axis=0)[:, None]
    assert np.allclose(plain.means, means, atol=1e-3)
    apart = ((cloud[:, None] - means[None]) ** 2).sum(axis=2)
    variances = (plain.shares * apart).sum(axis=0) / plain.shares.sum(axis=0) / 3
    assert np.allclose(plain.radii, np.sqrt(variances), atol=1e-2)
    assert np.allclose(other.means, plain.means @ T[:3, :3].T + T[:3, 3], atol=1e-2)
