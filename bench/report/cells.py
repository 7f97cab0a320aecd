"""Texts of the cells of a heat map as one artist: hundreds of `Axes.text` take half of the time of its figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Cell(NamedTuple):
    """Text of a cell centred at (x, y) in data coordinates, with its colour and weight."""

    x: float
    y: float
    text: str
    colour: str
    weight: str


def add_cells(axes: Axes, cells: Sequence[Cell], size: float) -> None:
    """Write texts of one line, without mathematics, in a size in points; they are left out of the layout."""
    from matplotlib.artist import Artist
    from matplotlib.text import Text

    class CellTexts(Artist):
        """Draw each text as a `Text` would, but measure and set up each distinct one once."""

        zorder = Text.zorder

        def __init__(self) -> None:
            super().__init__()
            self.cells = cells
            self.set_in_layout(False)

        def draw(self, renderer: Any) -> None:
            places = axes.transData.transform([(cell.x, cell.y) for cell in cells])
            height = renderer.get_canvas_width_height()[1]
            known: dict[tuple[str, str, str], tuple[Text, Any, Any]] = {}
            for cell, (x, y) in zip(cells, places.tolist(), strict=True):
                if cell[2:] not in known:
                    known[cell[2:]] = self._prepared(renderer, cell)
                text, gc, (left, up) = known[cell[2:]]
                text.set_position((cell.x, cell.y))
                renderer.open_group("text")
                below = height - (y + up) if renderer.flipy() else y + up
                renderer.draw_text(gc, x + left, below, cell.text, text.get_fontproperties(), 0.0, False, mtext=text)
                renderer.close_group("text")
            for _, gc, _ in known.values():
                gc.restore()

        def _prepared(self, renderer: Any, cell: Cell) -> tuple[Text, Any, tuple[float, float]]:
            """Return the text, what it is drawn with, and the place of its start relative to its centre, in pixels."""
            text = Text(0, 0, cell.text, ha="left", va="baseline", fontsize=size, fontweight=cell.weight)
            text.set_figure(axes.figure)
            box = text.get_window_extent(renderer)
            text.set(ha="center", va="center", transform=axes.transData)
            gc = renderer.new_gc()
            gc.set_foreground(cell.colour)
            return text, gc, (-box.width / 2, -(box.y0 + box.y1) / 2)

    axes.add_artist(CellTexts())
