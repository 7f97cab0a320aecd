"""Network of DCP-v2 (Wang and Solomon 2019): features conditioned on both clouds, soft matches, and a pose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from methods.nn.matching import Embedding, centred, motion_loss, pose_of_matches, scores_of


@dataclass(frozen=True)
class DcpConfig:
    """Sizes of the network; the defaults are the paper's.

    Attributes:
        k: nearest points of a point, including itself.
        widths: of DGCNN's edge convolutions.
        features: numbers per point that are matched; the Transformer's width.
        heads: of the attentions.
        inner: width of the Transformer's point-wise layers.
    """

    k: int = 20
    widths: tuple[int, ...] = (64, 64, 128, 256)
    features: int = 512
    heads: int = 4
    inner: int = 1024

    @property
    def least_points(self) -> int:
        """Minimum number of points of a cloud: 3 for a pose, k for the k nearest."""
        return max(3, self.k)


class Estimate(NamedTuple):
    """T_target_source (B, 4, 4) float64."""

    T: Tensor


class DcpNet(nn.Module):
    """DCP: match each source point to the average of the target weighted by softmax(Φx Φyᵀ / √F); fit the pose by SVD."""

    config_type: ClassVar[type] = DcpConfig

    def __init__(self, config: DcpConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config)

    def prepare(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """See `Network.prepare`: neighbours of both clouds."""
        return self.embedding.prepare(source, target)

    def estimate(self, prepared: tuple[Tensor, Tensor], source: Tensor, target: Tensor) -> Estimate:
        """See `Network.estimate`."""
        x, y = self.embedding(prepared, centred(source), centred(target))
        return Estimate(pose_of_matches(scores_of(x, y).softmax(dim=-1), source, target))

    def loss(self, estimate: Estimate, T_true: Tensor) -> Tensor:
        """See `Network.loss`: ‖RᵀR* - I‖² + ‖t - t*‖²."""
        return motion_loss(estimate.T, T_true)
