"""Tables of a report."""

import numpy as np
import pytest

from bench.evaluation import aggregate
from bench.evaluation.conventions import CONVENTIONS
from bench.report import (
    tables,
)
from bench.report.ranking import Ranking, errors_of, groups_of, select_group
from bench.report.recommendation import Recommendation, recommend
from tests.bench.report.one_group import one_group
from tests.bench.synthetic_run import HOSTILE, as_loaded

CRITERION = CONVENTIONS["deepgmr"]


FEW = ("deepgmr", "fgr+icp", "identity", HOSTILE)


def test_headlines_count_failures(frames):
    for group in groups_of(frames["summary"]):
        rows = tables.group_records(frames["summary"], group)
        errors = errors_of(select_group(frames["trials"], group), CRITERION)
        line = tables.headline(group, rows, recommend(rows, errors, frames["timing"]), CRITERION)
        lost = sum(int(r["problems"] - r["answered"]) for r in rows)
        assert f"{lost} of {sum(int(r['problems']) for r in rows)} calls gave no answer" in line


def test_coverage_and_failures_account_for_every_outcome(synthetic):
    loaded = as_loaded(*synthetic)
    frames = aggregate.tables(loaded, CRITERION)
    table = tables.coverage_table(frames["summary"])
    run, answered = table.columns.index("run"), table.columns.index("answered")
    for row in table.rows:
        assert row[run].value == row[answered].value + sum(c.value for c in row[answered + 1 :]) - row[-1].value
    total = sum(row[run].value + row[-1].value for row in table.rows)
    assert table.columns[-1] == "skipped" and total == len(frames["trials"])
    failures = tables.failure_table(loaded.outcomes)
    assert sum(row[3].value for row in failures.rows) == (frames["trials"]["status"] != "ok").sum()
    assert any("has 512 fixed points" in row[4].text for row in failures.rows)


def _row(method, answered, problems, kind="local"):
    counts = {"answered": answered, "problems": problems, "distinct_problems": problems}
    return {"method": method, "kind": kind} | counts


@pytest.mark.parametrize(
    ("ms", "line"),
    [
        ({"a": 50.1, "b": 49.9, "c": 1.0}, "b 0.80 (49.9 ms)"),
        ({"a": 49.9, "b": 1.0, "c": 1.0}, "a 0.90 (49.9 ms)"),
        ({"a": 90.0, "c": 1.0}, "none that succeeds is known"),
        ({"a": 90.0, "b": 9.0, "b2": 3.0, "c": 1.0}, "b2 0.80 (3 ms)"),
    ],
)
def test_the_best_fast_method_has_the_highest_recall_below_the_limit_and_is_the_fastest_of_equals(ms, line):
    advice = Recommendation(
        Ranking(["a", "b", "b2", "c"], [], ["a"], [], 0.01), {"a": 0.9, "b": 0.8, "b2": 0.8, "c": 0.0}, ms, alone=True
    )
    rows = [_row("a", 50, 100), _row("b", 80, 100), _row("c", 10, 10), _row("truth", 0, 10, "control")]
    rows.append(_row("few", 0, 10))
    fast, failing = ("Best under 50 ms", line), ("Below half of the best", "c 0.00")
    lost = ("Most often without a pose", "a (50 of 100)")
    assert tables.verdict(rows, advice, CRITERION) == [*advice.statements("recall@0.2"), fast, failing, lost]
    few = [_row("a", 100, 100), _row("few", 1, 10)]
    assert tables.verdict(few, advice, CRITERION)[-1] == ("Most often without a pose", "few (9 of 10)")
    answered = [_row("a", 10, 10), _row("truth", 0, 10, "control")]
    assert tables.verdict(answered, advice, CRITERION) == [*advice.statements("recall@0.2"), fast, failing]


def test_the_five_lowest_methods_below_half_of_the_best_are_named():
    recall = {"best": 0.9, "half": 0.45} | {f"low{i}": 0.44 - i / 100 for i in range(6)}
    for n in (5, 6):
        names = [*recall][: n + 2]
        advice = Recommendation(Ranking(names, [], ["best"], [], 0.01), recall, {}, alone=True)
        listed = ", ".join(f"{m} {recall[m]:.2f}" for m in names[:-6:-1]) + ", … (6 methods)" * (n > 5)
        assert ("Below half of the best", listed) in tables.verdict([], advice, CRITERION)


def test_the_table_of_recall_is_sorted_by_the_mean_share_of_better_methods_and_few_problems_are_faint():
    """A group with more methods does not weigh more: a is 2nd of 2 and 1st of 4, b is 1st of 2 and 2nd of 4."""

    def group(hits, n=40):
        return one_group({m: ("local", np.where(np.arange(n) < h, 0.1, 0.9)) for m, h in hits.items()}, {})

    frames = [group({"a": 10, "b": 30}), group({"a": 39, "b": 30, "c": 9, "d": 3})]
    few = group({"few": 3}, 3)
    rows = {(str(i), "noisy", 64): f["summary"].to_dict("records") for i, f in enumerate(frames)}
    rows["0", "noisy", 64] += few["summary"].to_dict("records")
    advice = {
        g: recommend(rows[g], errors_of(f["trials"], CRITERION), f["timing"]) for g, f in zip(rows, frames, strict=True)
    }
    table = tables.recall_table(rows, advice, CRITERION)
    assert [row[0].text for row in table.rows] == ["b", "a", "c", "d", "few"]
    for row in table.rows:
        assert [cell.faint for cell in row] == [row[0].text == "few"] * 4
    assert [cell.text for cell in table.rows[1]] == ["a", "local", "0.25", "0.97"]


def test_the_table_of_recall_has_the_groups_in_which_any_method_was_run():
    frames = one_group({m: ("local", np.where(np.arange(40) < h, 0.1, 0.9)) for m, h in (("a", 10), ("b", 30))}, {})
    run = frames["summary"].to_dict("records")
    skipped = [row | {"problems": 0, "recall": np.nan} for row in run]
    rows = {("all", "noisy", 64): run, ("one", "noisy", 64): [skipped[0], run[1]], ("none", "noisy", 64): skipped}
    advice = dict.fromkeys(rows, recommend(run, errors_of(frames["trials"], CRITERION), frames["timing"]))
    table = tables.recall_table(rows, advice, CRITERION)
    assert [*table.columns] == ["method", "kind", "all · noisy · 64", "one · noisy · 64"]
    assert {row[0].text: [cell.text for cell in row[2:]] for row in table.rows} == {
        "a": ["0.25", "–"],
        "b": ["0.75", "0.75"],
    }
