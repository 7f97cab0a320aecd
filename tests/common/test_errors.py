"""What errors say: the most similar names, and the reason and fix of a failure of the disk."""

import errno
from pathlib import Path

import pytest

from common.errors import InputError, StorageError, UnknownName, storage_error, unknown


def test_unknown_names_come_with_similar_ones_or_with_all():
    assert str(unknown("method", "fgt", ["fgr", "icp"])) == "unknown method 'fgt'; did you mean fgr?"
    two = str(unknown("method", "ransac", ["ransac10m", "ransac10k", "pca"]))
    assert two.startswith("unknown method 'ransac'; did you mean ransac10") and " or ransac10" in two
    assert str(unknown("kind", "zzz", ["b", "a"])) == "unknown kind 'zzz'; known: a, b"
    assert str(unknown("kind", "x", [])) == "unknown kind 'x'; known: none"
    assert str(unknown("name", "aaaa", [f"aaa{i}" for i in range(9)])).count(" or ") == 2
    assert isinstance(unknown("kind", "x", []), UnknownName) and issubclass(UnknownName, InputError)


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "your disk quota"),
        (errno.EFBIG, "the file may not grow"),
        (errno.EROFS, "is on a read-only file system"),
        (errno.EACCES, "no permission"),
        (errno.EPERM, "no permission"),
        (errno.ENOTDIR, "a part of this path is a file"),
        (errno.ENAMETOOLONG, "the name is too long"),
        (errno.EIO, "the disk reports an error"),
    ],
)
def test_failures_of_the_disk_name_the_file_and_the_fix(number, reason):
    error = OSError(number, "words of the system", "own")
    for path, name in ((Path("given"), "given"), (None, "own")):
        shown = storage_error(error, path)
        assert isinstance(shown, StorageError) and str(shown).startswith(f"{name}: {reason}")
    assert str(storage_error(OSError(number, ""))).startswith("writing: ")


@pytest.mark.parametrize(
    "error", [OSError(errno.EPIPE, "broken"), OSError("of a library"), OSError(errno.ENOENT, "none")]
)
def test_other_failures_are_no_fault_of_the_disk(error):
    assert storage_error(error, Path("a")) is None
