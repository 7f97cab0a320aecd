"""Which methods are shown where not all can be."""

from bench.report.selection import best_of_each_kind, by_rank


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
    assert best_of_each_kind(ROWS, None) == ["g0", "g1", "l0", "l1", "n0", "n1", "deepgmr"]


def test_of_the_variants_of_a_family_the_best_is_selected():
    rows = [_row("fgr+icp", "global", 0.9), _row("fgr", "global", 0.8), _row("fgr[tuples=9]", "global", 0.7)]
    rows += [_row("pca", "global", 0.5), _row("teaser", "global", 0.4)]
    rows += [
        _row("deepgmr_resampled", "learned", 0.8),
        _row("deepgmr_partial", "learned", 0.7),
        _row("deepgmr", "learned", 0.1),
    ]
    assert best_of_each_kind(rows, None) == ["fgr+icp", "deepgmr_resampled", "pca", "deepgmr"]


def test_the_selection_is_limited_and_keeps_featured_methods():
    assert best_of_each_kind(ROWS, None, most=3) == ["g0", "l0", "deepgmr"]


def test_controls_and_few_problems_come_last():
    assert [row["method"] for row in by_rank(ROWS, None)][-3:] == ["none", "oracle", "few"]
