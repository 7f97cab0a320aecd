"""DeepGMR for clouds that share no points, whole or partial: on coordinates along principal axes, symmetry in mind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from methods._principal import candidates, distances
from methods.base import Cloud, Method, Pose
from methods.deepgmr import DeepGMR
from methods.nn.learned import restored

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
    register_batch = Method.register_batch

    training: str = "resampled"
    alignments: int = 4

    @classmethod
    def parts(cls) -> tuple[type[Any], type[Any], Mapping[str, tuple[str, ...]]]:
        """See `Learned.parts`."""
        from methods.nn.aligned import AlignedNet

        return AlignedNet, *super().parts()[1:]

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        import torch

        from methods.nn.aligned import SHARE

        net = self.state["net"]
        pair, scale, centres = self.tensors(source, target)
        plain = [cloud[0].double().cpu().numpy() for cloud in pair]
        with self.stage("features"):
            seen = self._seen(pair)
        with torch.inference_mode():
            with self.stage("network"):
                gamma = net(seen[0]), net(seen[1])
            with self.stage("solve"):
                repeated = [x.expand(len(seen[1]), -1, -1) for x in (gamma[0], pair[0], pair[1])]
                T = net.poses((repeated[0], gamma[1]), (repeated[1], repeated[2]))[0].cpu().numpy()
        with self.stage("matching"):
            left = distances(plain[0], plain[1], T[:, :3, :3], T[:, :3, 3], SHARE, _CHECKED)
        self.note(distance=float(left.min()))
        return restored(T[left.argmin()], scale, centres)

    def assignments(self, pair: list[Tensor]) -> list[Tensor]:
        """See `DeepGMR.assignments`; under the likeliest alignment."""
        source, target = self._seen(pair)
        return [self.state["net"](source), self.state["net"](target[:1])]

    def _seen(self, pair: list[Tensor]) -> tuple[Tensor, Tensor]:
        """What the network sees: the source (1, N, 3) in its principal frame, the target (alignments, M, 3) there."""
        from methods.nn.aligned import SHARE, in_frame

        plain = [cloud[0].double().cpu().numpy() for cloud in pair]
        found = candidates(plain[0], plain[1], SHARE, _CHECKED)
        source, target = in_frame(pair[0][0], pair[1][0], found, self.alignments)
        return source[None], target
