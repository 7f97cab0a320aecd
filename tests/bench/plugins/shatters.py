"""A method that ends its process when its Gaussians are requested."""

import os

import numpy as np

from methods.base import Method


class Shatters(Method):
    """Answers the identity."""

    def register(self, source, target):
        """See `Method.register`."""
        return np.eye(4)

    def gaussians(self, source, target):
        """See `Method.gaussians`."""
        os._exit(3)
