"""Every number that tables, the terminal, figures and charts show is that of its row and its column."""

import io
import json
from dataclasses import replace

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from bench.evaluation import aggregate
from bench.evaluation.compare import Change, Comparison
from bench.evaluation.conventions import CONVENTIONS, by_convention
from bench.evaluation.statistics import Difference
from bench.report import figures, interactive, ranking, style, tables, terminal, trends
from bench.report.estimated_symmetry import NOTE
from bench.report.panels import KindPanel, kind_panels, set_log_ticks
from bench.report.ranking import Duel, errors_of
from bench.report.recommendation import Recommendation, alone, recommend
from bench.report.selection import by_rank
from tests.bench.report.one_group import one_group

CRITERION = CONVENTIONS["deepgmr"]
GROUP = ("d", "noisy", 64)
KINDS = {"a": "global", "b": "local", "c": "learned", "few": "global", "truth": "control"}
ORDER = ["b", "a", "c", "truth", "few"]
"""Local, global, learned, control; last the method on few problems."""


def distinct(frame, seed=0):
    """The frame with another random number in every cell of a column of floats."""
    draw = np.random.default_rng(seed)
    return frame.assign(**{name: draw.uniform(0.1, 0.9, len(frame)) for name in frame.select_dtypes("float").columns})


def group_frames(seed=0):
    draw = np.random.default_rng(seed)
    counts = {"a": 40, "b": 40, "c": 30, "few": 3, "truth": 40}
    methods = {
        m: (KINDS[m], np.where(draw.random(n) < 0.1, np.inf, draw.uniform(0, 0.4, n))) for m, n in counts.items()
    }
    return one_group(methods, dict(zip(counts, (9.0, 8.0, 700.0, 1.0, 0.5), strict=True)))


@pytest.fixture(scope="module")
def frames():
    return group_frames()


@pytest.fixture(scope="module")
def rows(frames):
    """Rows of a summary whose cells all differ."""
    summary = distinct(frames["summary"])
    return tables.group_records(summary, GROUP)


def by_head(table):
    """Cells by the name of the method and the head of the column."""
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


COLUMNS = {
    "answered": ("answer_rate", None),
    "recall@0.2 [95\u00a0%]": ("recall", None),
    "RMSE mean over answered [95\u00a0%]": ("rmse_mean_answered", None),
    "RMSE median": ("rmse_median", 3),
    "recall as good": ("recall_as_good", 2),
    "recall sym.": ("recall_symmetric", 2),
    "recall sym. (estimated)": ("recall_symmetric_estimated", 2),
    "RMSE sym. mean": ("rmse_symmetric_mean_answered", 3),
    "RRE median (°)": ("rre_deg_median", 2),
    "RTE median": ("rte_median", 3),
    "time median (ms)": ("time_ms_median", 1),
    "p95 (ms)": ("time_ms_p95", 1),
    "seed SD": ("rmse_seed_sd", 3),
    "problem SD": ("rmse_problem_sd", 3),
}
"""Column of the summary and digits by the head of the report's table."""


def test_the_summary_shows_each_column_under_its_head(frames, rows):
    table = tables.summary_table(
        GROUP, rows, errors_of(frames["trials"], CRITERION), CRITERION, {("a", "rmse"): "0.11"}
    )
    assert table.columns == ["method", "kind", *COLUMNS]
    order = ranking.by_recall(errors_of(frames["trials"], CRITERION))
    for cells, row in zip(by_head(table), by_rank(rows, order), strict=True):
        assert cells["method"].text == ("few, n = 3" if row["method"] == "few" else row["method"])
        assert cells["kind"].text == row["kind"]
        for head, (column, digits) in COLUMNS.items():
            assert cells[head].value == row[column], head
            if digits:
                assert cells[head].text == f"{row[column]:.{digits}f}", head
        assert cells["answered"].text == f"{row['answered']}/{row['problems']}"
        for head, name, digits in (
            ("recall@0.2 [95\u00a0%]", "recall", 2),
            ("RMSE mean over answered [95\u00a0%]", "", 3),
        ):
            low, high = (row[f"{name or 'rmse_mean'}_{end}"] for end in ("low", "high"))
            middle = row[name or "rmse_mean_answered"]
            assert cells[head].text == f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
        assert cells["RMSE mean over answered [95\u00a0%]"].beside == ("0.11" if row["method"] == "a" else "")
    known = [{**row, "recall_as_good": np.nan, "recall_symmetric_estimated": np.nan} for row in rows]
    assert table.caption == NOTE and not tables.ceiling_note(rows) and table.title == ranking.group_title(GROUP)
    noted = [{**row, "ceiling_problems": 9, "problems": row["problems"] * (row["method"] != "a")} for row in rows]
    other = tables.summary_table(GROUP, noted, errors_of(frames["trials"], CRITERION), CRITERION, {})
    assert other.caption == f"{tables.ceiling_note(noted)} {NOTE}"
    assert [row[0].text for row in other.rows] == [row[0].text for row in table.rows if row[0].text != "a"]
    assert style.not_run(noted) == "Not run: a; `bench.py list` and the report give the reasons."
    without = tables.summary_table(GROUP, known, errors_of(frames["trials"], CRITERION), CRITERION, {})
    assert without.columns == [
        "method",
        "kind",
        *(h for h in COLUMNS if h not in ("recall as good", "recall sym. (estimated)")),
    ]
    assert tables.recall_text({**rows[0], "recall": np.nan}) == "–"


