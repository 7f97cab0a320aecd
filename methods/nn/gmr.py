"""Network of DeepGMR (Yuan et al. 2020): features, assignments, mixtures and poses, for training and registration.

Section and equation numbers are the paper's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from methods.nn.gmm import CENTRINGS, align, mixture, point_loss, pose_loss
from methods.nn.inference import FoldedPointNet
from methods.nn.pointnet import PointNet
from methods.nn.rri import NUMBERS, rigid_invariant_features


@dataclass(frozen=True)
class GmrConfig:
    """Shape and meaning of the network; stored in weight files.

    Attributes:
        features: "rri" (4 k numbers per point) or "xyz" (the centred coordinates, 3 numbers).
        k: neighbours of the RRI features.
        local, head: widths of the layers before and after the max-pool.
        components: J, the number of Gaussians.
        centring: "exact" or "printed", see `methods.nn.gmm.align`.
        loss: "mse" (the paper's Eq. 18, on matrices) or "rmse" (on points, the alternative in its supplement).
        symmetric: whether the loss uses the nearest of the poses that map a symmetric object onto itself.
    """

    features: str = "rri"
    k: int = 20
    local: tuple[int, ...] = (64, 128, 256, 1024)
    head: tuple[int, ...] = (512, 256, 128)
    components: int = 16
    centring: str = "exact"
    loss: str = "mse"
    symmetric: bool = False

    CHOICES: ClassVar = {"features": ("rri", "xyz"), "centring": CENTRINGS, "loss": ("mse", "rmse")}
    """Permitted values of fields."""

    @property
    def inputs(self) -> int:
        """Numbers per point that enter the network."""
        return NUMBERS * self.k if self.features == "rri" else 3

    @property
    def least_points(self) -> int:
        """Minimum number of points of a cloud: 3 for a pose, k + 1 for k neighbours."""
        return max(3, self.k + 1) if self.features == "rri" else 3


class Estimate(NamedTuple):
    """Poses T_target_source and T_source_target (B, 4, 4) float64, and the clouds (B, N, 3)."""

    T: Tensor
    T_back: Tensor
    source: Tensor
    target: Tensor


class GmrNet(nn.Module):
    """Correspondence network f_ψ with the compute blocks M_Θ and M_T.

    `forward` computes assignments; `poses` computes both transforms of pairs.
    """

    config_type: ClassVar[type] = GmrConfig
    backbone: PointNet | FoldedPointNet

    def __init__(self, config: GmrConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = PointNet(config.inputs, config.local, config.head, config.components)

    def features(self, clouds: Tensor) -> Tensor:
        """Compute the network's input (B, N, F) from clouds (B, N, 3): RRI features (Sec. 4.4) or centred coordinates."""
        if self.config.features == "rri":
            return rigid_invariant_features(clouds, self.config.k)
        return clouds - clouds.mean(dim=1, keepdim=True)

    def forward(self, features: Tensor) -> Tensor:
        """Compute Γ = [γ_ij] (B, N, J), rows summing to 1, from features (B, N, F) (f_ψ, Sec. 4.1)."""
        scores: Tensor = self.backbone(features)
        return scores.softmax(dim=-1)

    def poses(self, gamma: tuple[Tensor, Tensor], clouds: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Compute T_target_source and T_source_target (B, 4, 4) float64 from assignments and clouds of source and target."""
        source, target = (mixture(g.double(), c.double()) for g, c in zip(gamma, clouds, strict=True))
        return align(source, target, self.config.centring), align(target, source, self.config.centring)

    def prepare(self, source: Tensor, target: Tensor) -> Tensor:
        """See `Network.prepare`: features (2B, N, F)."""
        return self.features(torch.cat([source, target]))

    def estimate(self, prepared: Tensor, source: Tensor, target: Tensor) -> Estimate:
        """See `Network.estimate`: both poses of each pair."""
        gamma = self(prepared)
        half = len(source)
        return Estimate(*self.poses((gamma[:half], gamma[half:]), (source, target)), source, target)

    def loss(self, estimate: Estimate, T_true: Tensor) -> Tensor:
        """See `Network.loss`: Eq. 18 or the RMSE of points; of several true poses, the nearest counts."""
        T, T_back, source, target = estimate
        every_true = T_true if T_true.ndim == 4 else T_true[:, None]
        if self.config.loss == "mse":
            losses = pose_loss(T, T_back, every_true)
        else:
            losses = point_loss(T, every_true, source) + point_loss(T_back, torch.linalg.inv(every_true), target)
        return losses.amin(dim=1).mean()
