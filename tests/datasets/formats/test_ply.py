"""PLY files: attributes and polygons, read and written; headers that lie."""

import numpy as np
import pytest

from common.errors import InputError
from datasets import formats
from datasets.formats import Faces
from datasets.formats.ply import write_ply
from tests.datasets.formats.files import CLOUD, ply

COLUMNS = {"nx": CLOUD[:, 0], "red": np.arange(40, dtype=np.uint8), "label": np.arange(40, dtype=np.int64)}
FACES = {
    "triangles": Faces(np.array([3, 3]), np.array([0, 1, 2, 2, 3, 0]), {"red": np.array([7, 8], np.uint8)}),
    "mixed": Faces(np.array([3, 4]), np.array([0, 1, 2, 4, 5, 6, 7])),
    "mixed with colours": Faces(np.array([3, 4]), np.array([0, 1, 2, 4, 5, 6, 7]), {"red": np.array([7, 8], np.uint8)}),
}


@pytest.mark.parametrize("faces", [None, *FACES])
def test_attributes_and_faces_are_read_as_they_were_written(tmp_path, faces):
    polygons = FACES[faces] if faces else None
    write_ply(tmp_path / "a.ply", CLOUD.astype(np.float64), COLUMNS, polygons)
    read = formats.read(tmp_path / "a.ply")
    np.testing.assert_array_equal(read.points, CLOUD)
    assert list(read.columns) == list(COLUMNS) and read.columns["red"].dtype == np.uint8
    for name, values in COLUMNS.items():
        np.testing.assert_array_equal(read.columns[name], values)
    if polygons:
        np.testing.assert_array_equal(read.faces.sizes, polygons.sizes)
        np.testing.assert_array_equal(read.faces.corners, polygons.corners)
        assert {n: v.tolist() for n, v in read.faces.columns.items()} == {
            n: v.tolist() for n, v in polygons.columns.items()
        }
        assert len(read.triangles) == (polygons.sizes - 2).sum()


def test_ascii_with_other_elements_and_lists_is_read(tmp_path):
    head = "ply\nformat ascii 1.0\ncomment x\nobj_info y\nelement vertex 4\nproperty double x\nproperty double y\n"
    head += "property double z\nproperty uchar red\nelement range_grid 3\nproperty list uchar int vertex_indices\n"
    head += "element face 2\nproperty list uchar int vertex_index\nproperty uchar flag\nend_header\n"
    body = "0 0 0 1\n1 0 0 2\n0 1 0 3\n0.1 0.2 500000.123 4\n1 0\n0\n1 3\n3 0 1 2 9\n4 0 1 2 3 8\n"
    (tmp_path / "a.ply").write_text(head + body)
    read = formats.read(tmp_path / "a.ply")
    assert read.points[3].tolist() == [0.1, 0.2, 500000.123] and read.columns["red"].tolist() == [1, 2, 3, 4]
    assert read.faces.sizes.tolist() == [3, 4] and read.faces.columns["flag"].tolist() == [9, 8]


@pytest.mark.parametrize("order", ["ascii", "binary_little_endian"])
@pytest.mark.parametrize(
    ("count", "message"),
    [
        (300, "header declares 300 elements vertex, but"),
        (10, "header declares 10 elements vertex, but"),
        (2**40, "header declares 1099511627776 elements vertex, but"),
        (-5, "header declares -5 elements vertex"),
    ],
)
def test_a_header_that_declares_another_number_of_vertices_is_refused(tmp_path, order, count, message):
    (tmp_path / "a.ply").write_bytes(ply(count=count, order=order))
    with pytest.raises(InputError) as error:
        formats.read(tmp_path / "a.ply")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"property float z", b"property float q", "element vertex has no property z (it has x, y, q)"),
        (b"property float z", b"property float x", "header names a property of vertex twice"),
        (b"element vertex 40", b"element verten 40", "has no element vertex (it has verten)"),
        (b"end_header", b"end", "is no PLY file"),
        (b"format binary_little_endian 1.0\n", b"", "header has no format"),
        (b"property float z", b"property quad z", "header has the line 'property quad z'"),
    ],
)
def test_damaged_headers_are_named(tmp_path, old, new, message):
    (tmp_path / "a.ply").write_bytes(ply().replace(old, new))
    with pytest.raises(InputError) as error:
        formats.read(tmp_path / "a.ply")
    assert message in str(error.value)


def test_a_face_must_refer_to_vertices_that_exist(tmp_path):
    write_ply(tmp_path / "a.ply", CLOUD.astype(np.float64), None, Faces(np.array([3]), np.array([0, 1, 99])))
    with pytest.raises(InputError, match=r"a face refers to vertex 99 \(from 0\) of 40"):
        formats.read(tmp_path / "a.ply")
