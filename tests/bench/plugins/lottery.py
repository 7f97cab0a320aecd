"""A random method, for tests."""

from scipy.spatial.transform import Rotation

from methods.base import Method, rigid


class Lottery(Method):
    """A random rotation about the centroid."""

    random = True

    def register(self, source, target):
        R = Rotation.random(rng=self.rng).as_matrix()
        return rigid(R, target.mean(0) - R @ source.mean(0))
