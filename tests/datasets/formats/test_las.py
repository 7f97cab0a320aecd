"""LAS files with attributes, and headers that lie."""

import numpy as np
import pytest

from common.errors import InputError
from datasets import formats
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
