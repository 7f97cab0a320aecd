"""Risk against coverage, against brute force and scikit-learn."""

import json
from types import SimpleNamespace

import matplotlib
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from bench.report import risk_coverage, style
from bench.report.risk_coverage import confidences, risk_of, risks_of
from tests.bench.report.layout import assert_texts_fit
from tests.bench.report.one_group import CRITERION, one_group

GROUP = ("d", "noisy", 64)


@pytest.mark.parametrize("seed", range(5))
def test_somers_d_is_that_of_the_roc_and_risk_that_of_brute_force(seed):
    draw = np.random.default_rng(seed)
    confidence, wrong = np.round(draw.random(60), 1), draw.random(60) < 0.4
    curve = risk_of(confidence, wrong, 80)
    assert curve.somers_d == pytest.approx(2 * roc_auc_score(~wrong, confidence) - 1)
    for coverage, risk, limit in zip(curve.coverage, curve.risk, np.unique(confidence)[::-1], strict=True):
        accepted = confidence >= limit
        assert coverage == pytest.approx(accepted.sum() / 80) and risk == pytest.approx(wrong[accepted].mean())
    assert curve.risk[-1] == pytest.approx(wrong.mean()) and curve.coverage[-1] == pytest.approx(60 / 80)


def test_a_perfect_a_reversed_and_a_mute_confidence():
    wrong = np.array([False, False, True, True])
    values = np.array([4.0, 3.0, 2.0, 1.0])
    assert [risk_of(c, wrong, 4).somers_d for c in (values, -values, 0 * values)] == [1, -1, 0]
    assert np.isnan(risk_of(values, np.zeros(4, bool), 4).somers_d)


def test_the_figure_shows_methods_with_confidences_and_enough_problems(tmp_path):
    """By brute force over outcomes: skipped ones do not count, failures count as not accepted, controls are not drawn."""
    draw = np.random.default_rng(0)
    errors = draw.uniform(0, 0.4, (5, 40)) * np.array([[0.75], [1], [1], [1], [1]])
    errors[0, :7] = np.inf
    names = {"a": "local", "b": "global", "truth": "control", "mute": "global", "few": "global"}
    given = {m: (kind, e[:3] if m == "few" else e) for (m, kind), e in zip(names.items(), errors, strict=True)}
    trials = one_group(given, {})["trials"]
    confidence = draw.random(len(trials))
    notes = [
        json.dumps({"n": 1} if m == "mute" else {"confidence": c})
        for m, c in zip(trials["method"], confidence, strict=True)
    ]
    outcomes = pd.DataFrame({"phase": "accuracy", "notes": notes})
    outcomes.loc[trials.index[-1], "notes"] = None
    loaded = SimpleNamespace(outcomes=pd.concat([pd.DataFrame({"phase": ["timing"], "notes": ["{}"]}), outcomes]))
    (job,) = risks_of(loaded, trials, [GROUP], CRITERION, tmp_path)
    risks = {str(row["method"]): risk for row, risk in job.arguments[0]}
    assert set(risks) == {"a", "b"} and job.stem.parent == tmp_path
    for method, risk in risks.items():
        mine = (trials["method"] == method) & (trials["status"] == "ok")
        expected = risk_of(confidence[mine], trials["rmse"][mine].to_numpy() >= 0.2, 40)
        for ours, theirs in zip(risk, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert f"{method} {risk.somers_d:.2f}" in job.alt
    with matplotlib.rc_context(style.RC):
        (axes,) = job.make(*job.arguments).axes
    curves = [line.get_data() for line in axes.lines if len(line.get_xdata()) > 2]
    for (x, y), risk in zip(curves, risks.values(), strict=True):
        np.testing.assert_array_equal((x, y), (risk.coverage, risk.risk))
    highest_first = sorted(risks.items(), key=lambda item: -item[1].risk[-1])
    assert [text.get_text() for text in axes.texts] == [f"{m} {risk.somers_d:.2f}" for m, risk in highest_first]
    assert highest_first != list(risks.items()), "the order is not that of the methods"
    for width in style.WIDTHS.values():
        with matplotlib.rc_context(style.RC), style.drawing(style.Drawing(width=width)):
            risks, *others = job.arguments
            long = [(dict(row) | {"method": "sc2_pcr[features=learned]+icp"}, risk) for row, risk in risks]
            assert_texts_fit(job.make(long, *others), "risk")
    assert not list(risks_of(loaded, trials.assign(rmse=0.1), [GROUP], CRITERION, tmp_path))


@pytest.mark.parametrize("at_once", [1, 2, 3, 7, 8])
def test_the_confidence_of_each_trial_is_read_whatever_the_number_at_once(monkeypatch, at_once):
    notes = [None if i % 3 == 2 else json.dumps({"n": 1} | ({"confidence": i / 8} if i % 3 else {})) for i in range(12)]
    phases = ["timing" if i in (4, 5) else "accuracy" for i in range(12)]
    loaded = SimpleNamespace(outcomes=pd.DataFrame({"phase": phases, "notes": notes}))
    monkeypatch.setattr(risk_coverage, "_PARSED", at_once)
    expected = np.array([i / 8 if i % 3 == 1 else np.nan for i in range(12) if i not in (4, 5)])
    for rows in (np.arange(10), np.array([3, 0, 9, 7])):
        np.testing.assert_array_equal(confidences(loaded, pd.DataFrame(index=rows)), expected[rows])
