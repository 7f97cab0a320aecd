"""The network for partial scans, part by part, against NumPy and SciPy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from methods.learned.weights import WEIGHTS_FOLDER, read_card
from methods.nn import scan_gmr
from methods.nn.scan_gmr import (
    RINGS,
    Attention,
    Components,
    Estimate,
    Features,
    ScanGmrConfig,
    ScanGmrNet,
    best_of_sets,
    closed_form,
    compatibility,
    leading_eigenvector,
)
from tests.methods.clouds import pose

CONFIG = ScanGmrConfig(inputs=8, width=16, points=30, components=7, spread=0.4, near=0.5, tolerance=0.6)
DRAW = torch.Generator().manual_seed(3)


def unit(*shape: int) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.randn(*shape, generator=DRAW), dim=-1)


@pytest.fixture(scope="module")
def net() -> ScanGmrNet:
    torch.manual_seed(0)
    network = ScanGmrNet(CONFIG).eval()
    torch.nn.init.normal_(network.last.weight, std=0.2)
    torch.nn.init.normal_(network.last.bias, std=0.2)
    return network


@pytest.fixture(scope="module")
def clouds() -> tuple[torch.Tensor, torch.Tensor]:
    return 2 * torch.rand(2, 30, 3, generator=DRAW), 2 * torch.rand(2, 25, 3, generator=DRAW)


def test_the_default_network_is_that_of_the_committed_weights() -> None:
    card = read_card(WEIGHTS_FOLDER / "deepgmr_scans_rooms.safetensors")
    assert card.config == dataclasses.asdict(ScanGmrConfig())


def test_attention_is_torch_s_with_an_additive_bias() -> None:
    torch.manual_seed(1)
    ours, theirs = Attention(16), torch.nn.MultiheadAttention(16, 4, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key_value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key_value.bias]))
    theirs.out_proj = ours.out  # type: ignore[assignment]
    x, bias = torch.randn(2, 9, 16), torch.randn(2, 4, 9, 9)
    normed = ours.norm(x)
    mean = x + theirs(normed, normed, normed, attn_mask=bias.flatten(0, 1))[0]
    torch.testing.assert_close(ours(x, bias), mean + ours.inner(ours.norm_after(mean)))


def test_each_head_looks_at_its_ring(clouds: tuple[torch.Tensor, torch.Tensor]) -> None:
    bias = scan_gmr._ring_bias(clouds[0].double()).numpy()
    distance = np.stack([cdist(c, c) for c in clouds[0].numpy()])
    for head, (ring, width) in enumerate(RINGS):
        np.testing.assert_allclose(bias[:, head], -((distance - ring) ** 2) / (2 * width**2), atol=1e-6)


def test_cues_are_the_nearest_descriptor_whether_it_is_mutual_and_how_well_distances_are_kept(
    clouds: tuple[torch.Tensor, torch.Tensor],
) -> None:
    x, y = unit(2, 30, 8), unit(2, 25, 8)
    source, target = scan_gmr._cues((x, y), clouds, 0.6)
    for b in range(2):
        scores = (x[b] @ y[b].T).numpy()
        of_each = ((scores, *clouds, source), (scores.T, *clouds[::-1], target))
        for score, own, other, cues in of_each:
            partner, back = score.argmax(axis=1), score.argmax(axis=0)
            mutual = back[partner] == np.arange(len(partner))
            p, q = own[b].numpy(), other[b].numpy()[partner]
            kept = np.clip(1 - ((cdist(p, p) - cdist(q, q)) / 0.6) ** 2, 0, None)
            w = mutual + 1e-6
            vector = w.copy()
            for _ in range(20):
                vector = w * (kept @ (w * vector))
                vector /= np.linalg.norm(vector)
            expected = np.stack([score.max(axis=1), mutual, vector / vector.max()], axis=1)
            np.testing.assert_allclose(cues[b].numpy(), expected, atol=1e-3)


def test_features_are_descriptors_with_a_correction_and_two_logits(
    net: ScanGmrNet, clouds: tuple[torch.Tensor, torch.Tensor]
) -> None:
    descriptors = unit(2, 30, 8), unit(2, 25, 8)
    cues = scan_gmr._cues(descriptors, clouds, CONFIG.tolerance)
    for features, d, cloud, cue in zip(net(descriptors, clouds), descriptors, clouds, cues, strict=True):
        x = net.first(torch.cat([d, cue], dim=2))
        for layer in net.layers:
            x = layer(x, scan_gmr._ring_bias(cloud))
        out = net.last(x)
        vectors = d + out[..., 2:]
        torch.testing.assert_close(features.vectors, vectors / vectors.norm(dim=2, keepdim=True))
        assert torch.equal(features.overlap, out[..., 0]) and torch.equal(features.outlier, out[..., 1])
    fresh = ScanGmrNet(CONFIG)
    torch.testing.assert_close(fresh(descriptors, clouds)[0].vectors, descriptors[0])
    assert len(fresh.layers) == 2 and fresh.log_scale.item() == pytest.approx(4.1)
    assert CONFIG.least_points == 7 and fresh.last.bias.abs().max() == 0


def moments(gamma: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Weight, mean and isotropic variance (J, 5) of components, one by one."""
    rows = []
    for w in gamma.T:
        mean = np.average(points, axis=0, weights=w)
        variance = np.average(((points - mean) ** 2).sum(axis=1), weights=w) / 3
        rows.append([w.sum() / len(points), *mean, variance])
    return np.array(rows)


