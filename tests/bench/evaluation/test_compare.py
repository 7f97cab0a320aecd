"""Comparison of two runs."""

import dataclasses
import json
import shutil
import sqlite3

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from bench.cli import main
from bench.evaluation import statistics
from bench.evaluation.aggregate import ENDED, add_success
from bench.evaluation.compare import Change, _with_verdict, check_same_problems, compare
from bench.evaluation.conventions import CONVENTIONS
from bench.evaluation.statistics import Difference
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
    for runs, name in (((stored_run, fewer), "A"), ((fewer, stored_run), "B")):
        remarks = compare(*runs, ("A", "B"), CRITERION).remarks
        assert f"only in {name}: icp on modelnet40/clean/1024" in remarks
        assert all(remark.startswith(f"only in {name}: icp on ") for remark in remarks)


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


def with_repeats(run, method):
    """The run with a second repeat of a method, in which every third answer is lost and every fourth wrong."""
    accuracy = run.outcomes[(run.outcomes["method"] == method) & (run.outcomes["phase"] == "accuracy")]
    again = accuracy.assign(repeat=1, time_ms=accuracy["time_ms"] * 1.5)
    order = np.arange(len(again))
    again["status"] = again["status"].astype(str).where(order % 3 > 0, "timeout").astype(again["status"].dtype)
    again.loc[again.index[order % 4 == 1], "t03"] += 5
    outcomes = pd.concat([run.outcomes, again])
    for name in outcomes.columns:
        if isinstance(accuracy[name].dtype, pd.CategoricalDtype):
            outcomes[name] = outcomes[name].astype(accuracy[name].dtype)
    order = ["method", "dataset", "condition", "points", "problem", "repeat", "seed", "phase"]
    return dataclasses.replace(run, outcomes=outcomes.sort_values(order, kind="stable").reset_index(drop=True))


def with_skipped(run, method, count):
    """The run with some outcomes of a method that were not run."""
    outcomes = run.outcomes.copy()
    accuracy = outcomes[(outcomes["method"] == method) & (outcomes["phase"] == "accuracy")]
    outcomes["status"] = outcomes["status"].cat.set_categories(sorted({*outcomes["status"].cat.categories, "skipped"}))
    outcomes.loc[accuracy.groupby("condition", observed=True).tail(count).index, "status"] = "skipped"
    return dataclasses.replace(run, outcomes=outcomes)


def test_problems_of_only_one_run_and_skipped_ones_are_not_compared(stored_run):
    less = dataclasses.replace(
        stored_run, run=stored_run.run | {"problem_sets": dict([*stored_run.run["problem_sets"].items()][:1])}
    )
    (group,) = less.run["problem_sets"]
    for a, b in ((stored_run, less), (less, stored_run)):
        assert {change.group for change in compare(a, b, ("A", "B"), CRITERION).changes} == {group}
    fewer = with_skipped(stored_run, "icp", 9)
    changes = compare(stored_run, fewer, ("A", "B"), CRITERION).changes
    run = [set(zip(t["method"], t["problem"], strict=True)) for t in (evaluated(stored_run), evaluated(fewer))]
    assert len(run[1]) < len(run[0])
    for change in (change for change in changes if change.quantity == "answered"):
        shared = [p for m, p in run[0] & run[1] if m == change.method and p.startswith(f"{change.group}/")]
        assert change.problems == len(shared), change.group


def evaluated(run):
    """The trials of a run that were not skipped."""
    return add_success(run, CRITERION).query("status != 'skipped'")


