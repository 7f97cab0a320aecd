import numpy as np
import pytest
from scipy.stats import binomtest, gamma, permutation_test, sem, t
from scipy.stats import bootstrap as scipy_bootstrap

from bench.evaluation import statistics


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 100), (100, 100), (99, 100), (37, 100), (400, 400), (3, 7)])
def test_wilson_is_scipys(k, n):
    theirs = binomtest(k, n).proportion_ci(method="wilson")
    low, high = statistics.wilson(k, n)
    assert float(low) == pytest.approx(theirs.low, abs=1e-12)
    assert float(high) == pytest.approx(theirs.high, abs=1e-12)


def test_wilson_knows_nothing_of_nothing_and_takes_arrays():
    low, high = statistics.wilson(np.array([0, 5]), np.array([0, 10]))
    assert (low[0], high[0]) == (0, 1)
    assert 0 < low[1] < 0.5 < high[1] < 1


def test_wilson_covers():
    """Over all shares a 95 % interval covers 95 %; for a single one it must swing about that, since counts are whole."""
    draw = np.random.default_rng(0)
    for n in (40, 100, 400):
        share = draw.uniform(size=50_000)
        low, high = statistics.wilson(draw.binomial(n, share), np.full(50_000, n))
        assert 0.93 < ((low <= share) & (share <= high)).mean() < 0.97


ERRORS = {  # what draws n errors, and their mean
    "even": (lambda draw, n: draw.normal(size=n), 0.0),
    "skewed": (lambda draw, n: draw.gamma(2, size=n), 2.0),
    "very skewed": (lambda draw, n: draw.gamma(0.5, size=n), 0.5),
}


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("n", [40, 1500])
def test_intervals_of_the_mean_cover(kind, n):
    """95 % of the simulations, within the required 93 to 97 %; the draws are fixed, so chance plays no part."""
    draw, (of, truth) = np.random.default_rng(2), ERRORS[kind]
    hits = 0
    for i in range(600):
        low, high = statistics.bootstrap_mean(of(draw, n), i)
        hits += low <= truth <= high
    assert 0.93 < hits / 600 < 0.97


@pytest.mark.parametrize("n", [40, 41, 400])
def test_intervals_of_the_median_cover(n):
    draw = np.random.default_rng(3)
    truth = gamma.median(2)
    interval = np.array([statistics.bootstrap_median(draw.gamma(2, size=n)) for _ in range(2000)])
    assert 0.93 < ((interval[:, 0] <= truth) & (truth <= interval[:, 1])).mean() < 0.97


def test_intervals_of_paired_shares_cover():
    draw = np.random.default_rng(4)
    hits = 0
    for _ in range(2000):
        common, luck = draw.random(80) < 0.7, draw.random((2, 80))
        a, b = common & (luck[0] < 0.95) | (luck[0] < 0.1), common & (luck[1] < 0.85)
        truth = (0.7 * 0.95 + 0.3 * 0.1) - 0.7 * 0.85
        interval = statistics.share_difference(a, b)
        hits += interval.low <= truth <= interval.high
    assert 0.93 < hits / 2000 < 0.97


def test_the_bootstrap_of_the_mean_is_scipys_normal_limit():
    values = np.random.default_rng(1).normal(3, size=900)
    low, high = statistics.bootstrap_mean(values, "a", 1)
    theirs = t.interval(0.95, 899, values.mean(), sem(values))
    width = theirs[1] - theirs[0]
    assert low == pytest.approx(theirs[0], abs=0.1 * width) and high == pytest.approx(theirs[1], abs=0.1 * width)
    assert statistics.bootstrap_mean(values, "a", 1) == (low, high) != statistics.bootstrap_mean(values, "a", 2)


@pytest.mark.parametrize("n", [9, 41, 201])
def test_the_bootstrap_of_the_median_is_scipys_with_endless_resamples(n):
    values = np.random.default_rng(1).gamma(2, size=n)
    ordered = np.sort(values)
    theirs = scipy_bootstrap((values,), np.median, method="percentile", n_resamples=20_000, rng=0).confidence_interval
    for ours, their in zip(statistics.bootstrap_median(values), theirs, strict=True):
        assert abs(np.searchsorted(ordered, ours) - np.searchsorted(ordered, their)) <= 1
    failed = np.append(values, np.full(9 * n, np.inf))
    assert statistics.bootstrap_median(failed) == (np.inf, np.inf)


def test_bootstraps_of_nothing_and_of_one():
    assert all(np.isnan(statistics.bootstrap_mean(np.array([])))) and all(
        np.isnan(statistics.bootstrap_median(np.array([])))
    )
    assert statistics.bootstrap_mean(np.array([0.5])) == statistics.bootstrap_median(np.array([0.5])) == (0.5, 0.5)
    assert statistics.bootstrap_mean(np.full(5, 0.1)) == (0.1, 0.1)


def test_seed_spread_and_problem_spread_are_separated():
    draw = np.random.default_rng(5)
    problem = np.repeat(np.arange(400), 5)
    values = 3 + draw.normal(0, 0.7, size=400)[problem] + draw.normal(0, 0.2, size=2000)
    seed, between = statistics.spread(problem, values)
    assert seed == pytest.approx(0.2, rel=0.05) and between == pytest.approx(0.7, rel=0.1)
    uneven = draw.random(2000) < 0.6
    seed, between = statistics.spread(problem[uneven], values[uneven])
    assert seed == pytest.approx(0.2, rel=0.08) and between == pytest.approx(0.7, rel=0.1)
    assert np.isnan(statistics.spread(np.arange(5), np.ones(5))).all()
    assert statistics.spread(np.zeros(3, int), np.array([1.0, 1.0, 1.0]))[0] == 0


def test_holm_by_hand_and_by_simulation():
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert statistics.holm([0.9, 0.8]).max() <= 1 and len(statistics.holm([])) == 0
    draw = np.random.default_rng(6)
    p = draw.random((4000, 10))
    assert (np.array([statistics.holm(row).min() for row in p]) < 0.05).mean() == pytest.approx(0.05, abs=0.012)


def test_sign_flips_are_scipys():
    draw = np.random.default_rng(3)
    for n in (4, 10, 80, 300):
        a, b = draw.normal(0.3, size=n), draw.normal(size=n)
        theirs = permutation_test(
            (a, b), lambda x, y, axis: (x - y).mean(axis=axis), permutation_type="samples", vectorized=True, rng=1
        )
        ours = statistics.paired_difference(a, b, n)
        assert ours.p == pytest.approx(theirs.pvalue, abs=0.02)
        assert ours.mean == pytest.approx((a - b).mean())
        assert ours.low <= ours.mean <= ours.high


def test_small_samples_never_separate():
    for n in range(1, 6):
        assert statistics.paired_difference(np.zeros(n), np.ones(n)).p > 0.05
    assert statistics.paired_difference(np.zeros(6), np.ones(6)).p < 0.05
    assert statistics.paired_difference(np.ones(20), np.ones(20)).p == 1


def test_mcnemar_is_the_sign_test():
    a = np.array([True] * 9 + [False] * 11)
    b = np.array([False] * 8 + [True] * 2 + [False] * 10)
    assert statistics.mcnemar(a, b) == pytest.approx(binomtest(1, 9).pvalue)
    assert statistics.mcnemar(a, a) == 1
