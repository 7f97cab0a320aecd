"""PRNet (Wang and Solomon, NeurIPS 2019): keypoints matched one to one, in rounds that start from the pose so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from methods.learned.base import OBJECT_RADII, Learned

if TYPE_CHECKING:
    from methods.nn.prnet import PrnetNet


class Prnet(Learned):
    """DCP's features; keypoints by their length; one match each, drawn in training at a learned temperature; three rounds.

    Trained on whatever rotations the problems have, where the paper trains on Euler angles up to 45°.
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
