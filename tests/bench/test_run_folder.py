"""Runs and reports write, overwrite and delete what is theirs, and say in one line why a record or a disk does not serve."""

import contextlib
import errno
import hashlib
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys

import pytest

from bench.cli import main
from bench.evaluation import aggregate
from bench.planning.config import RunConfig
from bench.storage import database, environment, run_folder
from bench.storage.database import ResultsDatabase
from bench.storage.environment import ROOT
from common.errors import InputError
from tests.bench.test_run import PLUGINS, QUICK

SHORT = [*QUICK, "--methods", "identity", "--conditions", "noisy", "--problems", "2"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A current folder with somebody's files in it, and a finished run `r`; figures are not drawn."""
    place = tmp_path / "proj"
    (place / "results" / "older").mkdir(parents=True)
    (place / "results" / "older" / "trials.csv").write_text("x")
    (place / "thesis.txt").write_text("precious")
    monkeypatch.chdir(place)
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)
    return place


@pytest.fixture
def run(here):
    """The folder of a finished run."""
    assert main.main([*SHORT, "--out", "r"]) == 0
    return here / "results" / "r"


def tree(folder):
    """Every entry below a folder, files with their SHA-256."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else ""
        for p in folder.rglob("*")
    }


def refused(capsys, *arguments):
    """The one line with which a command line is refused."""
    capsys.readouterr()
    assert main.main(list(map(str, arguments))) == 2
    error = capsys.readouterr().err
    assert error.startswith("bench.py: ") and error.count("\n") == 1
    return error


@pytest.mark.parametrize("by", ["name", "parent", "path", "outside", "toml", "toml_alone", "older", "dots"])
def test_fresh_leaves_every_file_that_no_run_wrote(here, tmp_path, capsys, by):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "thesis.txt").write_text("x")
    (here / "evil.toml").write_text(f'out = "{docs}"\nfresh = true\n')
    (here / "alone.toml").write_text("fresh = true\n")
    asked = {
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
    error = refused(capsys, *SHORT, *asked)
    assert tree(tmp_path) == before
    assert ("no file can set it" if "toml" in by else "--out") in error


def test_fresh_deletes_what_a_run_writes_and_tells_what_stays(run, capsys):
    assert {p.name for p in run.iterdir()} <= run_folder.RUN_FILES
    (run / "notes.txt").write_text("mine")
    (run / "mine").mkdir()
    (run / "mine" / "record.sqlite").write_text("mine")
    (run / ".trials.csv.77.tmp").write_text("half")
    (run / "cdf.csv").write_text("old")
    capsys.readouterr()
    assert main.main([*SHORT, "--seed", "1", "--out", "r", "--fresh"]) == 0
    assert "kept what no run writes: mine, notes.txt" in capsys.readouterr().out
    assert (run / "mine" / "record.sqlite").read_text() == (run / "notes.txt").read_text() == "mine"
    assert not (run / ".trials.csv.77.tmp").exists() and (run / "cdf.csv").read_text() != "old"


def test_the_list_of_what_a_run_writes_is_whole(run):
    from bench.evaluation.conventions import convention
    from bench.report.command import read

    assert tuple(aggregate.tables(read(run), convention(None, None))) == run_folder.TABLES


@pytest.mark.parametrize("name", [".", "..", "a\\b", "n" * 300, "é" * 101, "a\nb", "a\x00b", "\x1b[2J", "a\udcff"])
def test_a_name_is_a_name(here, capsys, name):
    before = tree(here)
    assert "--out" in refused(capsys, *SHORT, "--out", name)
    assert tree(here) == before


def test_a_path_may_be_new_empty_or_a_run(here, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for place in ("./new", tmp_path / "empty", tmp_path / "deep" / "new"):
        for _ in range(2):
            assert main.main([*SHORT, "--out", str(place)]) == 0
        assert (here / place / "record.sqlite").is_file() and (here / place / "trials.csv").is_file()
        assert not (here / "results" / "new").exists()
    (here / "results" / "file").write_text("x")
    assert "is not a folder" in refused(capsys, *SHORT, "--out", "file")


def test_a_run_without_its_record_can_be_made_again(run, capsys):
    (run / "record.sqlite").unlink()
    assert main.main([*SHORT, "--out", "r"]) == 0
    (run / "record.sqlite").unlink()
    (run / "notes.txt").write_text("mine")
    before = tree(run)
    assert "holds notes.txt and no record of a run" in refused(capsys, *SHORT, "--out", "r", "--fresh")
    assert tree(run) == before


def script(file, text):
    """Change an SQLite file."""
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.executescript(text)


def foreign(file):
    file.unlink()
    script(file, "CREATE TABLE meta (a, b)")


def other_program(file):
    """Another program's file whose tables happen to be called as ours."""
    file.unlink()
    script(file, "PRAGMA application_id = 7; CREATE TABLE meta (key, value); CREATE TABLE problems (a)")


