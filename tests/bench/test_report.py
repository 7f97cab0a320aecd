import io
import re

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from rich.console import Console

from bench.evaluation import aggregate
from bench.evaluation.conventions import CONVENTIONS
from bench.report import (
    Options,
    ProblemReplay,
    begin_report,
    build,
    figures,
    paper,
    ranking,
    style,
    tables,
    terminal_summary,
)
from bench.report.ranking import by_recall, errors_of, lowest_error, select_group
from bench.report.table import Table, TableCell, tex
from tests.bench.synthetic_run import HOSTILE, METHODS, as_loaded, synthetic_run

CRITERION = CONVENTIONS["deepgmr"]

FEW = ("deepgmr", "fgr+icp", "identity", HOSTILE)


def report(loaded, folder, against=False, data="nowhere"):
    options = Options(CRITERION, against, folder / "results" / "a", folder / "reports" / "a")
    return begin_report(loaded, aggregate.tables(loaded, CRITERION), ProblemReplay(loaded, folder / data), options)()


@pytest.fixture(scope="module")
def made():
    return synthetic_run(n=12, sizes=(256,), methods=FEW, conditions=("noisy",))


@pytest.fixture(scope="module")
def whole():
    return aggregate.tables(as_loaded(*synthetic_run(n=40, sizes=(256, 4096))), CRITERION)


