"""`bench.py new` and `check`: what is written conforms, and each way not to conform is told with its mend."""

import re
import subprocess
import sys

import pytest

from bench.cli import main
from bench.conformance.checks import CHECKS, CheckFailed
from bench.isolation.process import ROOT
from tests.catalog import build

FAULTY = '''
import contextlib, os, time
import numpy as np
from methods.base import Method, NoSolution, rigid

class Faulty(Method):
    """Centroids, with a fault."""
    variants = {f"faulty_{h}": {"how": h} for h in HOWS}
    how: str = ""

    def register(self, source, target):
        how = self.how
        if min(len(source), len(target)) < 3 or not np.isfinite(source).all() or not np.isfinite(target).all():
            if how == "raises":
                raise IndexError("index 3 is out of bounds")
            if how == "exits":
                os._exit(4)
            raise NoSolution("" if how == "silent" else "no")
        if how == "endless":
            time.sleep(3600)
        if how == "mutates":
            source -= source.mean(0)
        if how == "clock":
            self.state["calls"] = self.state.get("calls", 0) + 1
        shift = target.mean(0, dtype=float) - source.mean(0, dtype=float)
        if how == "lottery":
            shift = shift + 1e-9 * self.rng.random(3)
        if how == "clock":
            shift = shift + 1e-9 * self.state["calls"]
        if how == "double" and source.dtype != np.float32:
            shift = shift + 1
        T = rigid(np.eye(3), shift)
        if how == "stages":
            with contextlib.ExitStack() as inside:
                for depth in range(50):  # 50 times the time, which no pause of a busy machine outside them makes up for
                    inside.enter_context(self.stage(f"stage {depth}"))
                time.sleep(0.02)
        if how == "index":
            a, b = source - source.mean(0), target - target.mean(0)
            n = min(len(a), len(b))
            U, _, Vt = np.linalg.svd(a[:n].T @ b[:n])
            R = Vt.T @ np.diag([1, 1, np.linalg.det(Vt.T @ U.T)]) @ U.T
            T = rigid(R, target.mean(0) - R @ source.mean(0))
        return {"backwards": np.linalg.inv(T), "scaled": 2 * T, "wild": rigid(-np.eye(3)[[1, 0, 2]], shift)}.get(how, T)

class NoDoc(Method):
    variants = {"faulty_nodoc": {}}
    kind = "best"

class Stubborn(Method):
    """Says it refines, and does not."""
    variants = {"faulty_noinit": {}}
    local = True
    register = Faulty.register
    how: str = ""
'''

EXPECTED = {
    "raises": ("degenerate clouds", "source empty: IndexError: index 3 is out of bounds; fix it, or raise NoSolution"),
    "silent": ("degenerate clouds", "NoSolution has no text"),
    "mutates": ("input unchanged", "register changes the source; work on a copy"),
    "clock": ("determinism", "two calls with the same seed differ; draw from self.rng"),
    "lottery": ("determinism", "depends on the seed; set random = True"),
    "double": ("dtype and layout", "float64 with the same values give another answer"),
    "stages": ("stage times", "one lies inside another"),
    "index": ("point order", "not by their index"),
    "backwards": ("known poses", "maps the target into the source; return its inverse"),
    "scaled": ("rigid output", "not rigid; return T_target_source (4, 4)"),
    "wild": ("known poses", "no better than the identity"),
    "nodoc": ("docstring and kind", "NoDoc has no docstring: write one sentence"),
    "noinit": ("initial pose", "register can't be given init"),
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faulty")
    (folder / "faulty.py").write_text(
        f"HOWS = {[*EXPECTED, 'exits', 'endless', 'fine']}\n".replace("'nodoc', 'noinit', ", "") + FAULTY
    )
    return folder


@pytest.mark.parametrize("how", EXPECTED)
def test_each_fault_is_found_by_its_check_and_tells_the_mend(faulty, how):
    check, says = EXPECTED[how]
    with pytest.raises(CheckFailed, match=re.escape(says)):
        CHECKS[check](build(f"faulty_{how}", faulty))


@pytest.mark.parametrize("check", CHECKS)
def test_the_method_without_a_fault_is_well(faulty, check):
    CHECKS[check](build("faulty_fine", faulty))


def test_a_crash_is_one_failed_check_and_the_others_go_on(faulty, capsys):
    assert main.main(["check", "faulty_exits", "--plugins", str(faulty)]) == 1
    out = capsys.readouterr().out
    assert "FAIL  degenerate clouds    the process ended with exit code 4; find the call" in out
    assert out.count("ok  ") == len(CHECKS) - 1 and "1 of 13 checks failed" in out


def test_a_method_that_does_not_end_is_told_so(faulty, capsys, monkeypatch):
    monkeypatch.setattr("bench.conformance.command.BUDGET_S", 1.0)
    assert main.main(["check", "faulty_endless", "--plugins", str(faulty)]) == 1
    out = capsys.readouterr().out
    assert "no answer within" in out and "did not run within 1 s: a call takes long" in out


def test_what_new_writes_conforms(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main.main(["new", "my_idea", "--plugins", "mine"]) == 0
    assert "bench.py check my_idea --plugins mine" in capsys.readouterr().out
    assert main.main(["check", "my_idea", "--plugins", "mine"]) == 0
    assert "13 checks passed" in capsys.readouterr().out
    ran = subprocess.run([sys.executable, "-m", "pytest", "-q", str(tmp_path / "mine")], cwd=ROOT, capture_output=True)
    assert ran.returncode == 0, ran.stdout
    assert main.main(["new", "my_idea", "--plugins", "mine"]) == 2
    assert "there is a method of that name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["new", "My-Method"], "lower-case letters"),
        (["new", "class"], "lower-case letters"),
        (["new", "icp"], "there is a method of that name"),
        (["check", "icpp"], "did you mean icp"),
    ],
)
def test_bad_input_is_one_line(capsys, arguments, says):
    assert main.main(arguments) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
