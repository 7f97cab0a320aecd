"""Predator (Huang et al. 2021): the authors' descriptors of points where an overlap is likely, solved by SC²-PCR."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from methods.base import Cloud, Pose
from methods.geometry.settings import voxel_means
from methods.learned.external import VOXEL, Described, ExternalMethod, moved, read_weights


class Predator(ExternalMethod):
    """Describe points by a network that also predicts overlap, draw some by it, and fit a pose by SC²-PCR; clouds in metres.

    Parameters:
        points: drawn from each cloud, with probabilities by the predicted overlap and saliency.
        distance: maximum error of a correct match in metres.
    """

    random = True
    packages = ("easydict",)
    variable = "PREDATOR"
    repository = "https://github.com/prs-eth/OverlapPredator"
    files = ("models/architectures.py", "datasets/dataloader.py", "configs/test/indoor.yaml")

    points: int = 5000
    distance: float = 0.1

    def load(self, folder: Path, weights: Path, device: str) -> None:
        """See `ExternalMethod.load`."""
        data, utils = import_module("datasets.dataloader"), import_module("lib.utils")
        config = import_module("easydict").EasyDict(utils.load_config(str(folder / self.files[-1])))
        down = ["resnetb_strided", "resnetb", "resnetb"] * (config.num_layers - 1)
        up = ["nearest_upsample", "unary"] * (config.num_layers - 2)
        config.architecture = ["simple", "resnetb", *down, *up, "nearest_upsample", "last_unary"]
        model = import_module("models.architectures").KPFCNN(config)
        model.load_state_dict(read_weights(weights)["state_dict"])
        self.state.update(model=model.to(device).eval(), config=config)
        self.state.update(collate=data.collate_fn_descriptor, calibrate=data.calibrate_neighbors)

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        import torch

        clouds = [voxel_means(cloud.astype(np.float64), VOXEL).astype(np.float32) for cloud in (source, target)]
        unknown = np.eye(3, dtype=np.float32), np.zeros((3, 1), dtype=np.float32), torch.ones(1, 2).long()
        item = (*clouds, *(np.ones_like(cloud[:, :1]) for cloud in clouds), *unknown, *clouds, torch.ones(1))
        config, collate = self.state["config"], self.state["collate"]
        with self.stage("features"), torch.inference_mode():
            limits = self.state["calibrate"]([item], config, collate_fn=collate)
            batch = moved(collate([item], config, limits), self.state["device"])
            features, overlap, saliency = (part.cpu().numpy() for part in self.state["model"](batch))
        n = len(clouds[0])
        scores = (overlap * saliency).ravel()
        source_part = self._drawn(clouds[0], features[:n], scores[:n])
        return self.fitted(source_part, self._drawn(clouds[1], features[n:], scores[n:]), self.distance)

    def _drawn(self, cloud: Cloud, features: Any, scores: Any) -> Described:
        count = min(self.points, int(np.count_nonzero(scores > 0)))
        rows = self.rng.choice(len(cloud), count, replace=False, p=np.maximum(scores, 0) / np.maximum(scores, 0).sum())
        return cloud[rows].astype(np.float64), features[rows]
