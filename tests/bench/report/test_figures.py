"""Layout of figures and what they show."""

import itertools

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from bench.evaluation import aggregate
from bench.evaluation.conventions import CONVENTIONS
from bench.report import build, figures, panels, ranking, style, tables, trends
from bench.report.cells import SMALLEST
from bench.report.ranking import errors_of, group_title, groups_of, select_group
from bench.report.recommendation import recommend
from tests.bench.report.layout import assert_texts_fit
from tests.bench.report.one_group import one_group

CRITERION = CONVENTIONS["deepgmr"]


def _jobs(frames, folder, groups=None):
    groups = (groups or groups_of(frames["summary"]))[:1]
    frames = frames | {"summary": select_group(frames["summary"], groups[0])}
    errors = {g: errors_of(select_group(frames["trials"], g), CRITERION) for g in groups}
    rows = {g: tables.group_records(frames["summary"], g) for g in groups}
    advice = {g: recommend(rows[g], errors[g], frames["timing"]) for g in groups}
    compared = {g: ranking.category_table(build._with_kind(frames, g), errors[g], CRITERION) for g in groups}
    yield from figures.figures_of(frames, compared, advice, CRITERION, folder)
    yield from trends.trends_of(frames, {g: a.ranking for g, a in advice.items()}, CRITERION, folder)
    yield from trends.times_of(frames["timing"], folder)


LONG_NAME = "fragments[path=3dmatch/7-scenes-redkitchen,min_overlap=0.3]"


@pytest.mark.parametrize("width", ["page", "column"])
@pytest.mark.parametrize("dataset", ["modelnet40", LONG_NAME])
def test_texts_are_inside_the_figure_and_apart(frames, tmp_path, width, dataset):
    renamed = {
        name: frame.assign(dataset=dataset) if len(frame) and "dataset" in frame else frame
        for name, frame in frames.items()
    }
    with matplotlib.rc_context(style.RC), style.drawing(style.Drawing(width=style.WIDTHS[width])):
        drawn = {job.kind: job.make(*job.arguments) for job in _jobs(renamed, tmp_path)}
    assert {"cdf", "recall_time", "category", "angle", "time"} <= drawn.keys()
    assert dataset in drawn["cdf"]._suptitle.get_text().replace("\n", "")  # in several lines, if narrow
    for kind, figure in drawn.items():
        assert figure.get_figwidth() == style.WIDTHS[width]
        assert_texts_fit(figure, kind)
        _assert_data_is_in_view(figure, kind)


@pytest.mark.parametrize("width", ["page", "column"])
def test_long_titles_of_panels_do_not_reach_the_next_panel(frames, tmp_path, width):
    job = next(job for job in _jobs(frames, tmp_path) if job.kind == "angle")
    data, trend, kinds, criterion, where, _, ceiling = job.arguments
    trend = trend._replace(label="overlap (share of the source)")
    with matplotlib.rc_context(style.RC), style.drawing(style.Drawing(width=style.WIDTHS[width])):
        many = [panel._replace(hidden=100) for panel in kinds]
        figure = job.make(data, trend, many, criterion, where, "Not drawn, too few problems: cpd, n = 2.", ceiling)
        assert figure.axes[2].get_title("left").endswith(f"of {100 + len(kinds[1].rows)}")
        assert_texts_fit(figure, width)


def _assert_data_is_in_view(figure, kind):
    """Every point of a line lies within the limits of its axes."""
    for axes in figure.axes:
        for line in axes.lines:
            if line.get_transform() == axes.transData:
                x, y = (np.asarray(values, dtype=float) for values in line.get_data())
                for values, (low, high) in ((x, axes.get_xlim()), (y, axes.get_ylim())):
                    known = values[np.isfinite(values)]
                    assert ((known >= low) & (known <= high)).all(), (kind, line.get_label())


def test_labels_at_line_ends_do_not_overlap(frames, tmp_path):
    with matplotlib.rc_context(style.RC):
        figure = next(job.make(*job.arguments) for job in _jobs(frames, tmp_path) if job.kind == "cdf")
        renderer = FigureCanvasAgg(figure).get_renderer()
        figure.draw_without_rendering()
    for axes in figure.axes:
        boxes = [text.get_window_extent(renderer) for text in axes.texts if text.get_transform() == axes.transAxes]
        heights = sorted((box.y0 + box.y1) / 2 for box in boxes)
        assert all(b - a > 0.8 * boxes[0].height for a, b in itertools.pairwise(heights))


