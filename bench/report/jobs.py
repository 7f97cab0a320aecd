"""Figures to draw, and how they are saved: PNG, SVG and PDF with text as text, and a caption as a text file."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.report import fonts, style
from bench.report.style import Drawing
from common.files import write_atomically
from common.garbage import uncollected
from common.parallel import parallel_map

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 200
"""Resolution of PNGs, and of rasterised clouds in SVGs and PDFs."""
FORMATS = ("png", "svg", "pdf", "txt")
"""Suffixes of the files of a figure; the text is its caption."""
COMPRESSION = 3
"""Level of compression of PNGs: files are some percent larger than at the default level, in half the time."""
MAX_SERIAL_FIGURES = 10
"""Number of figures above which they are drawn by several processes."""


class SavedFigure(NamedTuple):
    """A saved figure: its kind, title and caption, and its files by `FORMATS`."""

    kind: str
    title: str
    caption: str
    files: tuple[Path, ...]


class FigureJob(NamedTuple):
    """A figure to draw.

    Attributes:
        make: function that draws it.
        arguments: its arguments.
        kind: "cdf", "recall_time", "angle", "overlap", "points", "noise", "time", "category", "grid", "gaussians" or "risk".
        title: what is shown, and of which problems.
        caption: how to read it, with every mark explained.
        stem: path of the files without suffix.
        alt: what is to be seen in it, as text.
    """

    make: Callable[..., Figure]
    arguments: tuple[Any, ...]
    kind: str
    title: str
    caption: str
    stem: Path
    alt: str = ""

    def draw(self, settings: Drawing | None = None) -> SavedFigure:
        """Draw the figure and write its files."""
        with style.drawing(settings or Drawing()):
            with warnings.catch_warnings(), contextlib.suppress(UserWarning):
                warnings.filterwarnings("error", fonts.MISSING, UserWarning)
                return self._draw_in({} if style.sheet() else fonts.settings())
            return self._draw_in({})

    def _draw_in(self, font: dict[str, Any]) -> SavedFigure:
        """Draw the figure with settings of the font, and write its files."""
        import matplotlib
        import matplotlib.style

        with matplotlib.rc_context(style.RC | font), uncollected():
            if sheet := style.sheet():
                matplotlib.style.use(sheet)
            return _save(self.make(*self.arguments), self)

    @property
    def text(self) -> str:
        """The caption file: title, what is to be seen, how to read it."""
        return "\n\n".join(filter(None, (self.title, self.alt, self.caption))) + "\n"


def draw_all(jobs: Iterable[FigureJob], settings: Drawing) -> Iterator[SavedFigure]:
    """Draw figures, in several processes if there are many; see `common.parallel.parallel_map`."""
    jobs = [
        job._replace(stem=job.stem.absolute()) for job in jobs
    ]  # worker processes may have another working directory
    for folder in {job.stem.parent for job in jobs}:
        folder.mkdir(parents=True, exist_ok=True)
    if large := len(jobs) > MAX_SERIAL_FIGURES:
        _import_matplotlib()
    return parallel_map(partial(FigureJob.draw, settings=settings), jobs, large)


def _import_matplotlib() -> None:
    """Import what figures need, so that copies of this process need not."""
    fonts.settings()
    for module in ("figure", "backends.backend_agg", "backends.backend_svg", "backends.backend_pdf"):
        import_module(f"matplotlib.{module}")


def _fix_labels(figure: Figure, renderer: Any) -> None:
    """Fix the places of the labels of axes, so that tick labels need not be measured again for every format."""
    for axes in figure.axes:
        locate: Any = axes.get_axes_locator()
        axes.apply_aspect(locate(axes, renderer) if locate else None)
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        label = axis.label
        if label.get_text():
            axis.get_tightbbox(renderer)  # updates the place of the label
            place = label.get_transform().transform(label.get_position())
            axis.set_label_coords(*axis.axes.transAxes.inverted().transform(place))
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            tick.label1.set_in_layout(False)
            tick.label2.set_in_layout(False)


def _png(canvas: Any) -> bytes:
    """Draw a figure as PNG, without transparency unless a style file has made the figure transparent."""
    import numpy as np
    from PIL import Image

    canvas.draw()
    pixels, content = np.asarray(canvas.buffer_rgba()), io.BytesIO()
    mode = "RGB" if (pixels[..., 3] == 255).all() else "RGBA"
    Image.fromarray(pixels).convert(mode).save(content, "png", dpi=(DPI, DPI), compress_level=COMPRESSION)
    return content.getvalue()


def _save(figure: Figure, job: FigureJob) -> SavedFigure:
    """Write the files of a figure; equal data give equal bytes.

    `Figure.savefig` is not used because it draws everything twice to recompute the layout.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) if not axis.get_label_text()):
        axis.set_label_coords(0.5, 0.5)  # else the place of a label is computed, though it is empty
    svg, pdf = io.StringIO(), io.BytesIO()
    figure.dpi, canvas = DPI, FigureCanvasAgg(figure)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)  # with the renderer of the PNG, so that each text is measured once for both
    figure.set_layout_engine("none")
    _fix_labels(figure, canvas.get_renderer())  # type: ignore[no-untyped-call]
    png = _png(canvas)
    no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    FigureCanvasSVG(figure).print_svg(svg, metadata=no_metadata)  # type: ignore[no-untyped-call]
    nothing = dict.fromkeys(("CreationDate", "Creator", "Producer"))
    figure.dpi = DPI  # `print_svg` leaves it at 72
    FigureCanvasPdf(figure).print_pdf(pdf, metadata=nothing)  # type: ignore[no-untyped-call]
    text = fonts.without_own_name(svg.getvalue())
    contents: tuple[str | bytes, ...] = (png, text, pdf.getvalue(), job.text)
    files = tuple(
        write_atomically(job.stem.with_name(f"{job.stem.name}.{end}"), content)
        for end, content in zip(FORMATS, contents, strict=True)
    )
    return SavedFigure(job.kind, job.title, job.caption, files)
