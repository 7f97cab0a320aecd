"""Timing phase: warm-up, budget, Ctrl-C, drift of the machine's speed."""

import dataclasses
import signal
import threading
import time

import pandas as pd
import psutil
import pytest

from bench.cli import main
from bench.execution import timing
from bench.execution.timing import sentinel_ms
from tests.bench.background_run import count_outcomes, limit, method_processes, start, wait_until
from tests.bench.command_line import QUICK


def test_the_sentinel_measures_work():
    assert 0.05 < sentinel_ms() < 1000


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Return a function that times two methods at two sizes; it returns the events and their thread, and the times."""
    events = []

    class Watched(timing.MethodProcess):
        def _note(self, what):
            events.append((what, self.setup.method.text, threading.current_thread() is threading.main_thread()))

        def start(self):
            if self.process is None:
                self._note("start")
            return super().start()

        def call(self, request):
            self._note("call")
            return super().call(request)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(timing, "MethodProcess", Watched)

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
    assert all(what == "call" and alone for what, _, alone in after)
    assert sum(what == "call" for what, _, _ in warm) == 4 and len(after) == 8, "two methods, two sizes, two rounds"


def test_warm_up_is_limited_by_the_timing_budget(watched, monkeypatch):
    """The first size exhausts both budgets with one warm-up and one call; the other size is not run."""
    usual = timing.TimingPhase.__init__

    def short(self, record, config, usable, place):
        usual(self, record, dataclasses.replace(config, timing_budget_s=0.01), usable, place)

    monkeypatch.setattr(timing.TimingPhase, "__init__", short)
    events, timed = watched()
    slow = [(what, alone) for what, method, alone in events if method.startswith("slow")]
    assert slow == [("start", False), ("call", False), ("call", True)]
    whole = timed[timed.angle_high == 180].groupby(["points", "status"]).ended.sum()
    assert whole.to_dict() == {(60, "ok"): 1}


def test_ctrl_c_while_methods_warm_up_ends_every_process(tmp_path):
    methods = ["slow[seconds=2]", "slow[seconds=2.2]", "slow[seconds=2.4]"]
    arguments = ["--methods", *methods, "--problems", "1", "--points", "60", "80", "--jobs", "2"]
    process = start(tmp_path, *arguments, "--timing-rounds", "1")
    wait_until(lambda: count_outcomes(tmp_path / "results" / "stopped" / "record.sqlite") == 6, process)
    wait_until(lambda: len(method_processes(process)) == 2, process)
    time.sleep(1)
    children = method_processes(process)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in errors and "continue" in errors, errors
    assert time.monotonic() - begun < limit()
    psutil.wait_procs(children, timeout=5)
    assert not [p for p in children if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
