"""DeepGMR's network on coordinates, after the principal axes have brought source and target near each other."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from methods.geometry.principal_axes import Candidates, candidates
from methods.nn.gmr import GmrConfig, GmrNet

SHARE = 0.8
_CHECKED = 100
"""Points that judge an alignment in training; more are not worth their time there."""


class AlignedNet(GmrNet):
    """`GmrNet` whose input is the clouds' coordinates along the source's principal axes.

    Features no rotation changes give symmetric parts the same assignment, and their Gaussians' means then meet on the axis of
    symmetry, which leaves the pose open. Coordinates tell such parts apart. The target is brought near by the best alignment
    of principal axes first; what is left, the network has to turn.
    """

    def __init__(self, config: GmrConfig) -> None:
        if config.features != "xyz":
            raise ValueError("features must be xyz: the network sees coordinates")
        super().__init__(config)

    def prepare(self, source: Tensor, target: Tensor) -> Tensor:
        """Coordinates (2B, N, 3) of sources and targets (B, N, 3), each pair in its source's principal frame."""
        sources, targets = (x - x.mean(dim=1, keepdim=True) for x in (source, target))
        pairs = [
            candidates(s.astype(np.float64), t.astype(np.float64), SHARE, _CHECKED)
            for s, t in zip(sources.cpu().numpy(), targets.cpu().numpy(), strict=True)
        ]
        seen = [in_frame(s, t, found, 1) for s, t, found in zip(sources, targets, pairs, strict=True)]
        return torch.cat([torch.stack([s for s, _ in seen]), torch.cat([t for _, t in seen])])


def in_frame(source: Tensor, target: Tensor, found: Candidates, count: int) -> tuple[Tensor, Tensor]:
    """The centred source (N, 3) along its axes, and the centred target (count, M, 3) there under the first alignments."""
    axes = torch.as_tensor(found.axes, dtype=source.dtype, device=source.device)
    turns = torch.as_tensor(found.rotations[:count], dtype=source.dtype, device=source.device)
    return source @ axes, target @ (turns @ axes)