def _few_frames():
    draw = np.random.default_rng(0)
    sizes = (("a", 40), ("b", 30), ("few", 2), ("z", 19))
    return one_group({name: ("global", draw.uniform(0.001, 0.4, size=n)) for name, n in sizes}, {})


def test_methods_with_few_problems_are_named_and_not_drawn(tmp_path):
    frames = _few_frames()
    group = groups_of(frames["summary"])[0]
    rows = tables.group_records(frames["summary"], group)
    advice = recommend(rows, errors_of(frames["trials"], CRITERION), frames["timing"].assign(time_ms_median=1.0))
    job = figures.cdf_job(rows, frames["cdf"], advice, CRITERION, group_title(group), tmp_path / "cdf")
    with matplotlib.rc_context(style.RC):
        figure = job.make(*job.arguments)
    labels = [text.get_text().split()[0] for axes in figure.axes for text in axes.texts[1:]]
    assert labels == ["a", "b"] or labels == ["b", "a"]
    assert "few, n = 2; z, n = 19" in figure._supxlabel.get_text()
    assert "few" not in job.alt and "a 0." in job.alt


def test_of_a_run_with_few_problems_all_methods_are_drawn_faint(tmp_path):
    draw = np.random.default_rng(0)
    times = {"a": 2.0, "b": 3.0}
    frames = one_group({name: ("global", draw.uniform(0.001, 0.4, size=5)) for name in times}, times)
    group = groups_of(frames["summary"])[0]
    rows, where = tables.group_records(frames["summary"], group), group_title(group)
    advice = recommend(rows, errors_of(frames["trials"], CRITERION), frames["timing"])
    jobs = {
        "cdf": figures.cdf_job(rows, frames["cdf"], advice, CRITERION, where, tmp_path / "cdf"),
        "recall_time": figures.recall_time_job(rows, advice, CRITERION, where, tmp_path / "recall_time"),
    }
    with matplotlib.rc_context(style.RC):
        drawn = {kind: job.make(*job.arguments) for kind, job in jobs.items()}
    for figure in drawn.values():
        curves = [line for axes in figure.axes for line in axes.lines if line.get_alpha() == style.FAINT]
        assert len(curves) == 2 and figure._supxlabel.get_text() == "Faint: fewer than 20 problems."


def test_the_error_axis_is_logarithmic_where_errors_span_decades():
    near, far = np.linspace(0.1, 0.4, 50), np.geomspace(1e-3, 1, 50)
    assert not figures.error_axis(near, CRITERION).log
    axis = figures.error_axis(np.append(far, np.inf), CRITERION)
    assert axis.log and axis.low > 0 and axis.high >= 1


def test_the_heat_map_starts_with_the_hardest_category(frames, tmp_path):
    job = next(job for job in _jobs(frames, tmp_path) if job.kind == "category")
    mean = job.arguments[0].mean.median(axis=1).to_numpy()
    assert (np.diff(mean[~np.isnan(mean)]) <= 0).all()
    named = [f"{c} {style.number(m, 2)}" for c, m in zip(job.arguments[0].mean.index, mean, strict=True)]
    assert f"Hardest: {', '.join(named[:3])}. Easiest: {', '.join(named[:-4:-1])}." in job.alt and len(named) > 3


@pytest.mark.parametrize("width", ["page", "column"])
@pytest.mark.parametrize("rows", [1, 2, 10])
def test_no_label_of_a_heat_map_of_few_categories_is_clipped(rows, width):
    index, names = [f"category {i}" for i in range(rows)], [f"method {i}+icp" for i in range(9)]
    mean = pd.DataFrame(0.5, index=index, columns=names)
    flags = mean > 1
    table = ranking.CategoryTable(mean, flags, flags, pd.Series(7, index=index))
    with matplotlib.rc_context(style.RC), style.drawing(style.Drawing(width=style.WIDTHS[width])):
        assert_texts_fit(figures._categories(table, CRITERION, "where", ""), "category")


