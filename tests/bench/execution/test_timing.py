import dataclasses
import signal
import threading

import pandas as pd
import pytest

from bench.cli import main
from bench.execution import timing
from bench.execution.timing import sentinel_ms
from tests.bench.background_run import count_outcomes, have_ended, method_processes, start, wait_for
from tests.bench.command_line import QUICK
from tests.bench.waiting import FAULT_S


def test_the_sentinel_measures_work(monkeypatch):
    """Time passes by its work alone: what it tells is the median, in ms."""
    clock = type("Clock", (), {"now": 0.0, "perf_counter": lambda self: self.now})()
    spent = iter([0.004, 0.002, 0.003, 0.9, 0.003, 0.005, 0.003])

    def sort(work):
        assert len(work) == 100_000
        clock.now += next(spent)

    monkeypatch.setattr(timing, "time", clock)
    monkeypatch.setattr(timing.np, "sort", sort)
    assert sentinel_ms() == pytest.approx(3.0)


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Run two methods of two sizes, timed; what happened, and whether in the thread that times."""
    events = []

    class Watched(timing.MethodProcess):
        def _note(self, what):
            events.append((what, self.setup.method.text, threading.current_thread() is threading.main_thread()))

        def close(self):
            events.append(("close", self.setup.method.text, True))
            super().close()

        def start(self):
            if self.process is None:
                self._note("start")
            return super().start()

        def call(self, request):
            self._note("call")
            return super().call(request)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(timing, "MethodProcess", Watched)
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)

    def run():
        arguments = ["--methods", "good", "slow[seconds=0.05]", "--problems", "1", "--conditions", "noisy"]
        assert (
            main.main(
                [*QUICK, *arguments, "--points", "60", "80", "--timing-rounds", "2", "--jobs", "2", "--out", "timed"]
            )
            == 0
        )
        return events, pd.read_csv("results/timed/timing.csv").query("method.str.startswith('slow')")

    return run


def test_all_processes_start_and_warm_up_before_one_is_timed_alone(watched):
    events, _ = watched()
    begun = next(i for i, (_, _, alone) in enumerate(events) if alone)
    warm, after = events[:begun], events[begun:]
    assert sorted(m for what, m, _ in warm if what == "start") == ["good", "slow[seconds=0.05]"]
    assert {m for what, m, _ in after if what == "close"} == {"good", "slow[seconds=0.05]"}, "every process is ended"
    after = [event for event in after if event[0] != "close"]
    assert all(what == "call" and alone for what, _, alone in after)
    assert sum(what == "call" for what, _, _ in warm) == 4 and len(after) == 8, "two methods, two sizes, two rounds"


def test_a_method_warms_up_no_longer_than_it_may_be_timed(watched, monkeypatch):
    """The first size uses the time up, of both: a warm-up and one call; the other size is neither warmed up for nor timed."""
    usual = timing.TimingPhase.__init__

    def short(self, record, config, usable, place):
        usual(self, record, dataclasses.replace(config, timing_budget_s=0.01), usable, place)

    monkeypatch.setattr(timing.TimingPhase, "__init__", short)
    events, timed = watched()
    slow = [(what, alone) for what, method, alone in events if method.startswith("slow") and what != "close"]
    assert slow == [("start", False), ("call", False), ("call", True)]
    whole = timed[timed.angle_high == 180].groupby(["points", "status"]).ended.sum()
    assert whole.to_dict() == {(60, "ok"): 1}


def test_ctrl_c_while_methods_warm_up_ends_every_process(tmp_path):
    """Two of three methods warm up, by calls at a size that only the timing has; the calls don't end."""
    (tmp_path / "timed.toml").write_text("[timing]\nrounds = 1\npoints = [60, 80]\n")
    arguments = [
        "--methods",
        "good",
        "held[small=60]",
        "held[small=61]",
        "held[small=62]",
        "--problems",
        "1",
        "--jobs",
        "2",
    ]
    process = start(tmp_path, *arguments, "--config", "timed.toml", "--timing-rounds", "1")
    wait_for(lambda: len(list((tmp_path / "gate").glob("held_*"))) == 2, process)
    assert count_outcomes(tmp_path / "results" / "stopped" / "record.sqlite") == 4, "all that is asked for accuracy"
    children = method_processes(process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=FAULT_S)
    assert process.returncode == 130 and "Traceback" not in errors and "continue" in errors, errors
    assert len(children) >= 2 and have_ended(children)
