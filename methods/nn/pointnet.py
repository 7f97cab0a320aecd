"""PointNet segmentation backbone (Qi et al. 2017): point-wise layers, a max-pool over the cloud, and a point-wise head."""

from __future__ import annotations

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
        """Map points (B, N, inputs) and cloud vectors (B, context) to (B, N, outputs)."""
        y = self.linear(points)
        if self.context is not None:
            y = y + self.context(cloud)[:, None]
        # On (B * N, C): Linear and batch norm are several times faster there than a 1 x 1 convolution on (B, C, N).
        return torch.relu_(self.norm(y.reshape(-1, y.shape[-1]))).view(y.shape)


class PointNet(nn.Module):
    """Map features (B, N, inputs) to scores (B, N, outputs), for any N, equivariant to the order of the points.

    Args:
        inputs: numbers per point.
        local: widths of the point-wise layers before the max-pool.
        head: widths of the layers on the concatenation of each point with the pooled vector.
        outputs: scores per point.
    """

    def __init__(self, inputs: int, local: Sequence[int], head: Sequence[int], outputs: int) -> None:
        super().__init__()
        self.local = _layers([inputs, *local])
        self.join = PointLayer(local[-1], head[0], context=local[-1])
        self.head = _layers(head)
        self.last = nn.Linear(head[-1], outputs)

    def forward(self, features: Tensor) -> Tensor:
        """Compute the scores (B, N, outputs), float32, of features (B, N, inputs)."""
        x: Tensor = self.local(features)
        return float32_scores(self.last, self.head(self.join(x, max_pool(x))))


def _layers(widths: Sequence[int]) -> nn.Sequential:
    return nn.Sequential(*(PointLayer(a, b) for a, b in pairwise(widths)))


def float32_scores(layer: nn.Linear, x: Tensor) -> Tensor:
    """Apply the last layer without autocast: bfloat16 scores would quantise the assignments."""
    with torch.autocast(x.device.type, enabled=False):
        scores: Tensor = layer(x.to(layer.weight.dtype))
    return scores


def max_pool(x: Tensor) -> Tensor:
    """Return the maximum (B, C) over the points of x (B, N, C), x >= 0; one of tied points receives the gradient."""
    pooled: Tensor = _MaxPool.apply(x)  # type: ignore[no-untyped-call]
    return pooled


class _MaxPool(torch.autograd.Function):
    """Maximum over points in a quarter of the time of `amax` on the CPU, with a sparse gradient.

    Non-negative bfloat16 numbers are ordered like their bits as integers, and integers have the faster loops.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        bits = _as_ordered_integers(x)
        top = bits.amax(dim=1)
        ctx.save_for_backward(x, top)
        return top.view(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        x, top = ctx.saved_tensors
        gradient = torch.zeros_like(x)
        if x.device.type != "cpu":  # no indices of unknown number, for which the host would wait
            first = (_as_ordered_integers(x) == top[:, None]).to(torch.uint8).argmax(dim=1, keepdim=True)
            return gradient.scatter_(1, first, grads[0][:, None])
        for cloud, best, row, grad in zip(_as_ordered_integers(x), top, gradient, grads[0], strict=True):
            winners = torch.from_numpy(np.flatnonzero((cloud == best).numpy()))  # five times as fast as torch's search
            chosen = torch.arange(x.shape[2])  # NaN equals nothing: the first point receives its gradient
            chosen[winners % x.shape[2]] = winners  # the last of tied points remains
            row.view(-1)[chosen] = grad
        return gradient


def _as_ordered_integers(x: Tensor) -> Tensor:
    return x.view(torch.int16) if x.dtype == torch.bfloat16 else x
