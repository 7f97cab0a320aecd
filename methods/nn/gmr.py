"""The network of DeepGMR: features, assignments, mixtures, poses. What training and registration share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from methods.nn.gmm import CENTRINGS, align, mixture, point_loss, pose_loss
from methods.nn.pointnet import PointNet
from methods.nn.rri import NUMBERS, rigid_invariant_features

CHOICES = {"features": ("rri", "xyz"), "centring": CENTRINGS, "loss": ("mse", "rmse")}
"""What some fields of a configuration may be."""


@dataclass(frozen=True)
class GmrConfig:
    """Everything that decides the network's shape and meaning; stored inside weight files.

    Attributes:
        features: "rri" (4 k numbers a point) or "xyz" (the centred coordinates, 3 numbers).
        k: neighbours of the RRI features.
        local, head: widths of the layers before the max-pool and after it.
        components: J, the Gaussians of the mixture.
        centring: "exact" or "printed", see `methods.nn.gmm.align`.
        loss: "mse" (the paper's, of the matrices) or "rmse" (of the points, the other one of its supplement).
        symmetric: whether the loss takes the nearest of the poses that map a symmetric object onto itself as the truth.
    """

    features: str = "rri"
    k: int = 20
    local: tuple[int, ...] = (64, 128, 256, 1024)
    head: tuple[int, ...] = (512, 256, 128)
    components: int = 16
    centring: str = "exact"
    loss: str = "mse"
    symmetric: bool = False

    @property
    def inputs(self) -> int:
        """Numbers a point that enter the network."""
        return NUMBERS * self.k if self.features == "rri" else 3

    @property
    def least_points(self) -> int:
        """The fewest points a cloud may have: a pose needs three, k neighbours need k + 1."""
        return max(3, self.k + 1) if self.features == "rri" else 3


class Estimate(NamedTuple):
    """T_target_source and T_source_target (B, 4, 4) float64, and the clouds (B, N, 3) they are of."""

    T: Tensor
    T_back: Tensor
    source: Tensor
    target: Tensor


class GmrNet(nn.Module):
    """f_ψ, M_Θ and M_T. `forward` gives assignments; `poses` gives both transforms of pairs."""

    def __init__(self, config: GmrConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = PointNet(config.inputs, config.local, config.head, config.components)

    def describe(self, clouds: Tensor) -> Tensor:
        """Input features (B, N, F) of clouds (B, N, 3)."""
        if self.config.features == "rri":
            return rigid_invariant_features(clouds, self.config.k)
        return clouds - clouds.mean(dim=1, keepdim=True)

    def forward(self, features: Tensor) -> Tensor:
        """Assignments gamma (B, N, J), rows summing to 1, of features (B, N, F)."""
        scores: Tensor = self.backbone(features)
        return scores.softmax(dim=-1)

    def poses(self, gamma: tuple[Tensor, Tensor], clouds: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """(T_target_source, T_source_target), (B, 4, 4) float64 each, of (source, target) assignments and clouds."""
        source, target = (mixture(g.double(), c.double()) for g, c in zip(gamma, clouds, strict=True))
        return align(source, target, self.config.centring), align(target, source, self.config.centring)

    # What the training loop asks of a learned method's network.

    def prepare(self, source: Tensor, target: Tensor) -> Tensor:
        """Features (2B, N, F) of sources and targets (B, N, 3); drawn ahead, without gradient."""
        return self.describe(torch.cat([source, target]))

    def estimate(self, prepared: Tensor, source: Tensor, target: Tensor) -> Estimate:
        """Both poses of each pair from prepared features."""
        gamma = self(prepared)
        half = len(source)
        return Estimate(*self.poses((gamma[:half], gamma[half:]), (source, target)), source, target)

    def loss(self, estimate: Estimate, T_true: Tensor) -> Tensor:
        """The mean loss of a batch against true T_target_source (B, 4, 4), or the nearest of (B, G, 4, 4)."""
        T, T_back, source, target = estimate
        truths = T_true if T_true.ndim == 4 else T_true[:, None]
        if self.config.loss == "mse":
            each = pose_loss(T, T_back, truths)
        else:
            each = point_loss(T, truths, source) + point_loss(T_back, torch.linalg.inv(truths), target)
        return each.amin(dim=1).mean()
