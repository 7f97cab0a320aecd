"""Network of PRNet (Wang and Solomon 2019): keypoints matched by straight-through Gumbel-Softmax, in several rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.nn.matching import Embedding, centred, motion_loss, moved, pose_of_matches, scores_of

_DISCOUNT, _CYCLE, _ALIGNMENT = 0.9, 0.1, 0.1
"""Weights of the losses: of a round relative to the previous one; of cycle consistency; of the global features' distance."""
_MIN_TEMPERATURE = 0.01
"""Lower bound of the softmax temperature."""


@dataclass(frozen=True)
class PrnetConfig:
    """Sizes of the network; the defaults are the paper's.

    Attributes:
        k, widths, features, heads, inner: see `methods.nn.dcp.DcpConfig`.
        keypoints: share of a cloud's points that are matched, those with the longest features.
        rounds: refinements, each of the source as moved by the previous ones.
    """

    k: int = 20
    widths: tuple[int, ...] = (64, 64, 128, 256)
    features: int = 512
    heads: int = 4
    inner: int = 1024
    keypoints: float = 2 / 3
    rounds: int = 3

    @property
    def least_points(self) -> int:
        """Minimum number of points of a cloud: 9 for three keypoints or more, k for the k nearest."""
        return max(9, self.k)


class Estimate(NamedTuple):
    """T_target_source (B, 4, 4) float64; the pose after each round; each round's two regularising losses."""

    T: Tensor
    rounds: list[Tensor]
    cycle: list[Tensor]
    alignment: list[Tensor]


class PrnetNet(nn.Module):
    """PRNet: rounds of features, keypoints, a temperature, one match per keypoint, and a pose.

    Matches are sampled in training; otherwise the most likely is chosen. Samples are keyed by the number of previous ones, which
    is part of the state, so that a resumed run continues exactly.
    """

    config_type: ClassVar[type] = PrnetConfig

    draws: Tensor

    def __init__(self, config: PrnetConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config)
        width = config.features
        self.warmth = nn.Sequential(nn.Linear(width, width // 4), nn.ReLU(), nn.Linear(width // 4, 1))
        self.register_buffer("draws", torch.zeros((), dtype=torch.long))

    def prepare(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """See `Network.prepare`: neighbours of both clouds."""
        return self.embedding.prepare(source, target)

    def estimate(self, prepared: tuple[Tensor, Tensor], source: Tensor, target: Tensor) -> Estimate:
        """See `Network.estimate`; no gradient flows from one round to the previous one."""
        T = torch.eye(4, dtype=torch.float64, device=source.device).repeat(len(source), 1, 1)
        estimate = Estimate(T, [], [], [])
        for _ in range(self.config.rounds):
            step, cycle, alignment = self.round(prepared, moved(T.detach(), source), target)
            T = step @ T.detach()
            for entry, value in zip(estimate[1:], (T, cycle, alignment), strict=True):
                entry.append(value)
        return estimate._replace(T=T)

    def round(self, prepared: tuple[Tensor, Tensor], source: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the pose (B, 4, 4) of one round, its cycle loss and its alignment loss."""
        x, y = self.embedding(prepared, centred(source), centred(target))
        difference = x.mean(dim=1) - y.mean(dim=1)
        with torch.autocast(x.device.type, enabled=False):
            temperature = F.softplus(self.warmth(difference.abs())) + _MIN_TEMPERATURE
        (x, source), (y, target) = (self.keypoints(*cloud) for cloud in ((x, source), (y, target)))
        scores = scores_of(x, y) / temperature[..., None]
        forward = pose_of_matches(self.matches(scores), source, target)
        if not self.training:
            zero = difference.new_zeros(())
            return forward, zero, zero
        back = pose_of_matches(self.matches(scores.transpose(1, 2)), target, source)
        identity = torch.eye(4, dtype=forward.dtype, device=forward.device)[None]
        return forward, motion_loss(forward @ back, identity), difference.square().sum(1).mean()

    def keypoints(self, features: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """Select the features (B, K, F) and points (B, K, 3) with the longest features."""
        count = max(3, round(self.config.keypoints * points.shape[1]))
        chosen = features.detach().norm(dim=2).topk(count, dim=1).indices[..., None]
        return features.gather(1, chosen.expand(-1, -1, features.shape[2])), points.gather(1, chosen.expand(-1, -1, 3))

    def matches(self, scores: Tensor) -> Tensor:
        """Match each row of scores (B, K, M): rows with a single 1, with the gradient of the softmax."""
        if self.training:
            scores = scores + self.gumbel(scores)
        soft = scores.softmax(dim=-1)
        hard = torch.zeros_like(soft).scatter_(-1, soft.argmax(dim=-1, keepdim=True), 1.0)
        return hard + (soft - soft.detach())

    def gumbel(self, like: Tensor) -> Tensor:
        """Sample Gumbel noise of a tensor's shape: minus the logarithm of exponential samples."""
        generator = torch.Generator(like.device).manual_seed(int(self.draws))
        self.draws += 1
        return -torch.empty_like(like).exponential_(generator=generator).log_()

    def loss(self, estimate: Estimate, T_true: Tensor) -> Tensor:
        """See `Network.loss`: the motion, cycle and alignment losses of every round, discounted."""
        rounds = zip(estimate.rounds, estimate.cycle, estimate.alignment, strict=True)
        losses = [motion_loss(T, T_true) + _CYCLE * cycle + _ALIGNMENT * alignment for T, cycle, alignment in rounds]
        return torch.stack([_DISCOUNT**i * loss for i, loss in enumerate(losses)]).sum()
