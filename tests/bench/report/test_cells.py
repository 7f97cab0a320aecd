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


def test_cells_are_drawn_as_texts_of_the_axes(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "DPI", 100)
    files = {}
    for at_once in (True, False):
        job = FigureJob(_figure, (at_once,), "category", "Title", "Caption.", tmp_path / str(at_once))
        files[at_once] = [file.read_bytes() for file in job.draw().files]
    assert files[True] == files[False] and b">0.12*</text>" in files[True][1]


@pytest.mark.parametrize("dpi", [72, 150])
def test_cells_are_left_out_of_the_layout_and_follow_the_limits_of_the_axes(dpi):
    drawn = []
    for at_once in (True, False):
        figure = _figure(at_once)
        figure.dpi = dpi
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        figure.axes[0].set_xlim(-2, 5)
        canvas.draw()
        drawn.append(np.asarray(canvas.buffer_rgba()).copy())
    assert (drawn[0] == drawn[1]).all() and (drawn[0] != 255).any()
