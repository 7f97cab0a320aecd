"""Parts that figures share."""

import itertools
from unittest.mock import Mock

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from bench.report import panels, style
from bench.report.panels import columns_of, drawn, kind_panels, label_lowest, left_out, spread
from tests.bench.report.test_selection import ROWS


@pytest.mark.parametrize("seed", range(5))
def test_labels_are_spread_without_overlap_and_in_order(seed):
    wanted = np.sort(np.random.default_rng(seed).uniform(0, 1, 12))
    placed = spread(wanted, 0.05)
    assert (np.diff(placed) >= 0.05 - 1e-12).all() and placed[-1] <= 1


def test_there_is_a_panel_per_kind_with_its_best_methods():
    panels = kind_panels(ROWS, None, most=2)
    assert [(p.kind, [r["method"] for r in p.rows], p.hidden) for p in panels] == [
        ("local", ["l0", "l1"], 3),
        ("global", ["g0", "g1"], 3),
        ("learned", ["n0", "deepgmr"], 1),
    ]
    assert panels[0].title == "local, best 2 of 5"
    assert left_out(ROWS) == "Not drawn, too few problems: few, n = 3."
    few = [row for row in ROWS if row["method"] in ("few", "none")]
    assert drawn(ROWS) == [row for row in ROWS if row["problems"] > 3] and drawn(few) == few[:1]


def test_a_column_has_one_panel_beside_another_and_a_page_two():
    with style.drawing(style.Drawing(width=style.WIDTHS["column"])):
        assert columns_of(3) == 1
    assert columns_of(3) == 2


@pytest.mark.parametrize(("count", "lowest"), [(6, {3, 4, 5}), (5, {2, 3, 4}), (4, {1, 2, 3}), (2, {0, 1})])
def test_the_lowest_panel_of_each_column_has_ticks_and_label(count, lowest):
    cells = np.array([Mock() for _ in range(6)], dtype=object).reshape(2, 3)
    label_lowest(cells, count, "error")
    labelled = {i for i, axes in enumerate(cells.ravel()) if axes.method_calls}
    assert labelled == lowest
    for i in lowest:
        cells.ravel()[i].set_xlabel.assert_called_once_with("error")
        cells.ravel()[i].tick_params.assert_called_once_with(labelbottom=True)


def test_labels_are_tried_around_a_point_the_nearest_first_and_alike_on_all_sides():
    offsets = np.array(panels._OFFSETS)
    distances = np.hypot(*offsets.T)
    assert (np.diff(distances) > -1e-9).all() and distances[0] == 7 and len(np.unique(offsets.round(9), axis=0)) == 96
    assert np.allclose(offsets[0], (7, 0))
    for mirror in ((1, -1), (-1, 1)):
        assert {tuple(o) for o in (offsets * mirror).round(9) + 0.0} == {tuple(o) for o in offsets.round(9) + 0.0}


def test_the_common_area_of_two_boxes():
    def box(*corners):
        return np.array(corners[:2], float), np.array(corners[2:], float)

    one = box(0, 0, 4, 2)
    for other, area in (
        (one, 8),
        (box(1, 1, 9, 9), 3),
        (box(4, 0, 5, 2), 0),
        (box(5, 3, 6, 4), 0),
        (box(1, 0.5, 2, 1), 0.5),
    ):
        assert panels._overlap(one, other) == panels._overlap(other, one) == area


