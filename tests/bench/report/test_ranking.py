"""Rankings and their significance."""

import numpy as np
import pandas as pd

from bench.evaluation.conventions import CONVENTIONS
from bench.report import (
    ranking,
)
from bench.report.ranking import by_recall, errors_of, lowest_error

CRITERION = CONVENTIONS["deepgmr"]


def _errors(rmse, kind="global"):
    """Errors of one group: rmse by method, an item a problem; the method `control` is a control."""
    rows = [
        {"method": m, "problem": f"{i:03d}", "rmse": e, "kind": "control" if m == "control" else kind}
        for m, errors in rmse.items()
        for i, e in enumerate(errors)
    ]
    status = ["timeout" if np.isinf(r["rmse"]) else "ok" for r in rows]
    trials = pd.DataFrame(rows).assign(category="c", status=status)
    return errors_of(trials.assign(success=CRITERION.success(trials)), CRITERION)


def _lowest(rmse):
    errors = _errors(rmse)
    return lowest_error(errors.error, errors.methods)


def test_bold_needs_all_answered_and_a_separable_lead():
    draw = np.random.default_rng(0)
    good, close, bad = (abs(draw.normal(m, 0.02, size=40)) for m in (0.1, 0.101, 0.5))
    assert _lowest({"a": good, "b": bad}) == "a"
    assert _lowest({"a": good, "b": close}) is None
    assert _lowest({"a": good, "b": bad, "c": close}) is None
    assert _lowest({"a": good[:4], "b": bad[:4]}) is None
    silent = np.where(np.arange(40) < 5, np.inf, good / 100)
    assert _lowest({"silent": silent, "a": good, "b": bad}) == "a"
    assert _lowest({"control": good * 0, "a": good, "b": bad}) == "a"
    assert _lowest({"a": good}) is None


def test_among_equals_a_winner_is_bold_no_more_often_than_the_level_allows():
    """Eight methods of the same quality: one is the lowest, and it must not be called separable."""
    draw = np.random.default_rng(1)
    bold = [_lowest({f"m{m}": draw.gamma(2, 0.1, size=30) for m in range(8)}) for _ in range(100)]
    assert sum(name is not None for name in bold) <= 5


def test_recall_ranking():
    sure, lost = np.full(40, 0.1), np.full(40, 0.9)
    mixed = np.where(np.arange(40) < 2, np.inf, 0.1)
    order = by_recall(_errors({"worst": lost, "best": sure, "near": mixed, "control": sure * 0}))
    assert order.methods == ["best", "near", "worst"] and order.tied == ["near"] and order.winner is None
    assert by_recall(_errors({"a": sure, "b": lost})).winner == "a"
    few = by_recall(_errors({"a": sure, "b": lost[:3]}))  # three shared problems separate nothing
    assert few.winner is None
    assert by_recall(_errors({"few": sure[:5], "many": mixed})).methods == ["many", "few"]
    assert by_recall(_errors({"control": sure})) is None


def test_duels_count_every_shared_problem():
    won = np.r_[np.full(30, 0.1), np.full(5, np.inf), 0.3, 0.31]
    lost = np.r_[np.full(30, 0.2), np.full(5, np.inf), 0.3, 0.30]
    duels = ranking.duels(_errors({"a": won, "b": lost, "c": lost[:10]}))
    assert duels["a", "b"] == (30, 7, 0, True) and duels["b", "a"] == (0, 7, 30, True)
    assert duels["a", "c"][:3] == (10, 0, 0) and duels["b", "c"] == (0, 10, 0, False)
