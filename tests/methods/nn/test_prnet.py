"""PRNet's network: rounds, keypoints, matches, loss."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from common.errors import InputError
from methods.learned.training import Trainer, build_network
from methods.learned.training_config import Settings, command_of
from methods.nn.matching import motion_loss, moved
from methods.nn.prnet import PrnetConfig, PrnetNet
from tests.methods.clouds import pose, tensor_pair
from tests.methods.weight_files import write_weights

TINY = PrnetConfig(k=5, widths=(8, 12), features=16, heads=2, inner=24)


def estimate(net: PrnetNet, source: torch.Tensor, target: torch.Tensor):  # type: ignore[no-untyped-def]
    return net.estimate(net.prepare(source, target), source, target)


def test_rounds_compose(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is the product of the rounds' motions, each of the source as moved by those before it."""
    net, (source, target) = PrnetNet(TINY).eval(), tensor_pair()
    steps = [torch.from_numpy(pose(s))[None].repeat(2, 1, 1) for s in range(3)]
    seen = []

    def round_(_prepared: object, cloud: torch.Tensor, _target: torch.Tensor) -> tuple[torch.Tensor, ...]:
        seen.append(cloud)
        return steps[len(seen) - 1], torch.zeros(()), torch.zeros(())

    monkeypatch.setattr(net, "round", round_)
    estimates = estimate(net, source, target)
    torch.testing.assert_close(estimates.T, steps[2] @ steps[1] @ steps[0])
    torch.testing.assert_close(seen[2], moved(steps[1] @ steps[0], source))
    for step_pose, wanted in zip(estimates.rounds, (steps[0], steps[1] @ steps[0], estimates.T), strict=True):
        torch.testing.assert_close(step_pose, wanted)


def test_a_true_pose_stays_when_every_match_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    net = PrnetNet(TINY).eval()
    source, _ = tensor_pair()
    T = torch.from_numpy(np.stack([pose(1), pose(2)]))
    monkeypatch.setattr(net, "keypoints", lambda features, points: (features, points))
    monkeypatch.setattr(net, "matches", lambda scores: torch.eye(scores.shape[1]).expand_as(scores))
    estimates = estimate(net, source, moved(T, source))
    for step_pose in estimates.rounds:
        torch.testing.assert_close(step_pose, T, atol=1e-5, rtol=1e-5)


def test_keypoints_are_those_of_the_longest_features() -> None:
    net = PrnetNet(TINY)
    features, points = torch.randn(2, 30, 16), torch.randn(2, 30, 3)
    chosen, where = net.keypoints(features, points)
    for b in range(2):
        longest = features[b].norm(dim=1).argsort(descending=True)[:20]
        assert torch.equal(chosen[b], features[b, longest]) and torch.equal(where[b], points[b, longest])


def test_matches_are_hard_with_the_softmax_s_gradient() -> None:
    net = PrnetNet(TINY).eval()
    scores, weight = torch.randn(1, 6, 8, requires_grad=True), torch.randn(1, 6, 8)
    matches = net.matches(scores)
    assert torch.equal(matches.detach().round(), torch.nn.functional.one_hot(scores.argmax(-1), 8).float())
    ours = torch.autograd.grad((matches * weight).sum(), scores)[0]
    torch.testing.assert_close(ours, torch.autograd.grad((scores.softmax(-1) * weight).sum(), scores)[0])


def test_drawn_matches_follow_the_softmax() -> None:
    """Adding Gumbel noise and taking the largest draws from the softmax."""
    net = PrnetNet(TINY).train()
    scores = torch.tensor([0.0, 1.0, 2.0, -1.0]).expand(1, 20_000, 4)
    shares = net.matches(scores).mean(dim=1)[0]
    torch.testing.assert_close(shares, scores[0, 0].softmax(-1), atol=0.015, rtol=0)


def test_draws_differ_and_come_back_with_the_state() -> None:
    net, like = PrnetNet(TINY), torch.empty(3, 4)
    first = net.gumbel(like)
    state = {name: value.clone() for name, value in net.state_dict().items()}
    second = net.gumbel(like)
    assert not torch.equal(first, second)
    net.load_state_dict(state)
    assert torch.equal(net.gumbel(like), second)


def test_the_loss_discounts_rounds_and_adds_cycle_and_alignment() -> None:
    net, (source, target) = PrnetNet(TINY).train(), tensor_pair()
    estimates = estimate(net, source, target)
    truth = torch.from_numpy(np.stack([pose(4), pose(5)]))
    by_hand = sum(
        0.9**i * (motion_loss(estimates.rounds[i], truth) + 0.1 * estimates.cycle[i] + 0.1 * estimates.alignment[i])
        for i in range(3)
    )
    assert net.loss(estimates, truth).item() == pytest.approx(float(by_hand.detach()))
    assert all(value > 0 for value in (*estimates.cycle, *estimates.alignment))


def test_the_gradient_reaches_every_weight_and_the_temperature() -> None:
    net, (source, target) = PrnetNet(TINY).train(), tensor_pair()
    net.loss(estimate(net, source, target), torch.eye(4, dtype=torch.float64)[None]).backward()
    idle = [name for name, p in net.named_parameters() if p.grad is None or not torch.isfinite(p.grad).all()]
    assert not idle and net.warmth[2].weight.grad.abs().max() > 0  # type: ignore[union-attr, operator]


def test_order_does_not_matter() -> None:
    net, (source, target) = PrnetNet(TINY).eval(), tensor_pair(40, 30)
    again = estimate(net, source[:, torch.randperm(40)], target[:, torch.randperm(30)])
    torch.testing.assert_close(estimate(net, source, target).T, again.T, atol=1e-3, rtol=1e-3)


def test_training_may_start_from_dcp_s_features(tmp_path: Path) -> None:
    torch.manual_seed(1)
    features = build_network("dcp_small")
    file = write_weights(tmp_path / "dcp.safetensors", features, "dcp_small")
    started = Trainer(Settings("prnet_small", start=str(file)))
    for name, value in features.state_dict().items():
        torch.testing.assert_close(started.network.state_dict()[name], value, atol=1e-3, rtol=1e-3)  # kept in 16 bits
    assert f"--start {file}" in command_of(started.settings)
    with pytest.raises(InputError, match="the network wants no such tensor"):
        Trainer(Settings("deepgmr", start=str(file)))
