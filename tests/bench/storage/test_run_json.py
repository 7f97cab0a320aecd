"""`run.json`: notes on a drift of the machine's speed."""

import pytest

from bench.storage.run_json import drift_note


def test_drift_is_noted_and_constant_speed_is_not():
    assert drift_note(None) == drift_note([10.0, 10.2, 10.4]) == []
    assert "changed by 10%" in drift_note([10.0, 10.2, 11.0])[0]


@pytest.mark.parametrize("order", [[11.0, 10.0, 10.1], [10.0, 11.0, 10.0]])
def test_drift_counts_in_either_direction(order):
    assert drift_note(order)
