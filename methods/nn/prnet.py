"""The network of PRNet (Wang and Solomon 2019): keypoints matched by straight-through Gumbel-Softmax, in several rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.nn.matching import Embedding, centred, motion_loss, moved, pose_of_matches, scores_of

_DISCOUNT, _CYCLE, _ALIGNMENT = 0.9, 0.1, 0.1
"""Of the losses: what a later round counts beside the one before it; cycle consistency; likeness of the global features."""
_COLDEST = 0.01


@dataclass(frozen=True)
class PrnetConfig:
    """The network's sizes; the defaults are the paper's.

    Attributes:
        k, widths, features, heads, inner: as of `methods.nn.dcp.DcpConfig`.
        keypoints: share of a cloud's points that are matched, those of the longest features.
        rounds: refinements, each of the source as moved so far.
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
        """The fewest points a cloud may have: three keypoints, and k nearest need k."""
        return max(9, self.k)


class Estimate(NamedTuple):
    """T_target_source (B, 4, 4) float64; the pose after each round; each round's two regularising losses."""

    T: Tensor
    rounds: list[Tensor]
    cycle: list[Tensor]
    alignment: list[Tensor]


class PrnetNet(nn.Module):
    """Rounds of: features in view of each other, keypoints, a temperature, one match a keypoint, a pose.

    Matches are drawn while training; else the most likely is taken. Draws are keyed by the number of those before, which
    is part of the state: a resumed run draws on as if it had not been stopped.
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
        """Neighbours of clouds (B, N, 3) and (B, M, 3)."""
        return self.embedding.prepare(source, target)

    def estimate(self, prepared: tuple[Tensor, Tensor], source: Tensor, target: Tensor) -> Estimate:
        """The pose of each pair, refined round by round; no gradient runs from one round into the one before it."""
        T = torch.eye(4, dtype=torch.float64, device=source.device).repeat(len(source), 1, 1)
        made = Estimate(T, [], [], [])
        for _ in range(self.config.rounds):
            step, cycle, alignment = self.round(prepared, moved(T.detach(), source), target)
            T = step @ T.detach()
            for entry, value in zip(made[1:], (T, cycle, alignment), strict=True):
                entry.append(value)
        return made._replace(T=T)

    def round(self, prepared: tuple[Tensor, Tensor], source: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The pose (B, 4, 4) of one round, its cycle loss and its alignment loss."""
        x, y = self.embedding(prepared, centred(source), centred(target))
        apart = x.mean(dim=1) - y.mean(dim=1)
        with torch.autocast(x.device.type, enabled=False):
            temperature = F.softplus(self.warmth(apart.abs())) + _COLDEST
        (x, source), (y, target) = (self.keypoints(*cloud) for cloud in ((x, source), (y, target)))
        scores = scores_of(x, y) / temperature[..., None]
        there = pose_of_matches(self.matches(scores), source, target)
        if not self.training:
            nothing = apart.new_zeros(())
            return there, nothing, nothing
        back = pose_of_matches(self.matches(scores.transpose(1, 2)), target, source)
        return (
            there,
            motion_loss(there @ back, torch.eye(4, dtype=there.dtype, device=there.device)[None]),
            apart.square().sum(1).mean(),
        )

    def keypoints(self, features: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """The features (B, K, F) and points (B, K, 3) of the longest features."""
        count = max(3, round(self.config.keypoints * points.shape[1]))
        chosen = features.detach().norm(dim=2).topk(count, dim=1).indices[..., None]
        return features.gather(1, chosen.expand(-1, -1, features.shape[2])), points.gather(1, chosen.expand(-1, -1, 3))

    def matches(self, scores: Tensor) -> Tensor:
        """One match a row of scores (B, K, M), as rows with a single 1 whose gradient is that of the softmax."""
        if self.training:
            scores = scores + self.gumbel(scores)
        soft = scores.softmax(dim=-1)
        hard = torch.zeros_like(soft).scatter_(-1, soft.argmax(dim=-1, keepdim=True), 1.0)
        return hard + (soft - soft.detach())

    def gumbel(self, like: Tensor) -> Tensor:
        """Gumbel noise of a tensor's shape: minus the logarithm of exponential draws."""
        generator = torch.Generator(like.device).manual_seed(int(self.draws))
        self.draws += 1
        return -torch.empty_like(like).exponential_(generator=generator).log_()

    def loss(self, estimate: Estimate, T_true: Tensor) -> Tensor:
        """The motion's, the cycle's and the alignment's loss of every round against T_target_source (B, 4, 4), discounted."""
        rounds = zip(estimate.rounds, estimate.cycle, estimate.alignment, strict=True)
        each = [motion_loss(T, T_true) + _CYCLE * cycle + _ALIGNMENT * apart for T, cycle, apart in rounds]
        return torch.stack([_DISCOUNT**i * loss for i, loss in enumerate(each)]).sum()
