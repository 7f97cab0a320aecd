"""DeepGMR for clouds that share no points, whole or partial: on coordinates along principal axes, aware of symmetry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from methods.geometry.principal_axes import candidates, distances
from methods.learned.gmr import GmrMethod

if TYPE_CHECKING:
    from torch import Tensor

    from methods.nn.aligned import AlignedNet

_RANKING_POINTS = 400
"""Source points whose distances to the target rank the alignments."""


class DeepGMRResampled(GmrMethod):
    """DeepGMR on coordinates, after the best alignments of principal axes, in place of rotation-invariant features.

    Rotation-invariant features give the parts of a symmetric object the same assignment. Only the sampling pattern
    distinguishes them, and two scans do not share it. Here principal axes (`pca`) propose alignments; the network sees both
    clouds in the source's principal frame under the best few of them and estimates the remaining pose; the pose nearest to
    the target is returned. In training, the nearest of the poses that map a symmetric object onto itself counts as the true
    one. Compare it with `pca` and `pca+icp`.

    Parameters:
        alignments: number of alignments of principal axes that are tried.
    """

    variants = {"deepgmr_resampled": {}, "deepgmr_partial": {"training": "partial"}}
    trained = "deepgmr_resampled"
    size = {"features": "xyz", "loss": "rmse", "symmetric": True}

    batched = False

    training: str = "resampled"
    alignments: int = 4

    @classmethod
    def network_type(cls) -> type[AlignedNet]:
        """See `Learned.network_type`."""
        from methods.nn.aligned import AlignedNet

        return AlignedNet

    def poses(self, sources: Sequence[Tensor], targets: Sequence[Tensor]) -> NDArray[np.float64]:
        """See `GmrMethod.poses`; pair by pair, because the alignments of a pair are the network's batch."""
        return np.stack([self._pose(*pair) for pair in zip(sources, targets, strict=True)])

    def _pose(self, source: Tensor, target: Tensor) -> NDArray[np.float64]:
        """Compute T_target_source (4, 4) of a normalised source (1, N, 3) and target (1, M, 3)."""
        import torch

        from methods.nn.aligned import SHARE
        from methods.nn.gmm import align, mixture_of, moments
        from methods.nn.pair_batch import PairBatch, to_device
        from methods.nn.threads import max_threads, single_threaded

        net = self.state["net"]
        with self.stage("features"):
            source_input, target_inputs = self._network_inputs(source, target)
            inputs = to_device((source_input, target_inputs, source, target), self.state["device"])
        with torch.inference_mode(), single_threaded(max_threads()):
            with self.stage("network"):
                gamma = net(inputs[0]), net(inputs[1])
            with self.stage("solve"):
                count = len(target_inputs)
                points = inputs[2].double(), inputs[3].double().expand(count, -1, -1)
                sums = PairBatch([moments(g.double(), x) for g, x in zip(gamma, points, strict=True)]).to_host()
                first = mixture_of(sums.tensors[0].expand(count, -1, -1), source.shape[1])
                T = align(first, mixture_of(sums.tensors[1], target.shape[1]), net.config.centring).numpy()
        with self.stage("matching"):
            clouds = _as_float64(source), _as_float64(target)
            residuals = distances(*clouds, T[:, :3, :3], T[:, :3, 3], SHARE, _RANKING_POINTS)
        self.note(distance=float(residuals.min()), confidence=-float(residuals.min()))
        return np.asarray(T[residuals.argmin()])

    def assignments(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """See `GmrMethod.assignments`; under the best alignment."""
        source_input, target_inputs = self._network_inputs(source, target)
        return self.state["net"](source_input), self.state["net"](target_inputs[:1])

    def _network_inputs(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the source (1, N, 3) in its principal frame, and the target (alignments, M, 3) in that frame."""
        from methods.nn.aligned import SHARE, in_principal_frame

        ranked = candidates(_as_float64(source), _as_float64(target), SHARE, _RANKING_POINTS)
        source_input, target_inputs = in_principal_frame(source[0], target[0], ranked, self.alignments)
        return source_input[None], target_inputs


def _as_float64(cloud: Tensor) -> NDArray[np.float64]:
    return cloud[0].double().cpu().numpy()
