"""Confidence intervals and paired comparisons. Random numbers are seeded by keys, so that results are reproducible.

Problems of the same object are not independent. `cluster` is the number of each problem's object (n,), see
`bench.evaluation.clusters`; None if every problem has an object that no other problem has. Intervals and tests are then over
objects instead of problems.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from common.keys import KeyPart, rng

Array = NDArray[np.float64]
Clusters = NDArray[np.integer[Any]] | None

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
PRIOR_OBJECTS = 0.1
"""Weight of an object with all values at a limit in the estimate of a design effect; see `share_interval`."""
MIN_SHARED = 20
"""Number of shared problems below which two methods or runs are not compared."""
MIN_FOR_MEAN = 10
"""Number of independent values below which the mean has no interval: none covers what it claims."""


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
    n = np.asarray(n, dtype=np.float64)
    return _wilson(np.divide(successes, n, out=np.full(n.shape, 0.5), where=n > 0), n, _z())


def _wilson(share: Array, n: Array, quantile: float) -> tuple[Array, Array]:
    """Compute Wilson's interval of a share of n with another quantile than the normal one."""
    z2 = quantile**2
    middle = (share * n + z2 / 2) / (n + z2)
    half = np.sqrt(z2 * (share * (1 - share) * n + z2 / 4)) / (n + z2)
    low = np.where((share <= 0) | (n == 0), 0.0, np.maximum(middle - half, 0))
    high = np.where((share >= 1) | (n == 0), 1.0, np.minimum(middle + half, 1))
    return low, high


def share_interval(values: NDArray[Any], cluster: Clusters = None) -> tuple[float, float]:
    """Compute the 95 % interval of the mean of values (n,) between 0 and 1, such as successes.

    It is Wilson's. If objects have several values, n is replaced by n / d with the design effect d (Kish 1965), and the normal
    quantile by Student's with one degree of freedom less than objects (Korn and Graubard 1998). The estimate of d includes a
    tenth of an object whose values are all 0 and of one whose values are all 1: otherwise it is too small for shares near 0 and
    1, where few objects or none show how much objects differ.

    Returns:
        low and high, within [0, 1].

    >>> low, high = share_interval(np.repeat([1.0, 0.0], 50))
    >>> round(low, 3), round(high, 3)
    (0.404, 0.596)
    >>> low, high = share_interval(np.repeat([1.0, 0.0], 50), np.repeat(np.arange(20), 5))  # 20 objects, no more
    >>> round(low, 3), round(high, 3)
    (0.288, 0.712)
    """
    size, quantile = _effective_size(np.asarray(values, dtype=np.float64), cluster)
    share = values.mean() if len(values) else 0.5
    low, high = _wilson(np.asarray(share), np.asarray(size), quantile)
    return float(low), float(high)


def _effective_size(values: Array, cluster: Clusters, limits: tuple[float, float] = (0.0, 1.0)) -> tuple[float, float]:
    """Return the number of independent values that are as precise as values (n,), and the quantile of their interval.

    The size is n without repeated objects, and 0 with a single object, which says nothing about others. `limits` are the lowest
    and the highest possible value.
    """
    from scipy.special import stdtrit

    n, mean = len(values), values.mean() if len(values) else 0.0
    residuals, counts = _per_cluster(values - mean, cluster)
    objects = len(counts)
    if objects == n:
        return float(n), _z()
    if objects == 1:
        return 0.0, _z()
    size, extremes = n / objects, PRIOR_OBJECTS * sum((limit - mean) ** 2 for limit in limits)
    between = float((residuals**2).sum()) + size**2 * extremes
    within = float(((values - mean) ** 2).sum()) + size * extremes
    effect = objects / (objects - 1) * between / within
    largest = float((counts**2).sum()) / n  # at which an object counts as one value
    return n / min(max(effect, 1.0), largest), float(stdtrit(objects - 1, 0.5 + CONFIDENCE / 2))


