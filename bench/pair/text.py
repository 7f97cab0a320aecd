"""Numbers as text."""

from __future__ import annotations

import math

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


def percent_below(share: float) -> str:
    """Format a probability in whole percent, rounded down: one below 1 is never 100 %.

    >>> percent_below(0.9994), percent_below(0.005), percent_below(1.0), percent_below(0.29)
    ('99%', '0%', '100%', '29%')
    """
    return f"{math.floor(round(100 * share, 9))}%"


def vector(values: NDArray[np.float64], digits: int = 2) -> str:
    """Format a vector.

    >>> vector(np.array([1.0, -0.001, 0.25]))
    '(1, 0, 0.25)'
    """
    return "(" + ", ".join(f"{round(float(v), digits) + 0.0:g}" for v in values) + ")"
