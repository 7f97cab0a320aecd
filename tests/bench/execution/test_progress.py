"""Progress in a log, by a clock that the test sets, and in a terminal."""

import io
from contextlib import nullcontext

import pytest
from rich.console import Console

from bench.execution import progress
from bench.execution.progress import ProgressBar


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def shown(console):
    return console.file.getvalue().splitlines()


def test_a_log_has_a_line_every_ten_seconds_with_the_time_left(clock):
    console = Console(file=io.StringIO(), width=200)
    with ProgressBar(console, "registering", 40) as bar:
        for seconds, n in ((1, 1), (10, 1), (10.5, 2), (20, 4), (21, 2), (30, 10), (40, 20)):
            clock[0] = 100.0 + seconds
            bar.advance(n, f"work {bar.count}")
    assert bar.count == 40
    assert shown(console) == [
        "registering: 4 of 40, about 94 s left (work 2)",
        "registering: 10 of 40, about 63 s left (work 8)",
        "registering: 40 of 40 in 40 s",
    ]


@pytest.mark.parametrize(("total", "fails"), [(0, False), (5, True)])
def test_nothing_and_a_failure_have_no_last_line(clock, total, fails):
    console = Console(file=io.StringIO())
    with pytest.raises(KeyError) if fails else nullcontext(), ProgressBar(console, "x", total):
        if fails:
            raise KeyError
    assert shown(console) == []


def test_a_terminal_has_a_bar_that_is_gone_at_the_end():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with ProgressBar(console, "registering", 40) as bar:
        bar.advance(15, "one [bold]")
        task = bar.bar.tasks[0]
        assert (task.completed, task.total, task.description) == (15, 40, "registering: one [bold]")
        assert bar.bar.columns[0].render(task).plain == task.description, "names are no markup"
    assert bar.bar.finished is False and not bar.bar.live.is_started and bar.bar.live.transient
    assert "registering: 15 of 40 in 0 s" in console.file.getvalue()
