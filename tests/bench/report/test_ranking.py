"""The rule for the best method, and the significance of differences."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from bench.evaluation.conventions import CONVENTIONS
from bench.report import (
    ranking,
)
from bench.report.ranking import MIN_PROBLEMS, by_recall, errors_of, lowest_error, pareto_front

CRITERION = CONVENTIONS["deepgmr"]


def _errors(rmse, kind="global", objects=None):
    """Errors of one group: rmse by method, an item a problem; the method `control` is a control."""
    rows = [
        {"method": m, "problem": f"{i:03d}", "rmse": e, "kind": "control" if m == "control" else kind}
        for m, errors in rmse.items()
        for i, e in enumerate(errors)
    ]
    status = ["timeout" if np.isinf(r["rmse"]) else "ok" for r in rows]
    trials = pd.DataFrame(rows).assign(category="c", status=status, condition="noisy")
    trials["object"] = trials["problem"] if objects is None else [objects[int(p)] for p in trials["problem"]]
    return errors_of(trials.assign(success=CRITERION.success(trials)), CRITERION)


def _lowest(rmse):
    return lowest_error(_errors(rmse))


def test_bold_needs_all_answered_and_a_separable_lead():
    draw = np.random.default_rng(0)
    good, close, bad = (abs(draw.normal(m, 0.02, size=40)) for m in (0.1, 0.101, 0.5))
    assert _lowest({"a": good, "b": bad}) == "a"
    assert _lowest({"a": good, "b": close}) is None
    assert _lowest({"a": good, "b": bad, "c": close}) is None
    assert _lowest({"a": good[:19], "b": bad[:19]}) is None  # too few problems to be ranked
    assert _lowest({"a": good[:20], "b": bad[:20]}) == "a"
    silent = np.where(np.arange(40) < 5, np.inf, good / 100)
    assert _lowest({"silent": silent, "a": good, "b": bad}) == "a"
    assert _lowest({"control": good * 0, "a": good, "b": bad}) == "a"
    assert _lowest({"a": good}) is None
    assert _lowest({"a": good, "b": bad, "few": good[:2] / 100}) == "a"


def test_among_equals_a_winner_is_bold_no_more_often_than_the_level_allows():
    """Eight methods of the same quality: one is the lowest, and it must not be called separable."""
    draw = np.random.default_rng(1)
    bold = [_lowest({f"m{m}": draw.gamma(2, 0.1, size=30) for m in range(8)}) for _ in range(100)]
    assert sum(name is not None for name in bold) <= 5


def test_without_methods_everything_is_empty_and_nothing_is_best():
    """Of a group of controls alone, shapes fit together, so that masks and tables of it are empty, too."""
    empty = _errors({"control": np.full(40, 0.1)})
    shapes = [empty.error.shape, empty.success.shape, empty.category.shape, empty.cluster.shape, empty.ranked.shape]
    assert shapes == [(0, 0), (0, 0), (0,), (0,), (0,)] and empty.methods == []
    assert ranking.duels(empty) == {} and empty.in_category("c").error.shape == (0, 0)


def test_recall_ranking():
    sure, lost = np.full(40, 0.1), np.full(40, 0.9)
    mixed = np.where(np.arange(40) < 2, np.inf, 0.1)
    order = by_recall(_errors({"worst": lost, "best": sure, "near": mixed, "control": sure * 0}))
    assert order.methods == ["best", "near", "worst"] and order.tied == ["best", "near"] and order.winner is None
    won = by_recall(_errors({"a": sure, "b": lost}))
    assert won.winner == "a" and won.tied == ["a"] and won.p < 1e-9
    assert by_recall(_errors({"control": sure})) is None


def test_a_single_method_is_the_best_and_wins_nothing():
    order = by_recall(_errors({"a": np.full(40, 0.1), "control": np.full(40, 0.1)}))
    assert order.methods == order.tied == ["a"] and order.winner is None and order.p == 1
    assert by_recall(_errors({"a": np.full(40, 0.1), "few": np.full(3, 0.9)})).winner is None


def test_methods_with_few_problems_take_no_part():
    sure, lost = np.full(40, 0.1), np.full(40, 0.9)
    order = by_recall(_errors({"few": sure[:2], "a": np.where(np.arange(40) < 3, 0.9, 0.1), "b": lost}))
    assert order.winner == "a" and order.few == ["few"] and order.methods == ["a", "b"]
    assert by_recall(_errors({"few": sure[: MIN_PROBLEMS - 1], "b": lost})).methods == ["b"]
    assert by_recall(_errors({"some": sure[:MIN_PROBLEMS], "b": lost})).methods == ["some", "b"]
    none = by_recall(_errors({"x": sure[:5], "y": lost[:5]}))
    assert none.methods == none.tied == [] and none.few == ["x", "y"] and none.winner is None
    assert none.recommended({"x": 1.0, "y": 1.0}) is None


def test_methods_without_enough_shared_problems_are_not_separated():
    nothing = np.full(30, np.nan)
    first = np.r_[np.full(30, 0.1), nothing]
    errors = _errors({"a": np.full(60, 0.1), "b": first})
    apart = errors._replace(
        success=np.c_[np.r_[np.ones(30), nothing], np.r_[nothing, np.zeros(30)]],
        error=np.c_[np.r_[np.full(30, 0.1), nothing], np.r_[nothing, np.full(30, 0.9)]],
    )
    assert by_recall(apart).tied == ["a", "b"] and by_recall(apart).winner is None


def test_holm_is_over_the_tests_of_the_best_with_every_other():
    """Six losses to none have p = .031: enough for two methods, too little among five."""
    best = np.full(60, 0.1)
    loses = np.where(np.arange(60) < 6, 0.9, 0.1)
    assert by_recall(_errors({"a": best, "b": loses})).winner == "a"
    others = {f"m{i}": np.roll(loses, 6 * i) for i in range(4)}
    among = by_recall(_errors({"a": best} | others))
    assert among.winner is None and among.tied == ["a", "m0", "m1", "m2", "m3"] and among.p == pytest.approx(0.125)
    assert among.worse == ["m0", "m1", "m2", "m3"]  # each loses its own test, so that none of them is recommended
    assert among.recommended({"a": 50.0, "m0": 1.0, "m1": 1.0, "m2": 1.0, "m3": 1.0}) == "a"


def test_the_fastest_of_the_tied_is_recommended():
    sure, near, lost = np.full(40, 0.1), np.where(np.arange(40) < 2, 0.9, 0.1), np.full(40, 0.9)
    order = by_recall(_errors({"sure": sure, "near": near, "lost": lost}))
    assert order.recommended({"sure": 9.0, "near": 5.0, "lost": 1.0}) == "near"
    assert order.recommended({"sure": 5.0, "near": 9.0, "lost": 1.0}) == "sure"
    assert order.recommended({"near": 9.0}) == "near" and order.recommended({}) == "sure"


def test_objects_with_many_problems_are_one_piece_of_evidence():
    """Ten more successes, all on one object: significant if problems are counted, not if objects are."""
    a, b = np.full(60, 0.1), np.where(np.arange(60) < 10, 0.9, 0.1)
    objects = [f"object_{i // 10}" for i in range(60)]
    assert by_recall(_errors({"a": a, "b": b})).winner == "a"
    assert by_recall(_errors({"a": a, "b": b}, objects=objects)).winner is None
    duels = [ranking.duels(_errors({"a": a, "b": b}, objects=o))["a", "b"].separable for o in (None, objects)]
    assert duels == [True, False]
    assert _lowest({"a": a, "b": b}) == "a" and lowest_error(_errors({"a": a, "b": b}, objects=objects)) is None


def test_duels_count_every_shared_problem():
    won = np.r_[np.full(30, 0.1), np.full(5, np.inf), 0.3, 0.31]
    lost = np.r_[np.full(30, 0.2), np.full(5, np.inf), 0.3, 0.30]
    duels = ranking.duels(_errors({"a": won, "b": lost, "c": lost[:10]}))
    assert duels["a", "b"][:5] == (30, 7, 0, True, True) and duels["b", "a"][:5] == (0, 7, 30, True, True)
    assert duels["a", "b"].p == duels["b", "a"].p == duels["a", "b"].adjusted < 1e-6
    assert duels["a", "c"][:5] == (10, 0, 0, False, False) and duels["b", "c"][:5] == (0, 10, 0, False, False)


def test_pairs_that_are_not_tested_are_in_no_family():
    """Without the correction for pairs of methods on two problems, the only real test is significant."""
    won, lost = np.full(20, 0.1), np.r_[np.full(6, 0.9), np.full(14, 0.1)]
    few = {f"few{i}": np.full(2, 0.1) for i in range(20)}
    assert ranking.duels(_errors({"a": won, "b": lost}))["a", "b"].separable
    assert ranking.duels(_errors({"a": won, "b": lost} | few))["a", "b"].separable
    assert by_recall(_errors({"a": won, "b": lost} | few)).winner == "a"


def _row(method, recall, problems=40, kind="global"):
    return {"method": method, "kind": kind, "recall": recall, "distinct_problems": problems}


def test_the_pareto_front_ends_at_the_recommended_method():
    rows = [_row("quick", 0.3), _row("slower", 0.2), _row("good", 0.8), _row("slow", 0.85), _row("few", 1.0, 2)]
    rows += [_row("truth", 1.0, kind="control"), _row("untimed", 0.9)]
    ms = {"quick": 1.0, "slower": 2.0, "good": 5.0, "slow": 90.0, "few": 0.5, "truth": 0.1}
    assert [r["method"] for r in pareto_front(rows, ms, "good")] == ["quick", "good"]
    assert [r["method"] for r in pareto_front(rows, ms, "slow")] == ["quick", "good", "slow"]
    equal = [*rows, _row("as good", 0.8), _row("as quick", 0.3)]
    assert [r["method"] for r in pareto_front(equal, ms | {"as good": 4.0, "as quick": 1.5}, "good")] == [
        "quick",
        "good",
    ]
    assert pareto_front(rows, ms, None) == [] and pareto_front(rows, ms, "untimed") == []


def _random_group(seed):
    """A group of methods with random recalls and numbers of problems, of which some are too few; objects may repeat."""
    draw = np.random.default_rng(seed)
    count = int(draw.integers(20, 120))
    hard = draw.random(count)
    methods = {}
    for m in range(int(draw.integers(1, 9))):
        few = draw.random() < 0.3
        n = int(draw.integers(1, 20)) if few else int(draw.integers(20, count + 1))
        success = hard[:n] * draw.uniform(0.3, 1) < draw.uniform(0.2, 1)
        methods[f"m{m}"] = np.where(success | few, draw.uniform(0, 0.19, size=n), draw.choice([0.5, np.inf]))
    objects = [f"o{i}" for i in draw.integers(count // 3, size=count)] if draw.random() < 0.5 else None
    return methods, objects, {m: float(draw.lognormal(3, 2)) for m in methods}


@pytest.mark.parametrize("seed", range(60))
def test_properties_of_the_rule(seed):
    """By an independent computation, with exact tests where no object is repeated."""
    methods, objects, ms = _random_group(seed)
    errors = _errors(methods, objects=objects)
    order = by_recall(errors)
    ranked = {m for m, e in methods.items() if len(e) >= MIN_PROBLEMS}
    assert set(order.methods) == ranked and set(order.few) == set(methods) - ranked
    assert set(order.worse) <= set(order.tied) <= ranked and order.tied[:1] == order.methods[:1]
    chosen = order.recommended(ms)
    assert (chosen in order.tied) if ranked else chosen is None
    rows = [_row(m, float((e < 0.2).mean()), len(e)) for m, e in methods.items()]
    front = [r["method"] for r in pareto_front(rows, ms, chosen)]
    assert set(front) <= ranked and front[-1:] == ([chosen] if ranked else [])
    times = [ms[m] for m in front]
    recalls = [(methods[m] < 0.2).mean() for m in front]
    assert times == sorted(times) and recalls == sorted(set(recalls))
    duels = ranking.duels(errors)
    assert all(d.tested == (set(pair) <= ranked) for pair, d in duels.items())
    if objects is None and ranked:
        _check_ties_by_hand(methods, order, chosen)


def _check_ties_by_hand(methods, order, chosen):
    """McNemar's test with Holm's correction by SciPy, against the first method."""
    hits = {m: e < 0.2 for m, e in methods.items()}
    first, others = order.methods[0], order.methods[1:]

    def losses(m, to):
        n = min(len(hits[m]), len(hits[to]))
        return int((hits[to][:n] & ~hits[m][:n]).sum()), int((hits[m][:n] & ~hits[to][:n]).sum())

    def p_value(lost, won):
        return binomtest(lost, lost + won).pvalue if lost + won else 1.0

    ascending = sorted(others, key=lambda m: p_value(*losses(m, first)))
    adjusted, largest = {}, 0.0
    for k, m in enumerate(ascending):
        largest = max(largest, min(1.0, p_value(*losses(m, first)) * (len(others) - k)))
        adjusted[m] = largest
    beaten = {m for m in others if adjusted[m] < 0.05 and losses(m, first)[0] > losses(m, first)[1]}
    assert set(order.tied) == set(order.methods) - beaten
    for other in order.methods:
        lost, won = losses(chosen, other)
        assert chosen == first or not (lost > won and p_value(lost, won) < 0.05), (chosen, other)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 40.0])
def test_ties_of_a_duel_are_relative_so_the_unit_of_errors_has_no_effect(unit):
    draw = np.random.default_rng(0)
    a, b = draw.uniform(0.01, 0.4, (2, 300))
    wins, losses = (int((x < 0.95 * y).sum()) for x, y in ((a, b), (b, a)))
    duel = ranking.duels(_errors({"a": a * unit, "b": b * unit}))["a", "b"]
    assert duel[:3] == (wins, 300 - wins - losses, losses) and duel[1] > 0


def test_the_p_value_beside_the_best_is_the_largest_of_its_tests():
    hits = {"best": 40, "near": 30, "far": 10}
    order = by_recall(_errors({m: np.where(np.arange(40) < n, 0.1, 0.9) for m, n in hits.items()}))
    p = sorted(binomtest(40 - n, 40 - n).pvalue for m, n in hits.items() if m != "best")
    assert order.winner == "best" and order.p == pytest.approx(max(2 * p[0], p[1]))


@pytest.mark.parametrize(("share", "differ"), [(1 / 3, True), (2 / 3, False)])
def test_a_problem_is_solved_if_most_of_its_repeats_are(share, differ):
    """Method b succeeds in some repeats of the last ten problems, and a in all."""
    success = np.ones((40, 2))
    success[30:, 1] = share
    error = np.where(success == 1, 0.1, 0.3)
    errors = ranking.Errors(["a", "b"], error, success, np.full(40, "c", dtype=object), np.arange(40))
    order = by_recall(errors)
    assert order.methods == ["a", "b"] and order.winner == ("a" if differ else None)


def test_bold_is_the_lowest_mean_even_if_another_median_is_lower():
    even, uneven = np.full(40, 0.2), np.where(np.arange(40) < 22, 0.1, 1.0)
    assert np.median(uneven) < np.median(even) and _lowest({"even": even, "uneven": uneven}) == "even"


def test_of_equal_recalls_the_lower_mean_error_is_first():
    errors = {"a": np.full(40, 0.15), "b": np.full(40, 0.05), "c": np.full(30, 0.01)}
    assert by_recall(_errors(errors)).methods == ["b", "a", "c"]


def test_bold_is_the_lowest_mean_of_methods_on_unequal_numbers_of_problems():
    assert _lowest({"many": np.full(60, 0.3), "less": np.full(25, 0.5)}) == "many", "the sum of the other is lower"


def test_the_order_is_by_what_recall_is_at_least():
    """20 of 20 says less than 99 of 100."""
    order = by_recall(_errors({"few": np.full(20, 0.1), "many": np.r_[np.full(99, 0.1), 0.9]}))
    assert order.methods == ["many", "few"]


def test_a_tied_method_that_loses_to_any_ranked_method_is_not_recommended():
    """`new` shares too few problems with `best` for a test, and loses to `old`, which loses to `best`."""
    nan = np.full((70, 3), np.nan)
    errors = ranking.Errors(["best", "new", "old"], nan, nan, np.full(70, "c", dtype=object), np.arange(70))
    success = nan.copy()
    success[:40, 0], success[30:, 1], success[:, 2] = 1, np.arange(40) % 2, 1
    success[:30, 2] = np.arange(30) % 2
    errors = errors._replace(success=success, error=np.where(np.isnan(success), np.nan, 1.1 - success))
    order = by_recall(errors)
    assert order.methods[0] == "best" and order.tied == ["best", "new"] and order.worse == ["new"]


def test_bold_of_a_category_is_over_its_problems():
    near, far = (np.where(np.arange(60) < 30, *pair) for pair in ((0.1, 0.5), (0.5, 0.1)))
    errors = _errors({"a": near, "b": far})._replace(category=np.where(np.arange(60) < 30, "x", "y").astype(object))
    rows = [
        {"category": c, "method": m, "answered": 30, "problems": 30, "kind": "global", "distinct_problems": 60}
        | {"rmse_mean_answered": float(e[:30].mean() if c == "x" else e[30:].mean())}
        for c in "xy"
        for m, e in (("a", near), ("b", far))
    ]
    table = ranking.category_table(pd.DataFrame(rows), errors, CRITERION)
    assert table.best.loc["x"].to_dict() == {"a": True, "b": False}
    assert table.best.loc["y"].to_dict() == {"a": False, "b": True}
    assert table.mean.loc["x"].to_dict() == pytest.approx({"a": 0.1, "b": 0.5}) and not table.partly.to_numpy().any()
    less = ranking.category_table(pd.DataFrame(rows[:3]), errors, CRITERION)
    assert np.isnan(less.mean.loc["y", "b"]) and less.partly.loc["y"].to_dict() == {"a": False, "b": True}
