"""DCP-v2 (Wang and Solomon, ICCV 2019): soft matches from features of each cloud conditioned on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from methods.learned.base import OBJECT_RADII, Learned

if TYPE_CHECKING:
    from methods.nn.dcp import DcpNet


class Dcp(Learned):
    """Match each point to a soft average of the other cloud by DGCNN and Transformer features, and fit the pose by SVD.

    Trained on the rotations of the problems, whereas the paper trains on Euler angles up to 45°.
    """

    variants = {"dcp": {}}
    trained = "dcp"
    radii = OBJECT_RADII

    @classmethod
    def network_type(cls) -> type[DcpNet]:
        """See `Learned.network_type`."""
        from methods.nn.dcp import DcpNet

        return DcpNet


class DcpSmall(Dcp):
    """DCP reduced for a CPU: DGCNN of widths 32, 32, 64 and k = 10, 64 features in 2 heads, inner width 128."""

    variants = {"dcp_small": {}}
    trained = "dcp_small"
    size = {"k": 10, "widths": (32, 32, 64), "features": 64, "heads": 2, "inner": 128}


class DcpSmallEuler45(DcpSmall):
    """DCP reduced for a CPU, trained on its paper's rotations: Euler angles up to 45°."""

    variants = {"dcp_small_euler45": {}}

    sampler: str = "euler45"
