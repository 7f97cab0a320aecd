"""Files of a figure."""

import base64
import io
import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from bench.report import fonts, jobs, style
from bench.report.jobs import FORMATS, FigureJob
from bench.report.style import Drawing


def _figure():
    figure = Figure(figsize=(2, 2))
    figure.subplots().set_title("Ein Titel")
    return figure


def _job(folder):
    return FigureJob(_figure, (), "cdf", "Title", "How to read it.", folder / "f", "What is to be seen.")


def test_text_stays_text_and_the_caption_is_a_file(tmp_path):
    saved = _job(tmp_path).draw()
    assert [f.suffix[1:] for f in saved.files] == list(FORMATS)
    assert ">Ein Titel</text>" in (tmp_path / "f.svg").read_text()
    assert b"/Type0" in (tmp_path / "f.pdf").read_bytes() and b"/Type3" not in (tmp_path / "f.pdf").read_bytes()
    assert (tmp_path / "f.txt").read_text() == "Title\n\nWhat is to be seen.\n\nHow to read it.\n"


def _points():
    figure = Figure(figsize=(2, 2))
    figure.add_axes((0, 0, 1, 1)).scatter([0, 1], [0, 1], rasterized=True)
    return figure


def test_rasterised_points_have_200_dpi_in_svg_and_pdf(tmp_path):
    _job(tmp_path)._replace(make=_points).draw()
    sizes = re.findall(rb"/(?:Width|Height) (\d+)", (tmp_path / "f.pdf").read_bytes())
    embedded = re.search(r'base64,\s*([^"]+)"', (tmp_path / "f.svg").read_text())[1]
    width, height = Image.open(io.BytesIO(base64.b64decode(embedded))).size
    assert min(width, height) > 0.9 * 400 and {*map(int, sizes)} == {width, height}


def test_a_style_file_overrides_the_own_style(tmp_path):
    (tmp_path / "own.mplstyle").write_text("axes.facecolor: ff0000\n")
    _job(tmp_path).draw()
    plain = (tmp_path / "f.svg").read_text()
    _job(tmp_path).draw(Drawing(sheet=tmp_path / "own.mplstyle"))
    assert "#ff0000" in (tmp_path / "f.svg").read_text() and "#ff0000" not in plain


@pytest.mark.parametrize("most", [1, 2, 3])
def test_all_figures_are_drawn_in_order_into_new_folders(tmp_path, monkeypatch, most):
    """Many by several processes, which may have another current folder; a few when they are called for."""
    seen = []
    monkeypatch.setattr(jobs, "MAX_SERIAL_FIGURES", most)
    monkeypatch.setattr(jobs, "parallel_map", lambda draw, items, large: seen.append(large) or map(draw, items))
    monkeypatch.chdir(tmp_path)
    given = [_job(Path(name))._replace(title=name) for name in ("a", "b")]
    saved = list(jobs.draw_all(given, Drawing(width=3.5)))
    assert seen == [most < 2] and [figure.title for figure in saved] == ["a", "b"]
    assert [figure.files[0] for figure in saved] == [tmp_path / name / "f.png" for name in ("a", "b")]
    assert all(figure.kind == "cdf" and figure.caption == "How to read it." for figure in saved)


def test_equal_figures_are_equal_bytes_of_200_dpi(tmp_path):
    first, second = (_job(tmp_path)._replace(stem=tmp_path / name).draw() for name in "ab")
    for one, other in zip(first.files, second.files, strict=True):
        assert one.read_bytes() == other.read_bytes() and "2026" not in one.read_bytes().decode("latin-1")
    assert Image.open(first.files[0]).size == (400, 400)


def _map_with_colour_bar():
    figure = Figure(figsize=(5, 3), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    left.plot([0, 1, 2], [3.0, 1234.5, 2.0])
    left.set(xlabel="an x label", ylabel="a y label")
    right.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False)
    figure.colorbar(right.imshow([[1, 2], [3, 4]], aspect="auto"), ax=right).set_label("colours")
    figure.suptitle("A title")
    return figure


def _places_of_texts(svg):
    found = re.findall(r'<text style="[^"]*" ([^>]*)>([^<]+)</text>', svg)
    return [(text, [float(number) for number in re.findall(r"-?\d+\.?\d*", place)]) for place, text in found]


def test_labels_are_placed_as_by_matplotlib_itself(tmp_path):
    """In all formats, though they are measured once."""
    _job(tmp_path)._replace(make=_map_with_colour_bar).draw(Drawing())
    with matplotlib.rc_context(style.RC | fonts.settings()):
        for end in ("png", "svg"):
            _map_with_colour_bar().savefig(tmp_path / f"own.{end}", dpi=jobs.DPI)
    ours, own = (np.asarray(Image.open(tmp_path / name).convert("RGB")) for name in ("f.png", "own.png"))
    np.testing.assert_array_equal(ours, own)
    ours, own = (_places_of_texts((tmp_path / name).read_text()) for name in ("f.svg", "own.svg"))
    assert [text for text, _ in ours] == [text for text, _ in own] and len(ours) > 15
    for (text, place), (_, other) in zip(ours, own, strict=True):
        np.testing.assert_allclose(place, other, atol=1.0, err_msg=text)


@pytest.mark.parametrize("colour, mode", [("white", "RGB"), ("none", "RGBA"), ("#ff000080", "RGBA")])
def test_pngs_are_transparent_only_if_the_figure_is(tmp_path, colour, mode):
    (tmp_path / "own.mplstyle").write_text(f"figure.facecolor: {colour.removeprefix('#')}\n")
    _job(tmp_path).draw(Drawing(sheet=tmp_path / "own.mplstyle"))
    assert Image.open(tmp_path / "f.png").mode == mode
