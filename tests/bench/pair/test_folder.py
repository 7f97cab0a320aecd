"""Folder of a pair's results."""

import json
import os
from pathlib import Path

import pytest

from bench.pair.folder import choose_folder, prepare, recorded_inputs, unwritable
from common.errors import InputError

A, B = Path("x/a.ply"), Path("x/b.ply")


def store(folder, content):
    folder = Path(folder)
    folder.mkdir(parents=True)
    (folder / "poses.json").write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_folder_of_the_same_files_is_used_again_and_those_of_others_are_not():
    assert choose_folder(None, A, B) == (Path("pairs/a-b"), "")
    store("pairs/a-b", recorded_inputs(A, B))
    assert choose_folder(None, A.resolve(), B) == (Path("pairs/a-b"), "")
    for number, source in ((2, Path("y/a.ply")), (3, Path("z/a.ply"))):
        folder, remark = choose_folder(None, source, B)
        assert folder == Path(f"pairs/a-b-{number}")
        assert remark == f"pairs/a-b has the results of x/a.ply and x/b.ply; these are written to {folder}"
        store(folder, recorded_inputs(source, B))
        assert choose_folder(None, source, B)[0] == folder
    assert choose_folder(None, A, B) == (Path("pairs/a-b"), "")


def test_a_path_means_the_file_that_it_named_when_it_was_recorded(monkeypatch):
    store("o", recorded_inputs(A, B))
    out = Path("o").resolve()
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert choose_folder(out, Path("../x/a.ply"), Path("../x/b.ply")) == (out, "")
    with pytest.raises(
        InputError, match=r"has the results of x/a\.ply and x/b\.ply; give another folder, or remove it"
    ):
        choose_folder(out, A, B)


def test_files_of_earlier_versions_name_paths_alone():
    store("o", {"source": str(A), "target": str(B), "methods": []})
    assert choose_folder(Path("o"), A, B) == (Path("o"), "")
    with pytest.raises(InputError, match=r"--out o: has the results of x/a\.ply and x/b\.ply"):
        choose_folder(Path("o"), B, A)


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"source": 1}', '{"frames": []}'])
def test_a_file_of_another_program_is_not_replaced(content):
    store("o", content)
    store("pairs/a-b", content)
    with pytest.raises(InputError, match=r"--out o: has the results of another program or version \(poses.json\)"):
        choose_folder(Path("o"), A, B)
    assert choose_folder(None, A, B)[0] == Path("pairs/a-b-2")


def test_names_that_differ_in_bytes_that_are_not_utf_8_are_different():
    first, second = (Path(os.fsdecode(name)) for name in (b"\xe9.ply", b"\xe8.ply"))
    store("pairs/--b", recorded_inputs(first, B))
    assert choose_folder(None, first, B)[0] == Path("pairs/--b")
    folder, remark = choose_folder(None, second, B)
    assert folder == Path("pairs/--b-2") and "the results of \ufffd.ply and x/b.ply" in remark


def test_a_prepared_folder_has_its_subfolders_and_no_probe(tmp_path):
    prepare(tmp_path / "deep" / "o")
    assert sorted(f.relative_to(tmp_path).as_posix() for f in tmp_path.rglob("*")) == [
        *("deep", "deep/o", "deep/o/aligned", "deep/o/poses")
    ]


def test_a_disk_that_refuses_the_probe_is_one_line(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", refuse)
    with pytest.raises(InputError, match=r"--out .*: the disk is full; make room"):
        prepare(tmp_path / "o")


def test_a_fault_without_a_known_fix_keeps_the_words_of_the_system():
    error = FileNotFoundError(2, "No such file or directory", "/proc/foo")
    assert str(unwritable(Path("/proc/foo"), error)) == (
        "--out /proc/foo: cannot be written (No such file or directory); give another folder"
    )