def older(file):
    file.unlink()
    tables = "CREATE TABLE meta (key, value); CREATE TABLE problems (problem, condition, truth, digest);"
    script(file, tables + "CREATE TABLE outcomes (phase, method, problem, status, pose)")


def truncated(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2 + 100])


def overwritten(file):
    data = bytearray(file.read_bytes())
    data[100:] = b"\xa5" * (len(data) - 100)
    file.write_bytes(data)


def no_database(file):
    file.write_text("a text, and longer than the header of an SQLite file would be: " * 20)


BROKEN = {
    "foreign": (foreign, "an SQLite file of another program"),
    "other program": (other_program, "an SQLite file of another program"),
    "older": (older, "an older version"),
    "truncated": (truncated, "damaged"),
    "overwritten": (overwritten, "damaged"),
    "no database": (no_database, "not an SQLite file"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_record_that_does_not_serve_is_one_line_and_stays_as_it_is(run, here, capsys, how):
    breaks, says = BROKEN[how]
    breaks(run / "record.sqlite")
    before = tree(here)
    commands = [[*SHORT, "--out", "r"], ["report", "r", "--out", "x"], ["compare", "r", "r"]]
    commands += [[*SHORT, "--out", "r", "--fresh"]] * (how != "older")  # a record of ours, though of no use
    for command in commands:
        error = refused(capsys, *command)
        assert says in error and "record.sqlite" in error and "--fresh" not in error, command
        assert tree(here) == before


def test_an_older_record_is_replaced_if_that_is_asked_for(run):
    older(run / "record.sqlite")
    assert main.main([*SHORT, "--out", "r", "--fresh"]) == 0


@pytest.mark.parametrize("column", ["pose", "stages", "message"])
def test_a_damaged_value_is_one_line(run, capsys, column):
    kind = "BLOB" if column == "pose" else "TEXT"
    script(run / "record.sqlite", f"UPDATE outcomes SET {column} = CAST(x'ff' AS {kind})")
    assert "the record is damaged" in refused(capsys, "report", "r")


def test_a_record_of_an_earlier_version_is_read_as_it_is_and_continued(run, here, capsys):
    dropped = (f"ALTER TABLE outcomes DROP COLUMN {name};" for name in ("batch", "gpu_memory_mb"))
    script(run / "record.sqlite", " ".join(dropped) + "PRAGMA application_id = 0")
    before = tree(run)
    assert main.main(["compare", "r", "r"]) == 0 and main.main(["report", "r", "--out", "x"]) == 0
    assert tree(run) == before
    assert ",1,\n" in (here / "reports" / "x" / "csv" / "poses.csv").read_text()  # batch, and no memory of a GPU
    assert main.main([*SHORT, "--out", "r"]) == 0 and "continuing" in capsys.readouterr().out
    with contextlib.closing(sqlite3.connect(run / "record.sqlite")) as db:
        assert db.execute("PRAGMA application_id").fetchone()[0] == database.APPLICATION_ID


def test_reading_leaves_nothing_beside_a_record(run, here):
    before = tree(here)
    assert main.main(["compare", "r", "r"]) == 0
    assert tree(here) == before
    assert main.main(["report", "r"]) == 0
    assert tree(run).keys() == {k.removeprefix("results/r/") for k in before if k.startswith("results/r/")}


def test_a_run_at_work_is_read_with_what_it_has_committed(run):
    from bench.report.command import read

    writer = ResultsDatabase(run / "record.sqlite")
    writer.put("finished", None)
    assert (run / "record.sqlite-wal").stat().st_size
    assert any("stopped before its end" in note for note in read(run).run["notes"])
    writer.close()


def test_an_empty_record_has_no_problems_yet(here, capsys):
    (here / "results" / "e").mkdir()
    (here / "results" / "e" / "record.sqlite").touch()
    assert "stopped before it had problems" in refused(capsys, "report", "e")
    assert main.main([*SHORT, "--out", "e"]) == 0


def sqlite_error(kind, folder):
    """Let SQLite itself fail in some way, at a file of the folder."""
    file = folder / "record.sqlite"
    with sqlite3.connect(file) as made:
        made.execute("CREATE TABLE t (a)")
    made.close()
    if kind == "full":
        db = sqlite3.connect(file)
        db.execute("PRAGMA max_page_count = 2")
        db.executemany("INSERT INTO t VALUES (?)", [("x" * 2000,)] * 9)
    elif kind == "read-only":
        sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True).execute("INSERT INTO t VALUES (1)")
    elif kind == "cannot be opened":
        sqlite3.connect(f"{(folder / 'none').as_uri()}?mode=ro", uri=True).execute("SELECT * FROM t")
    elif kind == "another process":
        sqlite3.connect(file, isolation_level=None).execute("BEGIN EXCLUSIVE")
        sqlite3.connect(file, timeout=0).execute("SELECT * FROM t")


@pytest.mark.parametrize("kind", ["full", "read-only", "cannot be opened", "another process"])
def test_what_sqlite_refuses_is_told_in_words(tmp_path, kind):
    with pytest.raises(InputError, match=kind) as caught, database.translate_errors(tmp_path / "record.sqlite"):
        sqlite_error(kind, tmp_path)
    assert "--fresh" not in str(caught.value)


def test_a_fault_of_ours_stays_a_fault(tmp_path):
    with pytest.raises(sqlite3.OperationalError), database.translate_errors(tmp_path):
        sqlite3.connect(":memory:").execute("SELECT nothing FROM nowhere")
    with pytest.raises(FileNotFoundError), database.translate_errors(tmp_path):
        (tmp_path / "none").read_text()


@pytest.fixture
def little_room(monkeypatch):
    """Records may have few pages, as on a full disk; call it to make room."""
    prepared = database._open_to_write

    def small(path):
        db = prepared(path)
        db.execute("PRAGMA max_page_count = 13")
        return db

    monkeypatch.setattr(database, "_open_to_write", small)
    return lambda: monkeypatch.setattr(database, "_open_to_write", prepared)


def test_a_full_disk_ends_a_run_in_one_line_and_the_same_command_continues(here, capsys, little_room):
    asked = [*SHORT, "--out", "full", "--problems", "40"]
    assert "the disk is full; make room" in refused(capsys, *asked)
    assert not list((here / "results" / "full").glob("*.csv"))
    little_room()
    assert main.main(asked) == 0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_record_that_cannot_be_made_leaves_nothing(here, capsys, monkeypatch, code):
    def refuse(path):
        path.touch()
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(database, "_open_to_write", refuse)
    before = tree(here)
    error = refused(capsys, *SHORT, "--out", "new")
    says = {errno.ENOSPC: "full", errno.EROFS: "read-only file system"}.get(code, "no permission")
    assert says in error and "results/new/record.sqlite" in error and "--fresh" not in error
    assert tree(here) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(run, capsys):
    run.chmod(0o555)
    (run / "record.sqlite").chmod(0o444)
    try:
        assert "no permission" in refused(capsys, *SHORT, "--out", "r")
        assert "no permission" in refused(capsys, "report", "r")
        assert main.main(["report", "r", "--out", "x"]) == 0 and main.main(["compare", "r", "r"]) == 0
    finally:
        run.chmod(0o755)


def test_a_full_disk_leaves_no_half_file(tmp_path):
    def rows():
        yield b"a,b\n"
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "a.csv").write_text("old")
    with pytest.raises(InputError, match=r"a\.csv: the disk is full"):
        aggregate.write_atomically(tmp_path / "a.csv", rows())
    assert tree(tmp_path).keys() == {"a.csv"} and (tmp_path / "a.csv").read_text() == "old"