def test_components_are_moments_about_the_seeds_of_each_cloud(
    net: ScanGmrNet, clouds: tuple[torch.Tensor, torch.Tensor]
) -> None:
    features = tuple(
        Features(unit(2, n, 8), torch.randn(2, n, generator=DRAW), torch.randn(2, n, generator=DRAW)) for n in (30, 25)
    )
    seeds = torch.tensor([[3, 1, 9], [0, 5, 7]]), torch.tensor([[2, 20, 9], [11, 5, 6]])
    ours = net.components((features[0], features[1]), clouds, seeds)
    scale = np.exp(net.log_scale.item())
    for b in range(2):
        pairs: list[list[np.ndarray]] = [[], []]
        for own, other in ((0, 1), (1, 0)):
            rows = seeds[own][b].numpy()
            vectors = [f.vectors[b].numpy() for f in features]
            points = [c[b].numpy().astype(np.float64) for c in clouds]
            overlap = [1 / (1 + np.exp(-f.overlap[b].numpy())) for f in features]
            scores = np.exp(scale * (vectors[other] @ vectors[own][rows].T - 0.7))
            gamma = scores / (scores.sum(axis=1) + np.exp(features[other].outlier[b].numpy()))[:, None]
            assigned = net.assign(features[other], features[own].vectors[:, rows])[b].detach().numpy()
            np.testing.assert_allclose(assigned[:, :-1], gamma, atol=1e-4)
            np.testing.assert_allclose(assigned.sum(axis=1), 1, atol=1e-5)
            near = np.exp(-(cdist(points[own], points[own][rows]) ** 2) / (2 * CONFIG.spread**2))
            pairs[own].append(moments(near * overlap[own][:, None], points[own]))
            pairs[other].append(moments(gamma * overlap[other][:, None], points[other]))
        source, target = (np.concatenate(p) for p in (pairs[0], [pairs[1][0], pairs[1][1]]))
        weight = np.sqrt(source[:, 0] * target[:, 0]) / (source[:, 4] + target[:, 4] + CONFIG.spread**2)
        np.testing.assert_allclose(ours.weight[b].detach(), weight, rtol=1e-2)
        np.testing.assert_allclose(ours.source[b].detach(), source[:, 1:4], atol=1e-3)
        np.testing.assert_allclose(ours.target[b].detach(), target[:, 1:4], atol=1e-3)


def test_the_loss_is_that_of_the_pose_the_means_and_the_overlap(
    net: ScanGmrNet, clouds: tuple[torch.Tensor, torch.Tensor]
) -> None:
    T, truth = (np.stack([pose(s, 0.1), pose(s + 1, 0.1)]) for s in (0, 0))
    T[0, 0, 3] += 0.3
    T[1, 2, 3] += 5.0
    source, target = (c.numpy().astype(np.float64) for c in clouds)
    true_means = 2 * torch.rand(2, 6, 3, generator=DRAW)
    moved = np.einsum("bij,bnj->bni", truth[:, :3, :3], true_means.numpy()) + truth[:, None, :3, 3]
    shift = torch.tensor([0.0, 0.1, 0.2, 0.5, 0.9, 3.0])
    means = torch.from_numpy(moved).float() + shift[:, None] * torch.tensor([0.0, 1.0, 0.0])
    weight = torch.rand(2, 6, generator=DRAW)
    logits = torch.randn(2, 30, generator=DRAW), torch.randn(2, 25, generator=DRAW)
    features = tuple(Features(unit(2, n, 8), logit, logit) for n, logit in zip((30, 25), logits, strict=True))
    estimate = Estimate(torch.from_numpy(T), Components(weight, true_means, means), (features[0], features[1]), *clouds)
    expected = (0.3 + 1.0) / 2  # an error above 1 counts as 1
    errors = shift.clamp_max(1.0)
    expected += float(((weight * errors).sum(dim=1) / weight.sum(dim=1)).mean())
    at_truth = np.einsum("bij,bnj->bni", truth[:, :3, :3], source) + truth[:, None, :3, 3]
    away = np.stack([cdist(a, b) for a, b in zip(at_truth, target, strict=True)])
    assert 0 < (away.min(axis=2) < CONFIG.near).mean() < 1
    for logit, axis in zip(logits, (2, 1), strict=True):
        p = 1 / (1 + np.exp(-logit.numpy().astype(np.float64)))
        inside = away.min(axis=axis) < CONFIG.near
        expected += -np.log(np.where(inside, p, 1 - p)).mean()
    assert net.loss(estimate, torch.from_numpy(truth)).item() == pytest.approx(expected, rel=1e-4)


