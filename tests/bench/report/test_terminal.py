"""The summary on the terminal, and that the report says the same."""

import dataclasses
import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from bench.evaluation.conventions import CONVENTIONS
from bench.report import (
    json_summary,
    terminal_summary,
)
from bench.report.interactive import cdf, pareto
from bench.report.ranking import duels, errors_by_group, errors_of, select_group
from bench.report.recommendation import recommend
from bench.report.table import Table, TableCell
from bench.report.tables import duel_table, group_records, headline, summary_table
from bench.report.terminal import DROPPED, _fitting, _plain, table_for_terminal
from tests.bench.report.one_group import one_group

CRITERION = CONVENTIONS["deepgmr"]


def _lines(frames, width=100):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(terminal_summary(frames, errors_by_group(frames, CRITERION), CRITERION, width))
    return console.export_text().splitlines()


def test_the_terminal_table_fits_and_takes_names_as_text(frames):
    long = {"teaser": "[bold]a_method_with_a_very_very_long_name[/bold]"}
    renamed = {
        name: frames[name].assign(method=frames[name]["method"].astype(str).replace(long))
        for name in ("summary", "trials", "timing")
    }
    lines = _lines(renamed)
    table = [line for line in lines if not line.startswith(("Tied", "Best", "Recommended"))]
    assert max(map(len, table)) <= 100
    assert any(" [bold]a_m…e[/bold] " in line for line in lines)  # cut in the middle
    assert any(" <script>a…/script> " in line for line in lines)
    wide = _lines(renamed, 120)  # room for longer names, which cost no column
    assert any(" [bold]a_method_w" in line and "_name[/bold] " in line for line in wide)
    assert sum("oracle" in line for line in lines) == 3
    assert any("1.00 [0.91,1.00]" in line for line in lines)


def test_the_table_drops_columns_not_numbers(frames):
    wide, narrow = (_lines(frames, width) for width in (120, 80))
    heads = [next(line for line in lines if "recall [95 %]" in line) for lines in (wide, narrow)]
    assert "p95 ms" in heads[0] and "p95 ms" not in heads[1] and " ms" in heads[1]
    assert max(map(len, narrow)) <= 80
    assert sum("oracle" in line and "1.00 [0.91,1.00]" in line for line in narrow) == 3


@pytest.mark.parametrize("width", [20, 45, 60])
def test_a_narrow_terminal_shows_whole_methods_and_recalls(frames, width):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(terminal_summary(frames, errors_by_group(frames, CRITERION), CRITERION, width), crop=False)
    lines = console.export_text().splitlines()
    assert sum("oracle" in line and "1.00 [0.91,1.00]" in line for line in lines) == 3
    assert max(map(len, lines)) <= max(width, 40)


def test_the_summary_as_json(frames):
    content = json.loads(
        json_summary(frames, errors_by_group(frames, CRITERION), CRITERION, {"report": Path("r.html")})
    )
    assert content["convention"] == "deepgmr" and content["files"] == {"report": "r.html"}
    assert len(content["groups"]) == 3
    first = content["groups"][0]
    assert first["recommended"] in first["tied"] and first["sentence"]
    rows = {row["method"]: row for row in first["methods"]}
    assert rows["oracle"]["recall"] == 1 and isinstance(rows["oracle"]["problems"], int)


@pytest.mark.parametrize("absent", [[], ["teaser"], ["icp", "teaser"]])
def test_methods_that_ran_on_nothing_are_named_in_the_last_line(frames, absent):
    summary, trials = frames["summary"], frames["trials"]
    problems = np.where(summary["method"].isin(absent), 0, summary["problems"])
    run = trials[~trials["method"].isin(absent)]
    lines = _lines(frames | {"summary": summary.assign(problems=problems), "trials": run})
    named = f"Not run: {', '.join(absent)};" if absent else ""
    assert [line.startswith(named) for line in lines if line.startswith("Not run")] == [True] * bool(absent)
    assert not absent or any(line.startswith(named) for line in lines[-3:])


