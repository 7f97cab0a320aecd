"""PRNet (Wang and Solomon, NeurIPS 2019): keypoints matched one to one, in several rounds of refinement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from methods.learned.base import OBJECT_RADII, Learned

if TYPE_CHECKING:
    from methods.nn.prnet import PrnetNet


class Prnet(Learned):
    """Match keypoints one to one by DCP's features, and refine the pose in three rounds.

    Keypoints are the points with the longest features. In training, matches are sampled at a learned temperature. Trained on the
    rotations of the problems, whereas the paper trains on Euler angles up to 45°.
    """

    variants = {"prnet": {}}
    trained = "prnet"
    radii = OBJECT_RADII

    @classmethod
    def network_type(cls) -> type[PrnetNet]:
        """See `Learned.network_type`."""
        from methods.nn.prnet import PrnetNet

        return PrnetNet


class PrnetSmall(Prnet):
    """PRNet reduced for a CPU: DGCNN of widths 32, 32, 64 and k = 10, 64 features in 2 heads, inner width 128."""

    variants = {"prnet_small": {}}
    trained = "prnet_small"
    size = {"k": 10, "widths": (32, 32, 64), "features": 64, "heads": 2, "inner": 128}


class PrnetSmallEuler45(PrnetSmall):
    """PRNet reduced for a CPU, trained on its paper's rotations: Euler angles up to 45°."""

    variants = {"prnet_small_euler45": {}}

    sampler: str = "euler45"
