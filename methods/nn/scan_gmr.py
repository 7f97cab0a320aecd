"""Network of DeepGMR for partial scans: points of one cloud are softly assigned to components around points of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.learned.described_scans import training_batch
from methods.nn.gmm import kabsch, point_loss

RINGS = ((0.0, 0.3), (0.8, 0.4), (1.6, 0.5), (2.6, 0.7))
"""Distance and width in nominal metres of the ring around a point to which each head of the attention within a cloud looks."""
LAYERS = 3
"""Layers of attention: within each cloud, to the other cloud, and within each again."""
_LIMIT = 1.0
"""Errors in nominal metres above which a component or a pose has no gradient."""
_EPSILON = 1e-6


@dataclass(frozen=True)
class ScanGmrConfig:
    """Sizes of the network and lengths, in nominal metres, of its components.

    Attributes:
        inputs: numbers of a descriptor.
        width: of the network.
        points: of a cloud in training.
        components: seeds of a cloud in training; each cloud has a mixture of as many Gaussians.
        spread: standard deviation of a component around its seed.
        near: distance of points in the overlap to the other cloud.
        tolerance: difference of distances at which two components contradict each other.
    """

    inputs: int = 32
    width: int = 64
    points: int = 384
    components: int = 128
    spread: float = 0.15
    near: float = 0.15
    tolerance: float = 0.3

    @property
    def least_points(self) -> int:
        """Minimum number of points of a cloud."""
        return self.components


class Features(NamedTuple):
    """Of a cloud's points: unit vectors (B, N, C), logit of the overlap (B, N), logit of the outlier component (B, N)."""

    vectors: Tensor
    overlap: Tensor
    outlier: Tensor


class Components(NamedTuple):
    """Weight (B, J) of pairs of components, and their means (B, J, 3) in source and target."""

    weight: Tensor
    source: Tensor
    target: Tensor


class Estimate(NamedTuple):
    """T_target_source (B, 4, 4) float64, and what the loss needs."""

    T: Tensor
    components: Components
    features: tuple[Features, Features]
    gamma: tuple[Tensor, Tensor]
    source: Tensor
    target: Tensor


class ScanGmrNet(nn.Module):
    """Map descriptors of two clouds to overlap weights and soft assignments, and these to mixtures and a pose.

    Each cloud has a mixture with a component around each of some of its points, the seeds. Points of the same cloud belong
    to a component by their distance from the seed, those of the other cloud by features, or to the outlier component.
    """

    config_type: ClassVar[type] = ScanGmrConfig

    def __init__(self, config: ScanGmrConfig) -> None:
        super().__init__()
        self.config = config
        self.first = nn.Linear(config.inputs, config.width)
        self.layers = nn.ModuleList(Attention(config.width) for _ in range(LAYERS))
        self.last = nn.Linear(config.width, config.inputs + 2)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)
        self.log_scale = nn.Parameter(torch.tensor(2.7))

    def collate(self, problems: Sequence[Any], device: str) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor, Tensor]:
        """See `training_batch`."""
        return training_batch(problems, self.config.points, device)

    def forward(self, descriptors: tuple[Tensor, Tensor], clouds: tuple[Tensor, Tensor]) -> tuple[Features, Features]:
        """Compute the features of both clouds from descriptors (B, N, D) and points (B, N, 3)."""
        x, y = (self.first(descriptor) for descriptor in descriptors)
        rings = [_ring_bias(cloud) for cloud in clouds]
        for i, layer in enumerate(self.layers):
            cross = i % 2 == 1
            x, y = (layer(x, y), layer(y, x)) if cross else (layer(x, x, rings[0]), layer(y, y, rings[1]))
        return self._features(x, descriptors[0]), self._features(y, descriptors[1])

    def _features(self, x: Tensor, descriptors: Tensor) -> Features:
        out = self.last(x)
        return Features(F.normalize(descriptors + out[..., 2:], dim=2), out[..., 0], out[..., 1])

    def assign(self, points: Features, seeds: Tensor) -> Tensor:
        """Compute log Γ (B, N, J + 1) of points of one cloud to components around seeds (B, J, C) of the other; outliers last."""
        scores = self.log_scale.exp() * (points.vectors @ seeds.transpose(1, 2) - 0.7)
        return torch.cat([scores, points.outlier[..., None]], dim=2).log_softmax(dim=2)

    def components(
        self, features: tuple[Features, Features], clouds: tuple[Tensor, Tensor], seeds: tuple[Tensor, Tensor]
    ) -> tuple[Components, tuple[Tensor, Tensor]]:
        """Compute the pairs of components of both mixtures, and log Γ of target points and of source points.

        Args:
            features: of source and target.
            clouds: points (B, N, 3) and (B, M, 3).
            seeds: rows (B, J) of the seeds in each.
        """
        pairs, gammas = [], []
        for own, other in ((0, 1), (1, 0)):
            rows = seeds[own][..., None]
            centre = clouds[own].gather(1, rows.expand(-1, -1, 3))
            vectors = features[own].vectors
            log_gamma = self.assign(features[other], vectors.gather(1, rows.expand(-1, -1, vectors.shape[2])))
            near = torch.exp(-0.5 * (torch.cdist(clouds[own], centre) / self.config.spread).square())
            mine = _moments(near * features[own].overlap.sigmoid()[..., None], clouds[own])
            theirs = _moments(log_gamma[..., :-1].exp() * features[other].overlap.sigmoid()[..., None], clouds[other])
            pairs.append((mine, theirs) if own == 0 else (theirs, mine))
            gammas.append(log_gamma)
        source, target = (torch.cat([pair[k] for pair in pairs], dim=1) for k in (0, 1))
        mass = (source[..., 0] * target[..., 0]).clamp_min(_EPSILON * _EPSILON).sqrt()
        weight = mass / (source[..., 4] + target[..., 4] + self.config.spread**2)
        return Components(weight, source[..., 1:4], target[..., 1:4]), (gammas[0], gammas[1])

    def estimate(self, prepared: tuple[Tensor, Tensor], source: Tensor, target: Tensor) -> Estimate:
        """See `Network.estimate`; the first points of each cloud, which are in random order, are the seeds."""
        with torch.autocast(source.device.type, enabled=False):
            features = self(prepared, (source, target))
            first = torch.arange(self.config.components, device=source.device).expand(len(source), -1)
            components, gamma = self.components(features, (source, target), (first, first))
            return Estimate(closed_form(components, self.config.tolerance), components, features, gamma, source, target)

    def loss(self, estimate: Estimate, T_true: Tensor) -> Tensor:
        """See `Network.loss`: pose, means of components, overlap, and assignments against those of the true pose."""
        T = T_true.float()
        moved = estimate.source @ T[:, :3, :3].transpose(1, 2) + T[:, None, :3, 3]
        away = torch.cdist(estimate.target, moved)
        pose = point_loss(estimate.T, T_true[:, None], estimate.source).clamp_max(_LIMIT).mean()
        components = estimate.components
        error = (components.source @ T[:, :3, :3].transpose(1, 2) + T[:, None, :3, 3] - components.target).norm(dim=2)
        mean = (components.weight * error.clamp_max(_LIMIT)).sum(1) / components.weight.sum(1).clamp_min(_EPSILON)
        J = self.config.components
        assignment = overlap = torch.zeros(())
        for gamma, features, distance in (
            (estimate.gamma[0], estimate.features[1], away),
            (estimate.gamma[1], estimate.features[0], away.transpose(1, 2)),
        ):
            assignment = assignment - (self._true_gamma(distance[..., :J]) * gamma).sum(2).mean()
            near = (distance.amin(dim=2) < self.config.near).float()
            overlap = overlap + F.binary_cross_entropy_with_logits(features.overlap, near)
        return pose.float() + mean.mean() + assignment + overlap

    def _true_gamma(self, distance: Tensor) -> Tensor:
        """Return assignments (B, N, J + 1) by the distances (B, N, J) from seeds at the true pose."""
        scores = -0.5 * (distance / self.config.spread).square()
        return torch.cat([scores, scores.new_full((*scores.shape[:2], 1), -2.0)], dim=2).softmax(dim=2)


