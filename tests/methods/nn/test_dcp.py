"""DCP's network: gradients, symmetries, sizes, and that it learns."""

from __future__ import annotations

from dataclasses import asdict

import torch

from methods.dcp import Dcp
from methods.learned.training import build_network
from methods.nn.dcp import DcpConfig, DcpNet
from methods.nn.matching import motion_loss, pose_of_matches
from tests.methods.clouds import pose, tensor_pair

TINY = DcpConfig(k=5, widths=(8, 12), features=16, heads=2, inner=24)


def test_gradients_against_finite_differences() -> None:
    """Of the softmax, the matches, the SVD and the loss together."""
    x, y = (c[:1, :7].double() for c in tensor_pair())
    scores = torch.randn(1, 7, 7, dtype=torch.float64, requires_grad=True)
    truth = torch.from_numpy(pose(2))[None]
    assert torch.autograd.gradcheck(lambda s: motion_loss(pose_of_matches(s.softmax(-1), x, y), truth), [scores])


def test_the_gradient_reaches_every_weight() -> None:
    net = DcpNet(TINY)
    source, target = tensor_pair()
    net.loss(
        net.estimate(net.prepare(source, target), source, target), torch.from_numpy(pose(0))[None].expand(2, 4, 4)
    ).backward()
    idle = [name for name, p in net.named_parameters() if p.grad is None or not torch.isfinite(p.grad).all()]
    assert not idle


def test_order_does_not_matter_and_clouds_may_differ_in_size() -> None:
    net = DcpNet(TINY).eval()
    source, target = tensor_pair(40, 30)

    def found(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return net.estimate(net.prepare(a, b), a, b).T

    first = found(source, target)
    again = found(source[:, torch.randperm(40)], target[:, torch.randperm(30)])
    torch.testing.assert_close(first, again, atol=1e-4, rtol=1e-4)
    same = found(source[:, :30], target)  # of one size both go through the network at once
    split = found(torch.cat([source[:, :30], source[:, :1]], dim=1)[:, :30], target)
    torch.testing.assert_close(same, split)


def test_the_default_sizes_are_the_paper_s() -> None:
    net = Dcp.network()
    shapes = [tuple(m.weight.shape) for m in net.embedding.local.modules() if isinstance(m, torch.nn.Linear)]
    assert shapes[::2] == [(64, 3), (64, 64), (128, 64), (256, 128), (512, 512)] and net.config.k == 20
    assert net.embedding.mutual.decoder.attention.heads == 4
    assert net.embedding.mutual.decoded.layers[1].weight.shape == (1024, 512)
    small = build_network("dcp_small").config
    assert small.features < 512 and small.k < 20 and asdict(small) != asdict(net.config)


def test_a_small_network_learns_one_problem() -> None:
    net = DcpNet(TINY)
    source, _ = tensor_pair(32)
    source = source[:1]
    T = torch.from_numpy(pose(3))[None]
    target = source @ T[:, :3, :3].mT.float() + T[:, None, :3, 3].float()
    prepared, losses = net.prepare(source, target), []
    optimiser = torch.optim.Adam(net.parameters(), 5e-3)
    for _ in range(40):
        loss = net.loss(net.estimate(prepared, source, target), T)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]