def test_a_limit_on_file_sizes_is_told(here):
    """The system's own error, in a process whose files may have no more than 60 000 bytes."""
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)); from bench import cli; "
    command = [
        sys.executable,
        "-c",
        f"{code}sys.exit(cli.main(sys.argv[1:]))",
        *SHORT,
        "--problems",
        "60",
        "--out",
        "r",
    ]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "record.sqlite: the disk reports an error; check it and the space" in done.stderr


def test_nobodys_own_report_is_overwritten(run, here, capsys):
    own = here / "reports" / "own"
    own.mkdir(parents=True)
    (own / "report.html").write_text("<title>Thesis</title>")
    (here / "reports" / "notes").mkdir()
    (here / "reports" / "notes" / "thesis.txt").write_text("x")
    before = tree(here)
    for name, holds in (("own", "report.html"), ("notes", "thesis.txt"), ("./", "evil"), ("..", "is not a name")):
        error = refused(capsys, "report", "r", "--out", name)
        assert holds in error or name == "./"
    assert "report.html" in refused(capsys, *SHORT, "--out", "own")  # before anything is computed
    assert tree(here) == before
    (own / "report.html").write_text("<title>Registration benchmark: report</title>")
    assert main.main(["report", "r", "--out", "own"]) == 0
    assert (
        main.main(["report", "r", "--out", "./elsewhere"]) == 0 and (here / "elsewhere" / "csv" / "cdf.csv").is_file()
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fresh = true", "'fresh' deletes a run"),
        ("fresh = false", "'fresh' deletes a run"),
        ("[limits]\nidentity = 'x'", "'limits.identity' is 'x'; give a number"),
        ("[limits]\nidentity = [1]", "'limits.identity' is [1]; give a number"),
        ("[limits]\nidentity = nan", "give a number"),
        ("[timing]\nrounds = 1.5", "'timing.rounds' is 1.5; give a whole number"),
        ("[timing]\nrounds = true", "'timing.rounds' is True; give a whole number"),
        ("[timing]\npoints = 5", "'timing.points' is 5; give a list of whole numbers"),
        ("[timing]\nbudget_s = 1979-05-27", "give a number"),
        ("[[more]]\nmethods=[1]\ndatasets=['blobs']\nconditions=['noisy']\npoints=[9]", "'more.methods' is [1]"),
        ("[[more]]\nmethods=['icp']\ndatasets=['blobs']\nconditions=['noisy']\npoints=['x']", "'more.points' is ['x']"),
        ("seed = 'x'", "c.toml: argument --seed: invalid int value: 'x'"),
        ("problems = 1.5", "c.toml: argument --problems: invalid int value: '1.5'"),
        ("seed = 123456789012345678901234567890", "--seed: must fit into 64 bits"),
        ("out = true", "c.toml: argument --out: expected one argument"),
    ],
)
def test_wrong_types_in_a_file_are_one_line(here, capsys, text, says):
    (here / "c.toml").write_text(text)
    assert says in refused(capsys, *QUICK, "--methods", "identity", "--config", "c.toml")