@pytest.mark.parametrize("width", ["page", "column"])
@pytest.mark.parametrize("columns", [1, 8, 12, 3 * panels.CURVES])
@pytest.mark.parametrize("long", ["b", "ransac10k[iterations=300000]+icp"])
def test_numbers_of_a_heat_map_are_narrower_than_its_columns(columns, width, long):
    index, names = ["7-scenes-redkitchen", "xbox"], [*"abcdefghijklmnopqrstuvwxyz"[: columns - 1], long]
    mean = pd.DataFrame(0.88, index=index, columns=names)
    table = ranking.CategoryTable(mean, mean > 0, mean > 0, pd.Series(777, index=index))  # each is bold and has a star
    with matplotlib.rc_context(style.RC), style.drawing(style.Drawing(width=style.WIDTHS[width])):
        figure = figures._categories(table, CRITERION, "where", "")
        figure.set_dpi(800)  # at few pixels, widths are rounded up
        figure.draw_without_rendering()
        (numbers,) = [artist for artist in figure.axes[0].artists if hasattr(artist, "cells")]
        text = figure.text(0, 0, numbers.cells[0].text, fontsize=numbers.size, weight=numbers.cells[0].weight)
        assert text.get_window_extent().width < figure.axes[0].bbox.width / columns
        assert numbers.size >= SMALLEST or (columns > 12 and width == "column")
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        assert numbers.size >= SMALLEST or not _has_white(canvas, figure.axes[0]), "too small to be read, so not drawn"


def _has_white(canvas, axes):
    """Whether any pixel within the axes, which are dark, is white, as numbers are."""
    box = axes.bbox.padded(-4)
    pixels = np.asarray(canvas.buffer_rgba())[::-1][int(box.y0) : int(box.y1), int(box.x0) : int(box.x1)]
    return bool((pixels[..., :3] > 250).all(axis=-1).any())


