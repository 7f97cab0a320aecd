"""Folded, bfloat16 and int8 layers against the training form."""

from __future__ import annotations

import pytest
import torch

from methods.nn import inference
from methods.nn.inference import FoldedLayer, FoldedPointNet, QuantisedLayer, RoundingLayer
from methods.nn.pointnet import PointNet


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
    net = FoldedPointNet(net)
    assert not any(isinstance(m, torch.nn.BatchNorm1d) for m in net.modules())
    torch.testing.assert_close(net.eval()(x), before, atol=1e-5, rtol=1e-4)


def test_folded_network_in_pieces_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    net = PointNet(9, (16, 32), (24, 16), 5).eval()
    trained_a_little(net.train(), 9)
    x = torch.rand(5, 70, 9)
    with torch.no_grad():
        whole = net.eval()(x)
        net = FoldedPointNet(net)
        monkeypatch.setattr(inference, "_CHUNK_POINTS", 16)
        monkeypatch.setattr(inference, "_WIDE_POINTS", 150)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            torch.testing.assert_close(net(x), whole, atol=1e-5, rtol=1e-4)
        at_once = net.whole(x)  # as on a GPU
        torch.testing.assert_close(at_once, whole, atol=1e-5, rtol=1e-4)
        net.to_bfloat16()
        torch.testing.assert_close(net(x), whole, atol=0.1, rtol=0.05)
        packed = net(x)
        for layer in (m for m in net.modules() if isinstance(m, FoldedLayer)):
            layer.packed = None
        torch.testing.assert_close(net(x), packed, atol=0.05, rtol=0.05)
    assert net(x).dtype == torch.float32


@pytest.mark.skipif(not inference.can_quantise(), reason="this processor has no instruction for products of 8 bits")
def test_a_quantised_network_is_as_near_as_its_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    net = PointNet(9, (32, 32, 64, 96), (64, 48, 32), 5).eval()
    trained_a_little(net.train(), 9)
    x = torch.rand(5, 70, 9)
    with torch.no_grad():
        whole = net.eval()(x)
        net = FoldedPointNet(net)
        net.quantise()
        torch.testing.assert_close(net(x), whole, atol=0.03 * float(whole.std()), rtol=0.03)
        at_once = net(x)
        monkeypatch.setattr(inference, "_CHUNK_POINTS", 16)
        torch.testing.assert_close(net(x), at_once, atol=1e-5, rtol=1e-5)  # sums of integers have no order
    layers = [layer for layer in net._layers() if isinstance(layer, QuantisedLayer)]
    assert [layer.dtype for layer in layers] == [torch.uint8] * 5 + [torch.float32]


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