def test_the_terminal_shows_each_column_under_its_head(frames, rows):
    shown = [terminal._summary_cells(row, CRITERION) for row in rows]
    for cells, row in zip(shown, rows, strict=True):
        expected = [f"{row['answered']}/{row['problems']}"]
        expected += [f"{row['recall']:.2f} [{row['recall_low']:.2f},{row['recall_high']:.2f}]"]
        expected += [f"{row[f'rmse_{name}']:.3f}" for name in ("mean_answered", "median")]
        expected += [f"{row['rre_deg_median']:.2f}", f"{row['rte_median']:.3f}"]
        assert cells[1:] == [*expected, f"{row['time_ms_median']:.1f}", f"{row['time_ms_p95']:.1f}"]
    table = terminal._summary_table("title", rows, CRITERION, 100)
    heads = ["method", "answered", "recall [95 %]", "RMSE ans.", "RMSE med.", "RRE °", "RTE", "ms", "p95 ms"]
    assert [column.header for column in table.columns] == heads
    styles = {str(cell): cell.style for cell in table.columns[0].cells}
    assert styles == {"b": "", "a": "", "c": "", "truth": "dim", "few, n = 3": "dim"}
    empty = {**rows[0], "problems": 0}
    assert terminal._summary_cells(empty, CRITERION)[2] == "–"


def test_rows_of_the_terminal_are_sorted_by_rank_controls_by_recall_few_problems_last():
    order = ranking.Ranking(["b", "a"], ["few", "less"], ["b"], [], 0.5)
    rows = [
        ("low", "control", 0.1, 40),
        ("high", "control", 0.9, 40),
        ("even", "control", 0.9, 40),
        ("a", "local", 0.9, 40),
    ]
    rows += [
        ("b", "local", 0.5, 40),
        ("less", "local", 0.1, 3),
        ("few", "local", 1.0, 3),
        ("none", "control", np.nan, 40),
    ]
    names = ("method", "kind", "recall", "distinct_problems")
    mappings = [dict(zip(names, row, strict=True)) | {"problems": row[-1]} for row in rows]
    assert [row["method"] for row in by_rank(mappings, order)] == [
        "b",
        "a",
        "even",
        "high",
        "low",
        "none",
        "few",
        "less",
    ]
    unranked = by_rank(mappings, None)
    assert [row["method"] for row in unranked] == ["a", "b", "even", "high", "low", "none", "few", "less"]


@pytest.mark.parametrize(
    ("name", "count", "expected"),
    [
        ("x" * 18, "", "x" * 18),
        ("abcdefghi0123456789", "", "abcdefghi…23456789"),
        ("abcdefghijklmnopqr", ", n = 2", "abcde…nopqr, n = 2"),
    ],
)
def test_long_names_are_cut_in_the_middle(name, count, expected):
    row = {"method": name, "distinct_problems": 2 if count else 40}
    assert terminal._name(row) == expected and len(expected) <= terminal.NAME
    assert terminal._name(row, terminal.LONGEST_NAME) == name + count


def _change(quantity, n, verdict, p=0.01, low=-0.3):
    return Change("m", f"d/{n}", quantity, n, 0.25, 0.5, Difference(0.25, low, 0.4, p), p, verdict)


def test_a_comparison_shows_its_numbers_and_counts_its_verdicts():
    changes = [_change("recall@0.2", 21, "better"), _change("recall@0.2", 22, "worse"), _change("RMSE", 23, "same")]
    changes += [_change("RMSE", 24, "worse"), _change("time (ms)", 5, "not tested", np.nan, np.nan)]
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(terminal.comparison_summary(Comparison(changes, ["only in A: x"]), ("A", "B")))
    text = console.export_text()
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    assert [line for line in lines if line in ("recall@0.2", "RMSE", "time (ms)")] == [
        "recall@0.2",
        "RMSE",
        "time (ms)",
    ]
    body = [line for line in lines if line.startswith("m d/")]
    assert body[:2] == [
        f"m d/{n} {n} 0.250 0.500 +0.25 [-0.3, +0.4] 0.01 {v}" for n, v in ((21, "better"), (22, "worse"))
    ]
    assert body[4] == "m d/5 5 0.250 0.500 +0.25 – not tested" and "only in A: x" in lines
    assert "B compared with A: 1 better, 2 worse, 1 without significant change (Holm over 4 tests," in " ".join(lines)
    heads = [str(column.header) for column in terminal._comparison_table("q", changes[:1], ("A", "B")).columns]
    assert heads == ["method", "problems", "n", "A", "B", "difference [95 %]", "p", "verdict"]
    colours = {c.verdict: terminal._comparison_table("q", [c], ("A", "B")).columns[0]._cells[0].style for c in changes}
    assert colours == {"better": "green", "worse": "red", "same": "", "not tested": ""}


def timing_frame():
    rows = [
        {"method": m, "kind": KINDS[m], "points": n, "angle_low": low, "angle_high": high, "status": s, "ended": e}
        for m, s, e in (("c", "timeout", 3), ("a", "ok", 5), ("b", "ok", 5))
        for n in (1024, 64)
        for low, high in ((0.0, 180.0), (0.0, 90.0), (90.0, 180.0))
    ]
    frame = pd.DataFrame(rows).assign(problems=5, machine="m", device="cpu", threads=2, phase="timing")
    numbers = "time_ms_median time_ms_p95 throughput_per_s peak_mb time_ms_mean batch pairs_per_s gpu_memory_mb".split()
    return distinct(frame.assign(**dict.fromkeys(numbers, 0.5)).astype({"angle_low": int, "angle_high": int}))