def test_labels_of_points_keep_off_each_other_the_points_and_the_frame():
    """Nine points in a corner: every label is in the axes, and none lies on another one or on a point."""
    figure = Figure(figsize=(6, 4), dpi=72)
    axes = figure.add_axes((0.1, 0.1, 0.85, 0.85))
    axes.set(xlim=(0, 1), ylim=(0, 1))
    points = [(0.75 + 0.12 * (i % 3), 0.7 + 0.14 * (i // 3)) for i in range(9)]
    panels.label_points(axes, points, [f"name {i}" for i in range(9)], ["#ff0000"] * 9)
    at, frame, boxes = axes.transData.transform(points), axes.get_window_extent(), []
    for i, (text, point) in enumerate(zip(axes.texts, at, strict=True)):
        assert text.get_text() == f"name {i}" and text.xy == points[i]
        centre, size = point + text.xyann, np.array([0.62 * 6.5 * len(text.get_text()), 1.2 * 6.5])
        low, high = centre - size / 2, centre + size / 2
        assert (low >= (frame.x0 - 1e-9, frame.y0 - 1e-9)).all() and (high <= (frame.x1 + 1e-9, frame.y1 + 1e-9)).all()
        boxes.append((low, high))
    overlaps = [panels._overlap(a, b) for i, a in enumerate(boxes) for b in boxes[:i]]
    overlaps += [panels._overlap(box, (point - 3, point + 3)) for box in boxes for point in at]
    assert max(overlaps) == 0
    half = 0.62 * 6.5 / 2
    for x, beside in ((0.3, 7 + half), (0.99, -7 - half), (0.01, 7 + half)):
        panels.label_points(axes, [(x, 0.3)], ["a"], ["#ff0000"])
        assert axes.texts[-1].xyann == pytest.approx((beside, 0)) and axes.texts[-1].arrow_patch is None
    panels.label_points(axes, [(0.3, 0.2), (0.33, 0.2)], ["a", "b"], ["#ff0000"] * 2)
    assert [text.xyann for text in axes.texts[-2:]] == [pytest.approx((-7 - half, 0)), pytest.approx((7 + half, 0))]


def test_the_methods_of_a_panel_on_few_problems_are_faint():
    row = {"method": "fgr+icp", "kind": "global", "distinct_problems": 40}
    plain, look = panels.lines_of_row(row), style.look("fgr+icp", "global")
    assert "alpha" not in plain and plain == panels.lines_of("fgr+icp", "global")
    assert (plain["color"], plain["linestyle"], plain["linewidth"]) == (look.colour, look.line, look.width)
    assert (plain["marker"], plain["fillstyle"]) == (look.marker, "left")
    assert panels.lines_of("fgr", "global")["fillstyle"] == "full"
    assert panels.lines_of_row(row | {"distinct_problems": 3})["alpha"] == style.FAINT


@pytest.mark.parametrize(("width", "size", "most"), [(7.16, 7, 126), (3.5, 6.5, 66), (0.5, 7, 20)])
def test_texts_are_wrapped_to_the_width_of_the_figure(width, size, most):
    lines = panels.wrapped("word " * 80, width, size).split("\n")
    assert all(len(line) <= most for line in lines) and max(map(len, lines)) > most - 5
    assert panels.wrapped("a $b$", width, size) == r"a \$b\$"
    broken = panels.wrapped("a" * (most - 1) + "$b$", width, size).split("\n")
    assert broken == ["a" * (most - 1) + r"\$", r"b\$"], "dollar signs are escaped after breaking"


@pytest.mark.parametrize("count", [8, 16])
def test_labels_of_points_in_a_row_do_not_overlap_and_far_ones_have_a_line(count):
    figure = Figure(figsize=(style.WIDTHS["page"], 3.5), dpi=72)
    axes = figure.add_axes((0.08, 0.2, 0.9, 0.7))
    axes.set(xlim=(0, 1), ylim=(0, 1.06))
    points = [(0.3 + 0.4 * i / count, 1.0) for i in range(count)]
    texts = [f"method_{i}{'+icp' * (i % 2)}" for i in range(count)]
    panels.label_points(axes, points, texts, ["#111111"] * count)
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in axes.texts]  # without the line
    assert [text.get_text() for text in axes.texts] == texts
    for a, b in itertools.combinations(boxes, 2):
        assert min(a.x1, b.x1) <= max(a.x0, b.x0) + 1 or min(a.y1, b.y1) <= max(a.y0, b.y0) + 1
    at = axes.transData.transform(points)
    for i, (text, box) in enumerate(zip(axes.texts, boxes, strict=True)):
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1
        gaps = [np.hypot(max(box.x0 - x, x - box.x1, 0), max(box.y0 - y, y - box.y1, 0)) for x, y in at]
        assert text.arrow_patch is not None or gaps[i] < min(min(gaps) + 3, 12), "nearer to another point"


def test_a_figure_with_a_layout_grows_by_the_further_lines_of_title_and_note():
    heights = []
    for where, note in (("where", "note"), ("where " * 30, "note " * 80)):
        figure, cells = panels.new_figure(1, 1, 2.0)
        panels.put_title(figure, "What", where, note)
        figure.draw_without_rendering()
        heights.append(cells[0, 0].bbox.height)
        lines = figure._suptitle.get_text().count("\n") + figure._supxlabel.get_text().count("\n")
    assert lines > 3 and heights[1] == pytest.approx(heights[0], abs=4)  # a line has 11


@pytest.mark.parametrize("note", ["", "a note"])
def test_titles_say_what_and_where_and_a_note_is_below(note):
    figure, cells = panels.new_figure(2, 3, 1.5)
    panels.put_title(figure, "What", "where", note)
    assert cells.shape == (2, 3) and figure.get_size_inches().tolist() == [style.figure_width(), 3.55]
    assert figure._suptitle.get_text() == "What\nwhere"
    assert (figure._supxlabel.get_text() if figure._supxlabel else "") == note and bool(figure._supxlabel) == bool(note)
