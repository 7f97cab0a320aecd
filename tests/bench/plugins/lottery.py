"""A random method, for tests."""

from methods.base import Method, rigid


class Lottery(Method):
    """A random rotation about the centroid."""

    random = True

    def register(self, source, target):
        from scipy.spatial.transform import Rotation  # here, since every inspection of the folder imports this file

        R = Rotation.random(rng=self.rng).as_matrix()
        return rigid(R, target.mean(0) - R @ source.mean(0))
