"""Intervals and p values against their formulas, written out in loops."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom, norm, t

from bench.evaluation import statistics
from common.keys import rng

Z = norm.ppf(0.975)


def objects(seed, n, count):
    """Values between 0 and 1, successes, and the object of each; every object has a value."""
    draw = np.random.default_rng(seed)
    cluster = np.r_[np.arange(count), draw.integers(count, size=n - count)]
    values = np.clip(draw.normal(0.6, 0.2, n) + draw.normal(0, 0.2, count)[cluster], 0, 1)
    return values, values > 0.55, cluster


def effective(values, cluster, limits=(0.0, 1.0)):
    """Number of values divided by the design effect, with a tenth of an object at each limit, and the quantile."""
    n, names = len(values), sorted(set(cluster))
    if len(names) == n:
        return n, Z
    if len(names) == 1:
        return 0.0, Z
    mean, size = sum(values) / n, n / len(names)
    between, within, squares = 0.0, 0.0, 0
    for name in names:
        own = [v for v, c in zip(values, cluster, strict=True) if c == name]
        between += sum(v - mean for v in own) ** 2
        within += sum((v - mean) ** 2 for v in own)
        squares += len(own) ** 2
    for limit in limits:
        between += 0.1 * (size * (limit - mean)) ** 2
        within += 0.1 * size * (limit - mean) ** 2
    effect = len(names) / (len(names) - 1) * between / within
    return n / min(max(effect, 1.0), squares / n), t.ppf(0.975, len(names) - 1)


def wilson(share, n, z):
    if n == 0:
        return 0.0, 1.0
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    return (middle - half if share > 0 else 0.0), (middle + half if share < 1 else 1.0)


SIZES = [(30, 30), (30, 12), (200, 7), (40, 2), (9, 1)]


@pytest.mark.parametrize(("n", "count"), SIZES)
@pytest.mark.parametrize("seed", range(3))
def test_the_interval_of_a_share_is_wilsons_with_the_design_effect(seed, n, count):
    _, hits, cluster = objects(seed, n, count)
    for some in (hits, np.zeros(n, bool), np.ones(n, bool)):
        expected = wilson(some.mean(), *effective(some.astype(float), cluster))
        assert statistics.share_interval(some, cluster) == pytest.approx(expected)
    alike = np.full(n, 0.5)  # objects that do not differ at all are as precise as independent values
    assert statistics.share_interval(alike, cluster) == pytest.approx(wilson(0.5, *effective(alike, cluster)))


@pytest.mark.parametrize(("n", "count"), SIZES)
@pytest.mark.parametrize("seed", range(3))
def test_the_difference_of_shares_is_bonett_and_prices_with_the_design_effect(seed, n, count):
    _, a, cluster = objects(seed, n, count)
    b = np.roll(a, 3) & (np.arange(n) % 5 > 0)
    size, z = effective(a.astype(float) - b, cluster, (-1.0, 1.0))
    up, down = (((x & ~y).sum() * size / n + 1) / (size + 2) for x, y in ((a, b), (b, a)))
    half = z * np.sqrt((up + down - (up - down) ** 2) / (size + 2))
    result = statistics.share_difference(a, b, cluster=cluster)
    assert result[:3] == pytest.approx((a.mean() - b.mean(), max(up - down - half, -1), min(up - down + half, 1)))
    back = statistics.share_difference(b, a, cluster=cluster)
    assert back[:3] == pytest.approx((-result.mean, -result.high, -result.low)) and back.p == pytest.approx(result.p)


def test_ends_of_a_difference_of_shares_are_at_most_one():
    for a in (np.ones(3, bool), np.zeros(3, bool)):
        result = statistics.share_difference(a, ~a)
        assert max(abs(result.low), abs(result.high)) <= 1 and abs(result.mean) == 1
    nothing = statistics.share_difference(np.zeros(0, bool), np.zeros(0, bool))
    assert np.isnan(nothing[:3]).all() and nothing.p == 1


def bca(values, cluster, *key):
    """BCa interval of a mean with Student's widening; the acceleration by leaving out one object after the other."""
    names = sorted(set(cluster))
    own = [[v for v, c in zip(values, cluster, strict=True) if c == name] for name in names]
    n, mean = len(names), float(np.mean(values))
    drawn = rng("bootstrap", *key).integers(n, size=(1000, n))
    means = [sum(sum(own[i]) for i in row) / sum(len(own[i]) for i in row) for row in drawn]
    deviations = np.array([sum(v - mean for v in some) for some in own])
    acceleration = (deviations**3).sum() / (6 * (deviations**2).sum() ** 1.5)
    below = np.mean([(m < mean) + 0.5 * (m == mean) for m in means])
    bias, z = norm.ppf(below), np.sqrt(n / (n - 1)) * t.ppf(0.975, n - 1)
    levels = [norm.cdf(bias + (bias + s * z) / (1 - acceleration * (bias + s * z))) for s in (-1, 1)]
    return tuple(np.quantile(means, levels))


@pytest.mark.parametrize(("n", "count"), [(10, 10), (33, 33), (60, 12)])
@pytest.mark.parametrize("kind", ["skewed", "two values"])
def test_the_interval_of_a_mean_is_bca(n, count, kind):
    values, hits, cluster = objects(5, n, count)
    values = (np.exp(3 * values) if kind == "skewed" else hits).astype(float)
    assert statistics.bootstrap_mean(values, "k", 3, cluster=cluster) == pytest.approx(bca(values, cluster, "k", 3))


