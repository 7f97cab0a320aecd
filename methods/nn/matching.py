"""Parts that DCP and PRNet share: features conditioned on both clouds, poses of soft matches, and the loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from methods.nn.dgcnn import Dgcnn, nearest
from methods.nn.gmm import kabsch
from methods.nn.transformer import Transformer


class Sizes(Protocol):
    """Fields of a configuration that define the features: neighbours, widths of DGCNN, features per point, the Transformer's."""

    @property
    def k(self) -> int: ...
    @property
    def widths(self) -> Sequence[int]: ...
    @property
    def features(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def inner(self) -> int: ...


class Embedding(nn.Module):
    """Φ: DGCNN features of each cloud plus the Transformer's residual given the other cloud."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.k = sizes.k
        self.local = Dgcnn(sizes.widths, sizes.features)
        self.mutual = Transformer(sizes.features, sizes.heads, sizes.inner)

    def prepare(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Compute neighbours (B, N, k) and (B, M, k), which are invariant to rigid motion."""
        return nearest(source, self.k), nearest(target, self.k)

    def forward(self, prepared: tuple[Tensor, Tensor], source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Compute features (B, N, F) and (B, M, F) float32 of centred clouds (B, N, 3) and (B, M, 3)."""
        if source.shape == target.shape:  # in one pass, with the batch norm over both
            x, y = self.local(torch.cat([source, target]), torch.cat(prepared)).chunk(2)
            both = torch.cat([x, y])
            residual = self.mutual(both, torch.cat([y, x]))
            first, second = (both + residual).float().chunk(2)
            return first, second
        x, y = self.local(source, prepared[0]), self.local(target, prepared[1])
        return (x + self.mutual(x, y)).float(), (y + self.mutual(y, x)).float()


def centred(points: Tensor) -> Tensor:
    """Subtract the centroid from points (B, N, 3)."""
    return points - points.mean(dim=1, keepdim=True)


def scores_of(x: Tensor, y: Tensor) -> Tensor:
    """Compute scores (B, N, M) of features (B, N, F) and (B, M, F): dot products over √F, float32."""
    with torch.autocast(x.device.type, enabled=False):  # bfloat16 scores would quantise the matches
        return x @ y.transpose(1, 2) / x.shape[2] ** 0.5


def pose_of_matches(share: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """Fit T_target_source (B, 4, 4) float64 to soft matches: each source point to an average of target points.

    Args:
        share: weights (B, N, M) of the averages, rows summing to 1.
        source: (B, N, 3).
        target: (B, M, 3).
    """
    with torch.autocast(source.device.type, enabled=False):
        matches = share @ target.to(share.dtype)
    uniform = source.new_full(source.shape[:2], 1 / source.shape[1], dtype=torch.float64)
    return kabsch(source.double(), matches.double(), uniform, uniform)


def motion_loss(T: Tensor, T_true: Tensor) -> Tensor:
    """Compute ‖RᵀR* - I‖² + ‖t - t*‖², the mean over poses (B, 4, 4)."""
    rotation = T[:, :3, :3].transpose(1, 2) @ T_true[:, :3, :3] - torch.eye(3, dtype=T.dtype, device=T.device)
    return (rotation.square().sum(dim=(1, 2)) + (T[:, :3, 3] - T_true[:, :3, 3]).square().sum(dim=1)).mean()


def moved(T: Tensor, points: Tensor) -> Tensor:
    """Apply poses (B, 4, 4) to points (B, N, 3), in the points' precision."""
    return points @ T[:, :3, :3].transpose(1, 2).to(points.dtype) + T[:, None, :3, 3].to(points.dtype)
