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
LAYERS = 2
"""Layers of attention within a cloud."""
CUES = 3
"""Numbers of a point that `_cues` computes from the other cloud."""
_LOG_SCALE = 4.1
"""Logarithm of the initial factor of cosines in scores, a choice on held-out rooms."""
_COSINE = 0.7
"""Cosine of descriptors at which a component is as likely as the outliers before training, a choice."""
MEMBERS = 12
"""Pairs of components of a set, a choice."""
REFITS = 5
"""Steps in which the best pose is fitted to its inliers, a choice."""
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
    points: int = 512
    components: int = 128
    spread: float = 0.15
    near: float = 0.2
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
        self.first = nn.Linear(config.inputs + CUES, config.width)
        self.layers = nn.ModuleList(Attention(config.width) for _ in range(LAYERS))
        self.last = nn.Linear(config.width, config.inputs + 2)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)
        self.log_scale = nn.Parameter(torch.tensor(_LOG_SCALE))

    def collate(self, problems: Sequence[Any], device: str) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor, Tensor]:
        """See `training_batch`."""
        return training_batch(problems, self.config.points, device)

    def forward(self, descriptors: tuple[Tensor, Tensor], clouds: tuple[Tensor, Tensor]) -> tuple[Features, Features]:
        """Compute the features of both clouds from descriptors (B, N, D) and points (B, N, 3)."""
        both = zip(descriptors, clouds, _cues(descriptors, clouds, self.config.tolerance), strict=True)
        source, target = (self._features(*cloud) for cloud in both)
        return source, target

    def _features(self, descriptors: Tensor, points: Tensor, cues: Tensor) -> Features:
        x = self.first(torch.cat([descriptors, cues], dim=2))
        bias = _ring_bias(points)
        for layer in self.layers:
            x = layer(x, bias)
        out = self.last(x)
        return Features(F.normalize(descriptors + out[..., 2:], dim=2), out[..., 0], out[..., 1])

    def assign(self, points: Features, seeds: Tensor) -> Tensor:
        """Compute Γ (B, N, J + 1) of points of one cloud to components around seeds (B, J, C) of the other; outliers last."""
        scores = self.log_scale.exp() * (points.vectors @ seeds.transpose(1, 2) - _COSINE)
        return torch.cat([scores, points.outlier[..., None]], dim=2).softmax(dim=2)

    def components(
        self, features: tuple[Features, Features], clouds: tuple[Tensor, Tensor], seeds: tuple[Tensor, Tensor]
    ) -> Components:
        """Compute the pairs of components of both mixtures.

        Args:
            features: of source and target.
            clouds: points (B, N, 3) and (B, M, 3).
            seeds: rows (B, J) of the seeds in each.
        """
        pairs = []
        for own, other in ((0, 1), (1, 0)):
            rows = seeds[own][..., None]
            centre = clouds[own].gather(1, rows.expand(-1, -1, 3))
            vectors = features[own].vectors
            gamma = self.assign(features[other], vectors.gather(1, rows.expand(-1, -1, vectors.shape[2])))
            near = torch.exp(-0.5 * (torch.cdist(clouds[own], centre) / self.config.spread).square())
            mine = _moments(near * features[own].overlap.sigmoid()[..., None], clouds[own])
            theirs = _moments(gamma[..., :-1] * features[other].overlap.sigmoid()[..., None], clouds[other])
            pairs.append((mine, theirs) if own == 0 else (theirs, mine))
        source, target = (torch.cat([pair[k] for pair in pairs], dim=1) for k in (0, 1))
        mass = (source[..., 0] * target[..., 0]).clamp_min(_EPSILON * _EPSILON).sqrt()
        weight = mass / (source[..., 4] + target[..., 4] + self.config.spread**2)
        return Components(weight, source[..., 1:4], target[..., 1:4])

    def estimate(self, prepared: tuple[Tensor, Tensor], source: Tensor, target: Tensor) -> Estimate:
        """See `Network.estimate`; the first points of each cloud, which are in random order, are the seeds."""
        with torch.autocast(source.device.type, enabled=False):
            features = self(prepared, (source, target))
            first = torch.arange(self.config.components, device=source.device).expand(len(source), -1)
            components = self.components(features, (source, target), (first, first))
            return Estimate(closed_form(components, self.config.tolerance), components, features, source, target)

    def loss(self, estimate: Estimate, T_true: Tensor) -> Tensor:
        """See `Network.loss`: error of the pose and of the components' means, and cross-entropy of the overlap weights."""
        T = T_true.float()
        moved = estimate.source @ T[:, :3, :3].transpose(1, 2) + T[:, None, :3, 3]
        pose = point_loss(estimate.T, T_true[:, None], estimate.source).clamp_max(_LIMIT).mean()
        weight, source, target = estimate.components
        error = (source @ T[:, :3, :3].transpose(1, 2) + T[:, None, :3, 3] - target).norm(dim=2).clamp_max(_LIMIT)
        mean = (weight * error).sum(dim=1) / weight.sum(dim=1).clamp_min(_EPSILON)
        away = torch.cdist(moved, estimate.target)
        overlap = [
            F.binary_cross_entropy_with_logits(f.overlap, (away.amin(dim=k) < self.config.near).float())
            for f, k in zip(estimate.features, (2, 1), strict=True)
        ]
        return pose.float() + mean.mean() + torch.stack(overlap).sum()


