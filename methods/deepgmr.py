"""DeepGMR (Yuan et al., ECCV 2020): learned, pose-invariant assignments of points to Gaussians, and a closed-form pose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from methods.base import Method

if TYPE_CHECKING:
    from methods.nn.gmr import GmrNet


class DeepGMR(Method):
    """The network."""

    kind = "learned"

    @classmethod
    def network(cls, **config: Any) -> GmrNet:
        """A freshly initialised network; `config` overrides fields of `methods.nn.gmr.GmrConfig`."""
        from methods.nn.gmr import GmrConfig, GmrNet

        return GmrNet(GmrConfig(**config))