def test_a_table_of_the_report_is_printed_with_every_row_and_its_caption_below():
    rows = [[TableCell("first"), TableCell("0.25", beside="0.3")], [TableCell("second", faint=True), TableCell("7")]]
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(table_for_terminal(Table("Title", ["name", "recall"], rows, caption="What it shows.")))
    words = console.export_text().replace("─", "").split()
    assert words == [*("Title", "name", "recall"), *("first", "0.25", "(0.3)", "second", "7", "What", "it", "shows.")]


def test_a_table_of_the_report_drops_its_last_columns_and_never_a_digit():
    heads = ["method", *(f"recall: scenes {i}" for i in range(12))]
    long = "ransac10k[iterations=300000,distance=0.05]+icp"
    rows = [
        [TableCell(long), *(TableCell(f"0.{i:03d}") for i in range(12))],
        [TableCell("icp")] + 12 * [TableCell("1")],
    ]
    for width, shown in ((80, 5), (150, 12)):
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(table_for_terminal(Table("Title", heads, rows, caption=""), console.width))
        lines = console.export_text().splitlines()
        numbers = next(line for line in lines if line.strip().startswith("ransac")).split()
        assert max(map(len, lines)) <= width and not any("…" in number for number in numbers[1:])
        assert numbers[0].startswith("ransac10k") and numbers[0].endswith("+icp")
        assert numbers[1:] == [f"0.{i:03d}" for i in range(len(numbers) - 1)] and len(numbers) - 1 == shown


def _printed(methods, ms, timed=None):
    """The terminal's lines of one group, without spaces."""
    return [" ".join(line.split()) for line in _lines(one_group(methods, ms, timed)) if line.strip()]


def test_times_on_a_gpu_are_marked_with_it():
    methods = {"a": ("learned", [0.1] * 40), "b": ("local", [0.1] * 40)}
    frames = one_group(methods, {"a": 4.0, "b": 9.0}, {"a": 2.0, "b": 5.0})
    frames["timing"]["device"] = ["cuda:0", "cpu"]
    lines = [" ".join(line.split()) for line in _lines(frames)]
    assert any(line.startswith("a 40/40") and "4.0 cuda:0" in line for line in lines), lines
    assert any(line.startswith("b 40/40") and "cuda" not in line for line in lines)
    assert "Times on the CPU, unless marked cuda:0." in lines
    assert "Recommended: a (2 ms on cuda:0, timed alone)" in " ".join(lines)
    group = ("d", "noisy", 64)
    rows, errors = group_records(frames["summary"], group), errors_of(frames["trials"], CRITERION)
    table = summary_table(group, rows, errors, CRITERION, {}, recommend(rows, errors, frames["timing"]).devices)
    times = table.heads.index("time median (ms)")
    assert {row[0].text: row[times].text for row in table.rows} == {"a": "4.0 cuda:0", "b": "9.0"}
    assert table.caption == "Times on the CPU, unless marked cuda:0."


def _hits(count, problems=40):
    return np.where(np.arange(problems) < count, 0.1, 0.9)


METHODS = {
    "truth": ("control", _hits(40)),
    "poor": ("local", _hits(12)),
    "few": ("global", _hits(4, 4)),
    "near": ("local", _hits(35)),
    "best": ("learned", _hits(36)),
}
MS = {"truth": 1.0, "poor": 1.0, "few": 900.0, "near": 30.0, "best": 50.0}


def _sentence(lines):
    """Join the lines of the verdict, without that of the devices below it."""
    begin = next(i for i, line in enumerate(lines) if line.startswith(("Tied", "Best", "No ")))
    return " ".join(line for line in lines[begin:] if not line.startswith("Times on "))