@pytest.mark.parametrize(("n", "count"), [(12, 12), (60, 12), (1200, 1200), (3000, 1100)])
def test_intervals_of_means_move_and_scale_with_the_values_and_are_mirrored_with_them(n, count):
    """Two values, so that many resamples have exactly the mean."""
    values = np.round(objects(6, n, count)[0] * 4) / 4
    cluster = objects(6, n, count)[2]
    low, high = statistics.bootstrap_mean(values, "x", cluster=cluster)
    assert statistics.bootstrap_mean(3 * values + 2, "x", cluster=cluster) == pytest.approx((3 * low + 2, 3 * high + 2))
    assert statistics.bootstrap_mean(-values, "x", cluster=cluster) == pytest.approx((-high, -low))


@pytest.mark.parametrize("n", [1000, 1001])
def test_above_a_thousand_objects_the_interval_of_a_mean_is_normal(n):
    values = np.random.default_rng(0).gamma(2, size=n)
    half = Z * values.std(ddof=1) / np.sqrt(n)
    normal = (values.mean() - half, values.mean() + half)
    assert (statistics.bootstrap_mean(values) == pytest.approx(normal, rel=1e-9)) == (n > 1000)
    cluster = np.r_[np.arange(n), np.arange(n)]
    if n > 1000:  # objects of two values
        twice = np.r_[values, values[::-1]]
        sums = values + values[::-1] - 2 * twice.mean()
        half = Z * np.sqrt((sums**2).sum() * n / (n - 1)) / (2 * n)
        assert statistics.bootstrap_mean(twice, cluster=cluster) == pytest.approx(
            (twice.mean() - half, twice.mean() + half)
        )


@pytest.mark.parametrize("n", [1, 2, 3, 8, 15, 16, 101])
def test_the_interval_of_a_median_is_that_of_endless_resamples(n):
    """A resample's median is at most the k-th smallest value if at least half of its draws are."""
    values = np.random.default_rng(n).permutation(n).astype(float)
    need = -(-n // 2)
    below = [sum(binom.pmf(m, n, k / n) for m in range(need, n + 1)) for k in range(1, n + 1)]
    expected = [float(next(k for k in range(n) if below[k] >= level or k == n - 1)) for level in (0.025, 0.975)]
    assert statistics.bootstrap_median(values) == tuple(expected)


@pytest.mark.parametrize(("n", "count"), SIZES[1:])
def test_the_interval_of_a_median_over_objects_inverts_that_of_the_share_below(n, count):
    values, _, cluster = objects(7, n, count)
    values = values + 1e-6 * np.arange(n)
    ordered = sorted(values)
    low, high = wilson(0.5, *effective((values <= ordered[(n - 1) // 2]).astype(float), cluster))
    expected = ordered[int(np.floor(n * low))], ordered[min(int(np.ceil(n * high)) - 1, n - 1)]
    assert statistics.bootstrap_median(values, cluster) == expected


@pytest.mark.parametrize("n", [1, 2, 5, 11, 12])
def test_the_sign_flip_test_is_exact_up_to_twelve(n):
    draw = np.random.default_rng(n)
    for d in (draw.normal(0.5, 1, n), draw.integers(-1, 2, n).astype(float), np.zeros(n)):
        sums = [
            abs(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in itertools.product((1, -1), repeat=n)
        ]
        assert statistics.sign_flip_p(d) == pytest.approx(np.mean(np.array(sums) >= abs(d.sum()) - 1e-9))


@pytest.mark.parametrize("n", [13, 200, 201, 500])
def test_the_sign_flip_test_is_a_count_of_4999_flips_up_to_200_and_normal_above(n):
    d = np.random.default_rng(n).normal(0.1, 1, n)
    if n > 200:
        expected = 2 * norm.sf(abs(d.sum()) / np.sqrt((d**2).sum()))
        assert statistics.sign_flip_p(np.zeros(n)) == 1
    else:
        signs = 1 - 2 * rng("sign flip", "k").integers(2, size=(4999, n), dtype=np.int8)
        expected = (1 + sum(abs(float(row @ d)) >= abs(d.sum()) for row in signs)) / 5000
        assert n < 200 or statistics.sign_flip_p(np.full(n, 0.1)) == 1 / 5000
    assert statistics.sign_flip_p(d, "k") == statistics.sign_flip_p(-d, "k") == pytest.approx(expected)


def test_all_differences_of_an_object_flip_together():
    d, cluster = np.array([1.0, -3, 2, 2, 5, 0.5, 0.5]), np.array([0, 0, 1, 1, 2, 3, 3])
    sums = np.array([-2.0, 4.0, 5.0, 1.0])
    assert statistics.sign_flip_p(d, cluster=cluster) == statistics.sign_flip_p(sums)
    signs = np.array([1.0, 1, -1, 0, 1, 1, 0])
    assert statistics.paired_signs_p(signs, cluster=cluster) == statistics.sign_flip_p(np.array([2.0, -1, 1, 1]))
    assert statistics.paired_signs_p(signs) == pytest.approx(2 * binom.sf(3, 5, 0.5))
    a, b = signs > 0, signs < 0
    assert statistics.mcnemar(a, b, cluster=cluster) == statistics.paired_signs_p(signs, cluster=cluster)
    result = statistics.paired_difference(d + 1, np.ones(7), "k", cluster=cluster)
    assert (result.mean, result.p) == (pytest.approx(d.mean()), statistics.sign_flip_p(d, cluster=cluster))
    nothing = statistics.paired_difference(np.zeros(0), np.zeros(0))
    assert np.isnan(nothing[:3]).all()


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (1, 0), (0, 6), (9, 1), (5, 5), (20, 8)])
def test_the_sign_test_is_a_binomial_tail(wins, losses):
    n = wins + losses
    tail = 2 * sum(binom.pmf(k, n, 0.5) for k in range(max(wins, losses), n + 1)) if n else 1.0
    assert statistics.sign_test(wins, losses) == pytest.approx(min(tail, 1.0))
