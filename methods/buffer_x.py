"""BUFFER-X (Seo et al. 2025), the authors' code and weights."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np

from methods.base import Cloud, Pose, Unavailable
from methods.geometry.open3d_bridge import point_cloud
from methods.learned.external import ExternalMethod, read_weights, rigid_from

STAGES = ("Desc", "Pose")
"""Parts of the network that the authors train one after the other, each with a folder of weights."""


class BufferX(ExternalMethod):
    """Match patches at several radii, which follow from the density of the clouds, to a pose; on a GPU alone."""

    requires = ("torch", "open3d")
    packages = ("pointnet2_ops", "knn_cuda", "kornia", "einops")
    variable = "BUFFER_X"
    repository = "https://github.com/MIT-SPARK/BUFFER-X"
    files = ("models/BUFFERX.py", "utils/tools.py")

    def setup(self, device: str, seed: int, domain: str) -> None:
        """Refuse the CPU, on which the authors' operations do not run; see `ExternalMethod.setup`."""
        self.check_available()
        if device == "cpu":
            raise Unavailable("its operations need a GPU: add --device cuda")
        super().setup(device, seed, domain)

    def load(self, folder: Path, weights: Path, device: str) -> None:
        """See `ExternalMethod.load`; the weights are a folder, such as `snapshot/threedmatch`."""
        config = import_module("config").make_cfg("3DMatch", str(folder))
        config.stage = "test"
        model = import_module("models.BUFFERX").BufferX(config)
        for stage in STAGES:
            parts = read_weights(weights / stage / "best.pth").items()
            model.load_state_dict({name: part for name, part in parts if stage in name}, strict=False)
        self.state.update(
            model=model.to(device).eval(), voxel=import_module("utils.tools").sphericity_based_voxel_analysis
        )

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        import torch

        clouds = [point_cloud(cloud.astype(np.float64)) for cloud in (source, target)]
        edge, _, aligned = self.state["voxel"](*clouds)
        thin = [np.asarray(cloud.voxel_down_sample(edge).points, dtype=np.float32) for cloud in clouds]
        batch = {
            f"{side}_fds_pcd": torch.from_numpy(c).to(self.state["device"])
            for side, c in zip(("src", "tgt"), thin, strict=True)
        }
        with self.stage("features"), torch.inference_mode():
            pose = self.state["model"](batch | {"is_aligned_to_global_z": aligned})[0]
        return rigid_from(pose)
