"""Network of the local descriptor: from the moments of patches at several scales to a unit vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.geometry.patches import ORDERS, SUMS
from methods.nn.descriptor_batch import matched
from methods.nn.gmm import kabsch

DOUBLES = ((0, 1), (1, 3))
"""Positions of powers whose phase is doubled, and of the powers of twice their size."""
BATCH_SHARE = 0.01
"""Share of a step in the running mean and variance of the invariants: a step has one pair, and pairs differ."""
COUNT_OFFSET, SIZE_OFFSET = 0.01, 1e-3
"""Added below square roots, whose slope is infinite at zero."""


@dataclass(frozen=True)
class DescriptorConfig:
    """Sizes of the network and of its patches.

    Attributes:
        radii: of the patches, in metres of an indoor scan, ascending.
        points: maximum number of points of a patch.
        mixed: combinations of the moments of each power.
        hidden: width of the layer between the invariants and the descriptor.
        outputs: numbers of a descriptor.
        dropped: share of the invariants that are set to zero in training.
        keys: matches of a pair in training.
        temperature: of the contrastive loss.
        apart: distance in metres below which other matches are no negatives.
    """

    radii: tuple[float, ...] = (0.3, 0.6, 1.2)
    points: int = 64
    mixed: int = 48
    hidden: int = 192
    outputs: int = 32
    dropped: float = 0.2
    keys: int = 512
    temperature: float = 0.07
    apart: float = 0.1

    @property
    def least_points(self) -> int:
        """Minimum number of points of a cloud."""
        return self.points


class Phasor(NamedTuple):
    """Complex numbers (K, C) as their magnitudes, and parts with the square root of these as magnitude."""

    size: Tensor
    real: Tensor
    imaginary: Tensor

    @classmethod
    def from_parts(cls, real: Tensor, imaginary: Tensor) -> Phasor:
        """Return the phasor of complex numbers; those near zero have a phase that counts less."""
        size = (real * real + imaginary * imaginary + SIZE_OFFSET).sqrt()
        root = size.sqrt()
        return cls(size, real / root, imaginary / root)

    def rolled(self) -> Phasor:
        """Return each number's neighbour in its place."""
        return Phasor(*(part.roll(1, 1) for part in self))

    def doubled(self) -> Phasor:
        """Return numbers with twice the phase."""
        real, imaginary = self.real * self.real - self.imaginary * self.imaginary, 2 * self.real * self.imaginary
        root = self.size.sqrt()
        return Phasor(self.size, real / root, imaginary / root)

    def relative_to(self, other: Phasor) -> list[Tensor]:
        """Return the parts of products with the conjugates of other numbers, whose phases are the differences."""
        return [
            self.real * other.real + self.imaginary * other.imaginary,
            self.imaginary * other.real - self.real * other.imaginary,
        ]


class Estimate(NamedTuple):
    """T_target_source (B, 4, 4) float64; unit descriptors (B, K, D) of matched points; which pairs (B, K, K) are negatives."""

    T: Tensor
    source: Tensor
    target: Tensor
    negative: Tensor


class DescriptorNet(nn.Module):
    """Map moments of patches about their normals to unit vectors that are near for the same part of a surface.

    The moments of each power are combined linearly, over all cells and scales. A rotation about the normal adds the same angle,
    times the power, to the phases of all of them: their magnitudes and the differences of their phases do not change.
    """

    config_type: ClassVar[type] = DescriptorConfig

    def __init__(self, config: DescriptorConfig) -> None:
        super().__init__()
        self.config = config
        cells = len(config.radii) * SUMS[1]
        self.mixers = nn.ParameterList(2 / cells**0.5 * torch.randn(cells, config.mixed) for _ in range(ORDERS))
        count = cells + (3 * ORDERS + 2 * len(DOUBLES)) * config.mixed
        self.head = nn.Sequential(
            nn.BatchNorm1d(count, affine=False, momentum=BATCH_SHARE),
            nn.Dropout(config.dropped),
            nn.Linear(count, config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, config.outputs),
        )

    def forward(self, moments: Tensor) -> Tensor:
        """Compute unit descriptors (K, D) of patches with moments (K, S, *SUMS)."""
        return F.normalize(self.head(self.invariants(moments)), dim=1)

    def invariants(self, moments: Tensor) -> Tensor:
        """Compute numbers (K, C) that a rotation about the normal does not change."""
        x = moments.transpose(1, 2).flatten(2)
        mixed = [
            Phasor.from_parts(x[:, 2 * k + 1] @ mixer, x[:, 2 * k + 2] @ mixer) for k, mixer in enumerate(self.mixers)
        ]
        invariant = [(x[:, 0] + COUNT_OFFSET).sqrt()]
        for phasor in mixed:
            invariant += [phasor.size, *phasor.relative_to(phasor.rolled())]
        for low, high in DOUBLES:
            invariant += mixed[low].doubled().relative_to(mixed[high])
        return torch.cat(invariant, dim=1)

    def collate(self, problems: Sequence[Any], device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return moments (2, B, K, S, *SUMS) of patches, matched points (B, K, 3) twice, and true poses (B, 4, 4)."""
        config = self.config
        matches = [matched(problem, config.radii, config.points, config.keys) for problem in problems]
        patches, (source, target) = (
            [torch.from_numpy(np.stack([m[k] for m in matches])).to(device) for k in pair] for pair in ((0, 1), (2, 3))
        )
        T_true = torch.from_numpy(np.stack([problem.T_target_source for problem in problems]))
        return torch.stack(patches), source, target, T_true.to(device)

    def estimate(self, prepared: Tensor, source: Tensor, target: Tensor) -> Estimate:
        """See `Network.estimate`, of matched points (B, K, 3) and (B, K, 3).

        Args:
            prepared: moments (2, B, K, S, *SUMS) of the patches of the source and of the target.
            source: matched points.
            target: their partners, in the same order.
        """
        x, y = self(prepared.flatten(0, 2)).view(2, *source.shape[:2], -1)
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