@pytest.fixture(scope="module")
def written(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return folder, report(as_loaded(*made), folder)


def test_everything_asked_for_is_written(written):
    folder, files = written
    assert files[0] == folder / "reports" / "a" / "report.html"
    names = {file.name for file in files}
    group = "modelnet40_noisy_1024"
    kinds = (f"cdf_{group}", f"angle_{group}", f"categories_{group}", "time_points", "time_angle_256")
    assert {f"{kind}.{end}" for kind in kinds for end in ("png", "svg")} <= names
    stems = (f"categories_{group}", f"summary_{group}", "table1", "table2", "conventions")
    assert {f"{stem}.{end}" for stem in stems for end in ("csv", "md", "tex")} | {"summary.md"} <= names
    assert all(file.stat().st_size > 20 for file in files)
    assert not list(folder.rglob("*.tmp"))


def test_the_page_stands_alone_and_a_hostile_name_stays_text(written):
    page = written[1][0].read_text()
    assert HOSTILE not in page and "&lt;script&gt;alert(1)" in page
    start = page.index('<script type="text/plain"')
    ours = page[:start] + page[page.index("</script>", start) :]  # all but plotly.js
    assert not re.search(r'(?:src|href)="(?!#|data:|\.\./)', ours)
    assert "url(http" not in ours and "@import" not in ours
    assert "../../results/a/summary.csv" in page
    assert str(written[0]) not in page.replace(str(written[0] / "nowhere"), "")
    assert len(page) < 15e6


def test_the_page_says_what_a_reader_needs(written, made):
    page, run = written[1][0].read_text(), made[2]
    for text in (
        "highest recall@0.2",
        "shapes40.safetensors",
        "has 512 fixed points",
        "pip install absent",
        "a made-up one",
        "No pictures of modelnet40",
    ):
        assert text in page
    for name, digest in run["problem_sets"].items():
        assert name in page and digest in page


def test_two_reports_of_one_run_are_the_same_bytes(written, made, tmp_path):
    problems, outcomes, run = made
    again = report(as_loaded(problems, outcomes.sample(frac=1, random_state=3), run), tmp_path)
    for one, two in zip(written[1], again, strict=True):
        if one.suffix != ".png":
            assert one.read_bytes().replace(bytes(written[0]), bytes(tmp_path)) == two.read_bytes(), one.name


def test_no_label_is_clipped_and_no_legend_covers_axes(whole):
    frames = whole
    with matplotlib.rc_context(style.RC):
        group = tables.groups_of(frames["summary"])[0]
        summary = select_group(frames["summary"], group)
        drawn = [figures._cdf(select_group(frames["cdf"], group), summary, CRITERION, "title")]
        drawn.append(figures._by_angle(select_group(frames["by_angle"], group), summary, CRITERION, "title"))
        times = frames["timing"].query("angle_low == 0 and angle_high == 180")
        drawn.append(figures._times_by_points(times, "title"))
        errors = errors_of(select_group(frames["trials"], group), CRITERION)
        table = ranking.category_table(build._with_kind(frames, group), errors, CRITERION)
        drawn.append(figures._categories(table, "title"))
        for figure in drawn:
            _assert_inside(figure)


def _assert_inside(figure):
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    for axes in figure.axes:
        labels = [
            *axes.get_xticklabels(),
            *axes.get_yticklabels(),
            axes.title,
            axes._left_title,
            axes.xaxis.label,
            axes.yaxis.label,
        ]
        for text in labels:
            low, high = axes.get_xlim() if text in axes.get_xticklabels() else axes.get_ylim()
            hidden = text in [*axes.get_xticklabels(), *axes.get_yticklabels()] and not (
                min(low, high) <= text.get_position()[0 if text in axes.get_xticklabels() else 1] <= max(low, high)
            )
            if text.get_text() and not hidden:
                box = text.get_window_extent(renderer)
                assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1, (
                    text
                )
    for legend in figure.legends:
        box = legend.get_window_extent(renderer)
        assert box.x1 <= figure.bbox.x1 + 1 and box.y0 >= 0
        assert not any(box.overlaps(axes.get_window_extent(renderer)) for axes in figure.axes)
        assert len(legend.get_texts()) == len(METHODS)


def test_looks_depend_on_the_name_alone_and_tell_methods_apart():
    looks = {name: style.look(name, kind) for name, (kind, *_) in METHODS.items()}
    for name, (kind, *_) in METHODS.items():
        assert style.look(name, kind) == looks[name]
    shown = [look for name, look in looks.items() if METHODS[name][0] != "control"]
    assert len(set(shown)) == len(shown)
    assert len({look.marker for name, look in looks.items() if METHODS[name][0] == "control"}) == 5
    assert looks["fgr"].colour == looks["fgr+icp"].colour and looks["fgr"].line != looks["fgr+icp"].line
    assert {style.look(f"m{i}", "global").colour for i in range(40)} <= set(style._COLOURS)


def test_every_packaged_colour_survives_colour_blindness():
    """Pairs of fixed colours stay apart in lightness or hue after Viénot's deuteranopia projection."""
    colours = [v["colour"] for v in style._packaged_looks().values() if "colour" in v]
    rgb = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in colours]) ** 2.2
    flat = rgb @ np.array([[0.29275, 0.29275, -0.02234], [0.70725, 0.70725, 0.02234], [0.0, 0.0, 1.0]])
    seen = np.clip(flat, 0, 1) ** (1 / 2.2)
    gaps = np.linalg.norm(seen[:, None] - seen[None], axis=2)[np.triu_indices(len(seen), 1)]
    assert gaps.min() > 0.12


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (np.nan, 3, "–"),
        (np.inf, 3, "∞"),
        (0, 2, "0"),
        (1e-7, 3, "1e-7"),
        (0.0021, 2, "0.002"),
        (0.123456, 3, "0.123"),
        (123.4, 3, "123.4"),
        (6123.4, 1, "6123"),
    ],
)
def test_numbers(value, digits, text):
    assert style.number(value, digits) == text


def test_the_terminal_table_fits_and_takes_names_as_text(whole):
    long = {"teaser": "[bold]a_method_with_a_very_very_long_name[/bold]"}
    summary = whole["summary"].assign(method=whole["summary"]["method"].replace(long))
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(terminal_summary(summary, whole["timing"], CRITERION))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 100
    assert any(" [bold]a_m…e[/bold] " in line for line in lines)  # cut in the middle
    assert any(" <script>a…/script> " in line for line in lines)
    assert sum("oracle" in line for line in lines) == 3
    assert any("1.00 [0.91,1.00]" in line for line in lines)


