import io
import re

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from rich.console import Console

from bench import export
from bench.report import figures, style, tables, terminal_summary, write_report
from bench.report.compare import by_recall, category_tables, lowest_rmse
from tests.bench.synthetic_run import HOSTILE, METHODS, synthetic_run

FEW = ("deepgmr", "fgr+icp", "identity", HOSTILE)


@pytest.fixture(scope="module")
def made():
    return synthetic_run(n=12, sizes=(256,), methods=FEW, conditions=("noisy",))


@pytest.fixture(scope="module")
def whole():
    return export.tables(*synthetic_run(n=40, sizes=(256, 4096)))


@pytest.fixture(scope="module")
def written(made, tmp_path_factory):
    problems, outcomes, run = made
    folder = tmp_path_factory.mktemp("run")
    return folder, write_report(
        folder / "results" / "a", folder / "reports" / "a", run, export.tables(problems, outcomes, run), outcomes
    )


def test_everything_asked_for_is_written(written):
    folder, files = written
    assert files[0] == folder / "reports" / "a" / "report.html"
    names = {file.name for file in files}
    kinds = (
        "cdf_modelnet40_noisy_1024",
        "angle_modelnet40_noisy_1024",
        "categories_modelnet40_noisy_1024",
        "time_points",
    )
    assert {f"{kind}.{end}" for kind in (*kinds, "time_angle_256") for end in ("png", "svg")} <= names
    assert {f"per_category_modelnet40_noisy_1024.{end}" for end in ("md", "csv")} | {"summary.md"} <= names
    assert all(file.stat().st_size > 100 for file in files)
    assert not list(folder.rglob("*.tmp"))


def test_the_page_stands_alone_and_a_hostile_name_stays_text(written):
    page = written[1][0].read_text()
    assert HOSTILE not in page and "&lt;script&gt;alert(1)" in page
    assert page.count("<script>") == 1
    assert not re.search(r'(?:src|href)="(?!#|data:|\.\./)', page.replace('xlink:href="#', 'href="#'))
    assert "url(http" not in page and "@import" not in page
    assert "../../results/a/summary.csv" in page
    assert str(written[0]) not in page


def test_the_page_says_what_a_reader_needs(written, made):
    page, run = written[1][0].read_text(), made[2]
    for text in (
        "highest recall@0.2",
        "shapes40.safetensors",
        "has 512 fixed points",
        "pip install absent",
        "a made-up one",
    ):
        assert text in page
    for name, digest in run["problem_sets"].items():
        assert name in page and digest in page
    assert "prefers-color-scheme: dark" in page and "currentColor" in page
    assert style.INK not in page.replace("--text: #1b1d21", "")


def test_two_reports_of_one_run_are_the_same_bytes(written, made, tmp_path):
    problems, outcomes, run = made
    shuffled = outcomes.sample(frac=1, random_state=3)
    frames = export.tables(problems, shuffled, run)
    again = write_report(tmp_path / "results" / "a", tmp_path / "reports" / "a", run, frames, shuffled)
    for one, two in zip(written[1], again, strict=True):
        if one.suffix != ".png":
            assert one.read_bytes() == two.read_bytes(), one.name


def test_no_label_is_clipped_and_no_legend_covers_axes(whole):
    frames = whole
    drawn = []
    with matplotlib.rc_context(style.RC):
        (_, summary), *_ = frames["summary"].groupby("condition")
        drawn.append(figures._cdf(frames["cdf"], summary, 0.2, "title"))
        drawn.append(figures._by_angle(frames["by_angle"], summary, "title"))
        times = frames["timing"].query("angle_low == 0 and angle_high == 180")
        drawn.append(figures._times(times, times["points"], "x", "title", True))
        drawn.append(figures._categories(next(iter(category_tables(frames["trials"]).values())), "title"))
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
    colours = [v["colour"] for v in style._known().values() if "colour" in v]
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
    summary = whole["summary"].replace({"method": {"teaser": "[bold]a_method_with_a_very_very_long_name[/bold]"}})
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(terminal_summary(summary))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 100
    assert any("[bold]a_method" in line for line in lines) and any("<script>alert" in line for line in lines)
    assert sum("oracle" in line for line in lines) == 3
    assert any("1.00 [0.91,1.00]" in line for line in lines)


