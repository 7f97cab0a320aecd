"""`bench.py check`: crashes and slow methods."""

import pytest

from bench.cli import main
from bench.conformance.checks import CHECKS


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
    ("how", "says"), enumerate(["(R, t)? return rigid(R, t)", "scales by 0.98", "transposed?", "complex"])
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