def _per_cluster(values: Array, cluster: Clusters) -> tuple[Array, Array]:
    """Return the sum and the number of the values of each object; the values in their order if no object is repeated."""
    if _is_repeated(cluster):
        number = cluster - cluster.min()
        counts = np.bincount(number)
        return np.bincount(number, values)[counts > 0].astype(np.float64), counts[counts > 0].astype(np.float64)
    return values, np.ones(len(values))


def _is_repeated(cluster: Clusters) -> TypeGuard[NDArray[np.integer[Any]]]:
    """Return whether an object is that of several values."""
    return cluster is not None and len(cluster) > 0 and int(np.bincount(cluster - cluster.min()).max()) > 1


def bootstrap_mean(values: NDArray[Any], *key: KeyPart, cluster: Clusters = None) -> tuple[float, float]:
    """Compute the 95 % BCa bootstrap interval of the mean of values (n,) with 1 000 resamples of objects (Efron 1987).

    It corrects for the skewness of errors, and its levels are widened to the coverage of Student's t for small samples
    (Hesterberg 2015). Above 1 000 objects it is the normal interval. The digits depend on the order of the values: sort
    them by key.

    Returns:
        low and high; NaN with fewer than ten objects.

    >>> bootstrap_mean(np.full(10, 0.25))
    (0.25, 0.25)
    >>> low, high = bootstrap_mean(np.arange(10.0), "example")
    >>> low < 4.5 < high
    True
    >>> bootstrap_mean(np.arange(9.0))
    (nan, nan)
    """
    from scipy.special import ndtr, ndtri, stdtrit

    sums, counts = _per_cluster(np.asarray(values, dtype=np.float64), cluster)
    n = len(sums)
    if n < MIN_FOR_MEAN:
        return np.nan, np.nan
    mean = float(values.mean())
    deviations = sums - mean * counts
    square = float((deviations**2).sum())
    if square <= 1e-24 * n * mean**2:
        return mean, mean
    if n > MOST_RESAMPLED:
        half = _z() * np.sqrt(square * n / (n - 1)) / counts.sum()
        return mean - half, mean + half
    drawn = rng("bootstrap", *key).integers(n, size=(RESAMPLES, n))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    bias = ndtri(((means < mean).mean() + (means <= mean).mean()) / 2)
    skew = float((deviations**3).sum()) / (6 * square**1.5)
    widened = np.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.5 + CONFIDENCE / 2)
    shifted = bias + np.array([-widened, widened])
    low, high = np.quantile(means, ndtr(bias + shifted / (1 - skew * shifted)))
    return float(low), float(high)


