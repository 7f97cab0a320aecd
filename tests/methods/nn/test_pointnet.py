"""The training form of PointNet."""

from __future__ import annotations

import pytest
import torch

from methods.nn.pointnet import PointNet, max_pool


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


def test_split_join_is_a_layer_on_the_concatenation() -> None:
    join = PointNet(4, (8,), (6,), 2).join
    x, cloud = torch.rand(2, 5, 8), torch.rand(2, 8)
    joined = torch.cat([x, cloud[:, None].expand(2, 5, 8)], -1)
    whole = joined @ torch.cat([join.linear.weight, join.context.weight], 1).T  # type: ignore[union-attr]
    torch.testing.assert_close(join(x, cloud), torch.relu(join.norm(whole.view(10, 6))).view(2, 5, 6))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_max_pool_with_nan_passes_gradients_within_its_cloud(dtype: torch.dtype) -> None:
    """A column of NaN equals no maximum: its gradient stays in that column, and the others are not affected."""
    clean = torch.rand(2, 5, 3, dtype=dtype)
    broken = clean.clone()
    broken[0, 2, 1] = torch.nan
    broken[1, :, 0] = torch.nan
    weight = torch.arange(1.0, 7.0, dtype=dtype).view(2, 3)
    gradients = []
    for x in (clean, broken):
        x.requires_grad_()
        gradients.append(torch.autograd.grad(max_pool(x), x, weight)[0])
    for cloud, column in ((0, 0), (0, 2), (1, 1), (1, 2)):
        assert torch.equal(gradients[0][cloud, :, column], gradients[1][cloud, :, column])
    assert torch.equal(gradients[1].sum(dim=1), weight) and (gradients[1] != 0).sum() == 6