def test_the_terminal_sorts_by_recall_and_gives_advice():
    lines = _printed(METHODS, MS)
    assert [line.split()[0] for line in lines[3:8]] == ["best", "near", "poor", "truth", "few,"]
    assert lines[7].startswith("few, n = 4 4/4 1.00")
    ties = "Tied for the best recall@0.2: best 0.90, near 0.88 (2 methods)."
    assert _sentence(lines) == f"{ties} Recommended: near (30 ms), the fastest of them."
    alone = _sentence(_printed(METHODS, MS, {"best": 7.0, "near": 9.0}))
    assert alone == f"{ties} Recommended: best (7 ms, timed alone), the fastest of them."
    assert "near (0.2 ms, timed alone)" in _sentence(_printed(METHODS, MS, {"best": 7.0, "near": 0.25}))


def test_a_winner_is_named_with_its_significance():
    won = _sentence(_printed({"a": ("global", _hits(40)), "b": ("global", _hits(20))}, {"a": 9.0, "b": 1.0}))
    assert won == "Best recall@0.2: a 1.00, higher than that of every other method (p = 2e-06)."


def test_a_faster_method_that_loses_a_single_test_is_not_recommended():
    best = np.full(60, 0.1)
    others = {f"m{i}": ("global", np.roll(np.where(np.arange(60) < 6, 0.9, 0.1), 6 * i)) for i in range(4)}
    text = _sentence(
        _printed({"a": ("global", best)} | others, {"a": 50.0, "m0": 9.0, "m1": 99.0, "m2": 99.0, "m3": 99.0})
    )
    assert "(5 methods)" in text and "Recommended: a (50 ms)" in text and "(faster, but worse in one: m0)." in text


def test_a_method_that_never_succeeds_is_no_choice():
    assert "No method succeeds." in _printed({"a": ("local", _hits(0))}, {"a": 1.0})
    lines = _printed({"a": ("local", _hits(2)), "never": ("local", _hits(0))}, {"a": 9.0, "never": 10.0})
    assert "the fastest of them" in _sentence(lines) and "Recommended: a (9 ms)" in _sentence(lines)


def test_nothing_is_ranked_on_few_problems():
    lines = _printed({"a": ("local", _hits(2, 3)), "b": ("local", _hits(0, 3))}, {"a": 9.0, "b": 1.0})
    assert "No method was run on 20 problems or more: none is ranked." in lines
    assert any(line.startswith("a, n = 3 3/3 0.67") for line in lines)


def test_without_a_recall_there_is_no_verdict():
    no_limits = dataclasses.replace(CRITERION, limits=())
    lines = _lines(one_group({"a": ("local", _hits(20))}, {"a": 1.0}, criterion=no_limits))
    assert not any(word in line for line in lines for word in ("recall@", "Best", "Tied"))


def _random(seed):
    draw = np.random.default_rng(seed)
    methods, ms = {}, {}
    for m in range(int(draw.integers(2, 7))):
        n = int(draw.choice([2, 12, 25, 60]))
        methods[f"m{m}"] = ("global", np.where(draw.random(n) < draw.uniform(0.2, 1), 0.1, 0.9))
        ms[f"m{m}"] = float(draw.lognormal(2, 1))
    methods["two"] = ("global", np.full(2, 0.01))
    ms["two"] = 0.1
    return one_group(methods, ms)


