"""Risk against coverage, against brute force and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from bench.report.risk_coverage import risk_of


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
