"""Tables of a report."""

from bench.evaluation import aggregate
from bench.evaluation.conventions import CONVENTIONS
from bench.report import (
    tables,
)
from bench.report.ranking import errors_of, select_group
from bench.report.recommendation import recommend
from tests.bench.synthetic_run import HOSTILE, as_loaded

CRITERION = CONVENTIONS["deepgmr"]


FEW = ("deepgmr", "fgr+icp", "identity", HOSTILE)


def test_headlines_count_failures(frames):
    for group in tables.groups_of(frames["summary"]):
        rows = tables.group_records(frames["summary"], group)
        errors = errors_of(select_group(frames["trials"], group), CRITERION)
        line = tables.headline(group, rows, recommend(rows, errors, frames["timing"]), CRITERION)
        lost = sum(int(r["problems"] - r["answered"]) for r in rows)
        assert f"{lost} of {sum(int(r['problems']) for r in rows)} problems were not answered" in line


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
