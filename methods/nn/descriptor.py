"""Network of the local descriptor: a small PointNet on each patch, one per scale, joined to a unit vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from methods.nn.descriptor_batch import matched, stacked
from methods.nn.gmm import kabsch


@dataclass(frozen=True)
class DescriptorConfig:
    """Sizes of the network and of its patches.

    Attributes:
        radii: of the patches, in metres of an indoor scan, ascending.
        points: of a patch.
        widths: of the point-wise layers.
        hidden: width of the layer between the pooled vectors and the descriptor.
        outputs: numbers of a descriptor.
        keys: matches of a pair in training.
        temperature: of the contrastive loss.
        apart: distance in metres below which other matches are no negatives.
    """

    radii: tuple[float, ...] = (0.3, 0.6)
    points: int = 64
    widths: tuple[int, ...] = (32, 64, 128)
    hidden: int = 128
    outputs: int = 32
    keys: int = 128
    temperature: float = 0.07
    apart: float = 0.1

    @property
    def least_points(self) -> int:
        """Minimum number of points of a cloud."""
        return self.points


class Estimate(NamedTuple):
    """T_target_source (B, 4, 4) float64; unit descriptors (B, K, D) of matched points; which pairs (B, K, K) are negatives."""

    T: Tensor
    source: Tensor
    target: Tensor
    negative: Tensor


class DescriptorNet(nn.Module):
    """Map patches in local reference frames to unit vectors that are near for the same part of a surface."""

    config_type: ClassVar[type] = DescriptorConfig

    def __init__(self, config: DescriptorConfig) -> None:
        super().__init__()
        self.config = config
        self.scales = nn.ModuleList(_point_layers((3, *config.widths)) for _ in config.radii)
        pooled = config.widths[-1] * len(config.radii)
        self.head = nn.Sequential(nn.Linear(pooled, config.hidden), nn.ReLU(), nn.Linear(config.hidden, config.outputs))

    def forward(self, patches: list[Tensor]) -> Tensor:
        """Compute unit descriptors (K, D) of the patches (K, P, 3) of each scale."""
        return self.joined([self.pooled(scale, patch) for scale, patch in enumerate(patches)])

    def pooled(self, scale: int, patch: Tensor) -> Tensor:
        """Compute the maximum (K, C) over points of the patches (K, P, 3) of a scale; repeated points do not change it.

        `max` has the faster gradient, `amax` the faster value.
        """
        x = self.scales[scale](patch)
        return x.max(dim=1).values if self.training else x.amax(dim=1)

    def joined(self, pooled: list[Tensor]) -> Tensor:
        """Compute unit descriptors (K, D) of the pooled numbers (K, C) of each scale.

        ReLU commutes with the maximum and has fewer numbers after it.
        """
        return F.normalize(self.head(torch.cat(pooled, dim=1).relu_()), dim=1)

    def layers(self) -> list[list[tuple[NDArray[np.float32], NDArray[np.float32]]]]:
        """Return the weights (outputs, inputs) and biases (outputs,) of the point-wise layers of each scale."""
        linear = [[layer for layer in scale.children() if isinstance(layer, nn.Linear)] for scale in self.scales]
        return [[(x.weight.detach().numpy(), x.bias.detach().numpy()) for x in layers] for layers in linear]

    def collate(self, problems: Sequence[Any], device: str) -> tuple[list[Tensor], Tensor, Tensor, Tensor]:
        """Return patches (2, B, K, P, 3) of each scale, matched points (B, K, 3) twice, and true poses (B, 4, 4)."""
        config = self.config
        matches = [matched(problem, config.radii, config.points, config.keys) for problem in problems]
        patches = [torch.from_numpy(patch).to(device) for patch in stacked(matches)]
        source, target = (torch.from_numpy(np.stack([m[k] for m in matches])).to(device) for k in (2, 3))
        T_true = torch.from_numpy(np.stack([problem.T_target_source for problem in problems]))
        return patches, source, target, T_true.to(device)

    def estimate(self, prepared: list[Tensor], source: Tensor, target: Tensor) -> Estimate:
        """See `Network.estimate`, of matched points (B, K, 3) and (B, K, 3).

        Args:
            prepared: patches (2, B, K, P, 3) of the source and of the target, of each scale.
            source: matched points.
            target: their partners, in the same order.
        """
        flat = [patch.flatten(0, 2) for patch in prepared]
        x, y = self(flat).view(2, *source.shape[:2], -1)
        negative = torch.cdist(target, target) >= self.config.apart
        T = torch.eye(4, dtype=torch.float64, device=source.device).repeat(len(source), 1, 1)
        return Estimate(T if self.training else _pose(x, y, source, target), x, y, negative)

    def loss(self, estimate: Estimate, T_true: Tensor) -> Tensor:
        """See `Network.loss`: InfoNCE in both directions, each match against all that are not near it."""
        scores = estimate.source @ estimate.target.transpose(1, 2) / self.config.temperature
        own = torch.eye(scores.shape[1], dtype=torch.bool, device=scores.device)
        scores = scores.masked_fill(~(estimate.negative | own), -1e4)
        label = torch.arange(scores.shape[1], device=scores.device).repeat(len(scores))
        both = (F.cross_entropy(s.flatten(0, 1), label) for s in (scores, scores.transpose(1, 2)))
        return torch.stack(list(both)).mean()


def _point_layers(widths: tuple[int, ...]) -> nn.Sequential:
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU(inplace=True))]
    return nn.Sequential(*layers[:-1])


def _pose(x: Tensor, y: Tensor, source: Tensor, target: Tensor, near: float = 0.1) -> Tensor:
    """Fit T_target_source (B, 4, 4) to the nearest descriptors, weighted by how well they keep distances to each other.

    The weights are the leading eigenvector of the compatibilities max(0, 1 - (difference of distances / near)²).
    """
    best = (x @ y.transpose(1, 2)).argmax(dim=2)
    q = target.gather(1, best[..., None].expand(-1, -1, 3))
    difference = (torch.cdist(source, source) - torch.cdist(q, q)) / near
    compatible = (1 - difference.square()).clamp_min(0)
    weight = torch.ones_like(source[..., :1])
    for _ in range(20):
        weight = F.normalize(compatible @ weight, dim=1)
    weight = (weight[..., 0] / weight.sum(dim=(1, 2))[:, None]).double()
    return kabsch(source.double(), q.double(), weight, weight)
