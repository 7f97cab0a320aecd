"""Folders of runs and reports: no file of others is overwritten or deleted."""

import errno

import pytest

from bench.cli import main
from bench.evaluation import aggregate
from bench.storage import run_folder
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
