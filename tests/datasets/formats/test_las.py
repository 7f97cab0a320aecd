"""LAS files with attributes, and headers that lie."""

import laspy
import numpy as np
import pytest

from common.errors import InputError, MalformedFile
from datasets import formats
from datasets.formats.las import read_las
from tests.datasets.formats.files import CLOUD, las


def test_attributes_and_the_step_of_the_coordinates_are_read(tmp_path):
    (tmp_path / "a.las").write_bytes(las())
    cloud = formats.read(tmp_path / "a.las")
    np.testing.assert_allclose(cloud.points, CLOUD, atol=2e-6)
    assert cloud.step == 1e-6 and cloud.columns["red"].tolist() == list(range(40))


@pytest.mark.parametrize(
    ("place", "content", "message"),
    [
        (107, b"\xff\xff\xff\xff", "header declares 4294967295 points from byte 227, but the file holds 40"),
        (107, b"\x0a\0\0\0", "header declares 10 points, but 780 more bytes follow"),
        (100, b"\xff\xff\xff\xff", "header declares 4294967295 variable length records, more than the file can hold"),
        (105, b"\0\0", "header declares point format 2 of 0 bytes, which LAS does not define"),
        (104, b"\x82", "is compressed (LAZ); convert it to LAS"),
        (131, b"\0\0\0\0\0\0\xf8\x7f", "header has scales nan"),
        (0, b"LASX", "is no LAS file"),
    ],
)
def test_headers_that_lie_are_refused_at_once(tmp_path, place, content, message):
    data = bytearray(las())
    data[place : place + len(content)] = content
    (tmp_path / "a.las").write_bytes(data)
    with pytest.raises(InputError) as error:
        formats.read(tmp_path / "a.las")
    assert message in str(error.value)


@pytest.mark.parametrize("point_format", range(11))
def test_attributes_of_every_point_format_are_those_that_were_written(tmp_path, point_format):
    draw, version = (
        np.random.default_rng(point_format),
        "1.2" if point_format < 4 else "1.3" if point_format < 6 else "1.4",
    )
    written = laspy.create(point_format=point_format, file_version=version)
    written.header.scales, written.header.offsets = [0.001, 0.002, 0.004], [1.0, -2.0, 3.0]
    cloud = draw.integers(-1000, 1000, (9, 3)) * written.header.scales + written.header.offsets
    written.x, written.y, written.z = cloud.T
    columns = {"intensity": draw.integers(0, 2**16, 9), "classification": draw.integers(0, 32, 9)}
    if "red" in written.point_format.dimension_names:
        columns |= {name: draw.integers(0, 2**16, 9) for name in ("red", "green", "blue")}
    for name, values in columns.items():
        setattr(written, name, values)
    written.write(str(tmp_path / "a.las"))
    read = formats.read(tmp_path / "a.las")
    np.testing.assert_allclose(read.points, cloud, atol=1e-9)
    assert read.step == 0.004
    assert {name: values.tolist() for name, values in read.columns.items()} == {
        name: values.tolist() for name, values in columns.items()
    }
    data = (tmp_path / "a.las").read_bytes()
    if version < "1.4":  # a size of a point that is too small for its format
        size = int.from_bytes(data[105:107], "little") - 1
        (tmp_path / "b.las").write_bytes(data[:105] + size.to_bytes(2, "little") + data[107:])
        with pytest.raises(InputError, match=f"point format {point_format} of {size} bytes, which LAS does not define"):
            formats.read(tmp_path / "b.las")


def test_version_1_4_counts_in_64_bits_unless_that_is_zero_and_later_versions_may_have_more_after_the_points(tmp_path):
    def points(data):
        (tmp_path / "a.las").write_bytes(bytes(data))
        return len(read_las(tmp_path / "a.las").points)

    for minor, after in ((2, False), (3, True)):
        data = bytearray(las())
        data[25] = minor
        assert points(data + b"\0\0") == 40
        if after:
            assert points(data + b"more") == 40
        else:
            with pytest.raises(MalformedFile, match="header declares 40 points, but 4 more bytes follow"):
                points(data + b"more")
    written = laspy.create(point_format=6, file_version="1.4")
    written.x, written.y, written.z = np.asarray(CLOUD, float).T
    written.write(str(tmp_path / "b.las"))
    data = bytearray((tmp_path / "b.las").read_bytes())
    assert points(data) == 40
    data[107:111] = (7).to_bytes(4, "little")
    assert points(data) == 40, "the 64 bits count"
    data[247:255] = bytes(8)
    assert points(data) == 7, "unless they are 0"


@pytest.mark.parametrize(("more", "refused"), [(0, False), (1, True)])
@pytest.mark.parametrize("padding", [0, 53, 54])
def test_as_many_records_as_the_file_has_room_for_may_be_declared(tmp_path, more, refused, padding):
    """A record has 54 bytes at least."""
    data = bytearray(las() + bytes(padding))
    data[100:104] = (len(data) // 54 + more).to_bytes(4, "little")
    (tmp_path / "a.las").write_bytes(data)
    if refused:
        with pytest.raises(MalformedFile, match="variable length records, more than the file can hold"):
            read_las(tmp_path / "a.las")
    else:
        assert len(read_las(tmp_path / "a.las").points) == 40
