"""Intervals and paired comparisons. Every random number comes from a key, so the same run gives the same digits."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.keys import KeyPart, rng

Array = NDArray[np.float64]

CONFIDENCE = 0.95
RESAMPLES = 1000
MOST_RESAMPLED = 1000
"""With more values than this a mean is as good as normal, and resampling would only add noise and time."""
MOST_FLIPPED = 200
"""With more pairs than this the sum of random sign flips is as good as normal."""


def _z() -> float:
    """The normal quantile of a two-sided interval."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + CONFIDENCE / 2))


def wilson(successes: NDArray[Any] | float, n: NDArray[Any] | float) -> tuple[Array, Array]:
    """Wilson's 95 % interval of a share, vectorised (Wilson 1927).

    Args:
        successes: (...,), may be fractional: the mean over repeats of the same problems.
        n: (...,) independent problems. Where it is 0 nothing is known and the interval is [0, 1].

    Returns:
        low and high (...,), within [0, 1].
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
    """The 95 % BCa bootstrap interval of the mean of values (n,), 1 000 resamples (Efron 1987).

    It is corrected for skewness, as errors have it, and its levels are widened so that a small sample is covered as Student's t
    does it (Hesterberg 2015), which plain percentiles do not achieve. Beyond 1 000 values it is the normal interval that it
    tends to.

    Returns:
        low and high; NaN where there is no value. The order of the values matters to the digits, so sort them by key.
    """
    from scipy.special import ndtr, ndtri, stdtrit

    n = len(values)
    if n == 0:
        return np.nan, np.nan
    mean, off = float(values.mean()), values - values.mean()
    square = float((off**2).sum())
    if square <= 1e-24 * n * mean**2:
        return mean, mean
    if n > MOST_RESAMPLED:
        half = _z() * np.sqrt(square / n / (n - 1))
        return mean - half, mean + half
    means = values[rng("bootstrap", *key).integers(n, size=(RESAMPLES, n))].mean(axis=1)
    bias = ndtri(((means < mean).mean() + (means <= mean).mean()) / 2)
    skew = float((off**3).sum()) / (6 * square**1.5)
    wide = np.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.5 + CONFIDENCE / 2)
    moved = bias + np.array([-wide, wide])
    low, high = np.quantile(means, ndtr(bias + moved / (1 - skew * moved)))
    return float(low), float(high)


def bootstrap_median(values: NDArray[Any]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the median of values (n,), with endless resamples and so without chance.

    The median of a resample is at most the k-th smallest value exactly if at least half of its n draws are: a binomial
    probability (Efron 1979), which gives the quantiles in closed form. Infinite values are fine.

    Returns:
        low and high, values that occur; NaN where there is none.
    """
    n = len(values)
    if n == 0:
        return np.nan, np.nan
    low, high = np.sort(values)[list(_median_places(n))]
    return float(low), float(high)


@cache
def _median_places(n: int) -> tuple[int, int]:
    """Which of n sorted values bound the median of a resample; alike for all samples of a size, as those of a run often are."""
    from scipy.stats import binom

    below = binom.sf(np.ceil(n / 2) - 1, n, np.arange(1, n + 1) / n)
    low, high = np.minimum(np.searchsorted(below, [0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2]), n - 1)
    return int(low), int(high)


def spread(group: NDArray[Any], values: NDArray[Any]) -> tuple[float, float]:
    """How much of the scatter of values (n,) is chance within a problem (its seeds), and how much lies between problems.

    Args:
        group: the problem of each value (n,), as whole numbers.
        values: one error a repeat.

    Returns:
        Standard deviations within and between, by the analysis of variance of a random effect (Searle 1992); NaN where no
        problem has two values.
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
    """A paired comparison: the mean of a - b, its 95 % interval, and the two-sided p of no difference."""

    mean: float
    low: float
    high: float
    p: float


def paired_difference(a: NDArray[Any], b: NDArray[Any], *key: KeyPart) -> Difference:
    """Compare a and b (n,) on the same n problems: a bootstrap over problems and a sign-flip permutation test."""
    d = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    return Difference(float(d.mean()) if len(d) else np.nan, *bootstrap_mean(d, "paired", *key), sign_flip_p(d, *key))


def sign_flip_p(d: Array, *key: KeyPart) -> float:
    """Two-sided p that differences d (n,) are as likely up as down: how often random sign flips reach their sum.

    Exact to 12 differences (all 2ⁿ flips), 4 999 random flips to 200, normal beyond. With fewer than six differences p cannot
    fall below 0.05, so a table of tiny samples never shows a winner.
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
    """Two-sided p of McNemar's exact test that successes a and b (n,) on the same problems are equally frequent."""
    return sign_test(int((a & ~b).sum()), int((b & ~a).sum()))


def sign_test(wins: int, losses: int) -> float:
    """Two-sided p of the exact test that wins and losses are equally likely; ties say nothing."""
    from scipy.stats import binomtest

    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


def share_difference(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> Difference:
    """Compare the shares of successes a and b (n,) on the same problems: McNemar's exact p, Bonett and Price's interval (2012).

    Their interval adds one to each kind of disagreement, and so is sound where there is little or none.
    """
    n, only_a, only_b = len(a), int((a & ~b).sum()), int((b & ~a).sum())
    if n == 0:
        return Difference(np.nan, np.nan, np.nan, 1.0)
    up, down = (only_a + 1) / (n + 2), (only_b + 1) / (n + 2)
    half = _z() * np.sqrt((up + down - (up - down) ** 2) / (n + 2))
    low, high = max(up - down - half, -1.0), min(up - down + half, 1.0)
    return Difference((only_a - only_b) / n, float(low), float(high), sign_test(only_a, only_b))


def holm(p: NDArray[Any] | list[float]) -> Array:
    """Holm's adjusted p values (m,) of a family of m tests (Holm 1979): below α together they err with probability α at most."""
    p = np.asarray(p, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1)
    return adjusted
