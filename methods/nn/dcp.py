"""The network of DCP-v2 (Wang and Solomon 2019): features in view of each other, a soft pointer for each point, a pose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from methods.nn.matching import Embedding, centred, motion_loss, pose_of_matches, scores_of


@dataclass(frozen=True)
class DcpConfig:
    """The network's sizes; the defaults are the paper's.

    Attributes:
        k: nearest points of a point, itself among them.
        widths: of DGCNN's edge convolutions.
        features: numbers a point that are matched; the Transformer's width.
        heads: of its attentions.
        inner: width of its point-wise layers.
    """

    k: int = 20
    widths: tuple[int, ...] = (64, 64, 128, 256)
    features: int = 512
    heads: int = 4
    inner: int = 1024

    @property
    def least_points(self) -> int:
        """The fewest points a cloud may have: a pose needs three, k nearest need k."""
        return max(3, self.k)


class Estimate(NamedTuple):
    """T_target_source (B, 4, 4) float64."""

    T: Tensor


class DcpNet(nn.Module):
    """Each source point's match is the average of the target, weighted by softmax(Φx Φyᵀ / √F); the pose is Kabsch's."""

    config_type: ClassVar[type] = DcpConfig

    def __init__(self, config: DcpConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config)

    def prepare(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Neighbours of clouds (B, N, 3) and (B, M, 3)."""
        return self.embedding.prepare(source, target)

    def estimate(self, prepared: tuple[Tensor, Tensor], source: Tensor, target: Tensor) -> Estimate:
        """The pose of each pair."""
        x, y = self.embedding(prepared, centred(source), centred(target))
        return Estimate(pose_of_matches(scores_of(x, y).softmax(dim=-1), source, target))

    def loss(self, estimate: Estimate, T_true: Tensor) -> Tensor:
        """‖RᵀR* - I‖² + ‖t - t*‖² against T_target_source (B, 4, 4)."""
        return motion_loss(estimate.T, T_true)
