"""DeepGMR's network on coordinates of clouds that principal axes have pre-aligned."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from methods.geometry.principal_axes import Candidates, candidates
from methods.nn.gmr import GmrConfig, GmrNet

SHARE = 0.8
"""Share of the points, the nearest, whose mean distance ranks the alignments."""
_TRAINING_POINTS = 100
"""Source points that rank the alignments in training; more cost too much time there."""


class AlignedNet(GmrNet):
    """`GmrNet` on the clouds' coordinates along the source's principal axes.

    Rotation-invariant features give symmetric parts the same assignment; the means of their Gaussians then meet on the axis of
    symmetry, which leaves the pose undetermined. Coordinates distinguish such parts. The best alignment of principal axes is
    applied to the target first; the network estimates the remaining pose.
    """

    def __init__(self, config: GmrConfig) -> None:
        if config.features != "xyz":
            raise ValueError("features must be xyz: the network's input is coordinates")
        super().__init__(config)

    def prepare(self, source: Tensor, target: Tensor) -> Tensor:
        """See `Network.prepare`: coordinates (2B, N, 3), each pair in its source's principal frame."""
        sources, targets = (x - x.mean(dim=1, keepdim=True) for x in (source.cpu(), target.cpu()))  # no copies per pair
        alignments = [
            candidates(s.astype(np.float64), t.astype(np.float64), SHARE, _TRAINING_POINTS)
            for s, t in zip(sources.numpy(), targets.numpy(), strict=True)
        ]
        pairs = [in_principal_frame(s, t, a, 1) for s, t, a in zip(sources, targets, alignments, strict=True)]
        return torch.cat([torch.stack([s for s, _ in pairs]), torch.cat([t for _, t in pairs])]).to(source.device)


def in_principal_frame(source: Tensor, target: Tensor, alignments: Candidates, count: int) -> tuple[Tensor, Tensor]:
    """Express a centred pair in the source's principal frame, the target under each of the first alignments.

    Args:
        source: (N, 3).
        target: (M, 3).
        alignments: of the pair, the best first.
        count: number of alignments to use.

    Returns:
        The source (N, 3) and the target (count, M, 3).
    """
    axes = torch.as_tensor(alignments.axes, dtype=source.dtype, device=source.device)
    rotations = torch.as_tensor(alignments.rotations[:count], dtype=source.dtype, device=source.device)
    return source @ axes, target @ (rotations @ axes)
