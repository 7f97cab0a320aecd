"""A data set for tests: anisotropic blobs of fixed points."""

import numpy as np

from common.keys import rng
from datasets.base import DataSet, PointShape


class Blobs(DataSet):
    """Blobs of 200 fixed points in four categories."""

    categories = ("a", "b", "c", "d")
    fixed_points = 200

    def labels(self, split):
        return np.arange(40) % 4

    def shape(self, split, index):
        cloud = rng("blobs", split, index).normal(size=(200, 3)) * (1.0, 0.5, 0.2) + (0.3, 0, 0)
        return PointShape(f"blob_{index}", self.categories[index % 4], cloud / 4)
