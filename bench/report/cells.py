"""Texts of the cells of a heat map as one artist: hundreds of `Axes.text` take half of the time of its figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text


class Cell(NamedTuple):
    """Text of a cell centred at (x, y) in data coordinates, with its colour and weight."""

    x: float
    y: float
    text: str
    colour: str
    weight: str


class _Stamp(NamedTuple):
    """A text ready to be drawn: `Text` and graphics context, or its image, and where it starts relative to its centre, in pixels.

    In the image it starts `EDGE` pixels from the left, its baseline `descent` pixels from below.
    """

    text: Text
    gc: Any
    left: float
    up: float
    image: NDArray[np.uint8] | None
    descent: int


EDGE = 2
"""Pixels around the text of an image."""


SMALLEST = 2.5
"""Smallest size of texts in points; nobody can read smaller ones, so none is drawn."""


def add_cells(axes: Axes, cells: Sequence[Cell], size: float) -> None:
    """Write texts of one line, without mathematics, in columns of width 1; they are left out of the layout.

    In a raster image they start at whole pixels.

    Args:
        axes: axes to write to.
        cells: the texts.
        size: largest size in points; it is smaller if the longest text is wider than a column, see also `SMALLEST`.
    """
    from matplotlib.artist import Artist
    from matplotlib.text import Text

    class CellTexts(Artist):
        """Draw each text as a `Text` would, but measure and set up each distinct one once."""

        zorder = Text.zorder

        def __init__(self) -> None:
            super().__init__()
            self.cells = cells
            self.set_in_layout(False)

        @property
        def size(self) -> float:
            """Size in points, by the mean width of a bold character."""
            low, high = axes.get_xlim()
            column = axes.bbox.width / axes.figure.dpi * 72 / abs(high - low)
            return min(size, column / (0.64 * max(len(cell.text) for cell in self.cells) + 0.3))

        def draw(self, renderer: Any) -> None:
            if not self.cells or (fitting := self.size) < SMALLEST:
                return
            places = axes.transData.transform([(cell.x, cell.y) for cell in self.cells])
            known: dict[tuple[str, str, str], _Stamp] = {}
            for cell, (x, y) in zip(self.cells, places.tolist(), strict=True):
                if cell[2:] not in known:
                    known[cell[2:]] = _stamp(axes, cell, fitting, renderer)
                _put(known[cell[2:]], cell, x, y, renderer)
            for stamp in known.values():
                stamp.gc.restore()

    axes.add_artist(CellTexts())


def _stamp(axes: Axes, cell: Cell, size: float, renderer: Any) -> _Stamp:
    """Prepare the text of a cell for a renderer."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.text import Text

    text = Text(0, 0, cell.text, ha="left", va="baseline", fontsize=size, fontweight=cell.weight)
    text.set_figure(axes.figure)
    box = text.get_window_extent(renderer)
    text.set(ha="center", va="center", transform=axes.transData)
    gc = renderer.new_gc()
    gc.set_foreground(cell.colour)
    descent = math.ceil(-box.y0) + EDGE
    image = _image_of(text, gc, box, descent, renderer) if isinstance(renderer, RendererAgg) else None
    return _Stamp(text, gc, -box.width / 2, -(box.y0 + box.y1) / 2, image, descent)


def _put(stamp: _Stamp, cell: Cell, x: float, y: float, renderer: Any) -> None:
    """Draw the text of a cell around (x, y), in pixels from below."""
    left, up = x + stamp.left, y + stamp.up
    if stamp.image is not None:
        renderer.draw_image(stamp.gc, round(left) - EDGE, round(up) - stamp.descent, stamp.image)
        return
    stamp.text.set_position((cell.x, cell.y))
    below = renderer.get_canvas_width_height()[1] - up if renderer.flipy() else up
    renderer.open_group("text")
    font = stamp.text.get_fontproperties()
    renderer.draw_text(stamp.gc, left, below, cell.text, font, 0.0, False, mtext=stamp.text)
    renderer.close_group("text")


def _image_of(text: Text, gc: Any, box: Any, descent: int, renderer: Any) -> NDArray[np.uint8]:
    """Draw a text, of which the box is known, with another renderer of the same kind; see `_Stamp`."""
    width, height = math.ceil(box.width) + 2 * EDGE, math.ceil(box.y1) + EDGE + descent
    canvas = type(renderer)(width, height, renderer.dpi)
    canvas.draw_text(gc, EDGE, height - descent, text.get_text(), text.get_fontproperties(), 0.0, mtext=text)
    return np.flipud(canvas.buffer_rgba()).copy()  # `draw_image` takes rows from below
