"""PRNet (Wang and Solomon, NeurIPS 2019): keypoints matched one to one, in rounds that start from the pose so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from methods.learned.base import OBJECTS, Learned


class Prnet(Learned):
    """DCP's features; keypoints by their length; one match each, drawn in training at a learned temperature; three rounds.

    Trained on whatever rotations the problems have, where the paper trains on Euler angles up to 45°.
    """

    variants = {"prnet": {}}
    trained = "prnet"
    radii = OBJECTS

    @classmethod
    def parts(cls) -> tuple[type[Any], type[Any], Mapping[str, tuple[str, ...]]]:
        """See `Learned.parts`."""
        from methods.nn.prnet import PrnetConfig, PrnetNet

        return PrnetNet, PrnetConfig, {}


class PrnetSmall(Prnet):
    """PRNet reduced for a CPU: DGCNN of widths 32, 32, 64 and k = 10, 64 features in 2 heads, inner width 128."""

    variants = {"prnet_small": {}}
    trained = "prnet_small"
    size = {"k": 10, "widths": (32, 32, 64), "features": 64, "heads": 2, "inner": 128}


class PrnetSmallEuler45(PrnetSmall):
    """PRNet reduced for a CPU, trained on its paper's rotations: Euler angles up to 45°."""

    variants = {"prnet_small_euler45": {}}

    sampler: str = "euler45"
