"""DeepGMR with one design choice changed, all trained alike and briefly: the ablations of the paper's supplement, and ours.

Compare them with `deepgmr_j16`, which is the paper's choice on the same budget, not with `deepgmr`, which was trained longer. The
last one joins what helped, and has the budget that shows how far it goes.
"""

from __future__ import annotations

from methods.deepgmr import DeepGMR


class Ablation(DeepGMR):
    """The paper's choice, J = 16, on the ablations' training budget."""

    in_all = False
    variants = {"deepgmr_j16": {}}
    trained = "deepgmr_j16"


class Components4(Ablation):
    """J = 4 Gaussians."""

    variants = {"deepgmr_j4": {}}
    trained = "deepgmr_j4"
    size = {"components": 4}


class Components8(Ablation):
    """J = 8 Gaussians."""

    variants = {"deepgmr_j8": {}}
    trained = "deepgmr_j8"
    size = {"components": 8}


class Components32(Ablation):
    """J = 32 Gaussians."""

    variants = {"deepgmr_j32": {}}
    trained = "deepgmr_j32"
    size = {"components": 32}


class Coordinates(Ablation):
    """Raw centred coordinates in place of rotation-invariant features."""

    variants = {"deepgmr_xyz": {}}
    trained = "deepgmr_xyz"
    size = {"features": "xyz"}


class PointLoss(Ablation):
    """The RMSE of the points as the loss, in place of the difference of matrices."""

    variants = {"deepgmr_rmse_loss": {}}
    trained = "deepgmr_rmse_loss"
    size = {"loss": "rmse"}


class Width256(Ablation):
    """A last local layer of 256 in place of 1 024."""

    variants = {"deepgmr_width256": {}}
    trained = "deepgmr_width256"
    size = {"local": (64, 128, 256, 256)}


class Width512(Ablation):
    """A last local layer of 512 in place of 1 024."""

    variants = {"deepgmr_width512": {}}
    trained = "deepgmr_width512"
    size = {"local": (64, 128, 256, 512)}


class PrintedCentring(Ablation):
    """Means centred by the weights that the supplement prints, not by those of the exact minimiser."""

    variants = {"deepgmr_printed": {}}
    trained = "deepgmr_printed"
    size = {"centring": "printed"}


class Neighbours10(Ablation):
    """k = 10 neighbours in the features."""

    variants = {"deepgmr_k10": {}}
    trained = "deepgmr_k10"
    size = {"k": 10}


class Neighbours40(Ablation):
    """k = 40 neighbours in the features."""

    variants = {"deepgmr_k40": {}}
    trained = "deepgmr_k40"
    size = {"k": 40}


class Neighbours64(Ablation):
    """k = 64 neighbours and the RMSE of the points as the loss, trained for many times the steps of the ablations."""

    variants = {"deepgmr_k64": {}}
    trained = "deepgmr_k64"
    size = {"k": 64, "loss": "rmse"}
