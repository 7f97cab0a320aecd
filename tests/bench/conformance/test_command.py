"""`bench.py check`: crashes and slow methods."""

from bench.cli import main
from bench.conformance.checks import CHECKS


def test_crash_is_one_failed_check(faulty, capsys):
    assert main.main(["check", "faulty_exits", "--plugins", str(faulty)]) == 1
    out = capsys.readouterr().out
    assert "FAIL  degenerate clouds    the process ended with exit code 4; find the call" in out
    assert out.count("ok  ") == len(CHECKS) - 1 and "1 of 13 checks failed" in out


def test_slow_method_is_stopped_in_time(faulty, capsys, monkeypatch):
    monkeypatch.setattr("bench.conformance.command.BUDGET_S", 1.0)
    assert main.main(["check", "faulty_endless", "--plugins", str(faulty)]) == 1
    out = capsys.readouterr().out
    assert "no answer within" in out and "not run: 1 s are over: a call takes long" in out
