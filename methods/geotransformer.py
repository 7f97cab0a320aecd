"""GeoTransformer (Qin et al. 2022), the authors' code and weights."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np

from methods.base import Cloud, Pose
from methods.geometry.settings import voxel_means
from methods.learned.external import VOXEL, ExternalMethod, importing_from, moved, read_weights, rigid_from

EXPERIMENT = "experiments/geotransformer.3dmatch.stage4.gse.k3.max.oacl.stage2.sinkhorn"
NEIGHBOURS = [38, 36, 36, 38]
"""Maximum numbers of neighbours of the four stages, as in the authors' demo of 3DMatch."""


class GeoTransformer(ExternalMethod):
    """Match superpoints by a transformer over distances and angles, and their patches to a pose; clouds in metres."""

    variable = "GEOTRANSFORMER"
    repository = "https://github.com/qinzheng93/GeoTransformer"
    files = ("geotransformer/utils/data.py", f"{EXPERIMENT}/model.py", f"{EXPERIMENT}/config.py")

    def load(self, folder: Path, weights: Path, device: str) -> None:
        """See `ExternalMethod.load`."""
        collate = import_module("geotransformer.utils.data").registration_collate_fn_stack_mode
        with importing_from(folder / EXPERIMENT):
            config = import_module("config").make_cfg()
            model = import_module("model").create_model(config)
        model.load_state_dict(read_weights(weights)["model"])
        self.state.update(model=model.to(device).eval(), config=config.backbone, collate=collate)

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        import torch

        clouds = [voxel_means(cloud.astype(np.float64), VOXEL).astype(np.float32) for cloud in (source, target)]
        sides = zip(("src", "ref"), clouds, strict=True)
        item = {"transform": np.eye(4, dtype=np.float32)}  # the model also computes labels, which are not used
        item |= {
            f"{side}_{name}": part
            for side, c in sides
            for name, part in (("points", c), ("feats", np.ones_like(c[:, :1])))
        }
        config = self.state["config"]
        with self.stage("features"), torch.inference_mode():
            stages = config.num_stages, config.init_voxel_size, config.init_radius, NEIGHBOURS
            batch = moved(self.state["collate"]([item], *stages), self.state["device"])
            result = self.state["model"](batch)
        return rigid_from(result["estimated_transform"].cpu())