def test_a_method_is_efficient_by_its_time_alone(whole):
    errors = {p: errors_of(select_group(whole["trials"], p), CRITERION) for p in tables.groups_of(whole["summary"])}
    fgr = whole["summary"]["method"] == "fgr"
    contended = whole["summary"].assign(time_ms_mean=whole["summary"]["time_ms_mean"].mask(fgr, 1200.0))

    def group(timing):
        found = paper.paper_tables(contended, timing, errors, CRITERION, False)["table1"]
        return next(row[1].text for row in found.rows if row[0].text == "fgr")

    alone = whole["timing"].assign(points=1024)
    assert group(alone[alone["method"] != "fgr"]) == "inefficient global"
    assert group(alone.assign(time_ms_mean=800.0)) == "efficient global"


def _printed(rows, timed=()):
    """The terminal's lines of rows (method, kind, problems, recall, ms), and of times (method, ms) alone."""
    names = "method kind problems recall time_ms_median".split()
    summary = pd.DataFrame(rows, columns=names).assign(dataset="d", condition="noisy", points=64)
    summary = summary.assign(recall_low=summary["recall"] - 0.1, recall_high=summary["recall"] + 0.1)
    others = ["rmse_mean_answered", "rmse_median", "rre_deg_median", "rte_median", "time_ms_p95"]
    summary = summary.assign(answered=summary["problems"], **dict.fromkeys(others, 1.0))
    timing = pd.DataFrame(timed, columns=["method", "time_ms_median"]).assign(points=64, angle_low=0, angle_high=180)
    timing = timing.assign(phase="timing")
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(terminal_summary(summary, timing, CRITERION))
    return [" ".join(line.split()) for line in console.export_text().splitlines() if line.strip()]


def test_the_terminal_sorts_by_recall_and_says_what_it_comes_to():
    rows = [
        ("truth", "control", 40, 1.0, 1.0),
        ("poor", "local", 40, 0.3, 1.0),
        ("few", "global", 4, 1.0, 900.0),
        ("near", "local", 40, 0.8, 30.0),
        ("best", "learned", 40, 0.9, 50.0),
        ("absent", "global", 0, np.nan, np.nan),
    ]
    lines = _printed(rows)
    assert [line.split()[0] for line in lines[3:8]] == ["best", "near", "poor", "few", "truth"]
    assert lines[8].startswith("Not run: absent")
    assert lines[9] == "Best recall: best (0.90). Fastest whose interval overlaps: near (30 ms)."
    told = _printed(rows, [("best", 7.0), ("near", 9.0)])[9]
    assert told == "Best recall: best (0.90). None whose interval overlaps is faster."
    told = _printed(rows, [("best", 7.0), ("near", 0.25)])[9]
    assert told.endswith("overlaps: near (0.2 ms, timed alone).")


def test_a_method_that_never_succeeds_is_no_choice():
    assert "No method succeeds." in _printed([("a", "local", 2, 0.0, 1.0)])
    lines = _printed([("a", "local", 2, 0.05, 9.0), ("never", "local", 2, 0.0, 1.0)])
    assert "Best recall: a (0.05). None whose interval overlaps is faster." in lines


def test_without_a_recall_there_is_no_verdict():
    assert not any("recall:" in line for line in _printed([("a", "local", 40, np.nan, 1.0)]))


def _errors(rmse, kind="global"):
    """Errors of one group: rmse by method, an item a problem; the method `control` is a control."""
    rows = [
        {"method": m, "problem": f"{i:03d}", "rmse": e, "kind": "control" if m == "control" else kind}
        for m, errors in rmse.items()
        for i, e in enumerate(errors)
    ]
    status = ["timeout" if np.isinf(r["rmse"]) else "ok" for r in rows]
    trials = pd.DataFrame(rows).assign(category="c", status=status)
    return errors_of(trials.assign(success=CRITERION.success(trials)), CRITERION)


