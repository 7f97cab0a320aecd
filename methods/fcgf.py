"""FCGF (Choy, Park, Koltun 2019): the authors' descriptors, matched and solved by SC²-PCR."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np

from methods.base import Cloud, Pose
from methods.learned.external import VOXEL, Described, ExternalMethod, read_weights


class Fcgf(ExternalMethod):
    """Describe voxels by a sparse convolutional network, and fit a pose to mutual matches by SC²-PCR; clouds in metres.

    Parameters:
        voxel: edge of the voxels in metres, that of the weights.
        distance: maximum error of a correct match in metres.
    """

    packages = ("MinkowskiEngine",)
    variable = "FCGF"
    repository = "https://github.com/chrischoy/FCGF"
    files = ("model/resunet.py", "util/misc.py")

    voxel: float = VOXEL
    distance: float = 0.1

    def load(self, folder: Path, weights: Path, device: str) -> None:
        """See `ExternalMethod.load`; sizes of the network follow from the weights."""
        state = read_weights(weights)["state_dict"]
        kernel, outputs = round(state["conv1.kernel"].shape[0] ** (1 / 3)), state["final.kernel"].shape[-1]
        model = import_module("model.resunet").ResUNetBN2C(
            1, outputs, normalize_feature=True, conv1_kernel_size=kernel, D=3
        )
        model.load_state_dict(state)
        self.state.update(model=model.to(device).eval(), extract=import_module("util.misc").extract_features)

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        with self.stage("features"):
            described = self._described(source), self._described(target)
        return self.fitted(*described, self.distance)

    def _described(self, cloud: Cloud) -> Described:
        import torch

        options = {"voxel_size": self.voxel, "device": torch.device(self.state["device"]), "skip_check": True}
        with torch.inference_mode():
            points, features = self.state["extract"](self.state["model"], xyz=cloud.astype(np.float64), **options)
        return np.asarray(points), features.cpu().numpy()
