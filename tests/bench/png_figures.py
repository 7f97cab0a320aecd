"""Figures of tests that look at a report and not at the files of its figures."""

import io

from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from bench.report import jobs


def save_png_only(patch):
    """Let figures be saved as PNGs of low resolution, in this process."""

    def save(figure, job):
        path = job.stem.with_name(f"{job.stem.name}.png")
        FigureCanvasAgg(figure).print_png(path)
        return jobs.SavedFigure(job.kind, job.title, job.caption, (path,))

    patch.setattr(jobs, "_save", save)
    patch.setattr(jobs, "MAX_SERIAL_FIGURES", 10**6)


def save_blank(patch):
    """Let figures be made and saved as PNGs of one pixel, in this process."""
    pixel = io.BytesIO()
    Image.new("1", (1, 1)).save(pixel, "png")
    patch.setattr(FigureCanvasAgg, "print_png", lambda canvas, path: path.write_bytes(pixel.getvalue()))
    save_png_only(patch)
