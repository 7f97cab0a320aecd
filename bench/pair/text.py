"""Numbers as text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def significant(value: float, digits: int = 3) -> str:
    """Format a number with significant digits; – if unknown, ∞ for a failure.

    >>> significant(0.00012345), significant(12.0), significant(123456.0)
    ('0.000123', '12.0', '123456')
    """
    if not np.isfinite(value) or value == 0:
        return "0" if value == 0 else "–" if np.isnan(value) else "∞"
    places = digits - 1 - int(np.floor(np.log10(abs(float(f"{value:.{digits - 1}e}")))))
    return f"{value:.{max(places, 0)}f}"


def vector(values: NDArray[np.float64], digits: int = 2) -> str:
    """Format a vector.

    >>> vector(np.array([1.0, -0.001, 0.25]))
    '(1, 0, 0.25)'
    """
    return "(" + ", ".join(f"{round(float(v), digits) + 0.0:g}" for v in values) + ")"
