"""Draw docs/shapes40.png, one shaded shape of each category: `python docs/scripts/make_contact_sheet.py`.

With names of categories, draw eight shapes of each of them, with their symmetries, to closer.png instead.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from datasets.base import MeshShape, Points
from datasets.shapes40 import Shapes40

ROOT = Path(__file__).resolve().parents[2]

LIGHT = np.array([0.35, -0.75, 0.56])
COLOUR = np.array([0.55, 0.68, 0.85])


# The shape that represents a category: 7 unless another is more typical.
SHOWN = {"bowl": 3, "cup": 3, "curtain": 3, "door": 3, "glass_box": 0, "stairs": 3, "xbox": 0}


def shaded(triangles: Points) -> Points:
    """Return Lambert colours (T, 3) of triangles (T, 3, 3), lit on both faces."""
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True).clip(min=1e-12)
    return COLOUR * (0.3 + 0.7 * np.abs(normals @ LIGHT))[:, None]


def refined(triangles: Points, longest: float = 0.22) -> Points:
    """Subdivide triangles until their edges are short, so that drawing from back to front is correct almost everywhere."""
    for _ in range(6):
        edges = np.linalg.norm(np.roll(triangles, -1, axis=1) - triangles, axis=2)
        wide = edges.max(axis=1) > longest
        long = triangles[wide]
        turned = np.take_along_axis(
            long, ((edges[wide].argmax(axis=1)[:, None] + np.arange(3)) % 3)[:, :, None], axis=1
        )
        middle = turned[:, :2].mean(axis=1)
        halves = [
            np.stack([turned[:, 0], middle, turned[:, 2]], axis=1),
            np.stack([middle, turned[:, 1], turned[:, 2]], axis=1),
        ]
        triangles = np.concatenate([triangles[~wide], *halves])
    return triangles


def draw(axes: Any, shape: MeshShape, title: str) -> None:
    """Draw one shape in 3D axes, from the front, slightly from the right and above; glass is transparent."""
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    reach = np.abs(shape.triangles).max() * 0.88
    triangles = refined(shape.triangles)
    glass = shape.category == "glass_box"
    colours = np.column_stack([shaded(triangles), np.full(len(triangles), 0.35 if glass else 1.0)])
    axes.add_collection3d(
        Poly3DCollection(triangles, facecolors=colours, edgecolors=colours, linewidths=0 if glass else 0.1)
    )
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), zlim=(-reach, reach))
    axes.set_box_aspect((1, 1, 1), zoom=1.15)
    axes.view_init(elev=22, azim=-58)
    axes.set_axis_off()
    axes.set_title(title, fontsize=11, y=0.98)


def main(wanted: list[str]) -> None:
    """Draw the contact sheet of all 40 categories, or several shapes of the wanted ones."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    data = Shapes40()
    picks = [(name, k) for name in wanted for k in range(8)] or [(name, SHOWN.get(name, 7)) for name in data.categories]
    rows = -(-len(picks) // 8)
    figure, grid = plt.subplots(rows, 8, figsize=(16, 2.2 * rows), subplot_kw={"projection": "3d"})
    for axes, (name, k) in zip(grid.ravel(), picks, strict=True):
        shape = data.shape("train", k * len(data.categories) + data.categories.index(name))
        draw(axes, shape, f"{name} ({shape.symmetry})" if wanted else name)
    figure.subplots_adjust(0, 0, 1, 0.97, 0, 0.08)
    figure.savefig(Path("closer.png") if wanted else ROOT / "docs" / "shapes40.png", dpi=80)


if __name__ == "__main__":
    main(sys.argv[1:])
