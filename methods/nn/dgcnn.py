"""DGCNN (Wang et al. 2019): point features from neighbourhoods, with no tensor of edges larger than the features need."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def nearest(points: Tensor, k: int) -> Tensor:
    """Indices (B, N, k) of the k nearest points of each point (B, N, 3), nearest first, itself among them.

    On the CPU a k-d tree, else all distances.
    """
    if points.device.type != "cpu":
        return torch.cdist(points, points).topk(k, largest=False).indices
    from scipy.spatial import cKDTree

    clouds = points.detach().numpy()
    found = [np.reshape(cKDTree(cloud, balanced_tree=False).query(cloud, k)[1], (-1, k)) for cloud in clouds]
    return torch.from_numpy(np.stack(found))


def rows_of(index: Tensor) -> Tensor:
    """Neighbours (B, N, k) as rows (k, B · N) of all clouds' points below each other."""
    first = torch.arange(len(index), device=index.device) * index.shape[1]
    return (index + first[:, None, None]).flatten(0, 1).T.contiguous()


class _LargestOf(torch.autograd.Function):
    """Of features (P, C) and rows (k, P): the largest (P, C) over each point's k rows, neighbour after neighbour.

    On the CPU an eighth of `embedding_bag`'s time, 60 % with its gradient, and nothing is as large as the edges. Of tied
    neighbours the last has the gradient.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor) -> Tensor:
        best = x.index_select(0, rows[0])
        for row in rows[1:]:
            torch.maximum(best, x.index_select(0, row), out=best)
        ctx.save_for_backward(x, best, rows)
        return best

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        x, best, rows = ctx.saved_tensors
        slot = torch.zeros_like(best, dtype=torch.uint8)
        for j, row in enumerate(rows):
            torch.maximum(slot, torch.eq(x.index_select(0, row), best).view(torch.uint8).mul_(j), out=slot)
        winners = rows.T.gather(1, slot.long())
        return torch.zeros_like(x).scatter_add_(0, winners, grads[0].contiguous()), None


class EdgeConv(nn.Module):
    """The maximum over neighbours j of φ x_i + θ (x_j - x_i), then batch norm and ReLU: (P, inputs) to (P, outputs).

    As θ is linear the maximum is taken of θ x_j, which needs a product a point, not one an edge. The norm therefore comes
    after the maximum; before it, the same function could be written wherever the norm's scale is positive.
    """

    def __init__(self, inputs: int, outputs: int, precise: bool = False) -> None:
        super().__init__()
        self.centre = nn.Linear(inputs, outputs, bias=False)
        self.edge = nn.Linear(inputs, outputs, bias=False)
        self.norm = nn.BatchNorm1d(outputs)
        self.precise = precise

    def forward(self, points: Tensor, rows: Tensor) -> Tensor:
        """Features (P, outputs) of points (P, inputs) whose neighbours are rows (k, P)."""
        with torch.autocast(
            points.device.type, enabled=torch.is_autocast_enabled(points.device.type) and not self.precise
        ):
            edge = self.edge(points)
            largest: Tensor = _LargestOf.apply(edge, rows)  # type: ignore[no-untyped-call]
            return torch.relu_(self.norm(self.centre(points) + (largest - edge)))


class Dgcnn(nn.Module):
    """Features of points from edge convolutions one after another, and a layer on all of them together.

    Neighbours are those in space, found once. The first layer works in float32: differences of coordinates need its digits.

    Args:
        widths: of the edge convolutions.
        outputs: features a point.
    """

    def __init__(self, widths: Sequence[int], outputs: int) -> None:
        super().__init__()
        sizes = [3, *widths]
        self.layers = nn.ModuleList(EdgeConv(a, b, precise=i == 0) for i, (a, b) in enumerate(pairwise(sizes)))
        self.last = nn.Linear(sum(widths), outputs, bias=False)
        self.norm = nn.BatchNorm1d(outputs)

    def forward(self, points: Tensor, index: Tensor) -> Tensor:
        """Features (B, N, outputs) of points (B, N, 3) with neighbours (B, N, k)."""
        rows, x = rows_of(index), points.flatten(0, 1)
        levels = []
        for layer in self.layers:
            x = layer(x, rows)
            levels.append(x)
        together = self.norm(self.last(torch.cat(levels, dim=1)))
        return torch.relu(together).view(*points.shape[:2], -1)