def test_the_table_of_times_shows_whole_rows_by_kind_and_size():
    frame = timing_frame()
    table = tables.timing_table(frame)
    whole = frame[(frame["angle_low"] == 0) & (frame["angle_high"] == 180)].set_index(["method", "points"])
    assert [(row[0].text, row[1].value) for row in table.rows] == [(m, n) for m in "bac" for n in (64, 1024)]
    heads = {"time median (ms)": "time_ms_median", "p95 (ms)": "time_ms_p95", "peak (MB)": "peak_mb"}
    heads |= {"pairs/s, one at a time": "throughput_per_s", "pairs/s in batches": "pairs_per_s"}
    heads |= {"pairs per batch": "batch", "GPU memory, peak (MB)": "gpu_memory_mb"}
    for cells in by_head(table):
        row = whole.loc[(cells["method"].text, int(cells["points"].value))]
        assert {head: cells[head].value for head in heads} == {head: row[column] for head, column in heads.items()}
        assert cells["status"].text == ("timeout (2 ×)" if cells["method"].text == "c" else "ok")
        assert (cells["timed calls"].value, cells["device"].text, cells["threads"].value) == (row["ended"], "cpu", 2)
    plain = tables.timing_table(frame.assign(batch=np.nan, pairs_per_s=np.nan, gpu_memory_mb=np.nan))
    some = frame.assign(gpu_memory_mb=frame["gpu_memory_mb"].where(frame["method"] == "a"))
    assert tables.timing_table(some).columns == table.columns, "one method's value is enough"
    several = frame.assign(machine=[f"m{i % 2}" for i in range(len(frame) // 3) for _ in range(3)])
    assert tables.timing_table(several).columns == [*table.columns, "machine"]
    assert plain.columns == [head for head in table.columns if head not in tables.OPTIONAL_TIMING_COLUMNS.values()]


def test_the_tables_of_stages_and_coverage_show_their_counts(frames):
    stages = pd.DataFrame(
        {"method": ["a", "b"], "points": [64, 32], "stage": ["x", "y"], "time_ms_median": [1.25, 7.5]}
    ).assign(machine="m", device="cpu")
    table = tables.stage_table(stages)
    assert [[c.text for c in row] for row in table.rows] == [["a", "64", "x", "1.2"], ["b", "32", "y", "7.5"]]
    table = tables.stage_table(stages.assign(device=["cpu", "cuda:0"]))
    assert table.columns[-1] == "device" and [row[-1].text for row in table.rows] == ["cpu", "cuda:0"]
    summary = frames["summary"].assign(crash=[0, 2, 0, 0, 0], skipped=1)
    table = tables.coverage_table(summary)
    assert table.columns == ["method", "problems", "run", "answered", "timeout", "crash", "skipped"]
    of = summary.set_index("method")
    assert [row[0].text for row in table.rows] == ["b", "a", "c", "truth", "few, n = 3"]
    for row in table.rows:
        names = ("problems", "answered", "timeout", "crash", "skipped")
        assert [cell.value for cell in row[2:]] == [of.loc[row[0].text.split(",")[0], name] for name in names]
        assert row[0].faint == row[-1].faint == row[0].text.startswith("few")


def test_failures_are_sorted_by_frequency_with_their_first_problem():
    rows = [("m", "error", "rare", f"p{i}") for i in range(2)] + [("m", "timeout", "often", f"q{i}") for i in range(5)]
    frame = pd.DataFrame([*rows, ("m", "ok", "", "r")], columns=["method", "status", "message", "problem"])
    frame = frame.assign(dataset="d", condition="noisy", points=64, phase="accuracy")
    frame = pd.concat([frame, frame.assign(phase="timing")], ignore_index=True)
    frame = frame.astype(dict.fromkeys(("method", "status", "dataset", "condition", "phase", "problem"), "category"))
    table = tables.failure_table(frame)
    shown = [[c.text for c in row] for row in table.rows]
    group = ranking.group_title(GROUP)
    assert shown == [["m", group, "timeout", "5", "often", "q0"], ["m", group, "error", "2", "rare", "p0"]]
    assert tables.failure_table(frame[frame["status"] == "ok"]).rows == []
    many = pd.concat([frame.assign(message=str(i)) for i in range(400)])
    assert len(tables.failure_table(many).rows) == tables.MAX_FAILURE_ROWS


def test_duels_show_row_against_column(rows):
    names = [row["method"] for row in rows]
    duels = {
        (a, b): Duel(i, j, 10 - i - j, i == 2, "few" not in (a, b))
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if a != b and "truth" not in (a, b)
    }
    table = tables.duel_table(GROUP, duels, rows)
    assert table.columns == ["wins/ties/losses of", "b", "a", "c", "few, n = 3"]
    for row, method in zip(table.rows, ("b", "a", "c", "few"), strict=True):
        for cell, other in zip(row[1:], ("b", "a", "c", "few"), strict=True):
            duel = duels.get((method, other))
            assert cell.text == (f"{duel.wins}/{duel.ties}/{duel.losses}" if duel else "–")
            tested = duel and duel.tested
            assert cell.value == (duel.wins - duel.losses) / 10 if tested else np.isnan(cell.value)
            assert cell.bold == bool(duel and duel.separable and method != "few")
            assert cell.faint == ("few" in (method, other))


def test_the_table_of_conventions_shows_the_error_and_recall_of_each(frames):
    trials, chosen = frames["trials"], ["deepgmr", "kitti", "dcp", "3dmatch"]
    errors = by_convention(trials, [CONVENTIONS[name] for name in chosen])
    table = tables.convention_table(errors, {name: CONVENTIONS[name] for name in chosen}, frames["summary"])
    assert [(row[0].text.split(",")[0], row[2].text) for row in table.rows] == [(m, c) for m in ORDER for c in chosen]
    of = errors.set_index(["method", "convention"])
    for row in table.rows:
        known, criterion = of.loc[(row[0].text.split(",")[0], row[2].text)], CONVENTIONS[row[2].text]
        assert row[3].text == criterion.label and row[1].text == ranking.group_title(GROUP)
        np.testing.assert_array_equal([row[4].value, row[5].value], [known["error"], known["recall"]])
        remark = {"dcp": "success is undefined", "3dmatch": criterion.missing}.get(row[2].text, "")
        assert row[7].text == remark and row[6].text == (criterion.recall_label if criterion.limits else "–")
        assert row[0].faint == row[0].text.startswith("few")
    twice, summaries = (pd.concat([f, f.assign(points=128)]) for f in (errors, frames["summary"]))
    both = tables.convention_table(twice, {name: CONVENTIONS[name] for name in chosen}, summaries)
    titles = [ranking.group_title((*GROUP[:2], points)) for points in (128, 64)]
    assert list(dict.fromkeys(row[1].text for row in both.rows)) in (titles, titles[::-1])
    assert [row[1].text for row in both.rows].count(titles[0]) == len(table.rows) and len(both.rows) == 2 * len(
        table.rows
    )
    assert len({row[1].text for row in both.rows[: len(table.rows)]}) == 1, "one group after the other"


def test_categories_show_the_mean_of_each_method_and_mark_what_is_not_answered(frames, rows):
    part = aggregate.per_category(frames["trials"], CRITERION).assign(kind=lambda f: f["method"].astype(str).map(KINDS))
    counts = frames["summary"].set_index("method")["distinct_problems"]
    part["distinct_problems"] = [counts[m] for m in part["method"]]
    of = part.set_index("method")
    numbers = ranking.category_table(part, errors_of(frames["trials"], CRITERION), CRITERION)
    table = tables.category_table(GROUP, numbers, CRITERION, {("c", "a"): "0.5"}, rows)
    assert table.columns == ["category", "b", "a", "c", "truth", "few, n = 3"]
    assert table.caption == tables.CATEGORY_NOTE and table.title == f"RMSE by category: {ranking.group_title(GROUP)}"
    ((first, *cells),) = table.rows
    assert first.text == "c" and [cell.value for cell in cells] == [of.loc[m, "rmse_mean_answered"] for m in ORDER]
    for cell, m in zip(cells, ORDER, strict=True):
        lost = of.loc[m, "answered"] < of.loc[m, "problems"]
        assert cell.text == f"{cell.value:.2f}" + "*" * int(lost) and cell.beside == "0.5" * (m == "a")
        assert cell.faint == (m == "few") and not cell.bold
    with matplotlib.rc_context(style.RC):
        axes = figures._categories(numbers, CRITERION, "title", "").axes[0]
    (drawn,) = (artist.cells for artist in axes.artists)  # test_cells: each is centred at its place
    assert [cell.text for cell in drawn] == [cell.text for cell in cells]
    assert np.allclose(axes.images[0].get_array(), [[cell.value for cell in cells]])
    assert axes.images[0].get_clim() == (0, 1)
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["c  n 40"]
    assert [(cell.x, cell.y) for cell in drawn] == [(j, 0) for j in range(5)]


def test_the_table_of_recall_by_group_marks_the_winner_of_each_alone():
    won, lost = np.full(40, 0.1), np.full(40, 0.9)
    groups = {}
    for points, errors in ((64, (won, lost)), (128, (lost, won)), (256, (won, won))):
        methods = {"a": ("global", errors[0]), "b": ("local", errors[1])}
        groups["d", "noisy", points] = one_group(methods, {"a": 1.0, "b": 2.0})
    shown = {g: tables.group_records(f["summary"], GROUP) for g, f in groups.items()}
    advice = {g: recommend(shown[g], errors_of(f["trials"], CRITERION), f["timing"]) for g, f in groups.items()}
    table = tables.recall_table(shown, advice, CRITERION)
    cells = {row[0].text: [(cell.value, cell.bold) for cell in row[2:]] for row in table.rows}
    assert cells == {"a": [(1, True), (0, False), (1, False)], "b": [(0, False), (1, True), (1, False)]}


def test_headlines_name_who_lost_most_and_count_ambiguous_problems():
    rows = [{"method": m, "problems": 10, "answered": n} for m, n in (("a", 9), ("b", 4), ("c", 10))]
    assert tables._failed(rows) == " 7 of 30 calls gave no answer; most of b (6 of 10)."
    assert tables._failed(rows[2:]) == " All 10 calls were answered."
    known = [
        {"ceiling": 0.9, "unambiguous": 0.8, "ceiling_problems": 10},
        {"ceiling": 0.64, "unambiguous": 0.48, "ceiling_problems": 25},
        {"ceiling_problems": 0},
    ]
    note = "In 9 of 25 problems another pose fits better than the truth (ceiling 0.64), in 13 at least as well."
    assert tables.ceiling_note(known) == note and tables.ceiling_note(known[2:]) == ""


@pytest.mark.parametrize("timed", [True, False])
def test_times_of_a_recommendation_are_those_timed_alone_at_its_size_if_any_were(timed):
    rows = [
        {"method": m, "kind": KINDS[m], "points": 64, "problems": 30, "recall": r, "time_ms_median": t}
        for m, r, t in (("a", 0.5, 7.0), ("b", 0.75, np.nan), ("truth", 1.0, 1.0))
    ]
    rows.append({**rows[0], "method": "none", "problems": 0})
    methods = ["a", "b", "truth"] if timed else ["truth"]
    timing = pd.DataFrame(
        [
            {
                "method": m,
                "points": n,
                "angle_low": 0,
                "angle_high": high,
                "phase": phase,
                "device": "cpu",
                "time_ms_median": n + high + i,
            }
            for i, m in enumerate(methods)
            for n in (32, 64)
            for high in (180, 90)
            for phase in ("timing", "accuracy")
            if (high, phase) != (180, "accuracy")
        ]
    )
    given = errors_of(group_frames()["trials"], CRITERION)
    result = recommend(rows, given, timing)
    assert result.recall == {"a": 0.5, "b": 0.75, "truth": 1.0} and result.alone == timed
    assert result.ms == ({"a": 244.0, "b": 245.0, "truth": 246.0} if timed else {"a": 7.0, "truth": 1.0})
    assert alone(timing, "time_ms_median")["truth", 32] == 212 + methods.index("truth")


def test_a_sentence_names_at_most_five_of_the_tied():
    for n in (2, 5, 6):
        names = [f"m{i}" for i in range(n)]
        order = ranking.Ranking(names, [], names, [], 0.5)
        ms = {m: 1000.0 + i for i, m in enumerate(names)}
        text = Recommendation(order, dict.fromkeys(names, 0.5), ms, False).sentence("R", str.upper)
        listed = ", ".join(f"{m.upper()} 0.50" for m in names[:5]) + ", …" * (n > 5)
        assert text == f"Tied for the best R: {listed} ({n} methods). Recommended: M0 (1000 ms), the fastest of them."
        unknown = Recommendation(order, dict.fromkeys(names, 0.5), {}, False)
        assert unknown.sentence().endswith("The time of none is known.") and unknown.method == "m0"
        quick = Recommendation(order, dict.fromkeys(names, 0.5), {"m1": 1.0}, True)
        assert "Recommended: m1 (1 ms, timed alone)" in quick.sentence()
    assert Recommendation(None, {}, {}, False).sentence() == "" and Recommendation(None, {}, {}, False).method is None


def test_a_method_that_is_as_fast_is_not_called_faster():
    """Of methods that lose a single test, those that take less time than the recommended one are named."""
    order = ranking.Ranking(["a", "b", "c"], [], ["a", "b", "c"], ["b", "c"], 0.5)
    for b, named in ((4.9, " (faster, but worse in one: b)"), (5.0, ""), (5.1, "")):
        advice = Recommendation(order, dict.fromkeys("abc", 0.5), {"a": 5.0, "b": b}, False)
        assert (named in advice.sentence()) and ("faster" in advice.sentence()) == bool(named)


def curve_lines(axes):
    """Data of the lines in the units of the axes, without leaders of labels."""
    lines = [line for line in axes.lines if line.get_transform() == axes.transData]
    return [np.array(line.get_data(), dtype=float) for line in lines]


def ticks_of(axes):
    """Places and texts of the ticks of the x axis."""
    return axes.get_xticks().tolist(), axes.xaxis.get_major_formatter().format_ticks(axes.get_xticks())


def labels_of(figure, panels):
    """Labels of the axes of the first panels, which share their x axis; others show nothing."""
    axes = figure.axes[:panels]
    assert all(axes[0].get_shared_x_axes().joined(axes[0], other) for other in axes)
    assert not any(other.axison for other in figure.axes[panels:])
    return [[a.get_xlabel() for a in axes], [a.get_ylabel() for a in axes]]


def panels_of(frames):
    """Panels of the frames' group: one method each."""
    return kind_panels(tables.group_records(frames["summary"], GROUP), None)


def test_figures_of_curves_show_the_share_below_each_error(frames):
    with matplotlib.rc_context(style.RC):
        panels = panels_of(frames)
        rest = CRITERION, "title", "", 0.25
        figure = figures._cdf(panels, frames["cdf"], *rest)
        wide = figures.error_axis(np.geomspace(1e-6, 1, 50), CRITERION)
        logarithmic = figures._cdf(panels, frames["cdf"].assign(rmse=np.geomspace(1e-6, 1, len(frames["cdf"]))), *rest)
    axis = figures.error_axis(frames["cdf"]["rmse"].to_numpy(), CRITERION)
    assert [a.get_xscale() for a in (figure.axes[0], logarithmic.axes[0])] == ["linear", "log"] and wide.log
    assert [axes.get_title(loc="left") for axes in figure.axes[:3]] == ["local", "global", "learned"]
    shares = "share of problems"
    assert labels_of(figure, 3) == [["", *["RMSE (units of the cloud)"] * 2], [shares, "", shares]]
    for axes, panel in zip(figure.axes, panels, strict=False):
        (m,) = (str(row["method"]) for row in panel.rows)
        errors = frames["trials"].loc[frames["trials"]["method"] == m, "rmse"].to_numpy()
        (x, y) = curve_lines(axes)[-1]
        assert (x[0], y[0], x[-1], y[-1]) == (axis.low, 0, axis.high, pytest.approx((errors <= axis.high).mean()))
        assert (axes.get_xlim(), axes.get_ylim()) == ((axis.low, axis.high), (0, 1.02))
        inside = np.sort(errors[errors <= axis.high])
        assert np.allclose(x[1:-1], np.maximum(inside, axis.low))
        assert np.allclose(y[1:-1], [(errors <= e + 1e-12).mean() for e in inside])
        texts = [text.get_text() for text in axes.texts]
        assert texts == ["recall@0.2", "ceiling 0.25", f"{m} {panel.rows[0]['recall']:.2f}"]
        assert [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"] == [0.25]
        assert [line.get_xdata()[0] for line in axes.lines if len(set(line.get_xdata())) == 1] == [0.2]


@pytest.mark.parametrize("n", [10, 399, 400, 401, 5000])
def test_a_curve_has_at_most_400_steps_and_both_ends(n):
    from matplotlib.figure import Figure

    row = {"method": "a", "kind": "global", "recall": 0.5, "distinct_problems": 40}
    y = np.arange(1, n + 1) / n * 0.9
    curve = pd.DataFrame({"rmse": np.linspace(0.01, 0.7, n), "fraction": y})
    axes = Figure().subplots()
    end = figures._curve(axes, curve, row, CRITERION, figures.ErrorAxis(0.0, 1.0, False))
    x, shown = map(np.asarray, axes.lines[0].get_data())
    assert len(x) == min(n, 400) + 2 and axes.lines[0].get_drawstyle() == "steps-post"
    assert (x[1], x[-2], shown[1], shown[-2]) == pytest.approx((0.01, 0.7, y[0], y[-1]))
    assert end.y == pytest.approx(0.9) and end.text == "a 0.50"
    cut = Figure().subplots()
    figures._curve(cut, curve, row, CRITERION, figures.ErrorAxis(0.0, 0.35, False))
    x, shown = map(np.asarray, cut.lines[0].get_data())
    assert x[-1] == 0.35 and shown[-1] == shown[-2] and x[-2] <= 0.35


def test_without_a_threshold_no_line_marks_it(frames):
    plain = replace(CRITERION, limits=())
    assert plain.threshold is None
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    figures._frame_cdf(axes, plain, figures.ErrorAxis(0.0, 1.0, False), np.nan)
    assert axes.lines[:] == [] and axes.texts[:] == []
    rows = tables.group_records(frames["summary"], GROUP)
    assert interactive.cdf(frames["cdf"], rows, plain)["layout"]["shapes"] == []
    every = {name: frames[name].iloc[:0] for name in ("summary", "cdf", "timing")}
    assert interactive.all_charts(every, {}, plain)["time"] == {}


def test_the_error_axis_ends_at_one_or_at_a_percentile_of_the_errors():
    kitti = CONVENTIONS["kitti"]
    assert figures.error_axis(np.array([3.0, 4.0]), CRITERION) == (0, 1, False)
    assert figures.error_axis(np.array([]), kitti) == (0, 1, False)
    assert figures.error_axis(np.array([50.0, 101.0]), kitti) == (0, pytest.approx(95.9), False)
    assert figures.error_axis(np.array([1.0]), kitti).high == pytest.approx(3), "one and a half times its limit of 2"
    low, high, log = figures.error_axis(np.array([*np.geomspace(1e-6, 10, 100), np.inf]), kitti)
    assert log and (low, high) == (pytest.approx(1e-3), 10)


@pytest.mark.parametrize(
    ("limits", "marks"),
    [
        ((0.008, 1.2), ["0.01", "0.1", "1"]),
        ((0.5, 3e6), ["1", "10", "100", "1000", "10000", "100000", "1e+06"]),
        ((3.0, 80.0), ["5", "10", "20", "50"]),
        ((20.0, 26.0), ["20", "21", "22", "23", "24", "25", "26"]),
    ],
)
def test_logarithmic_axes_have_marks_at_decades_or_more_of_them_on_a_short_axis(limits, marks):
    axes = Figure().subplots()
    axes.set(xscale="log", xlim=limits)
    set_log_ticks(axes.xaxis)
    ticks = [(x, label.get_text()) for x, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)]
    shown = [(x, text) for x, text in ticks if limits[0] <= x <= limits[1]]
    assert [text for _, text in shown] == marks and not len(axes.get_xticks(minor=True))
    assert [x for x, _ in shown] == pytest.approx([*map(float, marks)])


def test_figures_by_angle_show_mean_error_and_recall_at_the_middle_of_each_bin(frames):
    trials = frames["trials"].assign(angle_deg=np.tile([10.0, 50.0, 130.0], 60)[: len(frames["trials"])])
    bins = aggregate.by_angle(trials, [0, 40, 90, 180], CRITERION)
    data, trend = trends._binned(bins, "angle", "angle", CRITERION)
    with matplotlib.rc_context(style.RC):
        panels = panels_of(frames)
        figure = trends._trend_figure(data, trend, panels, CRITERION, "title", "", np.nan)
    assert labels_of(figure, 6) == [["", "", "", "", "angle", "angle"], ["recall", "mean RMSE, answered"] * 3]
    for panel, left, right in zip(panels, figure.axes[::2], figure.axes[1::2], strict=True):
        assert left.get_title(loc="left") == panel.title and left.get_ylim() == (-0.03, 1.03)
        assert (right.get_yscale(), right.get_ylim()[0]) == ("symlog", 0)
        assert ticks_of(left) == (trend.ticks, trend.texts) and left.get_xscale() == "linear"
        mine = bins[bins["method"] == panel.rows[0]["method"]]
        middle = ((mine["angle_low"] + mine["angle_high"]) / 2).tolist()
        (recall,) = curve_lines(left)
        assert recall[0].tolist() == middle and recall[1].tolist() == mine["recall"].tolist()
        assert [text.get_text() for text in right.texts] == [str(row["method"]) for row in panel.rows]
        whole, hollow = curve_lines(right)
        np.testing.assert_array_equal(whole[1], mine["rmse_mean_answered"])
        partly = (mine["answered"] < mine["problems"]).to_numpy()
        np.testing.assert_array_equal(hollow[1], mine["rmse_mean_answered"][partly])
        assert right.lines[1].get_markerfacecolor() == style.PAPER
        low, high = right.get_ylim()
        assert low == 0 and high > bins["rmse_mean_answered"][bins["method"].isin(list("abc"))].max(), (
            "one axis for all"
        )
    assert {label.get_fontsize() for axes in figure.axes[-2:] for label in axes.get_xticklabels()} == {6.0}
    counts = bins.groupby("angle_low")["problems"].max().tolist()
    assert list(trend.texts) == [f"{e}\nn {n}" for e, n in zip(("0–40", "40–90", "90–180"), counts, strict=True)]


def test_times_are_drawn_over_the_number_of_points_only_if_there_are_several(tmp_path, frames):
    one_size = timing_frame().query("points == 64")
    assert [job.stem.name for job in trends.times_of(one_size, tmp_path)] == ["time_angle_64"]
    given = {name: frames[name].iloc[:0] for name in ("summary", "cdf")}
    assert interactive.all_charts(given | {"timing": one_size}, {}, CRITERION)["time"] == {}


def test_figures_and_charts_of_times_show_medians_and_where_no_call_returned(tmp_path):
    frame = timing_frame()
    frame.loc[(frame["method"] == "c") & (frame["points"] == 1024), "time_ms_median"] = np.nan
    whole = frame[(frame["angle_low"] == 0) & (frame["angle_high"] == 180)]
    jobs = list(trends.times_of(frame, tmp_path))
    assert [job.stem.name for job in jobs] == ["time_points", "time_angle_64", "time_angle_1024"]
    with matplotlib.rc_context(style.RC):
        figure, angles = (job.make(*job.arguments) for job in jobs[:2])
    assert [axes.get_title(loc="left") for axes in figure.axes[:3]] == ["local", "global", "learned"]
    assert labels_of(figure, 3) == [["", *["points per cloud"] * 2], [""] * 3]
    assert labels_of(angles, 3)[0] == ["", *["rotation angle (°)"] * 2]
    assert figure._supylabel.get_text() == angles._supylabel.get_text() == "median time per pair (ms)"
    for axes, m in zip(figure.axes, ("b", "a", "c"), strict=False):
        assert ticks_of(axes) == ([64, 1024], ["64", "1024"])
        assert axes.get_xlim() == pytest.approx((64 / 1.15, 1024 * 1.15))
        mine = whole[whole["method"] == m].sort_values("points")
        np.testing.assert_array_equal(curve_lines(axes)[0], [mine["points"], mine["time_ms_median"]])
        crosses = [line.get_data() for line in axes.lines if line.get_marker() == "x" and len(line.get_xdata())]
        assert [(list(x), list(y)) for x, y in crosses] == ([([1024], [1.0])] if m == "c" else [])
        assert axes.get_xscale() == axes.get_yscale() == "log"
        last = mine["time_ms_median"].dropna().iloc[-1]
        assert [text.get_text() for text in axes.texts] == [f"{m} {style.number(last, 0)}"]
    assert curve_lines(angles.axes[1])[0][0].tolist() == [45, 135] and angles.axes[0].get_xscale() == "linear"
    chart = interactive.times(frame)
    assert [trace["name"] for trace in chart["data"]] == ["b", "a", "c"]
    for trace in chart["data"]:
        mine = whole[whole["method"] == trace["name"]].sort_values("points")
        assert trace["x"] == [64, 1024] and trace["text"] == mine["status"].tolist()
        assert trace["y"] == [None if np.isnan(v) else pytest.approx(v, rel=1e-4) for v in mine["time_ms_median"]]
    assert chart["layout"]["xaxis"]["tickvals"] == [64, 1024] and json.dumps(chart)


def test_lines_without_a_value_have_no_label_at_their_end(frames):
    rows = [row for row in tables.group_records(frames["summary"], GROUP) if row["method"] in "ab"]
    mean = {"a": [0.25, np.nan], "b": [np.nan, np.nan]}
    data = pd.DataFrame([{"method": m, "x": x, "mean": v} for m, some in mean.items() for x, v in enumerate(some)])
    ends = trends._mean_ends(data.iloc[::-1], KindPanel("global", rows, 0))
    assert [(end.text, end.y) for end in ends] == [("a", 0.25)]
    timing = data.rename(columns={"mean": "time_ms_median"}).assign(kind="global")
    assert [(end.text, end.y) for end in trends._time_ends(timing, "global")] == [("a 0.250", 0.25)]
    words = trends._ends_in_words(data.assign(recall=[0.5, 0.75, 0.25, 1.0]), [KindPanel("global", rows, 0)], TREND)
    assert words == "Recall at overlap few and at many: b 0.25 to 1.00; a 0.50 to 0.75."
    assert trends._ends_in_words(data[:0].assign(recall=[]), [KindPanel("global", rows, 0)], TREND) == ""


TREND = trends.Trend("overlap", [0, 1], ["few\nn 3", "many\nn 4"])


def test_recall_against_time_shows_both_with_the_interval(frames, tmp_path):
    rows = [r for r in tables.group_records(frames["summary"], GROUP) if r["method"] in "abc"]
    advice = Recommendation(None, {}, {"a": 5.0, "b": 7.0, "c": 11.0}, True)
    assert figures.recall_time_job(rows, advice, CRITERION, "d", tmp_path / "x").arguments[0] == rows
    unknown = Recommendation(None, {}, {"truth": 1.0, "few": 1.0}, True)
    assert figures.recall_time_job(rows, unknown, CRITERION, "d", tmp_path / "x") is None
    with matplotlib.rc_context(style.RC):
        axes = figures._recall_time(rows, advice, CRITERION, "title", "").axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time for one pair, timed alone (ms)", CRITERION.recall_label)
    assert axes.get_xscale() == "log" and axes.get_xlim() == pytest.approx((5 / 1.5, 11 * 1.9))
    assert axes.get_ylim() == (-0.04, 1.06)
    points = [line.get_data() for line in axes.lines if len(line.get_xdata()) == 1 and line.get_marker() != "None"]
    assert [(float(x[0]), float(y[0])) for x, y in points] == [(advice.ms[r["method"]], r["recall"]) for r in rows]
    for bars, row in zip(axes.collections, rows, strict=True):
        (segment,) = bars.get_segments()
        assert segment[:, 1].tolist() == pytest.approx([row["recall_low"], row["recall_high"]])
    assert {text.get_text() for text in axes.texts} == {"a", "b", "c"}
    assert interactive.pareto(rows, advice)["labels"]  # as in the figure; curves have a legend
    assert not interactive.cdf(frames["cdf"], rows, CRITERION).get("labels")


def test_every_figure_with_data_is_drawn_once_under_its_own_name(frames, tmp_path):
    more = pd.concat([frames["summary"].assign(points=128), frames["summary"].assign(points=256, problems=0)])
    trials = frames["trials"].assign(angle_deg=10.0, overlap=0.5)
    frames = {
        "summary": pd.concat([frames["summary"], more]),
        "cdf": pd.concat([frames["cdf"], frames["cdf"].assign(points=128)]),
        "by_angle": aggregate.by_angle(trials, [0, 180], CRITERION),
        "by_overlap": aggregate.by_overlap(trials, CRITERION),
    }
    other = (*GROUP[:2], 128)
    advice = dict.fromkeys((GROUP, other), Recommendation(None, {}, dict.fromkeys("abc", 5.0), False))
    jobs = list(figures.figures_of(frames, {}, advice, CRITERION, tmp_path))
    assert [job.stem.name for job in jobs] == [f"{n}_d_noisy_{p}" for p in (64, 128) for n in ("cdf", "recall_time")]
    assert [job.kind for job in jobs] == ["cdf", "recall_time"] * 2
    assert [job.caption for job in jobs] == [figures.CDF_CAPTION, figures.RECALL_TIME_CAPTION] * 2
    others = list(trends.trends_of(frames, {}, CRITERION, tmp_path))
    assert [job.stem.name for job in others] == ["angle_d_noisy_64", "points_d_noisy"]
    data = others[1].arguments[0].set_index(["method", "points"])
    of = frames["summary"].set_index(["method", "points"])
    np.testing.assert_array_equal(data["recall"], of.loc[data.index, "recall"])
    np.testing.assert_array_equal(data["mean"], of.loc[data.index, "rmse_mean_answered"])
    assert [job.kind for job in others] == ["angle", "points"]
    assert [job.title for job in others] == [
        f"Recall and error against rotation angle · {ranking.group_title(GROUP)}",
        "Recall and error against points per cloud · d · noisy",
    ]
    separate = "intervals of the problems of a bin, as if each had its own object."
    assert [separate in job.caption for job in others] == [True, False] and "intervals." in others[1].caption


def test_charts_of_curves_and_bins_show_their_rows(frames):
    rows = tables.group_records(frames["summary"], GROUP)
    chart = interactive.cdf(frames["cdf"], rows, CRITERION)
    ranked = by_rank(rows, None)
    assert [t["name"].split(" ")[1].rstrip(",") for t in chart["data"]] == [r["method"] for r in ranked]
    for trace, row in zip(chart["data"], ranked, strict=True):
        mine = frames["cdf"][frames["cdf"]["method"] == row["method"]]
        assert trace["name"].startswith(f"{row['recall']:.2f} ")
        assert trace["x"] == pytest.approx(mine["rmse"].tolist(), rel=1e-4)
        assert trace["y"] == pytest.approx(mine["fraction"].tolist(), rel=1e-4)
        ends = [0] * (len(mine) - 1) + [10 * (mine["fraction"].iloc[-1] == 1)]
        assert trace["marker"]["size"] == ends
    (line,) = chart["layout"]["shapes"]
    assert (line["x0"], line["x1"], line["y0"], line["y1"]) == (0.2, 0.2, 0, 1)
    shown = frames["cdf"].loc[frames["cdf"]["method"] != "truth", "rmse"].to_numpy()
    low, high, log = figures.error_axis(shown, CRITERION)
    ends = [np.log10(low), np.log10(high)] if log else [low, high]
    assert chart["layout"]["xaxis"]["range"] == pytest.approx(ends)
    assert chart["layout"]["xaxis"]["type"] == ("log" if log else "linear")
    assert chart["linear"] == [0, high] and chart["log"] == "xaxis"
    trials = frames["trials"].assign(angle_deg=np.tile([10.0, 130.0], 90)[: len(frames["trials"])])
    bins = aggregate.by_angle(trials, [0, 40, 180], CRITERION)
    chart = interactive.by_bins(bins, rows, "angle", "angle", CRITERION)
    for number, row in enumerate(rows):
        mine = bins[bins["method"] == row["method"]]
        recall, error = chart["data"][2 * number : 2 * number + 2]
        assert recall["x"] == error["x"] == [20, 110]
        assert recall["y"] == pytest.approx(mine["recall"].tolist(), rel=1e-4) and "yaxis" not in recall
        assert error["y"] == pytest.approx(mine["rmse_mean_answered"].tolist(), rel=1e-4) and error["yaxis"] == "y2"
        counts = [f"{a} of {p} answered" for a, p in zip(mine["answered"], mine["problems"], strict=True)]
        assert recall["text"] == counts and recall["legendgroup"] == row["method"] and error["showlegend"] is False
    assert interactive.by_bins(bins[bins["angle_low"] == 0], rows, "angle", "angle", CRITERION) is None
    for shares in (chart, interactive.cdf(frames["cdf"], rows, CRITERION)):
        low, high = shares["layout"]["yaxis"]["range"]
        assert -0.1 < low <= 0 and 1 <= high < 1.1


@pytest.mark.parametrize("n", [1, 160, 161, 3000])
def test_long_curves_are_reduced_evenly_over_their_height(n):
    y = np.sort(np.random.default_rng(n).random(n))
    kept = interactive._reduced_rows(y)
    assert len(kept) <= 160 and kept[0] == 0 and kept[-1] == n - 1 and (np.diff(kept) > 0).all()
    if n <= 160:
        assert len(kept) == n
    else:
        assert np.diff(y[kept]).max() <= (y[-1] - y[0]) / 159 + np.diff(y).max()


def test_charts_show_small_numbers_names_and_every_section(frames):
    exact = frames["cdf"].assign(rmse=0.0)
    rows = tables.group_records(frames["summary"], GROUP)
    assert {x for trace in interactive.cdf(exact, rows, CRITERION)["data"] for x in trace["x"]} == {1e-6}
    assert interactive._escape("a<b>&$") == "a&lt;b&gt;&amp;&#36;" and len(interactive._escape("x" * 99)) == 28
    assert interactive._rounded([1 / 3, np.inf, np.nan, 123456.0]) == [0.33333, None, None, 123460.0]
    ms = dict.fromkeys("abc", 5.0) | {"truth": 1e-9}
    points = interactive.pareto(rows, Recommendation(None, {}, ms, True))
    assert points["data"][0]["x"] == [] and {t["name"]: t["x"] for t in points["data"][1:]} == {
        "b": [5.0],
        "a": [5.0],
        "c": [5.0],
        "truth": [1e-3],
    }
    assert "timed alone" in points["layout"]["xaxis"]["title"]["text"]
    trials = frames["trials"].assign(angle_deg=np.tile([10.0, 130.0], 90)[: len(frames["trials"])], overlap=0.5)
    every = frames | {"by_angle": aggregate.by_angle(trials, [0, 90], CRITERION), "timing": timing_frame()}
    every |= {"by_overlap": aggregate.by_overlap(trials, CRITERION)}
    charts = interactive.all_charts(every, {GROUP: Recommendation(None, {}, ms, False)}, CRITERION)
    counts = {name: list(some) for name, some in charts.items()}
    assert counts == {"cdf": [GROUP], "pareto": [GROUP], "angle": [GROUP], "overlap": [], "time": [None]}
    looks = {name: interactive._line(name, kind) for name, kind in (("fgr", "global"), ("fgr+icp", "global"))}
    assert [look["line"]["dash"] for look in looks.values()] == ["solid", "4px,1.6px"]
    assert [look["marker"]["symbol"].endswith("-open") for look in looks.values()] == [False, True]
    assert interactive._line("x+y", "control")["line"]["color"] == interactive._line("x", "control")["line"]["color"]
