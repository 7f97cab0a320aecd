"""DeepGMR's compute blocks: M_Θ (mixture of soft assignments, Sec. 4.2) and M_T (pose between mixtures, Sec. 4.3).

Section and equation numbers are those of Yuan et al. 2020.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

CENTRINGS = ("exact", "printed")
"""Ways to centre the means, see `align`."""
_EPSILON = 1e-6
"""Lower bound of divisors."""


class Mixture(NamedTuple):
    """Isotropic Gaussian mixtures: weights pi (B, J), means mu (B, J, 3), variances sigma2 (B, J)."""

    pi: Tensor
    mu: Tensor
    sigma2: Tensor


def mixture(gamma: Tensor, points: Tensor) -> Mixture:
    """Compute block M_Θ, Eqs. 7 to 9: the mixture of soft assignments and points.

    The isotropic variance is a third of the trace of the weighted scatter. Moments are about the centroid.

    Args:
        gamma: (B, N, J), rows summing to 1, in float64 for accurate variances.
        points: (B, N, 3).

    Returns:
        The mixtures; an empty component has weight 0 and its mean at the centroid.
    """
    return mixture_of(moments(gamma, points), points.shape[1])


def moments(gamma: Tensor, points: Tensor) -> Tensor:
    """Sum what a mixture is made of: per component the mass, four moments about the centroid, and the centroid (B, J, 8).

    One tensor for each mixture, so that a GPU can send it to the host at once. Arguments are those of `mixture`.
    """
    centroid = points.mean(dim=1, keepdim=True)
    centred = points - centroid
    mass = gamma.sum(dim=1)
    sums = gamma.transpose(1, 2) @ torch.cat([centred, centred.square().sum(dim=2, keepdim=True)], dim=2)
    return torch.cat([mass[..., None], sums, centroid.expand(-1, gamma.shape[2], -1)], dim=2)


def mixture_of(moments: Tensor, count: int) -> Mixture:
    """Return the mixtures of moments (B, J, 8) of clouds with `count` points."""
    mass, sums, centroid = moments[..., 0], moments[..., 1:5], moments[..., 5:]
    mean = sums / mass.clamp_min(_EPSILON)[..., None]
    mu = mean[..., :3]
    sigma2 = (mean[..., 3] - mu.square().sum(dim=2)).clamp_min(0) / 3
    return Mixture(mass / count, mu + centroid, sigma2)


def align(source: Mixture, target: Mixture, centring: str = "exact") -> Tensor:
    """Compute block M_T: the pose T_target_source (B, 4, 4) that minimises Σ π̂/σ² ‖T(μ̂) - μ‖² (Eq. 17).

    The rotation printed in the paper's supplement is the inverse, from mixed conventions; here R = U diag(1, 1, det UVᵀ) Vᵀ.

    Args:
        source: mixtures (π̂, μ̂, σ̂²).
        target: mixtures (π, μ, σ²).
        centring: "exact" centres both sets of means by π̂/σ², like the minimiser; "printed" by π̂, like the supplement.
    """
    weight = source.pi / target.sigma2.clamp_min(_EPSILON)
    weight = weight / weight.sum(dim=1, keepdim=True)
    share = weight if centring == "exact" else source.pi
    return kabsch(source.mu, target.mu, weight, share)


def kabsch(source: Tensor, target: Tensor, weight: Tensor, share: Tensor) -> Tensor:
    """Compute the rigid pose (B, 4, 4) of points (B, J, 3) to points (B, J, 3) by weighted SVD.

    With `share` = `weight`, summing to 1, it is the exact minimiser of Σ weight ‖T(source) - target‖².

    Args:
        source: (B, J, 3).
        target: (B, J, 3).
        weight: (B, J), of the pairs in the rotation.
        share: (B, J), of the points in the centres, summing to 1.
    """
    centre_s, centre_t = (torch.einsum("bj,bjc->bc", share, x) for x in (source, target))
    M = torch.einsum("bj,bjr,bjc->brc", weight, target - centre_t[:, None], source - centre_s[:, None])
    R = rotation_of(M)
    t = centre_t - torch.einsum("brc,bc->br", R, centre_s)
    last = torch.eye(4, dtype=R.dtype, device=R.device)[3].expand(len(R), 1, 4)
    return torch.cat([torch.cat([R, t[..., None]], dim=2), last], dim=1)


def rotation_of(M: Tensor) -> Tensor:
    """Return the rotation (B, 3, 3) nearest to M (B, 3, 3): the maximiser of tr(RᵀM) over SO(3).

    Its gradient is that of the polar factor: finite where singular values are equal, unlike autograd's through the SVD,
    and zero in directions in which the rotation is ambiguous.
    """
    R: Tensor = _NearestRotation.apply(M)  # type: ignore[no-untyped-call]
    return R


class _NearestRotation(torch.autograd.Function):
    """Map M = U S Vᵀ to R = U diag(1, 1, d) Vᵀ, with d = det(U Vᵀ).

    M = R P with P symmetric, of eigenvalues p = S diag(1, 1, d) in the basis V. Differentiating, with Ω = Rᵀ dR
    antisymmetric: Rᵀ dM - dMᵀ R = Ω P + P Ω, so in that basis Ω_ij = A_ij / (p_i + p_j). Only p_i + p_j = 0 is singular.
    """

    @staticmethod
    def forward(ctx: Any, M: Tensor) -> Tensor:
        U, S, Vt = torch.linalg.svd(
            M.cpu()
        )  # of small matrices: a GPU needs many launches and waits for the host anyway
        sign = torch.ones_like(S)
        sign[:, 2] = torch.where(torch.linalg.det(U @ Vt) < 0, -1.0, 1.0)
        R = (U * sign[:, None]) @ Vt
        p = S * sign
        if M.device.type != "cpu":
            packed = torch.cat([R, Vt, p[..., None]], dim=2).to(M.device)  # in one transfer
            R, Vt, p = packed[..., :3], packed[..., 3:6], packed[..., 6]
        ctx.save_for_backward(R, p, Vt)
        return R

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        R, p, Vt = ctx.saved_tensors
        V = Vt.transpose(1, 2)
        total = p[:, :, None] + p[:, None, :]
        clear = total > _EPSILON * p[:, :1, None]
        Y = torch.where(clear, (Vt @ R.transpose(1, 2) @ grads[0] @ V) / torch.where(clear, total, 1.0), 0.0)
        return R @ V @ (Y - Y.transpose(1, 2)) @ Vt


def pose_loss(T: Tensor, T_back: Tensor, T_true: Tensor) -> Tensor:
    """Compute ‖T T*⁻¹ - I‖² + ‖T̂ T* - I‖² (Eq. 18) of both poses (B, 4, 4) and each true pose (B, G, 4, 4): (B, G)."""
    eye = torch.eye(4, dtype=T.dtype, device=T.device)
    forward = T[:, None] @ torch.linalg.inv(T_true) - eye
    back = T_back[:, None] @ T_true - eye
    return (forward.square() + back.square()).sum(dim=(2, 3))


def point_loss(T: Tensor, T_true: Tensor, points: Tensor) -> Tensor:
    """Compute sqrt(mean ‖T p - T* p‖²) over points (B, N, 3) of poses (B, 4, 4) and each true pose (B, G, 4, 4): (B, G)."""
    difference = (T[:, None] - T_true)[:, :, :3]
    moved = points.to(T.dtype)[:, None] @ difference[..., :3].transpose(2, 3) + difference[:, :, None, :, 3]
    return moved.square().sum(dim=3).mean(dim=2).clamp_min(_EPSILON**2).sqrt()