@pytest.mark.parametrize("repeated", [False, True])
def test_every_quantity_is_recomputed_from_the_trials(stored_run, repeated):
    """Shares of problems where most repeats succeed, errors where both answered, times where both returned."""
    a, b = stored_run, changed(changed(stored_run, "fgr", "noisy", share=0.3), "fgr", "noisy", move=0.01, fail=0.1)
    if repeated:
        a, b = with_repeats(a, "fgr"), with_repeats(b, "fgr")
    else:
        b = with_skipped(b, "fgr", 7)
    keys = ["problem", "repeat"]
    tables = [
        add_success(run, CRITERION).query("method == 'fgr' and condition == 'noisy'").set_index(keys) for run in (a, b)
    ]
    shared = tables[0].index.intersection(tables[1].index)
    tables = [table.loc[shared].assign(ok=lambda t: t["status"] == "ok") for table in tables]
    run = ((tables[0]["status"] != "skipped") & (tables[1]["status"] != "skipped")).to_numpy()
    tables = [table[run] for table in tables]
    both = tables[0]["ok"] & tables[1]["ok"]
    returned = [t["status"].isin(["ok", "no_solution", "invalid"]) for t in tables]
    ended = returned[0] & returned[1]
    expected = {
        "recall@0.2": [(t["success"].groupby("problem", observed=True).mean() > 0.5).to_numpy() for t in tables],
        "answered": [(t["ok"].groupby("problem", observed=True).mean() > 0.5).to_numpy() for t in tables],
        "RMSE, both answered": [t["rmse"][both].groupby("problem", observed=True).mean().to_numpy() for t in tables],
        "time (ms)": [t["time_ms"][ended].to_numpy() for t in tables],
    }
    changes = compare(a, b, ("A", "B"), CRITERION).changes
    ours = {c.quantity: c for c in changes if c.method == "fgr" and "/noisy/" in c.group}
    assert list(ours) == list(expected)
    for quantity, (x, y) in expected.items():
        change, p = ours[quantity], ours[quantity].difference.p
        assert (change.problems, change.a, change.b) == (len(x), pytest.approx(x.mean()), pytest.approx(y.mean()))
        assert change.difference.mean == pytest.approx(y.mean() - x.mean())
        if quantity.startswith("time"):
            assert np.isnan(p) and change.verdict == "not tested"
        elif x.dtype == bool:
            lost, won = int((x & ~y).sum()), int((y & ~x).sum())
            assert p == pytest.approx(binomtest(won, won + lost).pvalue if won + lost else 1.0)
            assert change.verdict == ("worse" if change.p < 0.05 else "same") and change.p >= p
        else:
            larger = abs(y.mean() - x.mean()) > 0.01 * max(x.mean(), y.mean())
            assert change.verdict == ("worse" if change.p < 0.05 and larger else "same")
        assert change.difference.low <= change.difference.mean <= change.difference.high


@pytest.mark.parametrize("quantity", ["recall@0.2", "answered", "RMSE, both answered"])
@pytest.mark.parametrize("d", [-0.5, -0.007, -0.004, 0.0, 0.004, 0.007, 0.5])
@pytest.mark.parametrize("p", [0.049, 0.05, 0.051])
def test_a_verdict_needs_significance_and_for_errors_a_relevant_difference(quantity, d, p):
    """Larger is better for shares, smaller for errors; a mean error must differ by more than a percent."""
    change = Change("m", "g", quantity, 30, 0.5, 0.5 + d, Difference(d, d, d, p), p, "same")
    share, expected = not quantity.startswith("RMSE"), "same"
    if p < 0.05 and d and (share or abs(d) > 0.005):
        expected = "better" if (d > 0) == share else "worse"
    result = _with_verdict(change, p)
    assert result.verdict == expected and result.p == p


def test_remarks_and_refusals_name_what_differs(stored_run):
    sets = {"a/noisy/64": "x", "b/noisy/64": "y"}
    more = dataclasses.replace(stored_run, run=stored_run.run | {"problem_sets": stored_run.run["problem_sets"] | sets})
    assert check_same_problems(more, stored_run, ("A", "B")) == sorted(stored_run.run["problem_sets"])
    remarks = compare(more, stored_run, ("A", "B"), CRITERION).remarks
    assert remarks == ["only in A: problems of a/noisy/64", "only in A: problems of b/noisy/64"]
    assert [r[:9] for r in compare(stored_run, more, ("A", "B"), CRITERION).remarks] == ["only in B"] * 2
    group = next(iter(stored_run.run["problem_sets"]))
    fewer = stored_run.problems[stored_run.problems["problem"].astype(str) != f"{group}/00003"]
    other = dataclasses.replace(stored_run, problems=fewer, run=stored_run.run | {"problem_sets": {group: "other"}})
    n = int(stored_run.problems["problem"].astype(str).str.startswith(f"{group}/").sum())
    with pytest.raises(InputError, match=rf"the problems of {group} differ \({n} and {n - 1} problems\)"):
        compare(stored_run, other, ("A", "B"), CRITERION)