def test_compatibility_falls_from_one_to_nothing_at_the_tolerance() -> None:
    p, q = np.random.default_rng(0).normal(size=(2, 12, 3))
    difference = np.abs(cdist(p, p) - cdist(q, q))
    ours = compatibility(torch.from_numpy(p)[None], torch.from_numpy(q)[None], 0.9)[0].numpy()
    np.testing.assert_allclose(ours, np.where(difference < 0.9, 1 - (difference / 0.9) ** 2, 0), atol=1e-9)
    assert 0.1 < (ours == 0).mean() < 0.9


def test_the_leading_eigenvector_is_scipy_s() -> None:
    draw = np.random.default_rng(0)
    M, w = draw.random((20, 20)), draw.random(20)
    M = M + M.T
    expected = np.linalg.eigh(w[:, None] * M * w)[1][:, -1]
    ours = leading_eigenvector(torch.from_numpy(M)[None], torch.from_numpy(w)[None, :, None])[0].numpy()
    np.testing.assert_allclose(ours, np.abs(expected), atol=1e-6)


def random_components(seed: int, n: int = 25) -> tuple[Components, np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of which some follow a pose, and their weights (n,) and means (n, 3) for NumPy."""
    draw = np.random.default_rng(seed)
    p, T, w = draw.uniform(0, 2, (n, 3)), pose(seed), draw.random(n)
    q = p @ T[:3, :3].T + T[:3, 3] + draw.normal(0, 0.05, p.shape)
    q[: n // 3] = draw.uniform(0, 2, (n // 3, 3))
    return Components(*(torch.from_numpy(x)[None] for x in (w, p, q))), w, p, q


def kabsch(p: np.ndarray, q: np.ndarray, w: np.ndarray) -> np.ndarray:
    a, b = np.average(p, axis=0, weights=w), np.average(q, axis=0, weights=w)
    R = Rotation.align_vectors(q - b, p - a, weights=w)[0].as_matrix()
    return np.vstack([np.c_[R, b - R @ a], [0, 0, 0, 1]])


@pytest.mark.parametrize("seed", range(3))
def test_the_closed_form_is_weighted_by_the_leading_eigenvector(seed: int) -> None:
    components, w, p, q = random_components(seed)
    kept = np.clip(1 - ((cdist(p, p) - cdist(q, q)) / 0.3) ** 2, 0, None)
    root, vector = np.sqrt(w), np.sqrt(w)
    for _ in range(20):
        vector = root * (kept @ (root * vector))
        vector /= np.linalg.norm(vector)
    np.testing.assert_allclose(closed_form(components, 0.3)[0], kabsch(p, q, vector * root), atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_best_set_has_the_most_weight_of_inliers_and_is_fitted_again(seed: int) -> None:
    components, w, p, q = random_components(seed)
    compatible = np.abs(cdist(p, p) - cdist(q, q)) < 0.3

    def inliers(T: np.ndarray) -> np.ndarray:
        residual = np.linalg.norm(p @ T[:3, :3].T + T[:3, 3] - q, axis=1)
        return np.clip(1 - (residual / 0.3) ** 2, 0, None)

    common = (compatible * w) @ compatible * compatible
    poses = []
    for row in common:
        members = np.argsort(-row, kind="stable")[:12]
        poses.append(kabsch(p[members], q[members], row[members] * w[members] + 1e-12))
    T = max(poses, key=lambda T: float(inliers(T) @ w))
    for _ in range(5):
        T = kabsch(p, q, inliers(T) * w + 1e-12)
    np.testing.assert_allclose(best_of_sets(components, 0.3), T, atol=1e-6)
