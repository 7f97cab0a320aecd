"""Tables in the layout of the paper."""

import numpy as np
import pandas as pd
import pytest

from bench.evaluation.conventions import CONVENTIONS
from bench.report import (
    paper,
)
from bench.report.ranking import errors_of, groups_of, select_group
from tests.bench.report.one_group import one_group

CRITERION = CONVENTIONS["deepgmr"]


def test_a_method_is_efficient_by_its_time_alone(frames):
    errors = {p: errors_of(select_group(frames["trials"], p), CRITERION) for p in groups_of(frames["summary"])}
    fgr = frames["summary"]["method"] == "fgr"
    contended = frames["summary"].assign(time_ms_mean=frames["summary"]["time_ms_mean"].mask(fgr, 1200.0))

    def group(timing):
        paper_tables = paper.paper_tables(contended, timing, errors, CRITERION, False)["table1"]
        return next(row[1].text for row in paper_tables.rows if row[0].text == "fgr")

    alone = frames["timing"].assign(points=1024)
    assert group(alone[alone["method"] != "fgr"]) == "inefficient global"
    assert group(alone.assign(time_ms_mean=800.0)) == "efficient global"


def test_the_papers_numbers_are_shown_only_for_the_same_problems(frames):
    errors = {p: errors_of(select_group(frames["trials"], p), CRITERION) for p in groups_of(frames["summary"])}
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


def test_the_size_nearest_to_1024_points_is_shown_of_each_data_set_and_condition():
    rows = [("d", "noisy", 512), ("d", "noisy", 1500), ("d", "noisy", 4096), ("d", "clean", 2048), ("e", "noisy", 64)]
    summary = pd.DataFrame(rows, columns=["dataset", "condition", "points"]).assign(problems=[5, 5, 5, 5, 0])
    assert sorted(paper.main_groups(summary)) == [("d", "clean", 2048), ("d", "noisy", 1500)]


@pytest.mark.parametrize(
    ("kind", "ms", "expected"),
    [
        ("local", 1.0, "local"),
        ("local", 5000.0, "local"),
        ("global", 999.0, "efficient global"),
        ("learned", 999.0, "efficient global"),
        ("global", 1000.0, "inefficient global"),
        ("learned", np.inf, "inefficient global"),
    ],
)
def test_a_global_method_is_efficient_below_a_second(kind, ms, expected):
    assert paper.method_class(kind, ms) == expected


def test_a_mean_runtime_is_of_the_times_alone_of_the_groups_sizes():
    groups = {
        ("d", c, n): {"m": {"time_ms_mean": ms}} for c, n, ms in (("a", 64, 10.0), ("b", 64, 30.0), ("c", 8, np.nan))
    }
    assert paper._mean_runtime("m", groups, {}) == 20
    assert paper._mean_runtime("m", groups, {("m", 64): 2.0, ("m", 8): 4.0, ("m", 99): 500.0, ("x", 64): 7.0}) == 3
    assert paper._mean_runtime("x", groups, {}) == np.inf


def test_the_table_of_times_shows_means_and_marks_a_lead_of_five_percent():
    rows = [("a", "local", 64, 9.4, "ok"), ("b", "global", 64, 10.0, "ok"), ("c", "learned", 64, 1.0, "timeout")]
    rows += [("a", "local", 1024, 9.6, "ok"), ("b", "global", 1024, 10.0, "ok"), ("truth", "control", 64, 0.1, "ok")]
    frame = pd.DataFrame(rows, columns=["method", "kind", "points", "time_ms_mean", "status"])
    frame = frame.assign(angle_low=0, angle_high=180, device="cpu", threads=2)
    narrow = frame.assign(angle_high=90, time_ms_mean=1e-3)
    table = paper.time_table(pd.concat([narrow, frame]), False)
    assert table.columns == ["points", "a", "b", "c"]
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["64", "9.4", "10.0", "timeout"],
        ["1024", "9.6", "10.0", "–"],
    ]
    assert [[cell.bold for cell in row[1:]] for row in table.rows] == [[True, False, False], [False] * 3]
    assert [row[0].value for row in table.rows] == [64, 1024] and table.rows[0][3].value == np.inf
    assert table.caption == "Mean milliseconds for one pair (cpu, 2 threads); OOM: out of memory."
    one = paper.time_table(frame[frame["method"] == "a"], True)
    assert not any(cell.bold for row in one.rows for cell in row) and one.caption.endswith(paper.AGAINST_NOTE)


def test_the_table_of_accuracy_is_sorted_by_class_with_the_error_and_the_recall_of_each_group():
    criterion, draw = CRITERION, np.random.default_rng(0)
    methods = {
        name: (kind, draw.uniform(0, 0.4, 40)) for name, kind in (("z", "local"), ("y", "global"), ("x", "learned"))
    }
    methods["best"] = ("global", np.full(40, 0.01))
    methods["part"] = ("global", np.where(np.arange(40) < 3, np.inf, 0.3))
    methods |= {"few": ("local", np.full(3, 0.1)), "truth": ("control", np.zeros(40))}
    frames = one_group(methods, dict.fromkeys(methods, 50.0) | {"y": 1500.0})
    group = ("d", "noisy", 64)
    errors = {group: errors_of(frames["trials"], criterion)}
    table = paper.accuracy_table("t", [group], frames["summary"], errors, criterion, False, {})
    names = ["z", "y", "best", "part", "x", "few, n = 3"]
    classes = ["local", "inefficient global", *["efficient global"] * 3, "local"]
    assert [[cell.text for cell in row[:2]] for row in table.rows] == [
        list(pair) for pair in zip(names, classes, strict=True)
    ]
    assert table.heads == ["method", "group", "d noisy 64 RMSE ↓", "d noisy 64 recall@0.2 ↑"]
    for row in table.rows:
        error = np.asarray(methods[row[0].text.split(",")[0]][1])
        answered, star = error[np.isfinite(error)], "*" * bool(np.isinf(error).any())
        assert (row[2].text, row[3].text) == (f"{answered.mean():.2f}{star}", f"{(error < 0.2).mean():.2f}")
        assert row[2].bold == row[3].bold == (row[0].text == "best")
        assert all(cell.faint == row[0].text.startswith("few") for cell in row)


def test_the_printed_numbers_are_texts_as_printed():
    """Such as 1.00 and OOM; a cell without a category is empty."""
    for name in ("value", "category", "condition"):
        assert all(type(text) is str for text in paper.printed()[name]), name
    assert {"OOM", "0.00", "1.00"} <= set(paper.printed()["value"]) and "" in set(paper.printed()["category"])
