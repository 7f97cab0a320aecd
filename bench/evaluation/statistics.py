"""Confidence intervals and paired comparisons. Random numbers are seeded by keys, so that results are reproducible."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.keys import KeyPart, rng

Array = NDArray[np.float64]

ALPHA = 0.05
"""Significance level of all tests."""
CONFIDENCE = 0.95
"""Coverage of all intervals."""
RESAMPLES = 1000
"""Resamples of a bootstrap."""
MOST_RESAMPLED = 1000
"""Number of values above which the mean counts as normally distributed and is not bootstrapped."""
MOST_FLIPPED = 200
"""Number of pairs above which the sum of random sign flips counts as normally distributed."""


def _z() -> float:
    """Return the normal quantile of a two-sided interval."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + CONFIDENCE / 2))


def wilson(successes: NDArray[Any] | float, n: NDArray[Any] | float) -> tuple[Array, Array]:
    """Compute Wilson's 95 % interval of a share (Wilson 1927), vectorised.

    Args:
        successes: (...,), may be fractional, such as the mean over repeats of the same problems.
        n: number of independent problems (...,); where it is 0 the interval is [0, 1].

    Returns:
        low and high (...,), within [0, 1].

    >>> low, high = wilson(9, 10)
    >>> round(float(low), 3), round(float(high), 3)
    (0.596, 0.982)
    """
    z2 = _z() ** 2
    n = np.asarray(n, dtype=np.float64)
    share = np.divide(successes, n, out=np.full(n.shape, 0.5), where=n > 0)
    middle = (share * n + z2 / 2) / (n + z2)
    half = np.sqrt(z2 * (share * (1 - share) * n + z2 / 4)) / (n + z2)
    low = np.where((share <= 0) | (n == 0), 0.0, np.maximum(middle - half, 0))
    high = np.where((share >= 1) | (n == 0), 1.0, np.minimum(middle + half, 1))
    return low, high


def bootstrap_mean(values: NDArray[Any], *key: KeyPart) -> tuple[float, float]:
    """Compute the 95 % BCa bootstrap interval of the mean of values (n,) with 1 000 resamples (Efron 1987).

    It corrects for the skewness of errors, and its levels are widened to the coverage of Student's t for small samples
    (Hesterberg 2015). Above 1 000 values it is the normal interval. The digits depend on the order of the values: sort
    them by key.

    Returns:
        low and high; NaN without values.

    >>> bootstrap_mean(np.full(5, 0.25))
    (0.25, 0.25)
    >>> low, high = bootstrap_mean(np.arange(10.0), "example")
    >>> low < 4.5 < high
    True
    """
    from scipy.special import ndtr, ndtri, stdtrit

    n = len(values)
    if n == 0:
        return np.nan, np.nan
    mean, deviations = float(values.mean()), values - values.mean()
    square = float((deviations**2).sum())
    if square <= 1e-24 * n * mean**2:
        return mean, mean
    if n > MOST_RESAMPLED:
        half = _z() * np.sqrt(square / n / (n - 1))
        return mean - half, mean + half
    means = values[rng("bootstrap", *key).integers(n, size=(RESAMPLES, n))].mean(axis=1)
    bias = ndtri(((means < mean).mean() + (means <= mean).mean()) / 2)
    skew = float((deviations**3).sum()) / (6 * square**1.5)
    widened = np.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.5 + CONFIDENCE / 2)
    shifted = bias + np.array([-widened, widened])
    low, high = np.quantile(means, ndtr(bias + shifted / (1 - skew * shifted)))
    return float(low), float(high)


def bootstrap_median(values: NDArray[Any]) -> tuple[float, float]:
    """Compute the 95 % bootstrap interval of the median of values (n,) in the limit of infinitely many resamples.

    The median of a resample is at most the k-th smallest value exactly if at least half of its n draws are: a binomial
    probability (Efron 1979), which gives the quantiles in closed form. Values may be infinite.

    Returns:
        low and high, two of the values; NaN without values.

    >>> bootstrap_median(np.append(np.arange(20.0), np.inf))
    (6.0, 14.0)
    """
    n = len(values)
    if n == 0:
        return np.nan, np.nan
    low, high = np.sort(values)[list(_median_ranks(n))]
    return float(low), float(high)


@cache
def _median_ranks(n: int) -> tuple[int, int]:
    """Return the indices of the sorted values that bound the median; cached, since groups of a run often have one size."""
    from scipy.stats import binom

    below = binom.sf(np.ceil(n / 2) - 1, n, np.arange(1, n + 1) / n)
    low, high = np.minimum(np.searchsorted(below, [0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2]), n - 1)
    return int(low), int(high)