class Attention(nn.Module):
    """Add to each point a mean over points of a cloud, by four heads, and a layer of the sum (pre-norm residuals)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.norm_after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key_value, self.out = (
            nn.Linear(width, width),
            nn.Linear(width, 2 * width),
            nn.Linear(width, width),
        )
        self.inner = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor, other: Tensor, bias: Tensor | None = None) -> Tensor:
        """Map x (B, N, C) by attention to (B, M, C), with additive scores (B, H, N, M)."""
        q = _heads(self.query(self.norm(x)))
        k, v = (_heads(part) for part in self.key_value(self.norm(other)).chunk(2, dim=2))
        mean = F.scaled_dot_product_attention(q, k, v, bias).transpose(1, 2).flatten(2)
        x = x + self.out(mean)
        return x + self.inner(self.norm_after(x))


def _heads(x: Tensor) -> Tensor:
    return x.view(*x.shape[:2], len(RINGS), -1).transpose(1, 2)


def _ring_bias(cloud: Tensor) -> Tensor:
    """Return scores (B, H, N, N) that are highest at the distance of each head's ring."""
    distance = torch.cdist(cloud, cloud)
    return torch.stack([-0.5 * ((distance - ring) / width).square() for ring, width in RINGS], dim=1)


def _moments(gamma: Tensor, points: Tensor) -> Tensor:
    """Compute weight, mean and isotropic variance (B, J, 5) of components from assignments (B, N, J), as Eqs. 7 to 9."""
    mass = gamma.sum(dim=1)[..., None]
    full = torch.cat([points, points.square().sum(dim=2, keepdim=True)], dim=2)
    mean = gamma.transpose(1, 2) @ full / mass.clamp_min(_EPSILON)
    mu = mean[..., :3]
    sigma2 = (mean[..., 3:] - mu.square().sum(dim=2, keepdim=True)).clamp_min(0) / 3
    return torch.cat([mass / points.shape[1], mu, sigma2], dim=2)


def closed_form(components: Components, tolerance: float, iterations: int = 20) -> Tensor:
    """Fit T_target_source (B, 4, 4) float64 to pairs of components, weighted by how well they keep distances to each other.

    The weights are those of the pairs times the leading eigenvector of their compatibility.
    """
    weight, p, q = (part.double() for part in components)
    difference = (torch.cdist(p, p) - torch.cdist(q, q)) / tolerance
    root = weight.clamp_min(_EPSILON * _EPSILON).sqrt()[..., None]
    compatible = (1 - difference.square()).clamp_min(0) * root * root.transpose(1, 2)
    vector = root
    for _ in range(iterations):
        vector = F.normalize(compatible @ vector, dim=1)
    share = (vector * root)[..., 0]
    share = share / share.sum(dim=1, keepdim=True).clamp_min(_EPSILON)
    return kabsch(p, q, share, share)
