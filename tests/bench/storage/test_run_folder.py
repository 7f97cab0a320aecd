"""Folders of runs and reports: no file of others is overwritten or deleted."""

import errno
import re
from pathlib import Path

import pytest

from bench.cli import main
from bench.evaluation import aggregate
from bench.storage import run_folder
from bench.storage.database import ResultsDatabase
from common.errors import InputError
from tests.bench.command_line import SHORT, refused, tree


@pytest.mark.parametrize("by", ["name", "parent", "path", "outside", "toml", "toml_alone", "older", "dots"])
def test_fresh_keeps_files_that_no_run_wrote(project, tmp_path, capsys, by):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "thesis.txt").write_text("x")
    (project / "evil.toml").write_text(f'out = "{docs}"\nfresh = true\n')
    (project / "alone.toml").write_text("fresh = true\n")
    arguments = {
        "name": ["--out", ".", "--fresh"],
        "parent": ["--out", "..", "--fresh"],
        "path": ["--out", "./", "--fresh"],
        "outside": ["--out", docs, "--fresh"],
        "toml": ["--config", "evil.toml"],
        "toml_alone": ["--config", "alone.toml", "--out", docs],
        "older": ["--out", "older", "--fresh"],
        "dots": ["--out", "results/../..", "--fresh"],
    }[by]
    before = tree(tmp_path)
    error = refused(capsys, *SHORT, *arguments)
    assert tree(tmp_path) == before
    assert ("no file can set it" if "toml" in by else "--out") in error


def test_fresh_deletes_files_of_the_run_and_lists_the_others(finished_run, capsys):
    assert {p.name for p in finished_run.iterdir()} <= run_folder.RUN_FILES
    (finished_run / "notes.txt").write_text("mine")
    (finished_run / "mine").mkdir()
    (finished_run / "mine" / "record.sqlite").write_text("mine")
    (finished_run / ".trials.csv.77.tmp").write_text("half")
    (finished_run / "cdf.csv").write_text("old")
    capsys.readouterr()
    assert main.main([*SHORT, "--seed", "1", "--out", "r", "--fresh"]) == 0
    assert "kept files that no run writes: mine, notes.txt" in capsys.readouterr().out
    assert (finished_run / "mine" / "record.sqlite").read_text() == (finished_run / "notes.txt").read_text() == "mine"
    assert not (finished_run / ".trials.csv.77.tmp").exists() and (finished_run / "cdf.csv").read_text() != "old"


def test_list_of_run_files_is_complete(finished_run):
    from bench.evaluation.conventions import convention
    from bench.report.command import read

    assert tuple(aggregate.tables(read(finished_run), convention(None, None))) == run_folder.TABLES


@pytest.mark.parametrize("name", [".", "..", "a\\b", "n" * 300, "é" * 101, "a\nb", "a\x00b", "\x1b[2J", "a\udcff"])
def test_invalid_name_is_refused(project, capsys, name):
    before = tree(project)
    assert "--out" in refused(capsys, *SHORT, "--out", name)
    assert tree(project) == before


def test_path_may_be_new_empty_or_of_a_run(project, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for out in ("./new", tmp_path / "empty", tmp_path / "deep" / "new"):
        for _ in range(2):
            assert main.main([*SHORT, "--out", str(out)]) == 0
        assert (project / out / "record.sqlite").is_file() and (project / out / "trials.csv").is_file()
        assert not (project / "results" / "new").exists()
    (project / "results" / "file").write_text("x")
    assert "is not a folder" in refused(capsys, *SHORT, "--out", "file")


def test_run_without_database_can_be_repeated(finished_run, capsys):
    (finished_run / "record.sqlite").unlink()
    assert main.main([*SHORT, "--out", "r"]) == 0
    (finished_run / "record.sqlite").unlink()
    (finished_run / "notes.txt").write_text("mine")
    before = tree(finished_run)
    assert "holds notes.txt and no results database" in refused(capsys, *SHORT, "--out", "r", "--fresh")
    assert tree(finished_run) == before


def test_full_disk_leaves_no_incomplete_file(tmp_path):
    def rows():
        yield b"a,b\n"
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "a.csv").write_text("old")
    with pytest.raises(InputError, match=r"a\.csv: the disk is full"):
        aggregate.write_atomically(tmp_path / "a.csv", rows())
    assert tree(tmp_path).keys() == {"a.csv"} and (tmp_path / "a.csv").read_text() == "old"


def test_foreign_report_is_not_overwritten(finished_run, project, capsys):
    own = project / "reports" / "own"
    own.mkdir(parents=True)
    (own / "report.html").write_text("<title>Thesis</title>")
    (project / "reports" / "notes").mkdir()
    (project / "reports" / "notes" / "thesis.txt").write_text("x")
    before = tree(project)
    for name, holds in (("own", "report.html"), ("notes", "thesis.txt"), ("./", "evil"), ("..", "is not a name")):
        error = refused(capsys, "report", "r", "--out", name)
        assert holds in error or name == "./"
    assert "report.html" in refused(capsys, *SHORT, "--out", "own")  # before anything is computed
    assert tree(project) == before
    (own / "report.html").write_text("<title>Registration benchmark: report</title>")
    assert main.main(["report", "r", "--out", "own"]) == 0
    assert (
        main.main(["report", "r", "--out", "./elsewhere"]) == 0
        and (project / "elsewhere" / "csv" / "cdf.csv").is_file()
    )


