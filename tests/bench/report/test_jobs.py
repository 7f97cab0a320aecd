"""Files of a figure."""

from matplotlib.figure import Figure

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


def test_a_style_file_overrides_the_own_style(tmp_path):
    (tmp_path / "own.mplstyle").write_text("axes.facecolor: ff0000\n")
    _job(tmp_path).draw()
    plain = (tmp_path / "f.svg").read_text()
    _job(tmp_path).draw(Drawing(sheet=tmp_path / "own.mplstyle"))
    assert "#ff0000" in (tmp_path / "f.svg").read_text() and "#ff0000" not in plain
