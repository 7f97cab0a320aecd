"""The descriptor's network, loss and training batches."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from datasets.problems import ProblemKey
from methods.geometry.patches import ORDERS, SUMS
from methods.nn.descriptor import (
    COUNT_OFFSET,
    DOUBLES,
    SIZE_OFFSET,
    DescriptorConfig,
    DescriptorNet,
    Estimate,
    _pose,
)
from methods.nn.descriptor_batch import MATCH, _disturbed, matched

CONFIG = DescriptorConfig(radii=(0.3, 0.6), points=12, mixed=6, hidden=16, outputs=8, dropped=0.0, keys=20)


def problem(index=0):
    """Two samples of one bumpy surface, the target moved."""
    draw = np.random.default_rng(index)
    clouds = []
    for _ in range(2):
        xy = draw.uniform(-1.5, 1.5, (6000, 2))
        clouds.append(np.column_stack([xy, 0.3 * np.sin(3 * xy[:, 0]) * np.cos(2 * xy[:, 1] + 1)]))
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = Rotation.random(random_state=index).as_matrix(), [1, 2, 3]
    target = clouds[1] @ T[:3, :3].T + T[:3, 3]
    return SimpleNamespace(
        source=clouds[0].astype(np.float32),
        target=target.astype(np.float32),
        T_target_source=T,
        key=ProblemKey("rooms", "real", 9999, index),
    )


@pytest.fixture
def net():
    torch.manual_seed(0)
    return DescriptorNet(CONFIG)


def test_a_cloud_for_training_keeps_forty_percent_or_more_and_moves_by_up_to_eight_millimetres():
    cloud, draw = np.random.default_rng(0).uniform(-1e3, 1e3, (500, 3)), np.random.default_rng(1)
    sizes, noise = [], []
    for _ in range(200):
        changed = _disturbed(cloud, draw)
        row = np.asarray(cKDTree(cloud).query(changed)[1])
        assert len(set(row)) == len(row) and not (np.diff(row) > 0).all()
        sizes.append(len(row) / 500)
        noise.append((changed - cloud[row]).std())
    assert 0.4 <= min(sizes) < 0.43 and 0.97 < max(sizes) <= 1
    assert 0 <= min(noise) < 0.0003 and 0.0077 < max(noise) < 0.0087
    assert len(_disturbed(cloud[:1], draw)) == 1


def test_matches_meet_at_the_true_pose():
    pair = problem()
    drawn = matched(pair, (0.3, 0.6), 12, 20)
    moved = drawn.source @ pair.T_target_source[:3, :3].T + pair.T_target_source[:3, 3]
    assert np.linalg.norm(moved - drawn.target, axis=1).max() <= MATCH + 1e-5
    assert drawn.source_patches.shape == (20, 2, *SUMS)
    again = matched(pair, (0.3, 0.6), 12, 20)
    np.testing.assert_array_equal(drawn.target_patches, again.target_patches)


def test_descriptors_are_unit_vectors_and_ignore_the_direction_across_the_normal(net):
    net.eval()
    moments = torch.randn(5, 2, *SUMS).abs()
    described = net(moments).detach()
    torch.testing.assert_close(described.norm(dim=1), torch.ones(5))
    turned = moments.clone()
    for k in range(1, ORDERS + 1):
        c, s = np.cos(0.7 * k), np.sin(0.7 * k)
        turned[:, :, 2 * k - 1] = c * moments[:, :, 2 * k - 1] - s * moments[:, :, 2 * k]
        turned[:, :, 2 * k] = s * moments[:, :, 2 * k - 1] + c * moments[:, :, 2 * k]
    torch.testing.assert_close(net(turned), described)
    moved = moments.clone()
    moved[:, :, 1:3] = turned[:, :, 1:3]
    assert (net(moved) - described).abs().max() > 0.01, (
        "the phases of one power say how it is turned against the others"
    )


def test_loss_is_least_for_equal_descriptors_of_matches(net):
    x = torch.nn.functional.normalize(torch.randn(2, 20, 8), dim=2)
    negative = torch.ones(2, 20, 20, dtype=torch.bool)
    T = torch.eye(4).repeat(2, 1, 1)
    right = net.loss(Estimate(T, x, x, negative), T)
    wrong = net.loss(Estimate(T, x, x.roll(1, dims=1), negative), T)
    assert right < 0.5 < wrong
    none = net.loss(Estimate(T, x, x.roll(1, dims=1), torch.zeros_like(negative)), T)
    assert float(none) == pytest.approx(0, abs=1e-6), "near matches are no negatives"


def test_pose_of_right_matches_is_the_true_one(net):
    """With descriptors that identify the points, and a third of the matches exchanged, the pose is true to a degree."""
    net.eval()
    draw = torch.Generator().manual_seed(0)
    source = 3 * torch.rand(1, 60, 3, generator=draw)
    R = torch.from_numpy(Rotation.random(random_state=3).as_matrix()).float()
    target = source @ R.T + torch.tensor([1.0, 2, 3])
    target[:, :20] = target[:, :20].roll(1, dims=1)
    x = torch.eye(60)[None]
    T = _pose(x, x, source, target)[0]
    np.testing.assert_allclose(T[:3, :3], R, atol=0.02)


def test_training_lowers_the_loss(net):
    batch = net.collate([problem(0), problem(1)], "cpu")
    optimiser = torch.optim.Adam(net.parameters(), 0.003)
    losses = []
    for _ in range(60):
        loss = net.loss(net.estimate(batch[0], batch[1], batch[2]), batch[3])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.9 * losses[0]


def test_loss_is_the_mean_of_infonce_in_both_directions(net):
    draw = torch.Generator().manual_seed(1)
    x, y = (torch.nn.functional.normalize(torch.randn(2, 20, 8, generator=draw), dim=2) for _ in range(2))
    negative = torch.rand(2, 20, 20, generator=draw) < 0.5
    terms = []
    for b in range(2):
        scores = (x[b] @ y[b].T).double().numpy() / CONFIG.temperature
        allowed = negative[b].numpy() | np.eye(20, dtype=bool)
        for s, a in ((scores, allowed), (scores.T, allowed.T)):
            terms += [np.log(np.exp(s[k][a[k]]).sum()) - s[k, k] for k in range(20)]
    T = torch.eye(4).repeat(2, 1, 1)
    assert net.loss(Estimate(T, x, y, negative), T).item() == pytest.approx(np.mean(terms), rel=1e-4)


def test_the_estimate_describes_both_sides_and_far_matches_are_negatives(net):
    """The pose is fitted in evaluation alone."""
    draw = torch.Generator().manual_seed(2)
    moments = torch.randn(2, 1, 20, 2, *SUMS, generator=draw).abs()
    source, target = 0.3 * torch.rand(2, 1, 20, 3, generator=draw)
    training = net.train().estimate(moments, source, target)
    assert torch.equal(training.T, torch.eye(4, dtype=torch.float64)[None])
    estimate = net.eval().estimate(moments, source, target)
    for side, ours in enumerate((estimate.source, estimate.target)):
        torch.testing.assert_close(ours[0], net(moments[side, 0]))
    distance = (target[0][:, None] - target[0]).norm(dim=2)
    assert torch.equal(estimate.negative[0], distance >= 0.1) and 0.05 < estimate.negative.float().mean() < 0.95
    torch.testing.assert_close(estimate.T, _pose(estimate.source, estimate.target, source, target))


def test_the_pose_is_weighted_by_how_well_matches_keep_distances():
    draw = np.random.default_rng(5)
    p, q = draw.uniform(0, 0.4, (2, 15, 3))
    x, y = (torch.nn.functional.normalize(torch.from_numpy(draw.normal(size=(1, 15, 6))), dim=2) for _ in range(2))
    matched_to = q[(x @ y.transpose(1, 2))[0].argmax(dim=1).numpy()]
    difference = cdist(p, p) - cdist(matched_to, matched_to)
    vector = np.ones(15)
    for _ in range(20):
        vector = np.clip(1 - (difference / 0.1) ** 2, 0, None) @ vector
        vector /= np.linalg.norm(vector)
    a, b = np.average(p, axis=0, weights=vector), np.average(matched_to, axis=0, weights=vector)
    R = Rotation.align_vectors(matched_to - b, p - a, weights=vector)[0].as_matrix()
    T = _pose(x, y, torch.from_numpy(p)[None], torch.from_numpy(q)[None])[0]
    np.testing.assert_allclose(T[:3], np.c_[R, b - R @ a], atol=1e-6)


def test_descriptors_are_the_head_on_what_rotations_leave_unchanged(net):
    """Computed with complex numbers: the moments of power k turn by k times the angle."""
    draw = np.random.default_rng(3)
    moments = draw.random((5, 2, *SUMS))
    sums = np.concatenate([moments[:, 0], moments[:, 1]], axis=2)
    mixed, sizes = [], []
    for k, mixer in enumerate(net.mixers):
        z = (sums[:, 2 * k + 1] + 1j * sums[:, 2 * k + 2]) @ mixer.detach().numpy()
        sizes.append(np.sqrt(np.abs(z) ** 2 + SIZE_OFFSET))
        mixed.append(z / np.sqrt(sizes[-1]))
    numbers = [np.sqrt(sums[:, 0] + COUNT_OFFSET)]
    for size, z in zip(sizes, mixed, strict=True):
        relative = z * np.roll(z, 1, axis=1).conj()
        numbers += [size, relative.real, relative.imag]
    for low, high in DOUBLES:
        relative = mixed[low] ** 2 / np.sqrt(sizes[low]) * mixed[high].conj()
        numbers += [relative.real, relative.imag]
    norm, _, hidden, _, last = net.eval().head
    norm.running_mean.uniform_(-1, 1)
    x = (np.hstack(numbers) - norm.running_mean.numpy()) / np.sqrt(norm.running_var.numpy() + norm.eps)
    x = np.maximum(x @ hidden.weight.detach().numpy().T + hidden.bias.detach().numpy(), 0)
    x = x @ last.weight.detach().numpy().T + last.bias.detach().numpy()
    expected = x / np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_allclose(net(torch.from_numpy(moments).float()).detach(), expected, atol=1e-5)
    assert net.config.least_points == 12


def test_a_batch_has_the_patches_and_points_of_each_problem(net):
    problems = [problem(0), problem(1)]
    patches, source, target, T = net.collate(problems, "cpu")
    assert patches.shape == (2, 2, 20, 2, *SUMS)
    for b, one in enumerate(problems):
        expected = matched(one, CONFIG.radii, CONFIG.points, CONFIG.keys)
        np.testing.assert_array_equal(source[b], expected.source)
        np.testing.assert_array_equal(target[b], expected.target)
        np.testing.assert_array_equal(T[b], one.T_target_source)
        np.testing.assert_array_equal(patches[0, b], expected.source_patches)
        np.testing.assert_array_equal(patches[1, b], expected.target_patches)
