"""Sizes of DeepGMR's network."""

from __future__ import annotations

import pytest
import torch

from methods.deepgmr import DeepGMR
from methods.nn.gmr import GmrConfig, GmrNet


def test_paper_sizes(control: DeepGMR) -> None:
    shapes = [m.weight.shape for m in control.state["net"].modules() if isinstance(m, torch.nn.Linear)]
    sizes = [(64, 80), (128, 64), (256, 128), (1024, 256), (512, 1024), (512, 1024), (256, 512), (128, 256), (16, 128)]
    assert [tuple(s) for s in shapes] == sizes


@pytest.mark.parametrize("features", GmrConfig.CHOICES["features"])
def test_the_input_of_the_network_does_not_depend_on_where_a_cloud_is(features: str) -> None:
    net = GmrNet(GmrConfig(features=features, k=5, local=(8, 8, 8, 16), head=(8, 8, 8)))
    clouds = torch.rand(2, 30, 3, generator=torch.Generator().manual_seed(0))
    moved = clouds + torch.tensor([[[3.0, -2.0, 1.0]], [[-1.0, 0.5, 2.0]]])
    assert net.features(clouds).shape == (2, 30, net.config.inputs)
    torch.testing.assert_close(net.features(moved), net.features(clouds), atol=1e-4, rtol=1e-4)
