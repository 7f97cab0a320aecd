"""PCD files as old PCL and drivers of scanners write them."""

import lzf
import numpy as np
import pytest

from common.errors import InputError
from common.keys import rng
from datasets import formats
from datasets.formats.pcd import read_pcd
from tests.datasets.formats.files import CLOUD, pcd_text

HEADERS = {
    "version 5": {"VERSION": ".5", "COUNT": None, "VIEWPOINT": None},
    "version 6": {"VERSION": "0.6", "COUNT": None, "HEIGHT": None},
    "columns": {"FIELDS": None, "COLUMNS": "x y z"},
    "no points": {"POINTS": None},
    "no width": {"WIDTH": None, "HEIGHT": None},
    "no version": {"VERSION": None},
    "organised": {"WIDTH": 8, "HEIGHT": 5},
}


@pytest.mark.parametrize("data", ["ascii", "binary"])
@pytest.mark.parametrize("name", HEADERS)
def test_headers_of_older_versions_are_read(tmp_path, name, data):
    (tmp_path / "a.pcd").write_bytes(pcd_text(data=data, **HEADERS[name]))
    np.testing.assert_allclose(formats.read(tmp_path / "a.pcd").points, CLOUD, atol=1e-6)


def test_padding_and_empty_fields_of_drivers_are_left_out(tmp_path):
    row = np.dtype([("xyz", "<f4", 3), ("pad", "u1", 4), ("intensity", "<f4"), ("ring", "<u2"), ("more", "u1", 6)])
    rows = np.zeros(40, row)
    rows["xyz"], rows["intensity"] = CLOUD, np.arange(40)
    head = pcd_text(
        data="binary", FIELDS="x y z _ intensity ring _ empty", SIZE="4 4 4 1 4 2 1 1", TYPE="F F F U F U U U",
        COUNT="1 1 1 4 1 1 6 0",
    )  # fmt: skip
    (tmp_path / "a.pcd").write_bytes(head[: head.find(b"DATA")] + b"DATA binary\n" + rows.tobytes())
    cloud = formats.read(tmp_path / "a.pcd")
    np.testing.assert_allclose(cloud.points, CLOUD)
    assert list(cloud.columns) == ["intensity", "ring"]
    np.testing.assert_array_equal(cloud.columns["intensity"], np.arange(40))


def test_packed_colours_become_red_green_and_blue(tmp_path):
    colour = np.full(40, (200 << 16) + (100 << 8) + 50, np.uint32)
    rows = np.zeros(40, [("xyz", "<f4", 3), ("rgb", "<f4"), ("normal_x", "<f4")])
    rows["xyz"], rows["rgb"] = CLOUD, colour.view(np.float32)
    head = pcd_text(data="binary", FIELDS="x y z rgb normal_x", SIZE="4 4 4 4 4", TYPE="F F F F F", COUNT=None)
    (tmp_path / "a.pcd").write_bytes(head[: head.find(b"DATA")] + b"DATA binary\n" + rows.tobytes())
    columns = formats.read(tmp_path / "a.pcd").columns
    assert [int(columns[name][0]) for name in ("red", "green", "blue")] == [200, 100, 50] and "nx" in columns


def test_double_precision_is_kept(tmp_path):
    points = np.add(CLOUD.astype(np.float64), (4e5, 5e6, 100))
    head = pcd_text(data="binary", SIZE="8 8 8")
    (tmp_path / "a.pcd").write_bytes(head[: head.find(b"DATA")] + b"DATA binary\n" + points.tobytes())
    np.testing.assert_array_equal(formats.read(tmp_path / "a.pcd").points, points)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ({"POINTS": 300, "WIDTH": 300}, "header declares 300 points of 12 bytes, but 480 bytes follow"),
        ({"POINTS": 20, "WIDTH": 20}, "header declares 20 points of 12 bytes, but 480 bytes follow, which is more"),
        ({"WIDTH": 10, "HEIGHT": 10}, "header has WIDTH 10 x HEIGHT 10, but POINTS 40"),
        ({"WIDTH": -4, "POINTS": -4}, "header has WIDTH -4, not a whole number from 0"),
        ({"SIZE": "4 4"}, "header has SIZE of 2 fields, but 3 are expected"),
        ({"TYPE": "F F Q"}, "header declares field z as 1 values of TYPE Q and SIZE 4"),
        ({"FIELDS": "x y q"}, "has no field z (it has x, y, q)"),
        ({"FIELDS": "x x z"}, "header names field x twice"),
    ],
)
def test_headers_that_do_not_fit_are_named_in_our_words(tmp_path, lines, message):
    (tmp_path / "a.pcd").write_bytes(pcd_text(data="binary", **lines))
    with pytest.raises(InputError) as error:
        formats.read(tmp_path / "a.pcd")
    assert message in str(error.value)


