"""Checks of the layout of figures: texts are inside the figure and do not overlap."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox


def assert_texts_fit(figure: Figure, what: str) -> None:
    """Check that the texts of a figure are inside it, title and note outside of axes, and labels of axes apart."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    shown = [axes for axes in figure.axes if axes.get_visible() and axes.axison]
    of_axes = [text for axes in shown for text in (axes._left_title, axes.title, axes.xaxis.label, axes.yaxis.label)]
    of_figure = [text for text in (figure._suptitle, figure._supxlabel, figure._supylabel) if text]
    ticks = [
        [label for tick in axis._update_ticks() for label in (tick.label1, tick.label2)]  # those in view
        for axes in shown
        for axis in (axes.xaxis, axes.yaxis)
    ]
    for text in [*of_axes, *of_figure, *itertools.chain(*ticks), *(text for axes in shown for text in axes.texts)]:
        if _is_shown(text):
            box = _box(text)
            inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1
            assert inside, (what, text)
    upright = [[text for text in labels if text.get_rotation() % 90 == 0] for labels in ticks]
    for apart in [of_axes, *upright]:
        for a, b in itertools.combinations(filter(_is_shown, apart), 2):
            assert not _overlap(_box(a), _box(b)), (what, a, b)
    for text, axes in itertools.product(filter(_is_shown, of_figure), shown):
        assert not _overlap(_box(text), axes.get_tightbbox(renderer)), (what, text)


def _is_shown(text: Text) -> bool:
    return text.get_visible() and bool(text.get_text())


def _box(text: Text) -> Bbox:
    return text.get_window_extent()


def _overlap(a: Bbox, b: Bbox) -> bool:
    """Return whether two boxes share more than half a pixel in both directions."""
    width, height = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
    return width > 0.5 and height > 0.5
