"""Conformance checks: each detects its fault and names the fix."""

import re

import pytest

from bench.conformance import checks
from bench.conformance.checks import CHECKS, CheckFailed
from tests.bench.command_line import PLUGINS
from tests.bench.conformance.faulty_methods import EXPECTED
from tests.catalog import build


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