def _trials(rmse, kind="global", status=None):
    """Trials of one place: rmse by method, a row a problem."""
    rows = [
        {
            "method": m,
            "problem": str(i),
            "rmse": e,
            "kind": kind if m != "control" else "control",
            "category": "c",
            "repeat": 0,
        }
        for m, errors in rmse.items()
        for i, e in enumerate(errors)
    ]
    return pd.DataFrame(rows).assign(
        dataset="d", condition="c", points=1024, status=lambda t: np.where(np.isinf(t["rmse"]), "timeout", "ok")
    )


def test_bold_needs_all_answered_and_a_separable_lead():
    draw = np.random.default_rng(0)
    good, close, bad = (abs(draw.normal(m, 0.02, size=40)) for m in (0.1, 0.101, 0.5))
    assert lowest_rmse(_trials({"a": good, "b": bad})) == "a"
    assert lowest_rmse(_trials({"a": good, "b": close})) is None
    assert lowest_rmse(_trials({"a": good[:4], "b": bad[:4]})) is None
    silent = np.where(np.arange(40) < 5, np.inf, good / 100)
    assert lowest_rmse(_trials({"silent": silent, "a": good, "b": bad})) == "a"
    assert lowest_rmse(_trials({"control": good * 0, "a": good, "b": bad})) == "a"
    assert lowest_rmse(_trials({"a": good})) is None


def test_recall_ranking():
    sure, lost = np.full(40, 0.1), np.full(40, 0.9)
    mixed = np.where(np.arange(40) < 2, np.inf, 0.1)
    found = by_recall(_trials({"worst": lost, "best": sure, "near": mixed, "control": sure * 0}), 0.2)
    assert found.methods == ["best", "near", "worst"] and found.tied == 2 and found.winner is None
    assert by_recall(_trials({"a": sure, "b": lost}), 0.2).winner == "a"
    few = by_recall(_trials({"a": sure, "b": lost[:3]}), 0.2)  # three shared problems separate nothing
    assert few.winner is None
    assert by_recall(_trials({"control": sure}), 0.2) is None


def test_the_papers_row_stands_beside_ours_only_where_it_is_the_same_problem(whole):
    frames = whole
    clean, noisy, resampled = tables.summary_tables(frames["summary"], frames["trials"], 0.2)
    place = noisy.columns.index("paper's recall")
    rows = {row[0].text: row for row in noisy.rows}
    assert (
        rows["icp"][place].text == "0.41"
        and rows["deepgmr"][place].text == "0.99"
        and rows["identity"][place].text == "–"
    )
    assert rows["deepgmr"][noisy.columns.index("paper's RMSE")].text == "0.01"
    assert "paper's recall" in clean.columns and "paper's recall" not in resampled.columns
    other = frames["summary"].assign(points=512)
    assert all(
        "paper's recall" not in t.columns
        for t in tables.summary_tables(other, frames["trials"].assign(points=512), 0.2)
    )


def test_markdown_shows_names_as_they_are():
    table = tables.Table("a|b", ["method"], [[tables.Cell("<b>x_y*|")], [tables.Cell("1", 1.0, bold=True)]])
    assert "| &lt;b&gt;x\\_y\\*\\| |" in table.markdown() and "| **1** |" in table.markdown()


def test_headlines_count_failures(whole):
    frames = whole
    lines = tables.headlines(frames["summary"], frames["trials"], 0.2)
    assert len(lines) == 3
    for line, (_, group) in zip(lines, frames["summary"].groupby("condition"), strict=True):
        lost = int((group["problems"] - group["answered"]).sum())
        assert f"{lost} of {int(group['problems'].sum())} asked were not answered" in line


@pytest.mark.parametrize("keep", ["skipped", "accuracy", "one method"])
def test_runs_with_little_in_them(made, tmp_path, keep):
    problems, outcomes, run = made
    kept = {
        "skipped": outcomes[outcomes["status"] == "skipped"],
        "accuracy": outcomes[outcomes["phase"] == "accuracy"],
        "one method": outcomes[(outcomes["method"] == "icp") & (outcomes["phase"] == "accuracy")],
    }[keep]
    files = write_report(
        tmp_path / "run",
        tmp_path / "report",
        run | {"notes": [], "unavailable": {}},
        export.tables(problems, kept, run),
        kept,
    )
    assert files[0].exists() and len(files) >= 2
