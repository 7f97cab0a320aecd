"""Public contract of a registration method, for adapters.

>>> from methods.base import Method, NoSolution, rigid
"""

from methods.core.base import Cloud, Gaussians, LogUniform, Method, NoSolution, Pose, Unavailable, rigid

Between = LogUniform
"""Name of `LogUniform` up to version 0.1; plug-ins may still import it."""

__all__ = ["Between", "Cloud", "Gaussians", "LogUniform", "Method", "NoSolution", "Pose", "Unavailable", "rigid"]