NAMES = ["intensity", "ring", "t", "normal_x", "label", "r", "Y", "_"]


@pytest.mark.parametrize("encoding", ["ascii", "binary", "binary_compressed"])
@pytest.mark.parametrize("seed", range(6))
def test_fields_of_any_type_count_and_order_are_read_as_they_were_written(tmp_path, encoding, seed):
    """Fields in a random order, of which some have several values or none, and padding."""
    draw, n = rng("pcd", seed), 30
    fields = []
    for name in draw.permutation(["x", "y", "z" if seed % 2 else "Z", *NAMES[:6], *NAMES[7:] * 2]):
        kind = str(draw.choice(["F4", "F8", "I1", "I2", "I4", "U1", "U2", "U4"]))
        count = 1 if name in ("x", "y", "z", "Z") else int(draw.integers(0, 4))
        kind = kind if count else "U1"
        dtype = np.dtype("<" + kind.lower())
        limit = 9 if dtype.kind == "f" else np.iinfo(dtype).max
        rows = draw.integers(0, limit, (5, count), endpoint=True).astype(dtype)
        fields.append((str(name), kind, count, np.repeat(rows, 6, axis=0)))  # which can be compressed
    names, kinds, counts, values = zip(*fields, strict=True)
    lines = {"FIELDS": " ".join(names), "SIZE": " ".join(k[1] for k in kinds), "TYPE": " ".join(k[0] for k in kinds)}
    head = pcd_text(points=CLOUD[:n], data=encoding, COUNT=" ".join(map(str, counts)), **lines)
    head = head[: head.find(b"DATA")] + f"DATA {encoding}\n".encode()
    if encoding == "ascii":
        body = "\n".join(" ".join(str(v) for part in values for v in part[k]) for k in range(n)).encode()
    elif encoding == "binary":
        body = b"".join(part[k].tobytes() for k in range(n) for part in values)
    else:
        whole = b"".join(part.tobytes() for part in values)
        packed = lzf.compress(whole)
        body = len(packed).to_bytes(4, "little") + len(whole).to_bytes(4, "little") + packed
    (tmp_path / "a.pcd").write_bytes(head + body)
    cloud, expected = read_pcd(tmp_path / "a.pcd"), {}
    for name, _, count, part in fields:
        for k in range(count if name != "_" else 0):
            plain = {"normal_x": "nx", "r": "red", "Z": "z"}.get(name, name)
            expected[plain if count == 1 else f"{name}_{k}"] = part[:, k]
    np.testing.assert_array_equal(cloud.points, np.column_stack([expected.pop(axis) for axis in "xyz"]))
    assert list(cloud.columns) == list(expected)
    for name, column in expected.items():
        np.testing.assert_array_equal(cloud.columns[name], column, err_msg=name)


@pytest.mark.parametrize("encoding", ["ascii", "binary"])
@pytest.mark.parametrize(("name", "kind"), [("rgb", "F 4"), ("rgba", "U 4"), ("rgb", "U 4"), ("rgba", "I 4")])
def test_packed_colours_have_red_in_bits_16_to_23_and_alpha_above(tmp_path, encoding, name, kind):
    channels = rng("rgb").integers(0, 127, (4, 3))  # red, green, blue, alpha
    packed = (channels * (1 << np.array([[16], [8], [0], [24]]))).sum(axis=0).astype(np.uint32)
    head = pcd_text(points=CLOUD[:3], data=encoding, FIELDS=f"x y z {name}", COUNT=None,
                    SIZE=f"4 4 4 {kind[-1]}", TYPE=f"F F F {kind[0]}")  # fmt: skip
    head = head[: head.find(b"DATA")] + f"DATA {encoding}\n".encode()
    stored = packed.view(np.float32) if kind[0] == "F" else packed
    rows = [(*CLOUD[k], stored[k]) for k in range(3)]
    body = "\n".join(" ".join(map(repr_of, row)) for row in rows).encode()
    if encoding == "binary":
        body = b"".join(CLOUD[k].astype("<f4").tobytes() + packed[k].tobytes() for k in range(3))
    (tmp_path / "a.pcd").write_bytes(head + body)
    columns = read_pcd(tmp_path / "a.pcd").columns
    names = ["red", "green", "blue", *(["alpha"] if name == "rgba" else [])]
    assert list(columns) == names and all(values.dtype == np.uint8 for values in columns.values())
    for k, channel in enumerate(names):
        assert columns[channel].tolist() == channels[k].tolist(), channel


def repr_of(value):
    """A number with the digits that it needs."""
    return np.format_float_scientific(value) if isinstance(value, np.floating) else str(value)
