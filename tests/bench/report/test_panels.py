"""Parts that figures share."""

from unittest.mock import Mock

import numpy as np
import pytest

from bench.report import style
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