def fill(folder, *names, content="x"):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(content)
    return folder


def test_names_of_run_files_and_of_what_an_interrupted_write_leaves():
    ours = [
        "record.sqlite",
        "record.sqlite-wal",
        "record.sqlite-shm",
        "record.sqlite-journal",
        "run.json",
        "verify.json",
    ]
    ours += ["trials.csv", "summary.parquet", "scenes.csv", ".run.json.123.tmp", ".record.sqlite-wal.7.tmp"]
    others = ["notes.csv", "trials.txt", ".thesis.txt.123.tmp", "run.json.tmp", ".run.json.tmp", "x.run.json.1.tmp"]
    assert all(map(run_folder.is_run_file, ours)) and not any(map(run_folder.is_run_file, others))


@pytest.mark.parametrize(
    ("names", "content", "refused_names"),
    [
        ((), "", None),
        (("record.sqlite",), "", None),
        (("record.sqlite", "run.json"), "", None),
        (("run.json", "trials.csv"), '{"command": 1, "config": 2, "hash": 3, "problem_sets": 4, "more": 5}', None),
        (("run.json",), '{"command": 1, "config": 2, "hash": 3}', "run.json"),
        (("run.json",), "[]", "run.json"),
        (("trials.csv",), "x", "trials.csv"),
        (("thesis.txt",), "x", "thesis.txt"),
        (("record.sqlite", "thesis.txt"), "", "thesis.txt"),
    ],
)
def test_a_folder_is_new_or_of_a_run(tmp_path, names, content, refused_names):
    folder = fill(tmp_path / "run", *names, content=content)
    for function in (run_folder.check_run_folder, run_folder.delete_run_files):
        if refused_names:
            with pytest.raises(
                InputError, match=rf"--out .*: holds {re.escape(refused_names)} and no results database"
            ):
                function(folder)
        else:
            function(folder)
    left = [name for name in names if refused_names or "record.sqlite" not in names]
    assert sorted(file.name for file in folder.iterdir()) == sorted(left), "without a database nothing is deleted"
    run_folder.check_run_folder(tmp_path / "new")
    with pytest.raises(InputError, match="exists and is not a folder"):
        run_folder.check_run_folder(fill(tmp_path, "file") / "file")


HEAD = "<title>Registration benchmark: report</title>"


@pytest.mark.parametrize(
    ("files", "foreign"),
    [
        ({}, None),
        ({"report.html": f"<html>{HEAD}", "figures": None}, None),
        ({"summary.md": "# Summary\n", "thesis.txt": "x"}, None),
        ({"figures": None, "tables": None, "csv": None, "problems": None}, None),
        ({"figures": None, "thesis.txt": "x"}, "thesis.txt"),
        ({"report.html": "<html>mine"}, "report.html"),
        ({"report.html": f"<html>{HEAD}", "summary.md": "mine"}, "summary.md"),
        ({"report.html": " " * 4096 + HEAD}, "report.html"),
        ({"report.html": None}, "report.html"),
    ],
)
def test_a_report_replaces_only_a_report(tmp_path, files, foreign):
    for name, content in files.items():
        (tmp_path / name).mkdir() if content is None else (tmp_path / name).write_text(content)
    if foreign:
        with pytest.raises(InputError, match=rf"holds {re.escape(foreign)}, which no report wrote"):
            run_folder.check_report_folder(tmp_path)
    else:
        run_folder.check_report_folder(tmp_path)


@pytest.mark.parametrize(
    ("out", "folder"),
    [("mine", "parent/mine"), ("./mine", "mine"), ("a/b", "a/b"), ("/x/y", "/x/y"), ("x" * 200, f"parent/{'x' * 200}")],
)
def test_a_name_is_below_the_parent_and_a_path_is_itself(out, folder):
    assert run_folder.resolve_folder(out, Path("parent")) == Path(folder)


@pytest.mark.parametrize("out", [".", "..", "a\\b", "a\nb", "x" * 201, f"a/{'x' * 201}", "ä" * 101])
def test_what_is_neither_a_name_nor_a_path_is_refused(out):
    with pytest.raises(InputError, match="--out"):
        run_folder.resolve_folder(out, Path("parent"))


def test_the_database_of_a_run_is_deleted_last(tmp_path, monkeypatch):
    """Until then the folder is that of a run, whichever file cannot be deleted; folders are left alone."""
    ResultsDatabase(tmp_path / "record.sqlite").close()
    for name in ("a.txt", "cdf.csv", "run.json", "trials.csv", "verify.json"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "summary.csv").mkdir()
    deleted, unlink = [], Path.unlink
    monkeypatch.setattr(Path, "unlink", lambda path, **options: deleted.append(path.name) or unlink(path, **options))
    assert run_folder.delete_run_files(tmp_path) == ["a.txt"]
    assert deleted[-1] == "record.sqlite" and sorted(deleted[:-1]) == [
        "cdf.csv",
        "run.json",
        "trials.csv",
        "verify.json",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "summary.csv"]
