"""Comparison of two runs."""

import dataclasses
import json
import shutil
import sqlite3

import pytest

from bench.cli import main
from bench.evaluation.compare import compare
from bench.evaluation.conventions import CONVENTIONS
from common.errors import InputError
from tests.bench.stored_runs import changed

CRITERION = CONVENTIONS["deepgmr"]


def verdicts(a, b):
    return {
        (c.method, c.group.split("/")[1], c.quantity.split(",")[0]): c.verdict
        for c in compare(a, b, ("A", "B"), CRITERION).changes
    }


def test_a_run_is_the_same_as_itself(stored_run):
    comparison = compare(stored_run, stored_run, ("A", "B"), CRITERION)
    assert {c.verdict for c in comparison.changes} == {"same", "not tested"} and not comparison.remarks
    assert all(c.difference.mean == 0 for c in comparison.changes)


def test_only_the_change_is_reported(stored_run):
    worse = changed(stored_run, "fgr", "noisy", share=0.4)
    changes = {key for key, v in verdicts(stored_run, worse).items() if v != "same" and v != "not tested"}
    assert ("fgr", "noisy", "recall@0.2") in changes and {key[:2] for key in changes} == {("fgr", "noisy")}
    assert verdicts(stored_run, worse)["fgr", "noisy", "recall@0.2"] == "worse"
    assert verdicts(worse, stored_run)["fgr", "noisy", "recall@0.2"] == "better"


def test_lost_answers_are_a_regression_even_of_the_mean_over_answered(stored_run):
    changes = verdicts(stored_run, changed(stored_run, "icp", "clean", fail=0.5))
    assert changes["icp", "clean", "answered"] == "worse"


def test_a_shift_of_less_than_a_percent_is_no_change(stored_run):
    changes = verdicts(stored_run, changed(stored_run, "icp", "noisy", move=1e-9))
    assert set(changes.values()) == {"same", "not tested"}


def test_differences_are_paired_and_cover_the_truth(stored_run):
    moved = changed(stored_run, "teaser", "clean", move=0.05)
    for change in compare(stored_run, moved, ("A", "B"), CRITERION).changes:
        if change.quantity.startswith("RMSE"):
            d = change.difference
            assert d.low <= d.mean <= d.high
            assert d.mean == pytest.approx(change.b - change.a, abs=1e-12)


def test_few_problems_are_not_tested_and_in_no_family(stored_run):
    """Tests of methods on few problems would enlarge the family, and hide a real change."""
    worse = changed(stored_run, "fgr", "noisy", share=0.12)
    outcomes = stored_run.outcomes
    few = outcomes[~((outcomes["method"] != "fgr") & (outcomes["problem"].astype(str).str[-2:] > "05"))]
    whole, part = (
        {
            c.quantity: c
            for c in compare(a, worse, ("A", "B"), CRITERION).changes
            if c.method == "fgr" and "noisy" in c.group
        }
        for a in (stored_run, dataclasses.replace(stored_run, outcomes=few.reset_index(drop=True)))
    )
    assert part["recall@0.2"].p < whole["recall@0.2"].p
    changes = compare(dataclasses.replace(stored_run, outcomes=few), worse, ("A", "B"), CRITERION).changes
    assert {c.verdict for c in changes if c.method == "icp"} == {"not tested"}
    assert all(c.p != c.p for c in changes if c.problems < 20)


def test_other_problems_are_refused_with_the_reason(stored_run):
    other = dataclasses.replace(stored_run, run=stored_run.run | {"problem_sets": {"modelnet40/clean/1024": "x"}})
    with pytest.raises(InputError, match=r"A and B: the problems of modelnet40/clean/1024 differ \(other data\)"):
        compare(stored_run, other, ("A", "B"), CRITERION)
    seeded = dataclasses.replace(other, run=other.run | {"config": stored_run.run["config"] | {"seed": 5}})
    with pytest.raises(InputError, match="seed is 0 and 5"):
        compare(stored_run, seeded, ("A", "B"), CRITERION)
    with pytest.raises(InputError, match="share no problem set"):
        compare(
            stored_run,
            dataclasses.replace(stored_run, run=stored_run.run | {"problem_sets": {}}),
            ("A", "B"),
            CRITERION,
        )


def test_methods_of_only_one_run_are_remarked(stored_run):
    fewer = dataclasses.replace(
        stored_run, outcomes=stored_run.outcomes[stored_run.outcomes["method"] != "icp"].reset_index(drop=True)
    )
    assert "only in A: icp on modelnet40/clean/1024" in compare(stored_run, fewer, ("A", "B"), CRITERION).remarks


def test_the_command(folders, capsys):
    assert main.main(["compare", "a", "b"]) == 0
    out = capsys.readouterr().out
    assert "recall@0.2" in out and "worse" in out and "b compared with a: 0 better" in out
    assert main.main(["compare", "a", "b", "--fail-on-regression"]) == 1
    assert main.main(["compare", "b", "a", "--fail-on-regression"]) == 0
    assert main.main(["compare", "a", "a", "--fail-on-regression"]) == 0
    db = sqlite3.connect(folders / "results" / "b" / "record.sqlite")
    metadata = json.loads(db.execute("SELECT value FROM meta WHERE key = 'run'").fetchone()[0])
    metadata["problem_sets"] = dict.fromkeys(metadata["problem_sets"], "other")
    with db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'run'", (json.dumps(metadata),))
    db.close()
    capsys.readouterr()
    assert main.main(["compare", "a", "b"]) == 2
    assert capsys.readouterr().err.startswith("bench.py: a and b: the problems of modelnet40/clean/1024 differ")
    shutil.rmtree(folders / "results" / "b")
    assert main.main(["compare", "a", "b"]) == 2 and main.main(["compare", "a", "a", "--convention", "kiti"]) == 2