@pytest.mark.parametrize("seed", range(25))
def test_terminal_and_report_say_the_same_and_leave_two_problems_out(seed):
    frames = _random(seed)
    group = ("d", "noisy", 64)
    rows, errors = group_records(frames["summary"], group), errors_of(select_group(frames["trials"], group), CRITERION)
    recommendation = recommend(rows, errors, frames["timing"])
    text = recommendation.sentence(CRITERION.recall_label)
    assert text in " ".join(" ".join(_lines(frames)).split())
    assert headline(group, rows, recommendation, CRITERION).startswith(f"d · noisy · 64 points: {text}")
    assert "two" not in text
    table = summary_table(group, rows, errors, CRITERION, {})
    bold = [row[0].text for row in table.rows if any(cell.bold for cell in row)]
    assert not any("n = " in name for name in bold)
    faint = [row[0].faint for row in table.rows]
    assert faint == sorted(faint) and "two, n = 2" in {row[0].text for row in table.rows if row[0].faint}
    assert all(("n = " in row[0].text) == row[0].faint == row[3].faint for row in table.rows)
    if recommendation.ranking.winner:
        assert [row[0].text for row in table.rows if row[3].bold] == [recommendation.ranking.winner]
        assert recommendation.ranking.winner in text and "higher than" in text
    else:
        assert not any(row[3].bold for row in table.rows)
    chart = pareto(rows, recommendation)
    front, points = chart["data"][0], {trace["name"]: trace for trace in chart["data"][1:]}
    assert points["two, n = 2"]["opacity"] < 1 and (points["two, n = 2"]["x"][0] not in front["x"])
    legend = [trace["name"] for trace in cdf(frames["cdf"], rows, CRITERION)["data"]]
    assert ["n = " in name for name in legend] == sorted("n = " in name for name in legend)
    for row in duel_table(group, duels(errors), rows).rows:
        assert all(np.isnan(cell.value) and not cell.bold for cell in row[1:]) or not row[0].faint


def test_error_bars_point_from_the_recall_to_the_ends_of_its_interval():
    frames = one_group({"a": ("global", _hits(36)), "b": ("global", _hits(3))}, {"a": 1.0, "b": 2.0})
    rows = group_records(frames["summary"], ("d", "noisy", 64))
    errors = errors_of(frames["trials"], CRITERION)
    for trace, row in zip(pareto(rows, recommend(rows, errors, frames["timing"]))["data"][1:], rows, strict=True):
        up, down = trace["error_y"]["array"][0], trace["error_y"]["arrayminus"][0]
        assert trace["y"][0] + up == pytest.approx(row["recall_high"], abs=1e-4)
        assert trace["y"][0] - down == pytest.approx(row["recall_low"], abs=1e-4)
        assert (up < down) == (row["recall"] > 0.5)  # an interval of a high share reaches further down


def test_a_mean_of_few_problems_is_shown_without_an_interval():
    frames = one_group({"a": ("global", np.linspace(0.1, 0.2, 9)), "b": ("global", np.linspace(0.1, 0.2, 10))}, {})
    summary = frames["summary"].set_index("method")
    assert np.isnan(summary.loc["a", ["rmse_mean_low", "rmse_mean_high"]].astype(float)).all()
    assert summary.loc["b", "rmse_mean_low"] < 0.15 < summary.loc["b", "rmse_mean_high"]
    group = ("d", "noisy", 64)
    rows = group_records(frames["summary"], group)
    table = summary_table(group, rows, errors_of(frames["trials"], CRITERION), CRITERION, {})
    shown = {row[0].text: row[4].text for row in table.rows}
    assert shown["a, n = 9"] == "0.150" and shown["b, n = 10"].startswith("0.150 [0.1")


@pytest.mark.parametrize("width", range(20, 110, 3))
def test_columns_are_left_out_in_order_until_the_rest_fits(width):
    """By trying every number of columns left out; the name has 18 characters, a gap is two, and so are the edges."""
    draw = np.random.default_rng(width)
    lines = [["x" * int(n) for n in draw.integers(1, 12, 9)] for _ in range(3)]
    widths = [max(len(line[i]) for line in lines) for i in range(9)]
    widths[0] = max(widths[0], 18)
    for left_out in range(8):
        shown = [i for i in range(9) if i - 1 not in DROPPED[:left_out]]
        needed = sum(widths[i] + 2 for i in shown) + 2
        if needed <= width:
            break
    assert _fitting(lines, width) == (shown, needed) and _fitting(lines, needed)[1] == needed


def test_values_of_the_summary_as_json():
    values = [
        (np.int64(3), 3),
        (True, 1),
        (2.5, 2.5),
        (np.nan, None),
        (np.inf, "inf"),
        (np.float64(0.5), 0.5),
        ("a", "a"),
    ]
    assert [_plain(value) for value, _ in values] == [expected for _, expected in values]
