"""The PointNet segmentation backbone: point-wise layers, one max-pool over the cloud, a head on local and global together."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class PointLayer(nn.Module):
    """Linear, batch norm and ReLU on every point; optionally on the concatenation of the point with its cloud's vector.

    A linear layer on concat(point, cloud) is the sum of one on the point and one, per cloud, on the vector: half the work.
    """

    def __init__(self, inputs: int, outputs: int, context: int = 0) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.context = nn.Linear(context, outputs, bias=False) if context else None
        self.norm: nn.Module = nn.BatchNorm1d(outputs)

    def forward(self, points: Tensor, cloud: Tensor | None = None) -> Tensor:
        """(B, N, inputs) and (B, context) to (B, N, outputs)."""
        y = self.linear(points)
        if self.context is not None:
            y = y + self.context(cloud)[:, None]
        # On (B * N, C): Linear and batch norm are several times faster there than a 1 x 1 convolution on (B, C, N).
        return torch.relu_(self.norm(y.reshape(-1, y.shape[-1]))).view(y.shape)

    def folded(self) -> PointLayer:
        """The same layer for inference, its batch norm's running statistics folded into the weights."""
        norm = self.norm
        assert isinstance(norm, nn.BatchNorm1d) and norm.running_mean is not None and norm.running_var is not None
        scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        layer = copy.deepcopy(self)
        layer.norm = nn.Identity()
        layer.linear = _linear(self.linear.weight * scale[:, None], norm.bias - scale * norm.running_mean)
        layer.context = _linear(self.context.weight * scale[:, None], None) if self.context is not None else None
        return layer


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    layer.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach().clone(), requires_grad=False)
    return layer


def max_pool(x: Tensor) -> Tensor:
    """Largest value (B, C) over the points of x (B, N, C), which must not be negative. Of tied points one has the gradient."""
    pooled: Tensor = _MaxPool.apply(x)  # type: ignore[no-untyped-call]
    return pooled


class _MaxPool(torch.autograd.Function):
    """`amax` in a quarter of its time on the CPU, and a sparse gradient: a tenth to a fifth of a training step.

    Bits of bfloat16 that are not negative are ordered as integers, and integers have the fast loops.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        bits = _ordered(x)
        top = bits.amax(dim=1)
        ctx.save_for_backward(x, top)
        return top.view(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        x, top = ctx.saved_tensors
        spread = torch.zeros_like(x)
        for cloud, best, into, grad in zip(_ordered(x), top, spread, grads[0], strict=True):
            winners = _nonzero((cloud == best).view(-1))
            chosen = torch.empty_like(grad, dtype=torch.long)
            chosen[winners % x.shape[2]] = winners  # of tied points one stays
            into.view(-1)[chosen] = grad
        return spread


def _ordered(x: Tensor) -> Tensor:
    return x.view(torch.int16) if x.dtype == torch.bfloat16 else x


def _nonzero(mask: Tensor) -> Tensor:
    """Indices of True in a flat mask; NumPy's search is five times faster on the CPU."""
    if mask.device.type == "cpu":
        return torch.from_numpy(np.flatnonzero(mask.numpy()))
    return mask.nonzero()[:, 0]


def _chain(widths: Sequence[int]) -> nn.Sequential:
    return nn.Sequential(*(PointLayer(a, b) for a, b in pairwise(widths)))


def _layers(chain: nn.Sequential) -> list[PointLayer]:
    return [layer for layer in chain if isinstance(layer, PointLayer)]


class PointNet(nn.Module):
    """(B, N, inputs) to scores (B, N, outputs), for any N, equivariant to the order of the points.

    Args:
        inputs: numbers a point.
        local: widths of the point-wise layers before the max-pool.
        head: widths of the layers on the concatenation of each point with the pooled vector.
        outputs: scores a point.
    """

    def __init__(self, inputs: int, local: Sequence[int], head: Sequence[int], outputs: int) -> None:
        super().__init__()
        self.local = _chain([inputs, *local])
        self.join = PointLayer(local[-1], head[0], context=local[-1])
        self.head = _chain(head)
        self.last = nn.Linear(head[-1], outputs)

    def forward(self, features: Tensor) -> Tensor:
        x: Tensor = self.local(features)
        x = self.head(self.join(x, max_pool(x)))
        with torch.autocast(x.device.type, enabled=False):  # bfloat16 scores would quantise the assignments
            scores: Tensor = self.last(x.to(self.last.weight.dtype))
        return scores

    def fold(self) -> None:
        """Fold every batch norm into the weights, in place: faster inference, no more training."""
        self.local = nn.Sequential(*(layer.folded() for layer in _layers(self.local)))
        self.join = self.join.folded()
        self.head = nn.Sequential(*(layer.folded() for layer in _layers(self.head)))
