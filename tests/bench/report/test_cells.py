"""Texts of the cells of a heat map."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bench.report import jobs
from bench.report.cells import Cell, add_cells
from bench.report.jobs import FigureJob

CELLS = [
    Cell(j, i, text, colour, weight)
    for i, colour in enumerate(("#111111", "#ff0000"))
    for j, (text, weight) in enumerate((("0.12", "normal"), ("∞", "normal"), ("0.12*", "bold"), ("0.12", "bold")))
]


def _figure(at_once):
    figure = Figure(figsize=(3, 1.5), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(-0.5, 3.5), ylim=(1.5, -0.5))
    if at_once:
        add_cells(axes, CELLS, 6.5)
    else:
        for cell in CELLS:
            style = {"color": cell.colour, "fontweight": cell.weight, "fontsize": 6.5, "in_layout": False}
            axes.text(cell.x, cell.y, cell.text, ha="center", va="center", **style)
    return figure


def test_cells_are_texts_of_the_axes_in_vector_images(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "DPI", 100)
    files = {}
    for at_once in (True, False):
        job = FigureJob(_figure, (at_once,), "category", "Title", "Caption.", tmp_path / str(at_once))
        files[at_once] = {file.suffix: file.read_bytes() for file in job.draw().files}
    assert all(files[True][end] == files[False][end] for end in (".svg", ".pdf"))
    assert b">0.12*</text>" in files[True][".svg"]


@pytest.mark.parametrize("dpi", [72, 150, 200])
def test_cells_start_at_whole_pixels_of_a_raster_image_are_left_out_of_the_layout_and_follow_the_limits(dpi):
    """Reference: texts of the figure that start at the nearest pixel."""
    drawn = []
    for at_once in (True, False):
        figure = _figure(at_once)
        figure.dpi = dpi
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        figure.axes[0].set_xlim(-2, 5)
        if not at_once:
            for text in [*figure.axes[0].texts]:
                _move_to_the_nearest_pixel(text, figure, canvas.get_renderer())
        canvas.draw()
        drawn.append(np.asarray(canvas.buffer_rgba()).astype(int))
    assert np.abs(drawn[0] - drawn[1]).max() <= 2 and (drawn[0] != 255).any()


def _move_to_the_nearest_pixel(text, figure, renderer):
    x, y = text.axes.transData.transform(text.get_position())
    text.set(x=0, y=0, ha="left", va="baseline", transform=None)
    box = text.get_window_extent(renderer)
    text.set_position((round(x - box.width / 2), round(y - (box.y0 + box.y1) / 2)))
