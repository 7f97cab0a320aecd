"""DeepGMR (Yuan et al., ECCV 2020): Gaussian mixtures from learned, pose-invariant assignments, aligned in closed form.

Section and equation numbers are the paper's. Weights, precision and batches are in `methods/learned/gmr.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from methods.learned.gmr import GmrMethod

if TYPE_CHECKING:
    from torch import Tensor

    from methods.nn.gmr import GmrNet


class DeepGMR(GmrMethod):
    """Assign points to J Gaussians by a network on rotation-invariant features, and align the Gaussians in closed form.

    Sec. 4: Γ = f_ψ(RRI(P)), Θ = M_Θ(Γ, P) for source and target, and T = M_T(Θ_source, Θ_target).
    """

    variants = {"deepgmr": {}}
    trained = "deepgmr"

    def poses(self, sources: Sequence[Tensor], targets: Sequence[Tensor]) -> NDArray[np.float64]:
        """Compute T_target_source (B, 4, 4) of B centred clouds (1, N, 3) and (1, M, 3)."""
        import torch

        from methods.nn.gmm import align, mixture_of, moments
        from methods.nn.pair_batch import PairBatch
        from methods.nn.threads import max_threads, single_threaded, thread_map

        net: GmrNet = self.state["net"]
        with torch.inference_mode(), single_threaded(max_threads()):
            clouds = PairBatch.of(sources, targets, joint=not self.untrained).to(self.state["device"])
            with self.stage("features"):  # Sec. 4.4: rigorously rotation-invariant (RRI) features
                features = clouds.map(net.features)
            with self.stage("network"):  # Sec. 4.1: correspondence network f_ψ, Γ = [γ_ij]
                gamma = features.map_network(net)
            with self.stage("solve"):
                # Sec. 4.2: M_Θ, Eqs. 7 to 9, from the coordinates, not the features
                both = (gamma.split(), clouds.split()) if clouds.on_cpu else (gamma.tensors, clouds.tensors)
                of_each = list(zip(*both, strict=True))
                sums = PairBatch(thread_map(lambda pair: moments(pair[0].double(), pair[1].double()), of_each))
                sizes = sources[0].shape[1], targets[0].shape[1]
                source, target = (mixture_of(*one) for one in zip(sums.to_host().split(), sizes, strict=True))
                # Sec. 4.3: M_T, Eq. 17, by a weighted SVD (supplement, "SVD Solution")
                T: NDArray[np.float64] = align(source, target, net.config.centring).numpy()
        return T


class Untrained(DeepGMR):
    """DeepGMR as initialised, without training: a control that shows what its mathematics achieve alone."""

    kind = "control"
    variants = {"deepgmr_untrained": {}}

    untrained: bool = True

    @classmethod
    def check_available(cls) -> None:
        """See `Method.check_available`: it needs no weights."""
