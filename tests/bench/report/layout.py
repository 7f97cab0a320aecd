"""Checks of the layout of figures: texts are inside the figure and do not overlap."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox


def assert_texts_fit(figure: Figure, what: str) -> None:
    """Check that the texts of a figure are inside it, that those of axes are apart, and that the others are outside of axes.

    Of the texts within one axes only labels, title and tick labels must be apart; tick labels at an angle are left out.
    """
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    shown = [axes for axes in figure.axes if axes.get_visible() and axes.axison]
    of_figure = list(filter(_is_shown, (figure._suptitle, figure._supxlabel, figure._supylabel)))
    around = [_around(axes) for axes in shown]
    within = [list(filter(_is_shown, axes.texts)) for axes in shown]
    for text in [*of_figure, *itertools.chain(*around, *within)]:
        box = text.get_window_extent()
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1
        assert inside, (what, text)
    straight = [[text for text in texts if text.get_rotation() % 90 == 0] for texts in around]
    pairs = list(itertools.combinations(itertools.chain(*straight), 2))
    for (i, texts), (j, others) in itertools.permutations(enumerate(within), 2):
        pairs += itertools.product(texts, [*straight[j], *(others if i < j else ())])
    for a, b in pairs:
        assert not _overlap(a.get_window_extent(), b.get_window_extent()), (what, a, b)
    for text, axes in itertools.product(of_figure, shown):
        assert not _overlap(text.get_window_extent(), axes.get_tightbbox(renderer)), (what, text)


def _around(axes: Axes) -> list[Text]:
    """Return title, labels and tick labels in view."""
    ticks = [tick for axis in (axes.xaxis, axes.yaxis) for tick in axis._update_ticks()]
    labels = [label for tick in ticks for label in (tick.label1, tick.label2)]
    return list(filter(_is_shown, [axes._left_title, axes.title, axes.xaxis.label, axes.yaxis.label, *labels]))


def _is_shown(text: Text | None) -> bool:
    return text is not None and text.get_visible() and bool(text.get_text())


def _overlap(a: Bbox, b: Bbox) -> bool:
    """Return whether two boxes share more than half a pixel in both directions."""
    width, height = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
    return width > 0.5 and height > 0.5
