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
    assert statistics.bootstrap_median(np.array([0.5])) == (0.5, 0.5)
    assert statistics.bootstrap_mean(np.full(10, 0.1)) == (0.1, 0.1)


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_mean_of_fewer_than_ten_objects_has_no_interval(repeats):
    draw = np.random.default_rng(7)
    for objects in range(1, 13):
        cluster = np.repeat(np.arange(objects), repeats)
        interval = statistics.bootstrap_mean(draw.normal(size=len(cluster)), cluster=cluster)
        assert np.isnan(interval).all() == (objects < 10) == np.isnan(interval).any()


def test_the_spread_of_unequal_problems_is_unbiased():
    """The mean of squares between problems is E[within] + n0 E[between]; n0 from the definition of its expectation."""
    counts = np.array([1, 2, 3, 30])
    problem = np.repeat(np.arange(4), counts)
    n, k = counts.sum(), len(counts)
    effect = np.eye(4)[problem]  # the effect of problem j on each value is column j
    centred = np.stack([effect[problem == j].mean(axis=0) for j in range(4)]) - effect.mean(axis=0)
    size = (counts[:, None] * centred**2).sum() / (k - 1)  # expected square between for effects of variance 1
    values = np.random.default_rng(0).normal(size=n) + 3 * problem
    means = np.array([values[problem == j].mean() for j in range(4)])
    within = ((values - means[problem]) ** 2).sum() / (n - k)
    between = (counts * (means - values.mean()) ** 2).sum() / (k - 1)
    expected = np.sqrt(within), np.sqrt((between - within) / size)
    assert statistics.spread(problem, values) == pytest.approx(expected)


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
        assert ours.low <= ours.mean <= ours.high or n == 4


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


def objects_with(draw, count, problems, correlation, recall):
    """Successes of problems that belong to `count` objects, whose own recalls are beta-distributed."""
    size, cluster = (1 - correlation) / correlation, draw.integers(count, size=problems)
    own = draw.beta(recall * size, (1 - recall) * size, size=count)
    return (draw.random(problems) < own[cluster]).astype(float), cluster


@pytest.mark.parametrize(("recall", "correlation"), [(0.5, 0.2), (0.8, 0.5), (0.95, 0.2), (0.95, 0.6)])
def test_intervals_of_clustered_recall_cover(recall, correlation):
    """As icl_nuim: 400 problems of 21 frames. An interval that ignores the frames covers far less."""
    draw = np.random.default_rng(8)
    hits = ignored = 0
    for _ in range(1000):
        values, cluster = objects_with(draw, 21, 400, correlation, recall)
        low, high = statistics.share_interval(values, cluster)
        hits += low <= recall <= high
        low, high = statistics.share_interval(values)
        ignored += low <= recall <= high
    assert 0.93 < hits / 1000 < 0.99 and ignored / 1000 < 0.75


def test_the_design_effect_is_that_of_an_independent_computation():
    """Standard error of a share by a jackknife over objects, from which the effective number of problems follows."""
    draw = np.random.default_rng(9)
    for _ in range(20):
        values, cluster = objects_with(draw, 60, 600, 0.3, 0.6)
        left_out = np.array([values[cluster != c].mean() for c in np.unique(cluster)])
        n, share = len(left_out), values.mean()
        variance = (n - 1) / n * ((left_out - left_out.mean()) ** 2).sum()
        size, quantile = share * (1 - share) / variance, t.ppf(0.975, n - 1)
        middle = (share * size + quantile**2 / 2) / (size + quantile**2)
        half = quantile * np.sqrt(share * (1 - share) * size + quantile**2 / 4) / (size + quantile**2)
        assert statistics.share_interval(values, cluster) == pytest.approx((middle - half, middle + half), abs=0.008)


