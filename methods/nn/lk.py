"""Network of PointNetLK (Aoki et al. 2019): inverse-compositional Lucas-Kanade on a global feature of the cloud."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from methods.nn.matching import centred, moved
from methods.nn.pointnet import max_pool

Feature = Callable[[Tensor], Tensor]
"""Function of clouds (B, N, 3) to global features (B, K)."""

_DAMPING = 1e-6
"""Damping relative to the mean curvature: keeps the step of a symmetric object finite without affecting others."""
_MAX_TWIST = 1.0
"""Maximum length of a step's twist, in radians and lengths of a unit object: the linearisation is invalid beyond."""
_RESIDUAL = 1.0
"""Weight of the features' residual in the loss."""


@dataclass(frozen=True)
class LkConfig:
    """Sizes of the network; the defaults are the paper's.

    Attributes:
        widths: of the point-wise layers; the last is the global feature's.
        iterations: steps of Lucas-Kanade.
        step: of the finite differences, in radians and lengths of a unit object.
    """

    widths: tuple[int, ...] = (64, 64, 64, 128, 1024)
    iterations: int = 10
    step: float = 1e-2

    @property
    def least_points(self) -> int:
        """Minimum number of points of a cloud."""
        return 3


class Estimate(NamedTuple):
    """T_target_source (B, 4, 4) float64, and the final residual (B, K) of the features."""

    T: Tensor
    residual: Tensor


