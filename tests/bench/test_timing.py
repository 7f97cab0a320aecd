import pytest

from bench import cli, timing
from bench.timing import drift_note, sentinel_ms
from tests.bench.test_run import QUICK


def test_a_changed_pace_is_said_and_a_steady_one_is_not():
    assert drift_note(None) == drift_note([10.0, 10.2, 10.4]) == []
    assert "changed by 10%" in drift_note([10.0, 10.2, 11.0])[0]


def test_the_sentinel_measures_work():
    assert 0.05 < sentinel_ms() < 1000


@pytest.mark.parametrize("order", [[11.0, 10.0, 10.1], [10.0, 11.0, 10.0]])
def test_drift_counts_in_either_direction(order):
    assert drift_note(order)


def test_no_process_starts_while_another_is_timed(tmp_path, monkeypatch):
    events = []

    class Watched(timing.Child):
        def start(self):
            if self.process is None:
                events.append("start")
            return super().start()

        def ask(self, call):
            events.append("ask")
            return super().ask(call)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(timing, "Child", Watched)
    asked = ["--methods", "good", "halves", "--problems", "1", "--conditions", "noisy", "--timing-rounds", "2"]
    assert cli.main([*QUICK, *asked, "--jobs", "2", "--out", "timed"]) == 0
    assert events[:2] == ["start"] * 2 and set(events[2:]) == {"ask"} and len(events) > 4