def _cues(descriptors: tuple[Tensor, Tensor], clouds: tuple[Tensor, Tensor], tolerance: float) -> list[Tensor]:
    """Compute the cosine of each point's nearest descriptor, whether both are nearest, and how well the match keeps distances.

    The last is the leading eigenvector of the compatibilities of all matches, as in Leordeanu and Hebert (2005).

    Returns:
        (B, N, 3) of the source and (B, M, 3) of the target.
    """
    with torch.no_grad():
        scores = descriptors[0] @ descriptors[1].transpose(1, 2)
        (cosine, partner), (cosine_back, partner_back) = scores.max(dim=2), scores.max(dim=1)
        cues = []
        for best, match, back, points, other in (
            (cosine, partner, partner_back, *clouds),
            (cosine_back, partner_back, partner, *reversed(clouds)),
        ):
            mutual = (back.gather(1, match) == torch.arange(match.shape[1], device=match.device)).float()
            matched = other.gather(1, match[..., None].expand(-1, -1, 3))
            kept = leading_eigenvector(compatibility(points, matched, tolerance), mutual[..., None] + _EPSILON)
            cues.append(torch.stack([best, mutual, kept / kept.amax(dim=1, keepdim=True).clamp_min(_EPSILON)], dim=2))
    return cues


class Attention(nn.Module):
    """Add to each point a mean over points of its cloud, by four heads, and a layer of the sum (pre-norm residuals)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.norm_after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key_value, self.out = (
            nn.Linear(width, width),
            nn.Linear(width, 2 * width),
            nn.Linear(width, width),
        )
        self.inner = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Map x (B, N, C) with additive scores (B, H, N, N)."""
        normed = self.norm(x)
        q = _heads(self.query(normed))
        k, v = (_heads(part) for part in self.key_value(normed).chunk(2, dim=2))
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


def compatibility(p: Tensor, q: Tensor, tolerance: float) -> Tensor:
    """Return (B, K, K) how well pairs of matches p to q (B, K, 3) keep their distance: from 1 down to 0 at the tolerance."""
    return (1 - ((torch.cdist(p, p) - torch.cdist(q, q)) / tolerance).square()).clamp_min(0)


def leading_eigenvector(matrix: Tensor, weight: Tensor, iterations: int = 20) -> Tensor:
    """Return the leading eigenvector (B, K) of diag(w) M diag(w), by power iteration, for M (B, K, K) and weights w (B, K, 1)."""
    vector = weight
    for _ in range(iterations):
        vector = F.normalize(weight * (matrix @ (weight * vector)), dim=1)
    return vector[..., 0]


def closed_form(components: Components, tolerance: float) -> Tensor:
    """Fit T_target_source (B, 4, 4) float64 to pairs of components, weighted by how well they keep distances to each other.

    The weights are those of the pairs times the leading eigenvector of their compatibility.
    """
    weight, p, q = (part.double() for part in components)
    root = weight.clamp_min(_EPSILON * _EPSILON).sqrt()
    share = leading_eigenvector(compatibility(p, q, tolerance), root[..., None]) * root
    share = share / share.sum(dim=1, keepdim=True).clamp_min(_EPSILON)
    return kabsch(p, q, share, share)


def best_of_sets(components: Components, tolerance: float) -> Tensor:
    """Fit T_target_source (4, 4) float64 in closed form to a set of compatible pairs around each one, and return the best.

    A set has the pairs that are compatible with the same others, by their weight. The pose with the largest weight of inliers is
    fitted to these again.
    """
    weight, p, q = (part[0].double() for part in components)
    compatible = (compatibility(p[None], q[None], tolerance)[0] > 0).double()
    common = (compatible * weight) @ compatible * compatible
    strength, rows = common.topk(min(MEMBERS, len(weight)), dim=1)
    share = _normalised(strength * weight[rows])
    poses = kabsch(p[rows], q[rows], share, share)
    T = poses[(_inliers(poses, p, q, tolerance) * weight).sum(dim=1).argmax()][None]
    for _ in range(REFITS):
        share = _normalised(_inliers(T, p, q, tolerance) * weight)
        T = kabsch(p[None], q[None], share, share)
    return T[0]


def _inliers(poses: Tensor, p: Tensor, q: Tensor, tolerance: float) -> Tensor:
    """Return (B, K) how well poses (B, 4, 4) move p to q (K, 3): from 1 down to 0 at the tolerance."""
    residual = p @ poses[:, :3, :3].transpose(1, 2) + poses[:, None, :3, 3] - q
    return (1 - residual.square().sum(dim=2) / tolerance**2).clamp_min(0)


def _normalised(weight: Tensor) -> Tensor:
    weight = weight + _EPSILON * _EPSILON
    return weight / weight.sum(dim=1, keepdim=True)
