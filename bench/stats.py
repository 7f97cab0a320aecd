"""Intervals and paired comparisons. Every random number comes from a key, so the same run gives the same digits."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.keys import KeyPart, rng

Array = NDArray[np.float64]

CONFIDENCE = 0.95
RESAMPLES = 1000


def wilson(successes: NDArray[Any] | float, n: NDArray[Any] | float) -> tuple[Array, Array]:
    """Wilson's 95 % interval of a share, vectorised (Wilson 1927).

    Args:
        successes: (...,), may be fractional: the mean over repeats of the same problems.
        n: (...,) independent problems. Where it is 0 nothing is known and the interval is [0, 1].

    Returns:
        low and high (...,), within [0, 1].
    """
    from scipy.special import ndtri

    z2 = float(ndtri(0.5 + CONFIDENCE / 2)) ** 2
    n = np.asarray(n, dtype=np.float64)
    share = np.divide(successes, n, out=np.full(n.shape, 0.5), where=n > 0)
    middle = (share * n + z2 / 2) / (n + z2)
    half = np.sqrt(z2 * (share * (1 - share) * n + z2 / 4)) / (n + z2)
    low = np.where((share <= 0) | (n == 0), 0.0, np.maximum(middle - half, 0))
    high = np.where((share >= 1) | (n == 0), 1.0, np.minimum(middle + half, 1))
    return low, high


def bootstrap(values: NDArray[Any], statistic: Literal["mean", "median"], *key: KeyPart) -> tuple[float, float]:
    """The 95 % percentile bootstrap interval of the mean or the median of values (n,), 1 000 resamples.

    Returns:
        low and high; NaN where there is no value. The order of the values matters to the digits, so sort them by key.
    """
    n = len(values)
    if n == 0:
        return np.nan, np.nan
    generator, of = rng("bootstrap", statistic, *key), np.mean if statistic == "mean" else np.median
    rows = max(1, 2_000_000 // n)  # resamples at a time: bounded memory
    drawn = [
        of(values[generator.integers(n, size=(min(rows, RESAMPLES - done), n))], axis=1)
        for done in range(0, RESAMPLES, rows)
    ]
    low, high = np.quantile(np.concatenate(drawn), [0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2])
    return float(low), float(high)


class Difference(NamedTuple):
    """A paired comparison: the mean of a - b, its 95 % bootstrap interval, and the two-sided p of no difference."""

    mean: float
    low: float
    high: float
    p: float


def paired_difference(a: NDArray[Any], b: NDArray[Any], *key: KeyPart) -> Difference:
    """Compare a and b (n,) on the same n problems: a bootstrap over problems and a sign-flip permutation test.

    The test is exact to 12 problems (all 2ⁿ flips) and random beyond. With fewer than six problems p cannot fall below
    0.05, so a table of tiny samples never shows a winner.
    """
    d = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    return Difference(float(d.mean()), *bootstrap(d, "mean", "paired", *key), _sign_flip_p(d, *key))


def _sign_flip_p(d: Array, *key: KeyPart) -> float:
    """Share of sign flips of d (n,) whose |sum| reaches the observed one."""
    n = len(d)
    exact = n <= 12
    if exact:
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    else:
        signs = 1 - 2 * rng("sign flip", *key).integers(2, size=(4999, n), dtype=np.int8)
    reached = np.abs(signs @ d) >= np.abs(d.sum()) - 1e-12 * np.abs(d).sum()
    return float(reached.mean() if exact else (reached.sum() + 1) / (len(signs) + 1))


def mcnemar(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> float:
    """Two-sided p of McNemar's exact test that successes a and b (n,) on the same problems are equally frequent."""
    from scipy.stats import binomtest

    only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
    return float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0
