"""Conformance checks: each detects its fault and names the fix."""

import re

import pytest

from bench.conformance import checks
from bench.conformance.checks import CHECKS, CheckFailed
from tests.bench.command_line import PLUGINS
from tests.catalog import build

FAULTY = '''
import os, time
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
        if how == "slow":
            time.sleep(0.6)
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
            with self.stage("outer"), self.stage("inner"):
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
    "double": ("dtype and layout", "float64 with the same values give another pose"),
    "stages": ("stage times", "one lies inside another"),
    "index": ("point order", "not by their index"),
    "backwards": ("known poses", "maps the target into the source; return its inverse"),
    "scaled": ("rigid output", "not rigid; return T_target_source (4, 4)"),
    "wild": ("known poses", "no better than the identity"),
    "nodoc": ("docstring and kind", "NoDoc has no docstring: write one sentence"),
    "noinit": ("initial pose", "register does not accept init"),
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faulty")
    (folder / "faulty.py").write_text(
        f"HOWS = {[*EXPECTED, 'exits', 'slow', 'fine']}\n".replace("'nodoc', 'noinit', ", "") + FAULTY
    )
    return folder


@pytest.mark.parametrize("how", EXPECTED)
def test_each_fault_is_detected_by_its_check_with_a_fix(faulty, how):
    check, says = EXPECTED[how]
    with pytest.raises(CheckFailed, match=re.escape(says)):
        CHECKS[check](build(f"faulty_{how}", faulty))


@pytest.mark.parametrize("check", CHECKS)
def test_method_without_fault_passes(faulty, check):
    CHECKS[check](build("faulty_fine", faulty))


def test_check_of_batches_detects_faults():
    assert "3 pairs at once" in checks.batches(build("together", PLUGINS))
    assert checks.batches(build("good", PLUGINS)) == "not supported"
    for name, says in {
        "together_few": "2 results for 3 pairs",
        "together_raise": "broke",
        "together_spoilt": "another",
    }.items():
        with pytest.raises(checks.CheckFailed, match=says):
            checks.batches(build(name, PLUGINS))