def test_clusters_of_one_change_nothing():
    draw = np.random.default_rng(10)
    values, other, each = draw.random(50), draw.random(50), draw.permutation(50)
    hits, lost = values < 0.7, other < 0.4
    assert statistics.share_interval(hits, each) == statistics.share_interval(hits)
    assert statistics.share_interval(hits) == tuple(map(float, statistics.wilson(hits.sum(), 50)))
    assert statistics.bootstrap_mean(values, cluster=each) == statistics.bootstrap_mean(values)
    assert statistics.bootstrap_median(values, each) == statistics.bootstrap_median(values)
    assert statistics.mcnemar(hits, lost, cluster=each) == statistics.mcnemar(hits, lost)
    assert statistics.paired_difference(values, other, cluster=each) == statistics.paired_difference(values, other)
    assert statistics.share_difference(hits, lost, cluster=each) == statistics.share_difference(hits, lost)


def test_copies_of_problems_add_no_evidence():
    draw = np.random.default_rng(11)
    values, other, cluster = draw.random(40), draw.random(40) + 0.1, np.repeat(np.arange(40), 5)
    five = np.repeat(values, 5), np.repeat(other, 5)
    assert statistics.sign_flip_p(five[0] - five[1], cluster=cluster) == pytest.approx(
        statistics.sign_flip_p(values - other), abs=0.001
    )
    assert statistics.bootstrap_mean(five[0], cluster=cluster) == pytest.approx(
        statistics.bootstrap_mean(values), abs=1e-9
    )
    hits = values < 0.5
    low, high = statistics.share_interval(np.repeat(hits, 5), cluster)
    plain = statistics.share_interval(hits)
    assert low == pytest.approx(plain[0], abs=0.01) and high == pytest.approx(plain[1], abs=0.01)
    low, high = statistics.bootstrap_median(five[0], cluster)
    ordered = np.sort(values)
    for ours, their in zip((low, high), statistics.bootstrap_median(values), strict=True):
        assert abs(np.searchsorted(ordered, ours) - np.searchsorted(ordered, their)) <= 2


def test_clustered_means_and_medians_cover():
    draw, hits = np.random.default_rng(12), np.zeros(2)
    factor = np.random.default_rng(13).gamma(4, 0.25, size=1_000_000)
    median = np.median(factor * np.random.default_rng(14).gamma(2, size=1_000_000))
    for i in range(400):
        cluster = draw.integers(40, size=200)
        values = draw.gamma(2, size=200) * draw.gamma(4, 0.25, size=40)[cluster]
        mean = statistics.bootstrap_mean(values, i, cluster=cluster)
        middle = statistics.bootstrap_median(values, cluster)
        hits += mean[0] <= 2 <= mean[1], middle[0] <= median <= middle[1]
    assert ((hits / 400 > 0.91) & (hits / 400 < 0.98)).all(), hits / 400


def test_a_clustered_test_rejects_no_more_often_than_its_level():
    """Two methods of the same recall that differ by object: McNemar's test over problems rejects far too often."""
    draw, rejected, ignored = np.random.default_rng(15), 0, 0
    for i in range(300):
        cluster = draw.integers(21, size=200)
        better = draw.random((2, 21))
        a, b = (draw.random(200) < better[m][cluster] for m in (0, 1))
        rejected += statistics.mcnemar(a, b, i, cluster=cluster) < 0.05
        ignored += statistics.mcnemar(a, b) < 0.05
    assert rejected / 300 < 0.08 and ignored / 300 > 0.2


def test_ends_of_intervals_are_in_order_and_around_the_estimate():
    draw = np.random.default_rng(16)
    for _ in range(50):
        cluster = draw.integers(15, size=60)
        values = draw.gamma(1, size=60)
        a, b = draw.random(60) < 0.7, draw.random(60) < 0.4
        for low, estimate, high in (
            (statistics.share_interval(a, cluster)[0], a.mean(), statistics.share_interval(a, cluster)[1]),
            (statistics.bootstrap_mean(values)[0], values.mean(), statistics.bootstrap_mean(values)[1]),
            (
                statistics.bootstrap_median(values, cluster)[0],
                np.median(values),
                statistics.bootstrap_median(values, cluster)[1],
            ),
        ):
            assert low < estimate < high
        d = statistics.share_difference(a, b, cluster=cluster)
        assert d.low < d.mean < d.high and d.mean == pytest.approx(a.mean() - b.mean())