@pytest.mark.parametrize("factor", [0.5, 1.5])
def test_the_difference_of_times_is_that_of_the_second_run_from_the_first(stored_run, factor):
    outcomes = stored_run.outcomes
    mine = (outcomes["method"] == "fgr").to_numpy()
    other = dataclasses.replace(
        stored_run, outcomes=outcomes.assign(time_ms=outcomes["time_ms"] * np.where(mine, factor, 1))
    )
    changes = [c for c in compare(stored_run, other, ("A", "B"), CRITERION).changes if c.quantity == "time (ms)"]
    assert {c.method for c in changes} == {"fgr", "icp", "teaser"}
    for change in changes:
        expected = (factor - 1) * change.a if change.method == "fgr" else 0.0
        assert change.difference.mean == pytest.approx(expected) == pytest.approx(change.b - change.a)
        assert change.difference.low <= change.difference.mean <= change.difference.high


def test_every_interval_and_test_of_a_change_is_over_objects(stored_run):
    """Ten objects with six problems each, whose differences resemble each other."""
    rank = stored_run.problems.groupby(["condition", "points"]).cumcount()
    few = dataclasses.replace(
        stored_run, problems=stored_run.problems.assign(object=(rank // 6).map("object_{:02d}".format))
    )
    draw = np.random.default_rng(0)
    slower = few.outcomes.assign(time_ms=few.outcomes["time_ms"] * draw.uniform(0.5, 2, len(few.outcomes)))
    other = changed(dataclasses.replace(few, outcomes=slower), "fgr", "noisy", move=0.05, share=0.3, fail=0.1)
    tables = [add_success(run, CRITERION).query("method == 'fgr' and condition == 'noisy'") for run in (few, other)]
    group = "/".join(map(str, tables[0][["dataset", "condition", "points"]].iloc[0]))
    a, b = (table.astype({"problem": str}).sort_values("problem", ignore_index=True) for table in tables)
    cluster, key = pd.factorize(a["object"].astype(str))[0], ("compare", "fgr", group)
    both = ((a["status"] == "ok") & (b["status"] == "ok")).to_numpy()
    ended = (a["time_ms"].notna() & b["time_ms"].notna()).to_numpy()
    ended = ended & (a["status"].isin(ENDED) & b["status"].isin(ENDED)).to_numpy()
    shares = {
        "recall@0.2": [(t["success"] == 1).to_numpy() for t in (b, a)],
        "answered": [(t["status"] == "ok").to_numpy() for t in (b, a)],
    }
    expected = {name: statistics.share_difference(*s, *key, cluster=cluster) for name, s in shares.items()}
    errors = [t["rmse"].to_numpy()[both] for t in (b, a)]
    expected["RMSE, both answered"] = statistics.paired_difference(*errors, *key, cluster=cluster[both])
    gap = (b["time_ms"] - a["time_ms"]).to_numpy()[ended]
    interval = statistics.bootstrap_mean(gap, "time", *key, cluster=cluster[ended])
    expected["time (ms)"] = statistics.Difference(gap.mean(), *interval, np.nan)
    changes = [c for c in compare(few, other, ("A", "B"), CRITERION).changes if (c.method, c.group) == ("fgr", group)]
    assert [c.quantity for c in changes] == list(expected)
    for change in changes:
        assert change.difference == pytest.approx(expected[change.quantity], nan_ok=True), change.quantity
