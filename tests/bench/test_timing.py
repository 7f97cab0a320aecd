import pytest

from bench.timing import drift_note, sentinel_ms


def test_a_changed_pace_is_said_and_a_steady_one_is_not():
    assert drift_note(None) == drift_note([10.0, 10.2, 10.4]) == []
    assert "changed by 10%" in drift_note([10.0, 10.2, 11.0])[0]


def test_the_sentinel_measures_work():
    assert 0.05 < sentinel_ms() < 1000


@pytest.mark.parametrize("order", [[11.0, 10.0, 10.1], [10.0, 11.0, 10.0]])
def test_drift_counts_in_either_direction(order):
    assert drift_note(order)
