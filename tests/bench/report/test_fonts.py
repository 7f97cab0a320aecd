"""The reduced font of figures."""

import re
import warnings

import matplotlib
import pytest
from fontTools.ttLib import TTFont
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from PIL import Image

from bench.report import fonts, jobs
from bench.report.jobs import FigureJob
from datasets import cache

PLAIN = "Wave fi AV: recall ≥ 0.95 · 10⁻² … θ × ∞ √ °"


def _figure(title):
    figure = Figure(figsize=(4, 2), layout="constrained")
    axes = figure.subplots()
    axes.set(title=title, yscale="log", ylim=(1e-3, 1), ylabel="error")
    axes.text(0.5, 0.1, "0.12", fontweight="bold")
    axes.text(0.1, 0.1, "0.34", fontstyle="italic")
    return figure


def _drawn(folder, title, monkeypatch, reduced=True):
    """Draw a figure with the reduced font or without; return its pixels, SVG and the names of the fonts in its PDF."""
    if not reduced:
        monkeypatch.setattr(fonts, "settings", dict)
    saved = FigureJob(_figure, (title,), "cdf", "Title", "Caption.", folder / "f").draw()
    monkeypatch.undo()
    png, svg, pdf, _ = saved.files
    names = set(re.findall(rb"/BaseFont /[A-Z]+\+(\S+)", pdf.read_bytes()))
    return Image.open(png).tobytes(), svg.read_text(encoding="utf-8"), {name.decode() for name in names}


@pytest.mark.parametrize("title", [PLAIN, "метод", "método 方法"])
def test_figures_look_as_with_the_whole_font_and_other_scripts_are_drawn_with_it(tmp_path, monkeypatch, title):
    """The last name has characters that DejaVu Sans lacks, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if "方" in title else "error")
        pixels, svg, names = _drawn(tmp_path, title, monkeypatch)
        expected, expected_svg, whole = _drawn(tmp_path, title, monkeypatch, reduced=False)
    assert pixels == expected
    lists = r"font-family: 'DejaVu Sans'[^;]*"  # which other fonts may stand in for it differs
    assert re.sub(lists, "", svg) == re.sub(lists, "", expected_svg)
    assert f">{title}</text>" in svg and fonts.FAMILY not in svg and "font-family: 'DejaVu Sans', " in svg
    reduced = {name.replace("RegistrationBenchSans", "DejaVuSans").replace("-Book", "") for name in names}
    assert reduced == whole >= {"DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique"}
    assert (names == whole) == (title != PLAIN)


def test_the_font_has_its_own_name_and_the_licence_of_the_original(tmp_path, monkeypatch):
    """The licence of DejaVu asks for another name without "Bitstream", "Vera" and "Arev"."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    fonts.settings.__wrapped__()
    files = [*tmp_path.glob("*/*.ttf")]
    assert sorted(file.stem for file in files) == sorted(fonts.STYLES)
    kept = {code for first, last in fonts.RANGES for code in range(first, last + 1)}
    whole = TTFont(findfont(FontProperties(family="DejaVu Sans"))).getBestCmap().keys()
    for file in files:
        font = TTFont(file)
        assert font.getBestCmap().keys() >= kept & whole >= set(map(ord, PLAIN))
        names = {entry.nameID: entry.toUnicode() for entry in font["name"].names}
        assert {names[1], names[4].removesuffix(f" {file.stem}")} == {fonts.FAMILY}
        assert not re.search("bitstream|vera|arev|dejavu", " ".join(names[i] for i in (1, 2, 4, 6)), re.IGNORECASE)
        assert "Bitstream" in names[0] and "Permission is hereby granted" in names[13]
        assert file.stat().st_size < 150_000


def test_figures_are_drawn_with_the_whole_font_if_the_cache_cannot_be_written(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "file" / "cache")
    assert fonts.settings.__wrapped__() == {} and "no font can be stored" in caplog.text


def test_figures_are_drawn_with_the_whole_font_if_a_file_in_the_cache_is_damaged(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    fonts.settings.__wrapped__()
    next(tmp_path.glob("*/Bold.ttf")).write_bytes(b"no font")
    assert fonts.settings.__wrapped__() == {} and "stored or read" in caplog.text


def test_a_figure_is_drawn_once_unless_a_character_is_missing(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(jobs, "_save", lambda figure, job: drawn.append(figure) or figure)
    FigureJob(_figure, (PLAIN,), "cdf", "Title", "Caption.", tmp_path / "f").draw()
    assert len(drawn) == 1


def test_the_font_of_the_user_is_kept():
    with matplotlib.rc_context({"font.family": "serif"}):
        assert fonts.settings.__wrapped__() == {}
    with matplotlib.rc_context({"font.sans-serif": ["Arial", "DejaVu Sans"]}):
        assert fonts.settings.__wrapped__() == {}
