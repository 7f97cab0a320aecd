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


def test_a_part_keeps_times_of_all_conditions_and_stages_of_its_methods(stored_run):
    before = stored_run.outcomes
    part = subset(stored_run, ["icp"], ["noisy"])
    expected = before[
        (before["method"] == "icp") & ((before["condition"] == "noisy") | (before["phase"] != "accuracy"))
    ]
    assert part.outcomes.drop(columns="notes").equals(expected.drop(columns="notes").reset_index(drop=True))
    assert part.stages.equals(stored_run.stages[stored_run.stages["method"] == "icp"])
    assert part.problems is stored_run.problems
    by_condition = subset(stored_run, [], ["noisy"])
    assert set(by_condition.run["methods"]) == set(stored_run.run["methods"])
    assert by_condition.stages is stored_run.stages
    by_method = subset(stored_run, ["icp"], [])
    assert by_method.run["problem_sets"] == stored_run.run["problem_sets"]
    assert by_method.run["unavailable"] == {}
