"""Ctrl-C during a run: finished outcomes are stored, and the run ends at once."""

import os
import re
import signal
import time

import pytest

from bench.isolation import interrupt
from tests.bench.background_run import count_outcomes, have_ended, method_processes, start, wait_for
from tests.bench.waiting import FAULT_S, wait_until

PATIENT = """
import sys
from bench.cli.main import main
from bench.isolation import interrupt
interrupt.GRACE_S = 60
sys.exit(main())
"""
"""The command line, with time for workers to return their outcomes on a busy machine."""
WITHOUT_REPORT = "import sys; from bench.cli import main; main.write_report = lambda *_: None; sys.exit(main.main())"
"""The command line, with neither tables nor report after the run."""


@pytest.mark.parametrize("to", ["driver", "group"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_ends_a_run_with_methods_in_native_code(tmp_path, jobs, to):
    """`bad_deaf` ignores SIGINT and holds the interpreter lock.

    Outcomes of a crash have no duration: they and all before them are committed at once. With two workers, those of `slow` could
    come after them, so both methods crash.
    """
    methods = ["slow[seconds=0]" if jobs == 1 else "bad_segfault", "bad_exit", "bad_deaf"]
    more = ["--problems", str(2 * jobs), "--jobs", str(jobs)]
    process = start(tmp_path, "--methods", *methods, *more)
    record = tmp_path / "results" / "stopped" / "record.sqlite"
    wait_for(lambda: count_outcomes(record) == 4 * jobs and list((tmp_path / "gate").glob("deaf_*")), process)
    children = method_processes(process)
    (os.kill if to == "driver" else os.killpg)(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=FAULT_S)
    assert process.returncode == 130 and "Traceback" not in errors, errors
    assert "continue" in errors and "bench.py --datasets" in errors
    assert count_outcomes(record) == 4 * jobs
    assert children and have_ended(children)


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_stores_finished_outcomes_of_workers(tmp_path, jobs):
    """The finished part of a task of twenty calls is stored, and the same command continues."""
    arguments = ["--methods", "held[free=5]", "--problems", "40", "--jobs", str(jobs)]
    process = start(tmp_path, *arguments, run=("-c", PATIENT))
    record, gate = tmp_path / "results" / "stopped" / "record.sqlite", tmp_path / "gate"
    wait_for(lambda: len(list(gate.glob("held_*"))) == jobs, process)
    time.sleep(0.5)  # for the workers to read the five replies
    assert count_outcomes(record) == 0
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=FAULT_S)
    assert process.returncode == 130, errors
    after = count_outcomes(record)
    assert 0 < after <= 5 * jobs
    (gate / "open").touch()
    process = start(tmp_path, *arguments, run=("-c", WITHOUT_REPORT))
    out, errors = process.communicate(timeout=FAULT_S)
    assert process.returncode == 0, errors
    assert f"continuing: {after} outcomes" in out and re.search(rf"registering: {40 - after} of {40 - after}", out)


def test_timer_that_fires_as_the_block_ends_does_not_interrupt_the_code_after_it(monkeypatch):
    """The timer fires while the block is left: its signal must not arrive once the previous handler is restored."""
    monkeypatch.setattr(interrupt, "GRACE_S", 0.0)
    fire, fired = signal.pthread_kill, []

    def late(*to):
        wait_until(lambda: ended_block)
        time.sleep(0.1)  # the block waits for it, however long it takes
        fired.append(fire(*to))

    ended_block = []
    monkeypatch.setattr(signal, "pthread_kill", late)
    before = signal.signal(signal.SIGINT, lambda *_: pytest.fail("a signal of the clock came after the block"))
    try:
        with pytest.raises(KeyboardInterrupt), interrupt.on_interrupt(lambda: None):
            os.kill(os.getpid(), signal.SIGINT)
            ended_block.append(True)
        assert fired
        time.sleep(0.01)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_request_ends_its_own_block_and_no_other(monkeypatch):
    """The first Ctrl-C lets the block end, with a notice; a second one ends it at once."""
    notices, reached = [], []
    monkeypatch.setattr(interrupt, "GRACE_S", FAULT_S)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupt._request()
        with interrupt.on_interrupt(lambda: notices.append("early")):
            assert not interrupt.requested(), "it was for work that has ended"
        for count in (1, 2):
            with (
                pytest.raises(KeyboardInterrupt),
                interrupt.on_interrupt(lambda: notices.append(interrupt.requested())),
            ):
                for _ in range(count):
                    signal.raise_signal(signal.SIGINT)
                reached.append(count)
            assert not interrupt.requested() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert notices == [True, True] and reached == [1]
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN, lambda *_: None])
def test_a_worker_lets_ctrl_c_request_its_end_unless_it_has_a_handler(handler):
    before = signal.signal(signal.SIGINT, handler)
    try:
        interrupt.install_handler()
        installed = signal.getsignal(signal.SIGINT)
        assert (installed is interrupt._request) == (handler in (signal.default_int_handler, signal.SIG_IGN))
        signal.raise_signal(signal.SIGINT)
        assert interrupt.requested() == (installed is interrupt._request)
    finally:
        signal.signal(signal.SIGINT, before)
        interrupt._requested.clear()
