"""Files are written whole or not at all."""

import errno

import pytest

from common.errors import StorageError
from common.files import write_atomically


def test_text_that_utf_8_lacks_is_written_as_an_escape(tmp_path):
    assert write_atomically(tmp_path / "a", "x\udce4").read_bytes() == b"x\\udce4"


def test_a_full_disk_is_one_line_and_leaves_no_temporary_file(tmp_path):
    def blocks():
        yield b"begun"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(StorageError, match="disk is full"):
        write_atomically(tmp_path / "a", blocks())
    assert list(tmp_path.iterdir()) == []