@pytest.mark.parametrize("typed", [["--seed", "x"], ["--seed", str(2**63)], ["--jobs"], ["report"]])
def test_a_bad_flag_is_one_line(here, capsys, typed):
    refused(capsys, *(typed if typed == ["report"] else [*SHORT, *typed]))


def test_problems_are_those_of_a_run_json(run, capsys):
    capsys.readouterr()
    assert main.main(["problems", "--config", str(run / "run.json"), "--plugins", str(PLUGINS)]) == 0
    there = json.loads((run / "run.json").read_text())["problem_sets"]
    assert capsys.readouterr().out.split() == [there["blobs/noisy/60"], "blobs/noisy/60"]


def test_a_terminal_that_knows_ascii_alone_gets_a_table(run, capsys, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert main.main(["report", "r", "--out", "x"]) == 0
    sys.stdout.flush()
    lines = written.getvalue().decode("ascii").splitlines()
    assert any("|identity" in line for line in lines)
    assert len({len(line.rstrip()) for line in lines if line.startswith("|")}) == 1  # its columns are aligned


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A git checkout with this one's .gitignore and one method, in which runs are made."""
    place = tmp_path / "checkout"
    place.mkdir()
    shutil.copy(ROOT / ".gitignore", place)
    (place / "method.py").write_text("1")
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(place), *command], check=True)
    monkeypatch.setattr(environment, "ROOT", place)
    monkeypatch.chdir(place)
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)
    monkeypatch.setattr(environment, "_packages", dict)
    return place


def test_a_run_that_git_would_commit_is_of_a_commit(checkout, capsys):
    assert not environment.changed_files() and not environment.environment()["commit"].endswith("-dirty")
    (checkout / "method.py").write_text("2")
    (checkout / "new.py").write_text("3")
    before = tree(checkout)
    for name in ("reference", "./mine"):
        error = refused(capsys, *SHORT, "--out", name, "--fresh")
        assert "method.py, new.py; commit or stash them" in error
    assert tree(checkout) == before
    assert environment.environment()["commit"].endswith("-dirty")
    assert main.main([*SHORT, "--out", "r"]) == 0  # which git ignores
    (checkout / "method.py").write_text("1")
    (checkout / "new.py").unlink()
    for _ in range(2):  # the second time, the run's own files are there
        assert main.main([*SHORT, "--out", "reference"]) == 0
    assert not environment.environment()["commit"].endswith("-dirty")


def test_a_folder_outside_of_the_checkout_is_no_matter_of_its_commit(checkout, tmp_path):
    (checkout / "method.py").write_text("2")
    environment.require_clean_checkout(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"method\.py"):
        environment.require_clean_checkout(checkout / "results" / "reference")


def test_the_usual_name_of_a_run_is_never_too_long(here, monkeypatch):
    flags = main._parser(train=False)[0].parse_args(["run"])
    many = ", ".join(f"folder[path=scans{i}]" for i in range(40))
    made = object.__new__(RunConfig)
    object.__setattr__(made, "datasets", tuple(many.split(", ")))
    monkeypatch.setattr(RunConfig, "hash", "0" * 64)
    assert len(main._place_of(made, flags).name) < 100