def bootstrap_median(values: NDArray[Any], cluster: Clusters = None) -> tuple[float, float]:
    """Compute a 95 % interval of the median of values (n,), two of the values; they may be infinite.

    Without repeated objects it is the bootstrap interval in the limit of infinitely many resamples: the median of a resample
    is at most the k-th smallest value exactly if at least half of its n draws are, which is a binomial probability (Efron
    1979). Otherwise the interval of the share of values up to the median is inverted (Woodruff 1952), see `share_interval`.

    Returns:
        low and high; NaN without values.

    >>> bootstrap_median(np.append(np.arange(20.0), np.inf))
    (6.0, 14.0)
    >>> bootstrap_median(np.arange(20.0), np.repeat(np.arange(10), 2))
    (4.0, 15.0)
    """
    n = len(values)
    if n == 0:
        return np.nan, np.nan
    ordered = np.sort(values)
    below = (values <= ordered[(n - 1) // 2]).astype(np.float64)
    size, quantile = _effective_size(below, cluster)
    ranks = _median_ranks(n)
    if size == 0 or _is_repeated(cluster):
        low_share, high_share = _wilson(np.asarray(0.5), np.asarray(size), quantile)
        ranks = int(np.floor(n * low_share)), int(np.ceil(n * high_share)) - 1
    return float(ordered[ranks[0]]), float(ordered[ranks[1]])


@cache
def _median_ranks(n: int) -> tuple[int, int]:
    """Return the indices of the sorted values that bound the median; cached, since groups of a run often have one size."""
    from scipy.special import bdtrc

    below = bdtrc(np.ceil(n / 2) - 1, n, np.arange(1, n + 1) / n)
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


def paired_difference(a: NDArray[Any], b: NDArray[Any], *key: KeyPart, cluster: Clusters = None) -> Difference:
    """Compare values a and b (n,) on the same n problems: bootstrap and sign-flip permutation test over objects.

    >>> paired_difference(np.ones(10), np.zeros(10))
    Difference(mean=1.0, low=1.0, high=1.0, p=0.001953125)
    """
    d = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    interval = bootstrap_mean(d, "paired", *key, cluster=cluster)
    return Difference(float(d.mean()) if len(d) else np.nan, *interval, sign_flip_p(d, *key, cluster=cluster))


def sign_flip_p(d: Array, *key: KeyPart, cluster: Clusters = None) -> float:
    """Compute the two-sided p value of the sign-flip test of differences d (n,): how often sign flips reach their sum.

    All differences of an object have the same sign flip. Exact up to 12 objects (all 2ⁿ flips), 4 999 random flips up to 200,
    normal approximation above. With fewer than six objects p cannot fall below 0.05.

    >>> sign_flip_p(np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0]))  # 2 of 2⁶ sign flips
    0.03125
    """
    from scipy.special import ndtr

    d, _ = _per_cluster(d, cluster)
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


def mcnemar(a: NDArray[np.bool_], b: NDArray[np.bool_], *key: KeyPart, cluster: Clusters = None) -> float:
    """Compute the two-sided p value of McNemar's exact test: successes a and b (n,) of the same problems are equally frequent.

    With repeated objects it is a sign-flip test over objects, see `paired_signs_p`.

    >>> mcnemar(np.array([True, True, True, False]), np.array([False, False, False, False]))
    0.25
    """
    return paired_signs_p(a.astype(np.float64) - b, *key, cluster=cluster)


def paired_signs_p(signs: Array, *key: KeyPart, cluster: Clusters = None) -> float:
    """Compute the two-sided p value that wins (1) and losses (-1) among signs (n,), 0 for a tie, are equally likely.

    Exact sign test; with repeated objects the sign-flip test of the difference of wins and losses by object.

    >>> paired_signs_p(np.array([1.0, 1.0, 1.0, 0.0]))
    0.25
    >>> paired_signs_p(np.ones(6), cluster=np.array([0, 0, 1, 1, 2, 2]))
    0.25
    """
    if len(_per_cluster(signs, cluster)[0]) < len(signs):
        return sign_flip_p(signs, *key, cluster=cluster)
    return sign_test(int((signs > 0).sum()), int((signs < 0).sum()))


def sign_test(wins: int, losses: int) -> float:
    """Compute the two-sided p value of the exact sign test that wins and losses are equally likely; leave ties out.

    >>> sign_test(3, 0)
    0.25
    """
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(wins, losses), wins + losses, 0.5)))


def share_difference(a: NDArray[np.bool_], b: NDArray[np.bool_], *key: KeyPart, cluster: Clusters = None) -> Difference:
    """Compare the shares of successes a and b (n,) on the same problems: `mcnemar`, Bonett and Price's interval (2012).

    The interval adds one to each kind of disagreement, so that it is valid with few or no disagreements. With repeated objects
    its counts are divided by the design effect, as in `share_interval`.

    >>> difference = share_difference(np.array([True, True, True, False]), np.zeros(4, dtype=bool))
    >>> difference.mean, difference.p
    (0.75, 0.25)
    """
    n, only_a, only_b = len(a), int((a & ~b).sum()), int((b & ~a).sum())
    if n == 0:
        return Difference(np.nan, np.nan, np.nan, 1.0)
    size, quantile = _effective_size(a.astype(np.float64) - b, cluster, limits=(-1.0, 1.0))
    up, down = ((count * size / n + 1) / (size + 2) for count in (only_a, only_b))
    half = quantile * np.sqrt((up + down - (up - down) ** 2) / (size + 2))
    low, high = max(up - down - half, -1.0), min(up - down + half, 1.0)
    return Difference((only_a - only_b) / n, float(low), float(high), mcnemar(a, b, *key, cluster=cluster))


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
