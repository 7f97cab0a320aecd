"""Draw docs/shapes40.png, one shaded shape of each category: `python -m docs.scripts.make_contact_sheet`.

With names of categories, draw eight shapes of each of them, with their symmetries, to closer.png instead.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.report import style
from datasets.base import MeshShape
from datasets.indoor.camera import Camera, look_at, render
from datasets.shapes40 import Shapes40
from docs.scripts.pictures import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[2]

# The shape that represents a category: 7 unless another is more typical.
SHOWN = {"bowl": 3, "cup": 3, "curtain": 3, "door": 3, "glass_box": 0, "stairs": 3, "xbox": 0}
CAMERA = Camera(width=700, height=700, focal=780.0)
"""Camera of the pictures, in units of the shapes, which fit into a sphere of radius 1."""
POSE = look_at(*3.3 * np.array([[0.5, -0.78, 0.38], [0, 0, 0]]), np.array([0.0, 0.0, 1.0]))
"""Its pose: in front, slightly to the right and above."""
COLOUR, LINE = np.array([0.62, 0.76, 0.95]), np.array([0.13, 0.2, 0.3])


def picture(shape: MeshShape) -> NDArray[np.float64]:
    """Return a picture (h, w, 4) of a shape without its margins: lit from the camera, with lines where depth or normal jump."""
    view = render(shape.triangles, POSE, CAMERA)
    seen = np.isfinite(view.depth)
    depth = np.where(seen, view.depth, 99.0)
    line = np.zeros(depth.shape, dtype=bool)
    for axis in (0, 1):
        for step in (1, 2):
            line |= np.abs(np.roll(depth, step, axis) - depth) > 0.04
        line |= np.abs(np.roll(view.cosine, 1, axis) - view.cosine) > 0.12
    colours = np.where(line[..., None], LINE, COLOUR * (0.3 + 0.75 * view.cosine[..., None]))
    rows, columns = (np.flatnonzero(seen.any(axis=axis)) for axis in (1, 0))
    image = np.concatenate([colours.clip(0, 1), (seen | line)[..., None]], axis=2)
    return np.asarray(image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])


def draw(axes: Any, shape: MeshShape, title: str) -> None:
    """Draw one shape as large as its place permits, with its name below."""
    image = picture(shape)
    height, width = image.shape[:2]
    half = max(height, width) / 2
    axes.imshow(image, interpolation="antialiased")
    axes.set(xlim=(width / 2 - half, width / 2 + half), ylim=(height / 2 + half, height / 2 - half))
    axes.set_title(title, y=-0.23, loc="center")
    axes.axis("off")


def draw_all(picks: list[tuple[str, int]], with_symmetry: bool) -> Figure:
    """Draw shapes, given by category and number, eight in a row."""
    from matplotlib.figure import Figure

    data = Shapes40()
    rows = -(-len(picks) // 8)
    figure = Figure(figsize=(style.figure_width(), 1.13 * rows))
    for number, (name, k) in enumerate(picks):
        shape = data.shape("train", k * len(data.categories) + data.categories.index(name))
        axes = figure.add_subplot(rows, 8, number + 1)
        draw(axes, shape, f"{name} ({shape.symmetry})" if with_symmetry else name)
    figure.subplots_adjust(0.01, 0.05, 0.99, 0.99, 0.08, 0.3)
    return figure


def main(wanted: list[str]) -> None:
    """Draw the contact sheet of all 40 categories, or several shapes of the wanted ones."""
    picks = [(name, k) for name in wanted for k in range(8)]
    every = [(name, SHOWN.get(name, 7)) for name in Shapes40.categories]
    save(draw_all, (picks or every, bool(picks)), Path("closer.png") if picks else ROOT / "docs" / "shapes40.png")


if __name__ == "__main__":
    main(sys.argv[1:])
