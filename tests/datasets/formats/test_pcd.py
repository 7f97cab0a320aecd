"""PCD files as old PCL and drivers of scanners write them."""

import numpy as np
import pytest

from common.errors import InputError
from datasets import formats
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