@pytest.mark.parametrize(("width", "count"), [("page", 3 * panels.CURVES), ("column", 12)])
def test_a_heat_map_at_the_width_of_a_column_has_the_best_of_each_kind(tmp_path, width, count):
    draw, kinds = np.random.default_rng(0), ("local", "global", "learned")
    methods = {f"{kind}{i}": (kind, draw.uniform(0.001, 0.1 + 0.1 * i, size=40)) for kind in kinds for i in range(12)}
    frames = one_group(methods, dict.fromkeys(methods, 2.0))
    group = groups_of(frames["summary"])[0]
    rows = tables.group_records(frames["summary"], group)
    mean = pd.DataFrame(0.1, index=["chair", "lamp"], columns=list(methods))
    table = ranking.CategoryTable(mean, mean > 1, mean > 1, pd.Series(7, index=mean.index))
    with style.drawing(style.Drawing(width=style.WIDTHS[width])):
        job = figures._category_job(table, rows, CRITERION, "where", tmp_path / "c")
    shown = list(job.arguments[0].mean.columns)
    assert len(shown) == count and job.arguments[-1] == f"{count} of 36 methods shown: the best of each kind."
    recall = {str(row["method"]): row["recall"] for row in rows}
    for kind in kinds:
        own = sorted((m for m in recall if m.startswith(kind)), key=lambda m: -recall[m])
        assert {m for m in shown if m.startswith(kind)} == set(own[: count // 3])


def test_the_heat_map_prints_each_mean_with_its_star_and_the_best_bold():
    draw = np.random.default_rng(0)
    mean = pd.DataFrame(draw.uniform(0, 1, (4, 3)), index=list("wxyz"), columns=list("abc"))
    partly, best = (pd.DataFrame(draw.random((4, 3)) < 0.5, index=mean.index, columns=mean.columns) for _ in range(2))
    table = ranking.CategoryTable(mean, partly, best, pd.Series(7, index=mean.index))
    with matplotlib.rc_context(style.RC):
        axes = figures._categories(table, CRITERION, "where", "").axes[0]
    cells = {(cell.x, cell.y): (cell.text, cell.weight) for artist in axes.artists for cell in artist.cells}
    for i, j in np.ndindex(4, 3):
        star, weight = "*" * int(partly.iat[i, j]), "bold" if best.iat[i, j] else "normal"
        assert cells[j, i] == (style.number(mean.iat[i, j], 2) + star, weight)
    (image,) = axes.images
    np.testing.assert_array_equal(image.get_array(), mean)
    assert image.get_clim() == (0, 1)
    assert [text.get_text() for text in axes.get_yticklabels()] == [f"{c}  n 7" for c in "wxyz"]
    above = [
        (tick.label2.get_text(), tick.label2.get_visible(), tick.label1.get_visible()) for tick in axes.xaxis.majorTicks
    ]
    assert above == [(name, True, False) for name in "abc"]


def test_the_dotted_line_is_the_pareto_front(frames, tmp_path, monkeypatch):
    job = next(job for job in _jobs(frames, tmp_path) if job.kind == "recall_time")
    rows, advice = job.arguments[:2]
    monkeypatch.setattr(figures, "pareto_front", lambda rows, ms, best: rows[:3])
    with matplotlib.rc_context(style.RC):
        (line,) = [line for line in job.make(*job.arguments).axes[0].lines if line.get_linestyle() == ":"]
    assert line.get_xdata().tolist() == [advice.ms[str(row["method"])] for row in rows[:3]]
    assert line.get_ydata().tolist() == [row["recall"] for row in rows[:3]]


@pytest.mark.parametrize(("width", "count"), [("page", 36), ("column", 13)])
def test_recall_against_time_at_the_width_of_a_column_has_the_best_of_each_kind_and_the_front(tmp_path, width, count):
    """The fastest method, of the lowest recall, is on the front alone."""
    kinds = ("local", "global", "learned")
    errors = {f"{kind}{i}": (kind, np.where(np.arange(40) < 40 - i, 0.1, 0.9)) for kind in kinds for i in range(12)}
    times = {name: 1.0 if name == "local11" else 60.0 + place for place, name in enumerate(errors)}
    frames = one_group(errors, times)
    group = groups_of(frames["summary"])[0]
    rows = tables.group_records(frames["summary"], group)
    advice = recommend(rows, errors_of(frames["trials"], CRITERION), frames["timing"])
    with style.drawing(style.Drawing(width=style.WIDTHS[width])):
        job = figures.recall_time_job(rows, advice, CRITERION, "where", tmp_path / "r")
    shown = {str(row["method"]) for row in job.arguments[0]}
    best = {f"{kind}{i}" for kind in kinds for i in range(4)} | {"local11"}
    assert len(shown) == count and best <= shown
    note = f"{count} of 36 methods shown: the best of each kind and the Pareto front." if count < 36 else ""
    assert job.arguments[-1] == note and all(
        (f"{m} 0." in job.alt or f"{m} 1." in job.alt) == (m in shown) for m in errors
    )


def test_long_titles_notes_and_times_near_the_end_fit_beside_recall_against_time(tmp_path):
    """At the width of a column; the axes are as high as without them."""
    draw = np.random.default_rng(0)
    times = {"a": 2.0, "b": 530.0}
    frames = one_group({name: ("global", draw.uniform(0.001, 0.4, size=40)) for name in times}, times)
    group = groups_of(frames["summary"])[0]
    rows = tables.group_records(frames["summary"], group)
    advice = recommend(rows, errors_of(frames["trials"], CRITERION), frames["timing"])
    heights = []
    with matplotlib.rc_context(style.RC), style.drawing(style.Drawing(width=style.WIDTHS["column"])):
        for where, note in (("where", "note"), (f"{LONG_NAME} · real · 2048 points", "note " * 40)):
            figure = figures._recall_time(rows, advice, CRITERION, where, note)
            assert_texts_fit(figure, where)
            assert "1000" in [label.get_text() for label in figure.axes[0].get_xticklabels()]
            heights.append(figure.axes[0].bbox.height)
    assert heights[1] == pytest.approx(heights[0])


def test_trends_over_noise_need_several_values():
    assert trends._sigma("noisy[sigma=0.02]") == ("noisy", 0.02)
    assert trends._sigma("noisy") == ("noisy", 0.01)
    assert trends._sigma("clean")[0] == "clean" and np.isnan(trends._sigma("clean")[1])
    assert trends._sigma("of a plug-in")[0] == "of a plug-in"


def test_bins_have_wilson_intervals_and_counts():
    frames = _few_frames()
    bins = aggregate.by_angle(frames["trials"].assign(angle_deg=10.0), [0, 90, 180], CRITERION)
    data, trend = trends._binned(bins, "angle", "rotation angle (°)", CRITERION)
    assert trend.texts == ["0–90\nn 40"]
    assert ((data["recall_low"] <= data["recall"]) & (data["recall"] <= data["recall_high"])).all()


def test_the_ceiling_is_a_dashed_line_at_its_value():
    from matplotlib.figure import Figure

    rows = [{"ceiling": 0.5, "ceiling_problems": 30}, {"ceiling": 0.75, "ceiling_problems": 40}]
    for given, expected in ((rows, [0.75]), ([row | {"ceiling_problems": 0} for row in rows], [])):
        axes = Figure().subplots()
        panels.draw_ceiling(axes, panels.ceiling_of(given))
        lines = axes.get_lines()
        assert [float(line.get_ydata()[0]) for line in lines] == expected
        assert all(line.get_linestyle() == "--" for line in lines)
