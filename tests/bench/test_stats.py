import numpy as np
import pytest
from scipy.stats import binomtest, permutation_test
from scipy.stats import bootstrap as scipy_bootstrap

from bench import stats


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 100), (100, 100), (99, 100), (37, 100), (400, 400), (3, 7)])
def test_wilson_is_scipys(k, n):
    theirs = binomtest(k, n).proportion_ci(method="wilson")
    low, high = stats.wilson(k, n)
    assert float(low) == pytest.approx(theirs.low, abs=1e-12)
    assert float(high) == pytest.approx(theirs.high, abs=1e-12)


def test_wilson_knows_nothing_of_nothing_and_takes_arrays():
    low, high = stats.wilson(np.array([0, 5]), np.array([0, 10]))
    assert (low[0], high[0]) == (0, 1)
    assert 0 < low[1] < 0.5 < high[1] < 1


def test_wilson_covers():
    draw = np.random.default_rng(0)
    for share in (0.1, 0.5, 0.97):
        k = draw.binomial(100, share, size=20_000)
        low, high = stats.wilson(k, np.full(20_000, 100))
        assert 0.92 < ((low <= share) & (share <= high)).mean() < 0.98


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_bootstrap_is_scipys(statistic):
    values = np.random.default_rng(1).gamma(2, size=200)
    low, high = stats.bootstrap(values, statistic, "a", 1)
    theirs = scipy_bootstrap(
        (values,), getattr(np, statistic), method="percentile", n_resamples=5000, rng=0
    ).confidence_interval
    width = theirs.high - theirs.low
    assert low == pytest.approx(theirs.low, abs=0.1 * width)
    assert high == pytest.approx(theirs.high, abs=0.1 * width)
    assert stats.bootstrap(values, statistic, "a", 1) == (low, high)
    assert stats.bootstrap(values, statistic, "a", 2) != (low, high)


def test_bootstrap_of_mean_covers():
    draw = np.random.default_rng(2)
    hits = 0
    for i in range(300):
        low, high = stats.bootstrap(draw.normal(size=60), "mean", i)
        hits += low <= 0 <= high
    assert 0.91 < hits / 300 < 0.98


def test_bootstrap_of_nothing_and_of_one():
    assert all(np.isnan(stats.bootstrap(np.array([]), "mean")))
    assert stats.bootstrap(np.array([0.5]), "median") == (0.5, 0.5)


def test_sign_flips_are_scipys():
    draw = np.random.default_rng(3)
    for n in (4, 10, 80):
        a, b = draw.normal(0.3, size=n), draw.normal(size=n)
        theirs = permutation_test(
            (a, b), lambda x, y, axis: (x - y).mean(axis=axis), permutation_type="samples", vectorized=True, rng=1
        )
        ours = stats.paired_difference(a, b, n)
        assert ours.p == pytest.approx(theirs.pvalue, abs=0.02)
        assert ours.mean == pytest.approx((a - b).mean())
        assert ours.low <= ours.mean <= ours.high


def test_small_samples_never_separate():
    for n in range(1, 6):
        assert stats.paired_difference(np.zeros(n), np.ones(n)).p > 0.05
    assert stats.paired_difference(np.zeros(6), np.ones(6)).p < 0.05
    assert stats.paired_difference(np.ones(20), np.ones(20)).p == 1


def test_mcnemar_is_the_sign_test():
    a = np.array([True] * 9 + [False] * 11)
    b = np.array([False] * 8 + [True] * 2 + [False] * 10)
    assert stats.mcnemar(a, b) == pytest.approx(binomtest(1, 9).pvalue)
    assert stats.mcnemar(a, a) == 1
