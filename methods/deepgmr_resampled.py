"""DeepGMR for clouds that share no points, whole or partial: on coordinates along principal axes, symmetry in mind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from methods.deepgmr import DeepGMR
from methods.geometry.principal_axes import candidates, distances

if TYPE_CHECKING:
    from torch import Tensor

_CHECKED = 400


class DeepGMRResampled(DeepGMR):
    """DeepGMR's mixtures and pose, with another input: coordinates in place of features that no rotation changes.

    Those features give the parts of a symmetric object the same assignment, and only the sampling pattern, which two scans
    don't share, tells them apart. Here principal axes (`pca`) propose alignments; the network sees both clouds in the source's
    principal frame under the best few of them and turns what is left; the answer nearest to the target is taken. Its loss took
    the nearest of the poses that map a symmetric object onto itself as the truth. Compare it with `pca` and `pca+icp`.

    Parameters:
        alignments: alignments of principal axes that are tried.
    """

    variants = {"deepgmr_resampled": {}, "deepgmr_partial": {"training": "partial"}}
    trained = "deepgmr_resampled"
    size = {"features": "xyz", "loss": "rmse", "symmetric": True}

    batched = False

    training: str = "resampled"
    alignments: int = 4

    @classmethod
    def parts(cls) -> tuple[type[Any], type[Any], Mapping[str, tuple[str, ...]]]:
        """See `Learned.parts`."""
        from methods.nn.aligned import AlignedNet

        return AlignedNet, *super().parts()[1:]

    def _poses(self, sources: Sequence[Tensor], targets: Sequence[Tensor]) -> NDArray[np.float64]:
        """Pair by pair: the alignments of one are the network's batch already."""
        return np.stack([self._pose([*pair]) for pair in zip(sources, targets, strict=True)])

    def _pose(self, pair: list[Tensor]) -> NDArray[np.float64]:
        """T_target_source (4, 4) of a prepared source (1, N, 3) and target (1, M, 3)."""
        import torch

        from methods.nn.aligned import SHARE
        from methods.nn.spread import max_threads, single_threaded

        net, plain = self.state["net"], _plain(pair)
        with self.stage("features"):
            seen = self._seen(pair, plain)
        with torch.inference_mode(), single_threaded(max_threads()):
            with self.stage("network"):
                gamma = net(seen[0]), net(seen[1])
            with self.stage("solve"):
                repeated = [x.expand(len(seen[1]), -1, -1) for x in (gamma[0], pair[0], pair[1])]
                T = net.poses((repeated[0], gamma[1]), (repeated[1], repeated[2]))[0].cpu().numpy()
        with self.stage("matching"):
            left = distances(plain[0], plain[1], T[:, :3, :3], T[:, :3, 3], SHARE, _CHECKED)
        self.note(distance=float(left.min()), confidence=-float(left.min()))
        return np.asarray(T[left.argmin()])

    def assignments(self, pair: list[Tensor]) -> list[Tensor]:
        """See `DeepGMR.assignments`; under the likeliest alignment."""
        source, target = self._seen(pair, _plain(pair))
        return [self.state["net"](source), self.state["net"](target[:1])]

    def _seen(self, pair: list[Tensor], plain: list[NDArray[np.float64]]) -> tuple[Tensor, Tensor]:
        """What the network sees: the source (1, N, 3) in its principal frame, the target (alignments, M, 3) there."""
        from methods.nn.aligned import SHARE, in_frame

        found = candidates(plain[0], plain[1], SHARE, _CHECKED)
        source, target = in_frame(pair[0][0], pair[1][0], found, self.alignments)
        return source[None], target


def _plain(pair: list[Tensor]) -> list[NDArray[np.float64]]:
    return [cloud[0].double().cpu().numpy() for cloud in pair]
