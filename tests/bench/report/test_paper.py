"""Tables in the layout of the paper."""

import numpy as np

from bench.evaluation.conventions import CONVENTIONS
from bench.report import (
    paper,
    tables,
)
from bench.report.ranking import errors_of, select_group

CRITERION = CONVENTIONS["deepgmr"]


def test_a_method_is_efficient_by_its_time_alone(frames):
    errors = {p: errors_of(select_group(frames["trials"], p), CRITERION) for p in tables.groups_of(frames["summary"])}
    fgr = frames["summary"]["method"] == "fgr"
    contended = frames["summary"].assign(time_ms_mean=frames["summary"]["time_ms_mean"].mask(fgr, 1200.0))

    def group(timing):
        paper_tables = paper.paper_tables(contended, timing, errors, CRITERION, False)["table1"]
        return next(row[1].text for row in paper_tables.rows if row[0].text == "fgr")

    alone = frames["timing"].assign(points=1024)
    assert group(alone[alone["method"] != "fgr"]) == "inefficient global"
    assert group(alone.assign(time_ms_mean=800.0)) == "efficient global"


def test_the_papers_numbers_are_shown_only_for_the_same_problems(frames):
    errors = {p: errors_of(select_group(frames["trials"], p), CRITERION) for p in tables.groups_of(frames["summary"])}
    paper_tables = paper.paper_tables(frames["summary"], frames["timing"], errors, CRITERION, True)
    assert set(paper_tables) == {"table1", "table2"}
    table = paper_tables["table1"]
    rows = {row[0].text: row for row in table.rows}
    assert table.heads[2:4] == ["modelnet40 clean RMSE ↓", "modelnet40 clean recall@0.2 ↑"]
    assert [c.beside for c in rows["icp"][2:]] == ["0.53", "0.41", "0.53", "0.41", "", ""]
    assert [c.beside for c in rows["deepgmr"][2:]] == ["0.00", "1.00", "0.01", "0.99", "", ""]
    assert rows["dcp"][1].text == "not run" and rows["dcp"][2].whole == "– (0.02)"
    assert rows["icp"][1].text == "local" and rows["ransac10m"][1].text == "inefficient global"
    assert rows["fgr"][1].text == "efficient global" and "identity" not in rows
    times = {
        row[0].text: dict(zip(paper_tables["table2"].columns, row, strict=True)) for row in paper_tables["table2"].rows
    }
    assert times["4096"]["ransac10m"].text == "timeout" and times["256"]["ransac10m"].value > 0
    without = paper.paper_tables(frames["summary"], frames["timing"], errors, CRITERION, False)["table1"]
    assert not any(cell.beside for row in without.rows for cell in row) and len(without.rows) == len(rows) - 4


def test_a_failure_of_memory_is_printed_as_such(frames):
    gone = frames["timing"]["method"] == "icp"
    table = paper.time_table(
        frames["timing"].assign(status=np.where(gone, "out_of_memory", frames["timing"]["status"])), True
    )
    assert {row[table.columns.index("icp")].text for row in table.rows} == {"OOM"}
