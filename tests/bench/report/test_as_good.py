"""`as_good` and `rival_ratio` of a stored run, and their cache."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bench.evaluation import aggregate, fit
from bench.evaluation.conventions import CONVENTIONS, convention
from bench.evaluation.loader import POSE_COLUMNS
from bench.planning.catalog import Catalog
from bench.report.as_good import add_fits
from bench.report.replay import ProblemReplay
from tests.bench.report.real_run import real_run
from tests.own_cache import use_cache

CRITERION = CONVENTIONS["deepgmr"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    use_cache(monkeypatch, tmp_path / "cache")
    return real_run("noisy")


def filled(run, folder):
    return add_fits(run, ProblemReplay(run, Catalog.of(folder)), aggregate.add_success(run, CRITERION), CRITERION)


def test_right_poses_are_as_good_and_every_problem_is_searched(run, tmp_path):
    table = filled(run, tmp_path)
    right = table["success"] == 1
    assert (table.loc[right, "as_good"] == 1).all() and table["as_good"].notna().all()
    assert table.groupby("problem", observed=True)["rival_ratio"].nunique().eq(1).all()
    summary = aggregate.summary(table, CRITERION).set_index("method")
    assert (summary["recall_as_good"] >= summary["recall"]).all() and (summary["ceiling_problems"] == 4).all()
    assert summary["ceiling"].nunique() == 1
    ratios = table.drop_duplicates("problem")["rival_ratio"]
    assert (summary["ceiling"] == (ratios > 1).mean()).all()
    assert (summary["unambiguous"] == (ratios > 1 + fit.TOLERANCE).mean()).all()


def test_a_second_report_reads_the_cache(run, tmp_path, monkeypatch):
    first = filled(run, tmp_path)
    monkeypatch.setattr(fit, "as_good", None)
    monkeypatch.setattr(fit, "rival", None)
    again = filled(run, tmp_path)
    for column in ("as_good", "rival_ratio"):
        np.testing.assert_array_equal(first[column], again[column])


def test_the_caller_hears_before_each_part_that_is_computed_and_not_of_one_in_the_cache(run, tmp_path, monkeypatch):
    order = []
    for name in ("as_good", "rival"):
        function = getattr(fit, name)
        monkeypatch.setattr(fit, name, lambda *given, f=function, n=name: order.append(n) or f(*given))
    replay, trials = ProblemReplay(run, Catalog.of(tmp_path)), aggregate.add_success(run, CRITERION)
    add_fits(run, replay, trials, CRITERION, lambda: order.append("begin"))
    assert order == ["begin", *["as_good"] * order.count("as_good"), "begin", *["rival"] * 4]
    order.clear()
    add_fits(run, replay, trials, CRITERION, lambda: order.append("begin"))
    assert not order


def test_a_report_without_a_writable_cache_computes_without_storing(run, tmp_path, monkeypatch):
    first = filled(run, tmp_path)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "file"))
    np.testing.assert_array_equal(first["rival_ratio"], filled(run, tmp_path)["rival_ratio"])


def test_both_are_unknown_without_clouds(run, tmp_path):
    run.problems["digest"] = b"other"
    table = filled(run, tmp_path)
    assert table.loc[table["success"] == 0, "as_good"].isna().all() and table["rival_ratio"].isna().all()


@pytest.mark.parametrize("most", [1, 3])
def test_only_the_first_problems_of_a_group_are_compared(run, tmp_path, monkeypatch, most):
    whole = filled(run, tmp_path)
    monkeypatch.setattr(fit, "COMPARED", most)
    monkeypatch.setattr(aggregate, "COMPARED", most)
    table = filled(run, tmp_path)
    first = table["problem"].isin(sorted(set(table["problem"]))[:most])
    assert table.loc[~first, "as_good"].isna().all() and (~first).any()
    np.testing.assert_array_equal(table.loc[first, "as_good"], whole.loc[first, "as_good"])
    summary = aggregate.summary(table, CRITERION).set_index("method")["recall_as_good"]
    assert dict(summary) == dict(whole[first].groupby("method", observed=True)["as_good"].mean())


def test_only_wrong_poses_are_compared_and_failures_are_not_as_good(run, tmp_path, monkeypatch):
    """Of the last problem one method has no pose, and the other was not run on it."""
    outcomes = run.outcomes.copy()
    last = outcomes["problem"].astype(str) == max(outcomes["problem"].astype(str))
    status = np.where(last, np.where(outcomes["method"] == "turned", "timeout", "skipped"), "ok")
    outcomes = outcomes.assign(status=pd.Categorical(status))
    outcomes.loc[last, POSE_COLUMNS] = np.nan
    given = []
    monkeypatch.setattr(fit, "as_good", lambda own, poses, far: given.extend(poses) or np.full(len(poses), 0.0))
    table = filled(replace(run, outcomes=outcomes), tmp_path).set_index("method")
    assert (table.loc["exact", "as_good"].dropna() == 1).all() and table.loc["exact", "as_good"].isna().sum() == 1
    assert (table.loc["turned", "as_good"] == 0).all()
    wrong = outcomes[(outcomes["method"] == "turned") & (outcomes["status"] == "ok")]
    np.testing.assert_array_equal(given, wrong[POSE_COLUMNS].to_numpy().reshape(-1, 4, 4))


@pytest.mark.parametrize("most", [1, 3])
def test_only_the_first_problems_of_a_group_are_searched_for_the_ceiling(run, tmp_path, monkeypatch, most):
    whole = filled(run, tmp_path)["rival_ratio"]
    monkeypatch.setattr("bench.report.as_good.CEILING_PROBLEMS", most)
    monkeypatch.setattr(fit, "COMPARED", 1)
    table = filled(run, tmp_path)
    first = table["problem"].isin(sorted(set(table["problem"]))[:most])
    np.testing.assert_array_equal(table["rival_ratio"], whole.where(first))


def test_the_ceiling_is_that_of_the_default_limits_alone(run, tmp_path):
    other = convention("deepgmr", [0.05])
    table = add_fits(run, ProblemReplay(run, Catalog.of(tmp_path)), aggregate.add_success(run, other), other)
    assert table["rival_ratio"].isna().all() and table["as_good"].notna().all()
