"""A part of a run."""

import pytest

from bench.report.subset import subset
from common.errors import InputError


def test_methods_and_conditions_are_kept(stored_run):
    part = subset(stored_run, ["icp", "fgr"], ["noisy"])
    accuracy = part.outcomes[part.outcomes["phase"] == "accuracy"]
    assert set(accuracy["method"]) == {"icp", "fgr"} and set(accuracy["condition"]) == {"noisy"}
    assert list(part.outcomes.index) == list(range(len(part.outcomes)))
    assert set(part.run["methods"]) == {"icp", "fgr"} and set(part.run["problem_sets"]) == {"modelnet40/noisy/1024"}
    assert len(subset(stored_run, [], []).outcomes) == len(stored_run.outcomes)


@pytest.mark.parametrize(("methods", "conditions"), [(["ipc"], []), ([], ["niosy"])])
def test_unknown_names_are_refused(stored_run, methods, conditions):
    with pytest.raises(InputError, match="unknown"):
        subset(stored_run, methods, conditions)
