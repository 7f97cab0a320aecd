"""Sizes of DeepGMR's network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from methods.deepgmr import DeepGMR
from methods.nn.gmm import align, mixture, point_loss, pose_loss
from methods.nn.gmr import Estimate, GmrConfig, GmrNet
from tests.methods.clouds import pose, tensor_pair

TINY = GmrConfig(k=5, local=(8, 8, 8, 16), head=(8, 8, 8), components=4)


def test_paper_sizes(control: DeepGMR) -> None:
    shapes = [m.weight.shape for m in control.state["net"].modules() if isinstance(m, torch.nn.Linear)]
    sizes = [(64, 80), (128, 64), (256, 128), (1024, 256), (512, 1024), (512, 1024), (256, 512), (128, 256), (16, 128)]
    assert [tuple(s) for s in shapes] == sizes


@pytest.mark.parametrize("features", GmrConfig.CHOICES["features"])
def test_the_input_of_the_network_does_not_depend_on_where_a_cloud_is(features: str) -> None:
    net = GmrNet(replace(TINY, features=features))
    clouds = torch.rand(2, 30, 3, generator=torch.Generator().manual_seed(0))
    moved = clouds + torch.tensor([[[3.0, -2.0, 1.0]], [[-1.0, 0.5, 2.0]]])
    assert net.features(clouds).shape == (2, 30, net.config.inputs)
    torch.testing.assert_close(net.features(moved), net.features(clouds), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("features", "inputs", "least"), [("rri", 4, 3), ("rri", 20, 6), ("xyz", 3, 3)])
def test_numbers_per_point_and_points_that_the_features_need(features: str, inputs: int, least: int) -> None:
    config = GmrConfig(features=features, k=max(1, inputs // 4))
    assert (config.inputs, config.least_points) == (inputs, least)


@pytest.mark.parametrize("centring", GmrConfig.CHOICES["centring"])
def test_poses_are_those_between_the_mixtures_of_both_clouds(centring: str) -> None:
    net, (source, target) = GmrNet(replace(TINY, centring=centring)).eval(), tensor_pair()
    estimate = net.estimate(net.prepare(source, target), source, target)
    assignments = [net.backbone(net.features(cloud)).softmax(dim=2).double() for cloud in (source, target)]
    a, b = (mixture(gamma, cloud.double()) for gamma, cloud in zip(assignments, (source, target), strict=True))
    torch.testing.assert_close(estimate.T, align(a, b, centring), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(estimate.T_back, align(b, a, centring), atol=1e-4, rtol=1e-4)
    assert torch.equal(estimate.source, source) and torch.equal(estimate.target, target)


@pytest.mark.parametrize("loss", GmrConfig.CHOICES["loss"])
def test_the_loss_is_the_mean_over_pairs_of_that_of_the_nearest_true_pose(loss: str) -> None:
    net, clouds = GmrNet(replace(TINY, loss=loss)), tensor_pair()
    T, back, first, second = (torch.from_numpy(np.stack([pose(s), pose(s + 1)])) for s in (0, 10, 20, 30))
    both = torch.stack([first, second], dim=1)
    if loss == "mse":
        losses = pose_loss(T, back, both)
    else:
        losses = point_loss(T, both, clouds[0]) + point_loss(back, torch.linalg.inv(both), clouds[1])
    estimate = Estimate(T, back, *clouds)
    expected = (losses[0].min() + losses[1].min()) / 2
    assert net.loss(estimate, both).item() == pytest.approx(expected.item())
    assert net.loss(estimate, second).item() == pytest.approx(losses[:, 1].mean().item())
