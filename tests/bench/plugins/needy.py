"""A method whose package is not there."""

import numpy as np

from methods.base import Method


class Needy(Method):
    """Imports what it needs when it needs it."""

    requires = ("package_from_nowhere",)

    def register(self, source, target):
        """See `Method.register`."""
        import package_from_nowhere

        return package_from_nowhere.solve(np.asarray(source), np.asarray(target))
