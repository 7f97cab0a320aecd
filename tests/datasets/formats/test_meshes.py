"""OFF, OBJ and STL files beyond plain triangles."""

import numpy as np
import pytest

from common.errors import InputError
from datasets import formats

CORNERS = "0 0 0\n1 0 0\n1 1 0\n0 1 0\n"
MESHES = {
    "quad.off": ("OFF\n4 1 0\n" + CORNERS + "4 0 1 2 3\n", 2),
    "same_line.off": ("OFF4 1 0\n" + CORNERS + "4 0 1 2 3\n", 2),
    "face_colours.off": ("OFF\n# c\n4 2 0\n" + CORNERS + "3 0 1 2 255 0 0\n4 0 1 2 3 0 255 0\n", 3),
    "colours.off": ("COFF\n4 1 0\n" + CORNERS.replace("\n", " 9 8 7 255\n") + "4 0 1 2 3\n", 2),
    "slashes.obj": (
        "".join(f"v {c}\n" for c in CORNERS.splitlines()) + "vt 0 0\nvn 0 0 1\nf 1/1/1 2/1/1 3//1\nf -4 -2 -1\n",
        2,
    ),
    "colours.obj": ("".join(f"v {c} 1 0.5 0\n" for c in CORNERS.splitlines()) + "f 1 2 3 4\n", 2),
    "normals.off": ("NOFF\n4 1 0\n" + CORNERS.replace("\n", " 0 0 1\n") + "4 0 1 2 3\n", 2),
    "textured.off": ("STCNOFF\n4 1 0\n" + CORNERS.replace("\n", " 0 0 1\n") + "4 0 1 2 3\n", 2),
    "three.off": ("COFF 4 1 0\n" + CORNERS.replace("\n", " 9 8 7\n") + "4 0 1 2 3\n", 2),
    "bytes.obj": ("".join(f"v {c} 9 8 1\n" for c in CORNERS.splitlines()) + "f 1 2 3 4\n", 2),
    "later.obj": ("v 0 0 0\nv 1 0 0\nv 1 1 0\nf -3 -2 -1\nv 0 1 0\nf 1 -2 -1\n", 2),
    "continued.obj": ("".join(f"v {c}\n" for c in CORNERS.splitlines()) + "f 1 2 \\\n3 4\n", 2),
}


COLUMNS = {
    "colours.off": {"red": 9, "green": 8, "blue": 7, "alpha": 255},
    "three.off": {"red": 9, "green": 8, "blue": 7},
    "colours.obj": {"red": 255, "green": 128, "blue": 0},
    "bytes.obj": {"red": 9, "green": 8, "blue": 1},
}
"""Colours of every vertex; files without have none."""


@pytest.mark.parametrize("name", MESHES)
def test_polygons_colours_and_relative_indices_are_read(tmp_path, name):
    text, triangles = MESHES[name]
    (tmp_path / name).write_text(text)
    mesh = formats.read(tmp_path / name)
    assert mesh.triangles.shape == (triangles, 3, 3) and len(mesh.points) == 4
    assert {column: set(values.tolist()) for column, values in mesh.columns.items()} == {
        column: {value} for column, value in COLUMNS.get(name, {}).items()
    }
    assert name not in COLUMNS or mesh.columns["green"].dtype == np.uint8
    corners = [[float(v) for v in row.split()] for row in CORNERS.splitlines()]
    assert mesh.points.tolist() == corners
    fans = [(0, 1, 2)] * (triangles - 1) + [(0, 2, 3)]
    assert mesh.triangles.tolist() == [[corners[k] for k in fan] for fan in fans]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.off",
            "OFF\n1000000000 1 0\n" + CORNERS,
            "header declares 1000000000 vertices and 1 face, but has 4 lines after it",
        ),
        ("a.off", "OFF\n-3 -1 0\n" + CORNERS, "declares no numbers of vertices and faces"),
        ("a.off", "OFF\n4 1 0\n" + CORNERS + "1000000000 0 1 2\n", "has a face with fewer corners than it declares"),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 1000000000\n", "a face refers to vertex 999999999"),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 0\n", "a face refers to vertex 0; OBJ counts from 1"),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2\n", "has no face of three or more vertices"),
        ("a.off", "OFF\n4 1 0\n" + CORNERS + "2 0 1\n", "has no face of three or more vertices"),
        ("a.obj", "nothing\n", "has no line 'v x y z'"),
        ("a.stl", "solid x\nfacet normal 0 0 0\nouter loop\nvertex 0 0 0\n", "ends within a facet, after 1 vertex"),
        ("a.stl", "\0" * 84 + "x" * 50, "header declares 0 triangles, but the file holds 1"),
    ],
)
def test_damaged_meshes_are_refused_in_our_words(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as error:
        formats.read(tmp_path / name)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 4\nf 1 2 3\nf 4\n"),
        ("a.off", "OFF\n4 3 0\n" + CORNERS + "2 0 3\n3 0 1 2\n1 3\n"),
    ],
)
def test_faces_without_area_are_left_out_and_counted(tmp_path, name, text):
    """Furniture of a public collection has edges as faces of two vertices."""
    (tmp_path / name).write_text(text)
    mesh = formats.read(tmp_path / name)
    assert mesh.triangles.shape == (1, 3, 3)
    assert mesh.remarks == ("2 of 3 faces have fewer than three vertices and are left out",)