def _lowest(rmse):
    errors = _errors(rmse)
    return lowest_error(errors.error, errors.methods)


def test_bold_needs_all_answered_and_a_separable_lead():
    draw = np.random.default_rng(0)
    good, close, bad = (abs(draw.normal(m, 0.02, size=40)) for m in (0.1, 0.101, 0.5))
    assert _lowest({"a": good, "b": bad}) == "a"
    assert _lowest({"a": good, "b": close}) is None
    assert _lowest({"a": good, "b": bad, "c": close}) is None
    assert _lowest({"a": good[:4], "b": bad[:4]}) is None
    silent = np.where(np.arange(40) < 5, np.inf, good / 100)
    assert _lowest({"silent": silent, "a": good, "b": bad}) == "a"
    assert _lowest({"control": good * 0, "a": good, "b": bad}) == "a"
    assert _lowest({"a": good}) is None


def test_among_equals_a_winner_is_bold_no_more_often_than_the_level_allows():
    """Eight methods of the same quality: one is the lowest, and it must not be called separable."""
    draw = np.random.default_rng(1)
    bold = [_lowest({f"m{m}": draw.gamma(2, 0.1, size=30) for m in range(8)}) for _ in range(100)]
    assert sum(name is not None for name in bold) <= 5


def test_recall_ranking():
    sure, lost = np.full(40, 0.1), np.full(40, 0.9)
    mixed = np.where(np.arange(40) < 2, np.inf, 0.1)
    found = by_recall(_errors({"worst": lost, "best": sure, "near": mixed, "control": sure * 0}))
    assert found.methods == ["best", "near", "worst"] and found.tied == ["near"] and found.winner is None
    assert by_recall(_errors({"a": sure, "b": lost})).winner == "a"
    few = by_recall(_errors({"a": sure, "b": lost[:3]}))  # three shared problems separate nothing
    assert few.winner is None
    assert by_recall(_errors({"few": sure[:5], "many": mixed})).methods == ["many", "few"]
    assert by_recall(_errors({"control": sure})) is None


def test_duels_count_every_shared_problem():
    won = np.r_[np.full(30, 0.1), np.full(5, np.inf), 0.3, 0.31]
    lost = np.r_[np.full(30, 0.2), np.full(5, np.inf), 0.3, 0.30]
    found = ranking.duels(_errors({"a": won, "b": lost, "c": lost[:10]}))
    assert found["a", "b"] == (30, 7, 0, True) and found["b", "a"] == (0, 7, 30, True)
    assert found["a", "c"][:3] == (10, 0, 0) and found["b", "c"] == (0, 10, 0, False)


def test_the_papers_numbers_stand_beside_ours_only_where_it_is_the_same_problem(whole):
    errors = {p: errors_of(select_group(whole["trials"], p), CRITERION) for p in tables.groups_of(whole["summary"])}
    found = paper.paper_tables(whole["summary"], whole["timing"], errors, CRITERION, True)
    assert set(found) == {"table1", "table2"}
    table = found["table1"]
    rows = {row[0].text: row for row in table.rows}
    assert table.heads[2:4] == ["modelnet40 clean RMSE ↓", "modelnet40 clean recall@0.2 ↑"]
    assert [c.beside for c in rows["icp"][2:]] == ["0.53", "0.41", "0.53", "0.41", "", ""]
    assert [c.beside for c in rows["deepgmr"][2:]] == ["0.00", "1.00", "0.01", "0.99", "", ""]
    assert rows["dcp"][1].text == "not run" and rows["dcp"][2].whole == "– (0.02)"
    assert rows["icp"][1].text == "local" and rows["ransac10m"][1].text == "inefficient global"
    assert rows["fgr"][1].text == "efficient global" and "identity" not in rows
    times = {row[0].text: dict(zip(found["table2"].columns, row, strict=True)) for row in found["table2"].rows}
    assert times["4096"]["ransac10m"].text == "timeout" and times["256"]["ransac10m"].value > 0
    without = paper.paper_tables(whole["summary"], whole["timing"], errors, CRITERION, False)["table1"]
    assert not any(cell.beside for row in without.rows for cell in row) and len(without.rows) == len(rows) - 4


