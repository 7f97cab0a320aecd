"""Implement DeepGMR directly as the paper describes it, in vectorised float32 torch, as the reference for comparisons.

Features use a full distance matrix and compute every gap as the minimum of the angles to all other neighbours; 1 x 1
convolutions run on concat(local, global), batch norms are separate, clouds are processed one by one. It uses our
weights and must return our pose.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn

TINY = 1e-6


class PlainDeepGMR:
    """A network with loaded weights. `stages` sums the seconds of each stage of `register` over calls."""

    def __init__(self, file: Path, k: int = 20) -> None:
        self.k, self.stages = k, dict.fromkeys(("features", "network", "solve"), 0.0)
        w = {name.removeprefix("backbone."): value for name, value in load_file(file).items()}
        self.local = nn.Sequential(
            *(layer(w, f"local.{i}") for i in range(sum(".linear" in n for n in w if "local" in n)))
        )
        heads = ["join", *(f"head.{i}" for i in range(sum(".linear" in n for n in w if n.startswith("head"))))]
        last = nn.Conv1d(w["last.weight"].shape[1], len(w["last.bias"]), 1)
        last.load_state_dict({"weight": w["last.weight"][..., None], "bias": w["last.bias"]})
        self.head = nn.Sequential(*(layer(w, name) for name in heads), last).eval()
        self.local.eval()

    def register(self, source: NDArray[np.float32], target: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return T_target_source (4, 4) of clouds (N, 3) and (M, 3) of unit size."""
        start = time.perf_counter()
        with torch.inference_mode():
            clouds = [torch.from_numpy(cloud) for cloud in (source, target)]
            features = [rri(cloud - cloud.mean(dim=0), self.k) for cloud in clouds]
            described = time.perf_counter()
            gamma = [self.assign(f) for f in features]
            assigned = time.perf_counter()
            T = align_mixtures(*(mixture(g, cloud) for g, cloud in zip(gamma, clouds, strict=True))).numpy()
        for name, spent in zip(self.stages, np.diff([start, described, assigned, time.perf_counter()]), strict=True):
            self.stages[name] += float(spent)
        return T

    def assign(self, features: Tensor) -> Tensor:
        """Compute gamma (N, J) from features (N, 4k)."""
        local = self.local(features.T[None])
        whole = local.max(dim=2, keepdim=True).values.expand_as(local)
        return self.head(torch.cat([local, whole], dim=1))[0].T.softmax(dim=1)


def layer(w: dict[str, Tensor], name: str) -> nn.Sequential:
    """Return convolution, batch norm and ReLU with the weights of our layer of that name."""
    weight = torch.cat([w[n] for n in (f"{name}.linear.weight", f"{name}.context.weight") if n in w], dim=1)
    convolution = nn.Conv1d(weight.shape[1], weight.shape[0], 1, bias=False)
    convolution.load_state_dict({"weight": weight[..., None]})
    norm = nn.BatchNorm1d(weight.shape[0])
    norm.load_state_dict({n.rsplit(".", 1)[1]: value for n, value in w.items() if n.startswith(f"{name}.norm.")})
    return nn.Sequential(convolution, norm, nn.ReLU())


def rri(p: Tensor, k: int) -> Tensor:
    """Compute features (N, 4k) of a centred cloud (N, 3)."""
    index = torch.cdist(p, p, compute_mode="donot_use_mm_for_euclid_dist").topk(k + 1, largest=False).indices[:, 1:]
    q = p[index]
    radius, far = p.norm(dim=1, keepdim=True), q.norm(dim=2)
    normal = p / radius.clamp_min(TINY)
    along = (q * normal[:, None]).sum(dim=2)
    flat = q - along[..., None] * normal[:, None]
    across = flat.norm(dim=2)
    first = nn.functional.normalize(flat[:, 0], dim=1)
    second = torch.linalg.cross(normal, first)
    azimuth = torch.atan2((flat * second[:, None]).sum(dim=2), (flat * first[:, None]).sum(dim=2))
    turn = (azimuth[:, None] - azimuth[:, :, None]).remainder(
        2 * math.pi
    )  # from each neighbour (rows) to every other one
    turn[:, range(k), range(k)] = 2 * math.pi
    return torch.cat([radius.expand_as(far), far, torch.atan2(across, along), turn.amin(dim=2)], dim=1)


def mixture(gamma: Tensor, p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute weights (J,), means (J, 3) and isotropic variances (J,) from assignments (N, J) of points (N, 3)."""
    mass = gamma.sum(dim=0)
    mean = gamma.T @ p / mass[:, None]
    apart = (p[:, None] - mean).square().sum(dim=2)
    return mass / len(p), mean, (gamma * apart).sum(dim=0) / mass / 3


def align_mixtures(source: tuple[Tensor, Tensor, Tensor], target: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Compute the pose (4, 4) that maps the source's means onto the target's, weighted by the source's weights over variances."""
    weight = source[0] / target[2]
    weight = weight / weight.sum()
    centre_s, centre_t = weight @ source[1], weight @ target[1]
    U, _, Vt = torch.linalg.svd((target[1] - centre_t).T @ (weight[:, None] * (source[1] - centre_s)))
    sign = torch.linalg.det(U @ Vt).sign()
    T = torch.eye(4)
    T[:3, :3] = U @ torch.diag(torch.stack([torch.ones(()), torch.ones(()), sign])) @ Vt
    T[:3, 3] = centre_t - T[:3, :3] @ centre_s
    return T