def spread(group: NDArray[Any], values: NDArray[Any]) -> tuple[float, float]:
    """Split the standard deviation of values into that within problems (seeds) and that between problems.

    Args:
        group: index of each value's problem (n,), integers.
        values: one error per repeat (n,).

    Returns:
        Standard deviations within and between, by the analysis of variance of a random effect (Searle 1992); NaN if no
        problem has two values.

    >>> spread(np.array([0, 0, 1, 1]), np.array([1.0, 1.0, 3.0, 3.0])) == (0.0, np.sqrt(2))
    True
    """
    _, index, count = np.unique(group, return_inverse=True, return_counts=True)
    n, k = len(values), len(count)
    if n == k:
        return np.nan, np.nan
    mean = np.bincount(index, values) / count
    within = float(((values - mean[index]) ** 2).sum() / (n - k))
    if k < 2:
        return float(np.sqrt(within)), np.nan
    between = float((count * (mean - values.mean()) ** 2).sum() / (k - 1))
    size = (n - (count**2).sum() / n) / (k - 1)
    return float(np.sqrt(within)), float(np.sqrt(max(between - within, 0) / size))


class Difference(NamedTuple):
    """Paired comparison: the mean of a - b, its 95 % interval, and the two-sided p value of no difference."""

    mean: float
    low: float
    high: float
    p: float


def paired_difference(a: NDArray[Any], b: NDArray[Any], *key: KeyPart) -> Difference:
    """Compare values a and b (n,) on the same n problems: bootstrap over problems and sign-flip permutation test.

    >>> paired_difference(np.ones(6), np.zeros(6))
    Difference(mean=1.0, low=1.0, high=1.0, p=0.03125)
    """
    d = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    return Difference(float(d.mean()) if len(d) else np.nan, *bootstrap_mean(d, "paired", *key), sign_flip_p(d, *key))


def sign_flip_p(d: Array, *key: KeyPart) -> float:
    """Compute the two-sided p value of the sign-flip test of differences d (n,): how often sign flips reach their sum.

    Exact up to 12 differences (all 2ⁿ flips), 4 999 random flips up to 200, normal approximation above. With fewer than six
    differences p cannot fall below 0.05.

    >>> sign_flip_p(np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0]))  # 2 of 2⁶ sign flips
    0.03125
    """
    from scipy.special import ndtr

    n, scale = len(d), float(np.sqrt((d**2).sum()))
    if n > MOST_FLIPPED:
        return float(2 * ndtr(-abs(d.sum()) / scale)) if scale else 1.0
    exact = n <= 12
    if exact:
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    else:
        signs = 1 - 2 * rng("sign flip", *key).integers(2, size=(4999, n), dtype=np.int8)
    reached = np.abs(signs @ d) >= np.abs(d.sum()) - 1e-12 * np.abs(d).sum()
    return float(reached.mean() if exact else (reached.sum() + 1) / (len(signs) + 1))


def mcnemar(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> float:
    """Compute the two-sided p value of McNemar's exact test: successes a and b (n,) of the same problems are equally frequent.

    >>> mcnemar(np.array([True, True, True, False]), np.array([False, False, False, False]))
    0.25
    """
    return sign_test(int((a & ~b).sum()), int((b & ~a).sum()))


def sign_test(wins: int, losses: int) -> float:
    """Compute the two-sided p value of the exact sign test that wins and losses are equally likely; leave ties out.

    >>> sign_test(3, 0)
    0.25
    """
    from scipy.stats import binomtest

    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


def share_difference(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> Difference:
    """Compare the shares of successes a and b (n,) on the same problems: McNemar's exact p, Bonett and Price's interval (2012).

    The interval adds one to each kind of disagreement, so that it is valid with few or no disagreements.

    >>> difference = share_difference(np.array([True, True, True, False]), np.zeros(4, dtype=bool))
    >>> difference.mean, difference.p
    (0.75, 0.25)
    """
    n, only_a, only_b = len(a), int((a & ~b).sum()), int((b & ~a).sum())
    if n == 0:
        return Difference(np.nan, np.nan, np.nan, 1.0)
    up, down = (only_a + 1) / (n + 2), (only_b + 1) / (n + 2)
    half = _z() * np.sqrt((up + down - (up - down) ** 2) / (n + 2))
    low, high = max(up - down - half, -1.0), min(up - down + half, 1.0)
    return Difference((only_a - only_b) / n, float(low), float(high), sign_test(only_a, only_b))


def holm(p: NDArray[Any] | list[float]) -> Array:
    """Adjust p values (m,) of a family of m tests by Holm's method (Holm 1979), which bounds the family-wise error rate.

    >>> [round(float(p), 6) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1)
    return adjusted
