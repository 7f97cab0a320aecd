"""Statistics as shown: Holm's correction in comparisons, ordered intervals, the margin of ties, error bars."""

import numpy as np
import pytest

from bench.evaluation.compare import compare
from bench.evaluation.conventions import CONVENTIONS
from bench.report import interactive, ranking
from bench.report.ranking import Errors
from bench.report.recommendation import Recommendation
from tests.bench.stored_runs import changed

CRITERION = CONVENTIONS["deepgmr"]


def test_a_comparison_corrects_all_its_tests_by_holm(stored_run):
    other = changed(stored_run, "fgr", "noisy", share=0.15)
    changes = [c for c in compare(stored_run, other, ("A", "B"), CRITERION).changes if c.verdict != "not tested"]
    raw = np.array([c.difference.p for c in changes])
    order, largest, expected = np.argsort(raw, kind="stable"), 0.0, np.empty(len(raw))
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(raw) - rank) * raw[i]))
        expected[i] = largest
    assert raw.min() < 0.05 and [c.p for c in changes] == pytest.approx(expected)
    for change in changes:
        d = change.difference
        assert d.low <= d.mean <= d.high and d.mean == pytest.approx(change.b - change.a)


@pytest.mark.parametrize(("ratio", "wins"), [(0.94, 9), (0.96, 0), (1.0, 0)])
def test_errors_within_five_percent_tie(ratio, wins):
    error = np.column_stack([np.full(9, ratio), np.ones(9)])
    duels = ranking.duels(Errors(["a", "b"], error, error, np.full(9, "", dtype=object), np.arange(9)))
    assert duels["a", "b"][:3] == (wins, 9 - wins, 0) and duels["b", "a"][:3] == (0, 9 - wins, wins)


def test_error_bars_end_at_the_interval():
    row = {
        "method": "a",
        "kind": "global",
        "recall": 0.7,
        "distinct_problems": 100,
        "recall_low": 0.6,
        "recall_high": 0.75,
        "time_ms_median": 3.0,
    }
    bar = next(
        t["error_y"]
        for t in interactive.pareto([row], Recommendation(None, {"a": 0.7}, {"a": 3.0}, True))["data"]
        if "error_y" in t
    )
    assert bar["arrayminus"] == pytest.approx([0.1]) and bar["array"] == pytest.approx([0.05])