def test_a_failure_of_memory_is_printed_as_such(whole):
    gone = whole["timing"]["method"] == "icp"
    table = paper.time_table(
        whole["timing"].assign(status=np.where(gone, "out_of_memory", whole["timing"]["status"])), True
    )
    assert {row[table.columns.index("icp")].text for row in table.rows} == {"OOM"}


def test_latex_compiles_in_principle():
    """Braces balance, every row has as many cells as the head, and special letters are escaped."""
    rows = [[TableCell("<b>x_y&%"), TableCell("1.0", 1.0, True, "0.9"), TableCell("∞", np.inf)]]
    text = Table("a_b", ["method", "RMSE ↓", "p < 1"], rows, [("set", 2)], {0: "red"}, "100 %").latex()
    bare = text.replace("\\{", "").replace("\\}", "").replace("\\&", "").replace("\\%", "")
    assert bare.count("{") == bare.count("}") and "%" not in bare and "_" not in bare.replace("\\_", "")
    assert "\\textcolor{red}{\\textless{}b\\textgreater{}x\\_y\\&\\%}" in text and "\\textbf{1.0} (0.9)" in text
    body = [line for line in bare.splitlines() if line.endswith("\\\\")]
    assert {line.count("&") for line in body} == {2}
    assert tex("√ξ~^") == "$\\surd$$\\xi$\\textasciitilde{}\\textasciicircum{}"


def test_markdown_shows_names_as_they_are():
    table = Table("a|b", ["method"], [[TableCell("<b>x_y*|")], [TableCell("1", 1.0, bold=True)]])
    assert "| &lt;b&gt;x\\_y\\*\\| |" in table.markdown() and "| **1** |" in table.markdown()


def test_headlines_count_failures(whole):
    for group in tables.groups_of(whole["summary"]):
        rows = tables.group_records(whole["summary"], group)
        line = tables.headline(group, rows, errors_of(select_group(whole["trials"], group), CRITERION), CRITERION)
        lost = sum(int(r["problems"] - r["answered"]) for r in rows)
        assert f"{lost} of {sum(int(r['problems']) for r in rows)} problems were not answered" in line


def test_coverage_and_failures_account_for_every_outcome(made):
    loaded = as_loaded(*made)
    frames = aggregate.tables(loaded, CRITERION)
    table = tables.coverage_table(frames["summary"])
    asked, answered = table.columns.index("run"), table.columns.index("answered")
    for row in table.rows:
        assert row[asked].value == row[answered].value + sum(c.value for c in row[answered + 1 :]) - row[-1].value
    total = sum(row[asked].value + row[-1].value for row in table.rows)
    assert table.columns[-1] == "skipped" and total == len(frames["trials"])
    failures = tables.failure_table(loaded.outcomes)
    assert sum(row[3].value for row in failures.rows) == (frames["trials"]["status"] != "ok").sum()
    assert any("has 512 fixed points" in row[4].text for row in failures.rows)


@pytest.mark.parametrize("keep", ["skipped", "accuracy", "one method"])
def test_runs_with_little_in_them(made, tmp_path, keep):
    problems, outcomes, run = made
    kept = {
        "skipped": outcomes[outcomes["status"] == "skipped"],
        "accuracy": outcomes[outcomes["phase"] == "accuracy"],
        "one method": outcomes[(outcomes["method"] == "fgr+icp") & (outcomes["phase"] == "accuracy")],
    }[keep]
    files = report(as_loaded(problems, kept, run | {"notes": [], "unavailable": {}}), tmp_path)
    assert files[0].exists() and len(files) >= 2
