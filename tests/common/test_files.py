"""Files are written whole or not at all."""

import errno
import os
import re

import pytest

from common.errors import StorageError
from common.files import atomic_path, check_writable, make_folder, write_atomically


def test_text_that_utf_8_lacks_is_written_as_an_escape(tmp_path):
    assert write_atomically(tmp_path / "a", "x\udce4").read_bytes() == b"x\\udce4"


def test_a_full_disk_is_one_line_and_leaves_no_temporary_file(tmp_path):
    def blocks():
        yield b"begun"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(StorageError, match="disk is full"):
        write_atomically(tmp_path / "a", blocks())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "stored"), [("ä\n", "ä\n".encode()), (b"a\r\n\0", b"a\r\n\0"), (iter([b"a", b"b"]), b"ab")]
)
def test_a_complete_file_replaces_the_old_one(tmp_path, content, stored):
    file = tmp_path / "a"
    file.write_text("old")
    assert write_atomically(file, content) == file
    assert file.read_bytes() == stored and list(tmp_path.iterdir()) == [file]


def test_a_file_or_folder_of_a_block_that_fails_is_removed_and_the_old_file_stays(tmp_path):
    (tmp_path / "a").write_text("old")
    for name, begin in (
        ("a", lambda path: path.write_text("new")),
        ("b", lambda path: (path / "c").mkdir(parents=True)),
    ):
        with pytest.raises(KeyError), atomic_path(tmp_path / name) as temporary:
            begin(temporary)
            assert temporary.parent == tmp_path and temporary.name.startswith(f".{name}.")
            raise KeyError
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a", "old")]
    with atomic_path(tmp_path / "b") as temporary:
        temporary.mkdir()
    assert (tmp_path / "b").is_dir()


def test_what_is_no_fault_of_the_disk_is_raised_as_it_is(tmp_path):
    def blocks():
        raise OSError(errno.EPIPE, "broken")
        yield b""

    with pytest.raises(OSError, match="broken"):
        write_atomically(tmp_path / "a", blocks())


def test_the_existing_folder_of_a_path_is_probed_without_a_trace(tmp_path):
    file = tmp_path / "file"
    file.touch()
    for below in (file / "run", file / "more" / "run"):
        with pytest.raises(StorageError, match=f"{re.escape(str(below))}: a part of this path is a file"):
            check_writable(below)
    check_writable(tmp_path / "new" / "run")
    check_writable(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="no permission"):
        check_writable(tmp_path / "run")


def test_a_folder_is_made_with_those_above_it_unless_it_exists(tmp_path):
    for _ in range(2):
        make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "file" / "a", tmp_path / ("x" * 300)):
        with pytest.raises(StorageError, match=re.escape(str(wrong))):
            make_folder(wrong)
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")
