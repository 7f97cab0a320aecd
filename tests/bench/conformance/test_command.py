"""`bench.py check`: crashes and slow methods."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from bench.cli import main
from bench.conformance import command
from bench.conformance.checks import CHECKS, CheckRequest
from bench.isolation.protocol import Limits, Reply
from bench.storage.outcome import Status
from common.errors import InputError
from methods.core.registry import MethodSpec
from tests.catalog import spec


def test_crash_is_one_failed_check(faulty, capsys):
    assert main.main(["check", "faulty_exits", "--plugins", str(faulty)]) == 1
    out = capsys.readouterr().out
    assert "FAIL  degenerate clouds    the process ended with exit code 4; find the call" in out
    assert out.count("ok  ") == len(CHECKS) - 1 and "1 of 13 checks failed" in out


WRONG = '''
import numpy as np
from methods.base import Method
class Wrong(Method):
    """A wrong answer."""
    how: int = 0
    def register(self, source, target):
        T = np.eye(4)
        T[:3, 3] = target.mean(0) - source.mean(0)
        return [(T[:3, :3], T[:3, 3]), 0.98 * T + np.diag([0, 0, 0, 0.02]), T.T, T + 0j][self.how]
'''


@pytest.mark.parametrize(
    ("how", "says"), list(enumerate(["(R, t)? return rigid(R, t)", "scales by 0.98", "transposed?", "complex"]))
)
def test_a_wrong_answer_is_named_once(tmp_path, capsys, how, says):
    (tmp_path / "wrong.py").write_text(WRONG)
    assert main.main(["check", f"wrong[how={how}]", "--plugins", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert out.count(says) == 1 and out.count("FAIL") == 1 and "11 not run: every check needs such a call" in out


def test_slow_method_is_stopped_in_time(faulty, capsys, monkeypatch):
    monkeypatch.setattr("bench.conformance.command.BUDGET_S", 1.0)
    assert main.main(["check", "faulty_endless", "--plugins", str(faulty)]) == 1
    out = capsys.readouterr().out
    assert "no answer within" in out and "not run: 1 s are over: a call takes long" in out


@pytest.fixture
def stub(monkeypatch):
    """Answers of a method's process by check, what it was started with, and a clock that moves by a second per call."""
    stub = SimpleNamespace(answers={}, ready=Reply(Status.OK), made=[], calls=[], closed=0, now=100.0, step=1.0)

    class Process:
        def __init__(self, setup, limits, server):
            stub.made.append((setup, limits, server))

        def start(self):
            return stub.ready

        def call(self, request, seconds):
            stub.calls.append((request, seconds))
            stub.now += stub.step
            return stub.answers.get(request.name, Reply(Status.OK, message=f"remark on {request.name} {'long ' * 30}."))

        def close(self):
            stub.closed += 1

    monkeypatch.setattr(command, "MethodProcess", Process)
    monkeypatch.setattr(command.time, "monotonic", lambda: stub.now)
    return stub


def checked(text, device="cpu"):
    out = io.StringIO()
    passed = command.run(spec(text), "rooms", Console(file=out, width=80, markup=False), device)
    return passed, out.getvalue().splitlines()


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_every_check_is_a_line_and_the_last_one_is_the_verdict(stub, device):
    for text, used in (("pca", "cpu"), ("deepgmr", device)):
        stub.calls.clear()
        passed, lines = checked(text, device)
        assert passed and lines[-1] == f"{text}: 13 checks passed (13 s)" and len(lines) == len(CHECKS) + 1
        for line, name in zip(lines, CHECKS, strict=False):
            assert line == f"ok    {name:20} remark on {name} {'long ' * 30}."
        setup, limits, server = stub.made[-1]
        assert (str(setup.method), setup.domain, setup.device) == (text, "rooms", used)
        assert limits == Limits(60.0, 8.0) and server == "bench.conformance.server"
        assert stub.calls == [(CheckRequest(name), 60.0 - i) for i, name in enumerate(CHECKS)]
    assert stub.closed == 2


@pytest.mark.parametrize("status", [Status.ERROR, Status.CRASH, Status.TIMEOUT, Status.OUT_OF_MEMORY])
def test_a_failed_check_has_its_fix_and_the_others_are_run(stub, status):
    first, *_, last = CHECKS
    stub.answers = {name: Reply(status, message="why") for name in (first, last)}
    passed, lines = checked("pca")
    fix = f"; {command.FIXES[status]}" if status in command.FIXES else ""
    assert not passed and lines[0] == f"FAIL  {first:20} why{fix}" and lines[-2] == f"FAIL  {last:20} why{fix}"
    assert lines[-1] == "pca: 2 of 13 checks failed (13 s)" and [line[:4] for line in lines[1:-2]] == ["ok  "] * 11


def test_checks_that_are_not_run_are_counted_with_the_reason(stub):
    stub.answers = {list(CHECKS)[1]: Reply(Status.INVALID, message="bad")}
    passed, lines = checked("pca")
    assert not passed and len(lines) == 3 and lines[1].startswith("FAIL")
    assert lines[-1] == f"pca: 1 of 13 checks failed; 11 not run: {command.NEEDED_BY_ALL} (2 s)"
    for step, done in ((25.0, 3), (20.0, 3), (60.0, 1), (59.0, 2)):  # none begins once 60 s are over
        stub.answers, stub.step = {}, step
        passed, lines = checked("pca")
        assert not passed and len(lines) == done + 1
        assert lines[-1].startswith(f"pca: {13 - done} not run: 60 s are over")
        assert lines[-1].endswith(f" ({done * step:.0f} s)")


def test_a_method_that_cannot_be_set_up_is_no_failed_check(stub, monkeypatch):
    stub.ready = Reply(Status.ERROR, message="no weights")
    with pytest.raises(InputError, match="pca cannot be checked: no weights"):
        checked("pca")
    assert stub.closed == 1 and not stub.calls
    monkeypatch.setattr(MethodSpec, "unavailable", lambda self: "package x is missing")
    with pytest.raises(InputError, match="pca cannot be checked: package x is missing"):
        checked("pca")
    assert len(stub.made) == 1
