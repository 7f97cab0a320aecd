"""PLY files: attributes and polygons, read and written; headers that lie."""

import numpy as np
import pytest

from common.errors import InputError, MalformedFile
from common.keys import rng
from datasets import formats
from datasets.formats import Faces
from datasets.formats.ply import TYPES, read_ply, write_ply
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


def random_element(draw, name, count, lists):
    """Header lines and rows of an element: of each property the type, the type of its length if it is a list, and its values."""
    kinds = [kind for kind in TYPES if not kind.startswith(("int8", "char"))]
    scalars = {"vertex": ["x", "y", "Z", "nx", "red"], "face": ["flag"], "other": ["a", "b"]}[name]
    lines, properties = [f"element {name} {count}"], []
    for label in draw.permutation(scalars + ["vertex_indices", "more"][: 0 if name == "vertex" else 2]):
        kind, is_list = str(draw.choice(kinds)), label in ("vertex_indices", "more")
        counter = str(draw.choice(["uchar", "short", "int"])) if is_list else ""
        lines.append(f"property list {counter} {kind} {label}" if is_list else f"property {kind} {label}")
        is_mixed = lists == "mixed" or (lists == "one mixed" and label == "more")
        sizes = draw.integers(3, 6, count) if is_mixed else np.full(count, 4)
        rows = [draw.integers(0, 5, size if is_list else 1) for size in sizes]
        properties.append((str(label), TYPES[kind], TYPES.get(counter), rows))
    return lines, properties


@pytest.mark.parametrize("order", ["ascii", "binary_little_endian", "binary_big_endian"])
@pytest.mark.parametrize("lists", ["equal", "mixed", "one mixed"])
@pytest.mark.parametrize("seed", range(4))
def test_elements_of_any_types_and_order_are_read_as_they_were_written(tmp_path, order, lists, seed):
    """Vertices and faces among another element, with lists of one length and of several."""
    draw = rng("ply", seed)
    count = dict.fromkeys(("vertex", "face", "other"), 5)
    if lists == "one mixed":
        count |= {"face": 2, "other": 2}  # of more rows the lengths of all lists seem to differ
    elements = {name: random_element(draw, name, count[name], lists) for name in draw.permutation(list(count))}
    head = [
        "ply",
        f"format {order} 1.0",
        "comment by a test",
        *(line for lines, _ in elements.values() for line in lines),
    ]
    words, sign = [], {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}[order]
    for name, (_, properties) in elements.items():
        for k in range(count[name]):
            for _, kind, counter, rows in properties:
                parts = [(counter, [len(rows[k])])] if counter else []
                words += [(t, v) for t, values in [*parts, (kind, rows[k])] for v in values]
    body = b"".join(np.array(v, sign + t).tobytes() for t, v in words)
    if order == "ascii":
        body = " ".join(str(v) for _, v in words).encode()
    (tmp_path / "a.ply").write_bytes("\n".join([*head, "end_header", ""]).encode() + body + b"\n")
    read = read_ply(tmp_path / "a.ply")
    vertex, face = ({label: rows for label, *_, rows in elements[name][1]} for name in ("vertex", "face"))
    np.testing.assert_array_equal(read.points, np.column_stack([np.concatenate(vertex.pop(axis)) for axis in "xyZ"]))
    for columns, expected in ((read.columns, vertex), (read.faces.columns, {"flag": face["flag"]})):
        assert list(columns) == list(expected)
        for label, rows in expected.items():
            assert columns[label].tolist() == np.concatenate(rows).tolist()
    assert read.faces.sizes.tolist() == [len(row) for row in face["vertex_indices"]]
    assert read.faces.corners.tolist() == np.concatenate(face["vertex_indices"]).tolist()
    cut = body[: -len(words[-1:])] if order != "ascii" else body[:-1].rstrip(b"0123456789")
    for content in (cut, body + b" 7"):
        (tmp_path / "b.ply").write_bytes("\n".join([*head, "end_header", ""]).encode() + content)
        with pytest.raises(MalformedFile):
            read_ply(tmp_path / "b.ply")


def test_text_beyond_the_range_of_its_type_is_refused(tmp_path):
    for kind, low, high in (("uchar", 0, 255), ("char", -128, 127), ("short", -32768, 32767)):
        head = ply(order="ascii").replace(b"property float z\n", f"property float z\nproperty {kind} q\n".encode())
        start = head[: head.index(b"end_header")].replace(b"vertex 40", b"vertex 3") + b"end_header\n"
        for value in (low - 1, low, high, high + 1):
            (tmp_path / "a.ply").write_bytes(start + f"0 0 1 {value}\n0 1 0 1\n1 0 0 1\n".encode())
            if low <= value <= high:
                assert read_ply(tmp_path / "a.ply").columns["q"].tolist() == [value, 1, 1]
            else:
                with pytest.raises(MalformedFile, match=f"has a value outside {low} to {high}, the range of its type"):
                    read_ply(tmp_path / "a.ply")
