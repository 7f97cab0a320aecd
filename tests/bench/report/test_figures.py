"""Layout of figures."""

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg

from bench.evaluation import aggregate
from bench.evaluation.conventions import CONVENTIONS
from bench.report import (
    build,
    figures,
    ranking,
    style,
    tables,
)
from bench.report.ranking import errors_of, select_group
from tests.bench.report.one_group import one_group
from tests.bench.synthetic_run import METHODS

CRITERION = CONVENTIONS["deepgmr"]


def test_no_label_is_clipped_and_no_legend_covers_axes(frames):
    with matplotlib.rc_context(style.RC):
        group = tables.groups_of(frames["summary"])[0]
        summary = select_group(frames["summary"], group)
        drawn_figures = [figures._cdf(select_group(frames["cdf"], group), summary, CRITERION, "title")]
        drawn_figures.append(figures._by_angle(select_group(frames["by_angle"], group), summary, CRITERION, "title"))
        times = frames["timing"].query("angle_low == 0 and angle_high == 180")
        drawn_figures.append(figures._times_by_points(times, "title"))
        errors = errors_of(select_group(frames["trials"], group), CRITERION)
        table = ranking.category_table(build._with_kind(frames, group), errors, CRITERION)
        drawn_figures.append(figures._categories(table, "title", {}))
        for figure in drawn_figures:
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


def test_methods_with_few_problems_are_last_and_faint_in_legends():
    draw = np.random.default_rng(0)
    methods = {
        name: ("global", draw.uniform(0, 0.4, size=n)) for name, n in (("a", 40), ("b", 30), ("few", 2), ("z", 19))
    }
    frames = one_group(methods, {})
    group = frames["summary"], CRITERION, "title"
    with matplotlib.rc_context(style.RC):
        drawn = [figures._cdf(frames["cdf"], *group)]
        bins = aggregate.by_angle(frames["trials"].assign(angle_deg=10.0), [0, 180], CRITERION)
        drawn.append(figures._by_angle(bins, *group))
    for figure in drawn:
        axes = figure.axes[-1]
        handles, labels = axes.get_legend_handles_labels()
        few = ["n = " in label for label in labels]
        assert few == [False, False, True, True]
        assert {label.split("  ")[-1] for label in labels[2:]} == {
            "few, n = 2",
            "z, n = 19",
        }
        assert [handle.get_alpha() is not None for handle in handles] == few
    grey = figures._categories(_categories_of(frames), "title", {"few": "few, n = 2"})
    assert [tick.get_text() for tick in grey.axes[0].get_xticklabels()] == ["a", "b", "few, n = 2", "z"]


def _categories_of(frames):
    rows = aggregate.per_category(frames["trials"], CRITERION).assign(kind="global")
    counts = frames["summary"].set_index("method")["distinct_problems"]
    rows["distinct_problems"] = [counts[m] for m in rows["method"]]
    return ranking.category_table(rows, errors_of(frames["trials"], CRITERION), CRITERION)


def test_the_ceiling_is_a_dashed_line_at_its_value():
    frames = one_group({"a": ("global", np.linspace(0, 0.4, 40)), "b": ("global", np.linspace(0, 0.3, 30))}, {})
    known = frames["summary"].assign(ceiling=[0.75, 0.5], unambiguous=[0.5, 0.4], ceiling_problems=[40, 30])
    for summary, expected in ((known, [0.75]), (known.assign(ceiling_problems=0), [])):
        with matplotlib.rc_context(style.RC):
            figure = figures._cdf(frames["cdf"], summary, CRITERION, "title")
        axes = figure.axes[0]
        lines = [line for line in axes.get_lines() if str(line.get_label()).endswith("ceiling")]
        assert [float(line.get_ydata()[0]) for line in lines] == expected
        assert all(line.get_linestyle() == "--" and "0.75" in str(line.get_label()) for line in lines)
