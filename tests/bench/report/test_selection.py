"""Which methods are shown where not all can be."""

from bench.report.ranking import Ranking
from bench.report.recommendation import Recommendation
from bench.report.selection import best_of_each_kind, by_rank

UNRANKED = Recommendation(None, {}, {}, alone=False)


def _row(method, kind, recall, problems=40):
    return {"method": method, "kind": kind, "recall": recall, "problems": problems, "distinct_problems": problems}


ROWS = [
    _row("oracle", "control", 1.0),
    *(_row(f"g{i}", "global", 0.9 - i / 100) for i in range(5)),
    *(_row(f"l{i}", "local", 0.5 - i / 100) for i in range(5)),
    _row("n0", "learned", 0.4),
    _row("deepgmr", "learned", 0.1),
    _row("n1", "learned", 0.3),
    _row("few", "global", 1.0, 3),
    _row("none", "global", 0.0, 0),
]


def test_the_best_of_each_kind_and_featured_methods_are_selected():
    assert best_of_each_kind(ROWS, UNRANKED) == ["g0", "g1", "g2", "l0", "l1", "n0", "n1", "deepgmr"]


def test_of_the_variants_of_a_family_the_best_is_selected():
    rows = [_row("fgr+icp", "global", 0.9), _row("fgr", "global", 0.8), _row("fgr[tuples=9]", "global", 0.7)]
    rows += [_row("pca", "global", 0.5), _row("teaser", "global", 0.4)]
    rows += [
        _row("deepgmr_resampled", "learned", 0.8),
        _row("deepgmr_partial", "learned", 0.7),
        _row("deepgmr", "learned", 0.1),
    ]
    assert best_of_each_kind(rows, UNRANKED) == ["fgr+icp", "deepgmr_resampled", "pca", "teaser", "deepgmr"]


def test_the_selection_is_limited_and_keeps_featured_methods():
    assert best_of_each_kind(ROWS, UNRANKED, most=3) == ["g0", "l0", "deepgmr"]


def test_methods_of_the_pareto_front_are_selected_before_the_others():
    order = [f"g{i}" for i in range(5)] + ["l0", "l1", "l2", "l3", "l4", "n0", "n1", "deepgmr"]
    recall = {row["method"]: row["recall"] for row in ROWS}
    ms = {"g0": 9.0, "g3": 3.0, "l4": 1.0, "n1": 2.0, "oracle": 0.1, "few": 0.1}
    advice = Recommendation(Ranking(order, ["few"], ["g0"], [], 0.5), recall, ms, alone=True)
    assert best_of_each_kind(ROWS, advice, most=4) == ["g0", "g3", "l4", "deepgmr"]


def test_controls_and_few_problems_come_last():
    assert [row["method"] for row in by_rank(ROWS, None)][-3:] == ["none", "oracle", "few"]


def test_controls_and_methods_that_were_not_run_are_never_selected():
    rows = [_row("truth", "control", 1.0), _row("absent", "global", 0.0, 0), _row("few", "global", 0.5, 3)]
    assert best_of_each_kind(rows, UNRANKED) == ["few"] and best_of_each_kind(rows[:2], UNRANKED) == []
    assert best_of_each_kind([*rows, _row("a", "local", 0.1)], UNRANKED) == ["a"]