class LkNet(nn.Module):
    """PointNet without input transformers or batch norm, aligned by Lucas-Kanade on its maximum over points."""

    config_type: ClassVar[type] = LkConfig

    def __init__(self, config: LkConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.Sequential(
            *(layer for a, b in pairwise((3, *config.widths)) for layer in (nn.Linear(a, b), nn.ReLU()))
        )
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")

    def feature(self, points: Tensor) -> Tensor:
        """Compute the global feature (B, K) of clouds (B, N, 3) in float32, which finite differences need."""
        with torch.autocast(points.device.type, enabled=False):
            pooled: Tensor = max_pool(self.layers(points))
        return pooled

    def prepare(self, source: Tensor, target: Tensor) -> Tensor:
        """See `Network.prepare`: an empty tensor, because everything depends on the weights."""
        return source.new_empty(0)

    def estimate(self, prepared: Tensor, source: Tensor, target: Tensor, start: Tensor | None = None) -> Estimate:
        """See `Network.estimate`; from `start` (B, 4, 4), by default centroid on centroid without rotation."""
        centres = [x.double().mean(dim=1) for x in (source, target)]
        around_source, around_target = (_shift(-centre) for centre in centres)
        G = None if start is None else around_target @ start @ _shift(centres[0])
        centred_pose = align(
            self.feature, centred(source), centred(target), self.config.iterations, self.config.step, G
        )
        return centred_pose._replace(T=_shift(centres[1]) @ centred_pose.T @ around_source)

    def loss(self, estimate: Estimate, T_true: Tensor) -> Tensor:
        """See `Network.loss`: ‖T⁻¹T* - I‖² plus the mean square of the features' residual."""
        difference = inverse(estimate.T) @ T_true - torch.eye(4, dtype=T_true.dtype, device=T_true.device)
        return difference.square().sum(dim=(1, 2)).mean() + _RESIDUAL * estimate.residual.double().square().mean()


def align(
    feature: Feature, source: Tensor, target: Tensor, iterations: int, step: float, start: Tensor | None
) -> Estimate:
    """Iterate ξ = J⁺ (φ(G source) - φ(target)), G ← exp(ξ) G, with the Jacobian J of the target, computed once.

    Args:
        feature: φ, from clouds (B, N, 3) to (B, K).
        source: (B, N, 3).
        target: (B, M, 3).
        iterations: number of steps.
        step: of the finite differences.
        start: initial G (B, 4, 4), by default the identity.
    """
    eye = torch.eye(4, dtype=torch.float64, device=source.device)
    G = eye.repeat(len(source), 1, 1) if start is None else start
    wanted = feature(target)
    J = jacobian(feature, target, wanted, step).double()
    normal = J.transpose(1, 2) @ J
    curvature = normal.diagonal(dim1=1, dim2=2).mean(dim=1)
    damping = (_DAMPING * curvature).clamp_min(torch.finfo(torch.float32).tiny)[:, None, None]
    normal = normal + damping * torch.eye(6, dtype=eye.dtype, device=eye.device)
    for _ in range(iterations):
        residual = feature(moved(G, source)) - wanted
        slope = (J.transpose(1, 2) @ residual.double()[..., None])[..., 0]
        twist = torch.linalg.solve_ex(normal, slope).result  # unlike `solve`, which waits for a GPU to look for errors
        length = twist.norm(dim=1, keepdim=True)
        G = exponential(twist * (_MAX_TWIST / length.clamp_min(_MAX_TWIST))) @ G
    return Estimate(G, feature(moved(G, source)) - wanted)


def jacobian(feature: Feature, target: Tensor, at: Tensor, step: float) -> Tensor:
    """Compute ∂φ(exp(-ξ) target)/∂ξ (B, K, 6) at ξ = 0 by finite differences, given φ(target) = `at` (B, K)."""
    back = exponential(-step * torch.eye(6, dtype=torch.float64, device=target.device))
    perturbed = torch.stack([moved(T[None], target) for T in back], dim=1)
    features = feature(perturbed.flatten(0, 1)).view(*perturbed.shape[:2], -1)
    return ((features - at[:, None]) / step).transpose(1, 2)


def exponential(twist: Tensor) -> Tensor:
    """Return the rigid motion (B, 4, 4) of twists (B, 6): three numbers of rotation, then three of translation."""
    w, v = twist[:, :3], twist[:, 3:]
    zero = torch.zeros_like(w[:, 0])
    rows = [
        torch.stack([zero, -w[:, 2], w[:, 1], v[:, 0]], dim=1),
        torch.stack([w[:, 2], zero, -w[:, 0], v[:, 1]], dim=1),
        torch.stack([-w[:, 1], w[:, 0], zero, v[:, 2]], dim=1),
        torch.zeros_like(twist[:, :4]),
    ]
    generator = torch.stack(rows, dim=1)
    if generator.device.type == "cpu":
        return torch.linalg.matrix_exp(generator)
    return _closed_exponential(generator, w.square().sum(dim=1)[:, None, None])


def _closed_exponential(generator: Tensor, square: Tensor) -> Tensor:
    """Return exp(X) = I + X + (1 - cos θ) / θ² X² + (θ - sin θ) / θ³ X³ of generators X (B, 4, 4), given θ² (B, 1, 1).

    A GPU needs a tenth of the launches of the general exponential, and its host does not wait.
    """
    square = square + torch.finfo(square.dtype).tiny  # for the derivative of the root at 0
    angle = square.sqrt()
    second = torch.sinc(angle / (2 * torch.pi)).square() / 2
    third = (1 - torch.sinc(angle / torch.pi)) / square.clamp_min(torch.finfo(square.dtype).eps ** 2)
    twice = generator @ generator
    eye = torch.eye(4, dtype=generator.dtype, device=generator.device)
    return eye + generator + second * twice + third * (twice @ generator)


def inverse(T: Tensor) -> Tensor:
    """Return the inverse of rigid motions (B, 4, 4), without a linear solve."""
    R = T[:, :3, :3].transpose(1, 2)
    t = -(R @ T[:, :3, 3:])
    return torch.cat([torch.cat([R, t], dim=2), T[:, 3:]], dim=1)


def _shift(t: Tensor) -> Tensor:
    """Return translations (B, 4, 4) by t (B, 3)."""
    T = torch.eye(4, dtype=t.dtype, device=t.device).repeat(len(t), 1, 1)
    T[:, :3, 3] = t
    return T
