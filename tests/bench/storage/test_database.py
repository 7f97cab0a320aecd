"""Results database: durable, read without changes, and one line for every error."""

import contextlib
import errno
import json
import os
import re
import sqlite3
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from bench.cli import main
from bench.storage import database
from bench.storage.database import OutcomeBuffer, ResultsDatabase
from bench.storage.environment import ROOT
from bench.storage.evaluation_points import FIRST, decode
from bench.storage.outcome import Outcome
from common.errors import InputError
from common.moments import moments
from datasets.problems import Problem, ProblemKey
from tests.bench.command_line import PLUGINS, SHORT, TIME_COLUMNS, read_csv, refused, tree

GROUP = ("d", "noisy", 10)


@pytest.fixture
def record(tmp_path):
    results = ResultsDatabase(tmp_path / "record.sqlite")
    yield results
    results.close()


def on_disk(record):
    """Return the number of outcomes that another process reads."""
    with sqlite3.connect(f"file:{record.path}?mode=ro", uri=True) as db:
        return db.execute("SELECT COUNT(*) FROM outcomes").fetchone()[0]


def outcomes(n, ms, method="m"):
    return [Outcome(method, f"p{i}", "ok", pose=np.eye(4), time_ms=ms) for i in range(n)]


def test_reported_outcomes_are_on_disk_and_quick_calls_share_a_commit(record, monkeypatch):
    monkeypatch.setattr(database, "COMMIT_INTERVAL_S", 10_000.0)
    commits = []
    with OutcomeBuffer(record, lambda n, what: commits.append((n, what, on_disk(record)))) as buffer:
        for name in "abcd":
            buffer.add(outcomes(20, 200_000.0, name), "global", GROUP, name)  # 4000 s of work each
        assert commits == [(60, "c", 60)] and on_disk(record) == 60
    assert commits[1:] == [(20, "", 80)]


@pytest.mark.parametrize("ms", [60_000.0, float("nan")])
def test_long_and_failed_calls_are_committed_at_once(record, ms):
    OutcomeBuffer(record, lambda *_: None).add(outcomes(1, ms), "global", GROUP, "m")
    assert on_disk(record) == 1


def test_commit_after_the_interval(record, monkeypatch):
    monkeypatch.setattr(database, "COMMIT_INTERVAL_S", 0.0)
    buffer = OutcomeBuffer(record, lambda *_: None)
    buffer.add(outcomes(1, 0.0), "global", GROUP, "m")
    assert on_disk(record) == 1


def test_outcomes_are_committed_on_error(record):
    with pytest.raises(KeyboardInterrupt), OutcomeBuffer(record, lambda *_: None) as buffer:
        buffer.add(outcomes(3, 0.001), "global", GROUP, "m")
        raise KeyboardInterrupt
    assert on_disk(record) == 3


def script(file, text):
    """Run a script on an SQLite file."""
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.executescript(text)


def foreign(file):
    file.unlink()
    script(file, "CREATE TABLE meta (a, b)")


def other_program(file):
    """Write a file of another program whose tables have the names of ours."""
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
def test_unusable_database_is_one_line_and_is_not_changed(finished_run, project, capsys, how):
    breaks, says = BROKEN[how]
    breaks(finished_run / "record.sqlite")
    before = tree(project)
    commands = [[*SHORT, "--out", "r"], ["report", "r", "--out", "x"], ["compare", "r", "r"]]
    commands += [[*SHORT, "--out", "r", "--fresh"]] * (how != "older")  # a record of ours, though of no use
    for command in commands:
        error = refused(capsys, *command)
        assert says in error and "record.sqlite" in error and "--fresh" not in error, command
        assert tree(project) == before


def test_outdated_database_is_replaced_with_fresh(finished_run):
    older(finished_run / "record.sqlite")
    assert main.main([*SHORT, "--out", "r", "--fresh"]) == 0


@pytest.mark.parametrize("column", ["pose", "stages", "message"])
def test_a_damaged_value_is_one_line(finished_run, capsys, column):
    kind = "BLOB" if column == "pose" else "TEXT"
    script(finished_run / "record.sqlite", f"UPDATE outcomes SET {column} = CAST(x'ff' AS {kind})")
    assert "the record is damaged" in refused(capsys, "report", "r")


def test_database_of_an_earlier_version_is_read_unchanged_and_continued(finished_run, project, capsys):
    dropped = (f"ALTER TABLE outcomes DROP COLUMN {name};" for name in ("batch", "gpu_memory_mb"))
    script(finished_run / "record.sqlite", " ".join(dropped) + "PRAGMA application_id = 0")
    before = tree(finished_run)
    assert main.main(["compare", "r", "r"]) == 0 and main.main(["report", "r", "--out", "x"]) == 0
    assert tree(finished_run) == before
    assert re.search(
        ",1,,[0-9a-f]{8}\n", (project / "reports" / "x" / "csv" / "poses.csv").read_text()
    )  # no memory of a GPU
    assert main.main([*SHORT, "--out", "r"]) == 0 and "continuing" in capsys.readouterr().out
    with contextlib.closing(sqlite3.connect(finished_run / "record.sqlite")) as db:
        assert db.execute("PRAGMA application_id").fetchone()[0] == database.APPLICATION_ID


_PROBLEMS = "problem TEXT PRIMARY KEY, dataset TEXT, condition TEXT, points INTEGER, object TEXT, category TEXT, "
_PROBLEMS += (
    "angle_deg REAL, translation REAL, overlap REAL, symmetry TEXT, truth BLOB, source_pose BLOB, eval_points BLOB, "
)
_PROBLEMS += "digest BLOB"
_OUTCOMES = (
    "phase TEXT, method TEXT, problem TEXT, repeat INTEGER, kind TEXT, dataset TEXT, condition TEXT, points INTEGER, "
)
_OUTCOMES += (
    "seed INTEGER, status TEXT, pose BLOB, time_ms REAL, peak_mb REAL, device TEXT, threads INTEGER, message TEXT, "
)
_OUTCOMES += "stages TEXT, notes TEXT"
_BATCHES = ", batch INTEGER DEFAULT 1, gpu_memory_mb REAL DEFAULT NULL"
EARLIER = {
    1: (_PROBLEMS, _OUTCOMES),
    2: (f"{_PROBLEMS}, information BLOB", _OUTCOMES),
    3: (f"{_PROBLEMS}, information BLOB", _OUTCOMES + _BATCHES),
    4: (f"{_PROBLEMS}, information BLOB, moments BLOB", _OUTCOMES + _BATCHES),
}
"""Columns of problems and outcomes by version of the schema, see docs/schema.md."""


def as_version(file, version):
    """Rewrite a database as the version of the schema stored it: other tables, and all evaluation points."""
    problems, outcomes = ([column.split()[0] for column in text.split(", ")] for text in EARLIER[version])
    with contextlib.closing(sqlite3.connect(file)) as db, db:
        for table, text, names in zip(("problems", "outcomes"), EARLIER[version], (problems, outcomes), strict=True):
            key = ", PRIMARY KEY (phase, method, problem, repeat)" if table == "outcomes" else ""
            db.execute(f"CREATE TABLE old_{table} ({text}{key})")
            db.execute(f"INSERT INTO old_{table} SELECT {', '.join(names)} FROM {table}")
            db.execute(f"DROP TABLE {table}")
            db.execute(f"ALTER TABLE old_{table} RENAME TO {table}")
        if version < 4:  # points of the same problem, all of them
            for key, head in db.execute("SELECT problem, eval_points FROM problems").fetchall():
                points = np.frombuffer(head, np.float32).reshape(-1, 3)
                db.execute("UPDATE problems SET eval_points = ? WHERE problem = ?", (points.tobytes(), key))
    script(file, f"PRAGMA user_version = 0; PRAGMA application_id = {database.APPLICATION_ID if version > 3 else 0}")


@pytest.mark.parametrize("version", EARLIER)
def test_each_earlier_schema_is_read_unchanged_and_continued_as_the_latest(bench, tmp_path, version):
    arguments = ["--methods", "good", "--problems", 2, "--conditions", "noisy"]
    folder = bench(*arguments)
    before = read_csv(folder, "poses")
    as_version(folder / "record.sqlite", version)
    old = tree(folder)
    assert main.main(["report", "r", "--out", "x", "--no-as-good", "--plugins", str(PLUGINS)]) == 0
    assert tree(folder) == old
    kept = [name for name in before if name not in ("machine", "batch", "gpu_memory_mb")]
    pd.testing.assert_frame_equal(read_csv(tmp_path / "reports" / "x" / "csv", "poses")[kept], before[kept])
    with contextlib.closing(sqlite3.connect(folder / "record.sqlite")) as db, db:
        db.execute("DELETE FROM outcomes WHERE problem LIKE '%1'")
    bench(*arguments)
    again = read_csv(folder, "poses")
    pd.testing.assert_frame_equal(again[kept].drop(columns=TIME_COLUMNS), before[kept].drop(columns=TIME_COLUMNS))
    assert again["machine"].fillna("").tolist() == ["", before["machine"][1]]
    with contextlib.closing(sqlite3.connect(folder / "record.sqlite")) as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] == database.SCHEMA
    assert json.loads((folder / "run.json").read_text())["schema"] == database.SCHEMA


def test_the_version_is_the_last_that_the_docs_describe():
    rows = re.findall(r"^\| (\d+) \|", (ROOT / "docs" / "schema.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert [int(version) for version in rows] == list(range(1, database.SCHEMA + 1))


def test_a_database_of_a_later_version_is_one_line_and_unchanged(finished_run, project, capsys):
    script(finished_run / "record.sqlite", f"PRAGMA user_version = {database.SCHEMA + 1}")
    before = tree(project)
    for command in ([*SHORT, "--out", "r"], ["report", "r", "--out", "x"]):
        assert "a later version of this benchmark; update it" in refused(capsys, *command)
        assert tree(project) == before


def test_reading_writes_no_file_beside_a_database(finished_run, project):
    before = tree(project)
    assert main.main(["compare", "r", "r"]) == 0
    assert tree(project) == before
    assert main.main(["report", "r"]) == 0
    assert tree(finished_run).keys() == {k.removeprefix("results/r/") for k in before if k.startswith("results/r/")}


def test_running_run_is_read_with_its_commits(finished_run):
    from bench.report.command import read

    writer = ResultsDatabase(finished_run / "record.sqlite")
    writer.put("finished", None)
    assert (finished_run / "record.sqlite-wal").stat().st_size
    assert any("stopped before its end" in note for note in read(finished_run).run["notes"])
    writer.close()


def test_empty_database_is_reported_and_continued(project, capsys):
    (project / "results" / "e").mkdir()
    (project / "results" / "e" / "record.sqlite").touch()
    assert "stopped before it began" in refused(capsys, "report", "e")
    assert main.main([*SHORT, "--out", "e"]) == 0


def sqlite_error(kind, folder):
    """Provoke an error of SQLite at a file in the folder."""
    file = folder / "record.sqlite"
    with sqlite3.connect(file) as db:
        db.execute("CREATE TABLE t (a)")
    db.close()
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
def test_sqlite_errors_are_translated(tmp_path, kind):
    with pytest.raises(InputError, match=kind) as caught, database.translate_errors(tmp_path / "record.sqlite"):
        sqlite_error(kind, tmp_path)
    assert "--fresh" not in str(caught.value)


def test_other_errors_are_not_translated(tmp_path):
    with pytest.raises(sqlite3.OperationalError), database.translate_errors(tmp_path):
        sqlite3.connect(":memory:").execute("SELECT nothing FROM nowhere")
    with pytest.raises(FileNotFoundError), database.translate_errors(tmp_path):
        (tmp_path / "none").read_text()


@pytest.fixture
def little_room(monkeypatch):
    """Limit databases to few pages, as on a full disk; return a function that lifts the limit."""
    prepared = database._open_to_write

    def small(path):
        db = prepared(path)
        db.execute("PRAGMA max_page_count = 13")
        return db

    monkeypatch.setattr(database, "_open_to_write", small)
    return lambda: monkeypatch.setattr(database, "_open_to_write", prepared)


def test_a_full_disk_ends_a_run_in_one_line_and_the_same_command_continues(project, capsys, little_room):
    arguments = [*SHORT, "--out", "full", "--problems", "40"]
    assert "the disk is full; free some space" in refused(capsys, *arguments)
    assert not list((project / "results" / "full").glob("*.csv"))
    little_room()
    assert main.main(arguments) == 0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EPERM])
def test_database_that_cannot_be_created_leaves_no_file(project, capsys, monkeypatch, code):
    def refuse(path):
        path.touch()
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(database, "_open_to_write", refuse)
    before = tree(project)
    error = refused(capsys, *SHORT, "--out", "new")
    says = {errno.ENOSPC: "full", errno.EROFS: "read-only file system"}.get(code, "no permission")
    assert says in error and "results/new/record.sqlite" in error and "--fresh" not in error
    assert tree(project) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(finished_run, capsys):
    finished_run.chmod(0o555)
    (finished_run / "record.sqlite").chmod(0o444)
    try:
        assert "no permission" in refused(capsys, *SHORT, "--out", "r")
        assert "no permission" in refused(capsys, "report", "r")
        assert main.main(["report", "r", "--out", "x"]) == 0 and main.main(["compare", "r", "r"]) == 0
    finally:
        finished_run.chmod(0o755)


def test_limit_on_file_sizes_is_reported(project):
    """Provoke the error of the system in a process whose files are limited to 60 000 bytes."""
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)); from bench.cli import main; "
    command = [
        sys.executable,
        "-c",
        f"{code}sys.exit(main.main(sys.argv[1:]))",
        *SHORT,
        "--problems",
        "60",
        "--out",
        "r",
    ]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "record.sqlite: the disk reports an error; check it and its free space" in done.stderr


def test_added_columns_do_not_change_the_results(tmp_path, bench):
    arguments = ["--methods", "good", "--problems", 3, "--conditions", "noisy"]
    folder = bench(*arguments)
    before = read_csv(folder, "trials")
    with sqlite3.connect(folder / "record.sqlite") as db:
        for name in ("batch", "gpu_memory_mb"):
            db.execute(f"ALTER TABLE outcomes DROP COLUMN {name}")
    pd.testing.assert_frame_equal(read_csv(bench(*arguments), "trials"), before)
    results = ResultsDatabase(folder / "record.sqlite")
    assert len(results.finished_keys("accuracy")) == 3
    results.close()


def everything(number, status="ok", phase="accuracy"):
    """An outcome whose fields all differ."""
    pose = np.arange(16.0).reshape(4, 4) + number
    times = {
        "time_ms": 1.5 + number,
        "peak_mb": 2.5,
        "gpu_memory_mb": 3.5,
        "stages": {"solve": 4.5},
        "notes": {"a": [1]},
    }
    return Outcome(
        "m",
        f"p{number}",
        status,
        phase,
        6,
        7,
        pose,
        device="cuda:0",
        threads=8,
        message="x",
        batch=9,
        machine="0a",
        **times,
    )


def test_every_field_of_an_outcome_is_read_back(record):
    record.add_outcomes(
        [everything(0), everything(1, "skipped"), everything(2, phase="timing")], "global", ("d", "c", 64)
    )
    record.add_outcomes([Outcome("other", "p0", "crash")], "local", ("e", "f", 65))
    record.add_outcomes([everything(0)], "global", ("d", "c", 64))  # replaces the first
    names = (
        "phase method problem repeat kind dataset condition points seed status time_ms peak_mb device threads message"
    )
    names += " stages notes batch gpu_memory_mb machine pose"
    rows = record.db.execute(f"SELECT {names.replace(' ', ', ')} FROM outcomes ORDER BY method, problem").fetchall()
    by_name = [dict(zip(names.split(), row, strict=True)) for row in rows]
    assert len(rows) == 4 and np.frombuffer(by_name[0].pop("pose")).tolist() == np.arange(16.0).tolist()
    assert by_name[0] == {
        "phase": "accuracy",
        "method": "m",
        "problem": "p0",
        "repeat": 6,
        "kind": "global",
        "dataset": "d",
        "condition": "c",
        "points": 64,
        "seed": 7,
        "status": "ok",
        "time_ms": 1.5,
        "peak_mb": 2.5,
        "device": "cuda:0",
        "threads": 8,
        "message": "x",
        "stages": '{"solve": 4.5}',
        "notes": '{"a": [1]}',
        "batch": 9,
        "gpu_memory_mb": 3.5,
        "machine": "0a",
    }
    assert (by_name[3]["kind"], by_name[3]["points"], by_name[3]["pose"], by_name[3]["batch"]) == ("local", 65, None, 1)
    assert record.finished_keys("accuracy") == {("m", "p0", 6), ("other", "p0", 0)}
    assert record.finished_keys("timing") == {("m", "p2", 6)} and record.methods_with_outcomes() == {"m", "other"}
    record.put("key", {"a": [1, None]})
    record.put("key", {"a": 2})
    assert record.get("key") == {"a": 2} and record.get("none") is None


def test_every_field_of_a_problem_is_read_back(record):
    draw = np.random.default_rng(0)
    tags = {"object": "o", "category": "c", "angle_deg": 1.5, "translation": 2.5, "overlap": 0.5, "symmetry": "C2"}
    problems = []
    for i, information in enumerate((None, np.arange(36.0).reshape(6, 6))):
        clouds = draw.normal(size=(2, 700, 3)).astype(np.float32)
        truth, own = draw.normal(size=(2, 4, 4))
        problems.append(
            Problem(ProblemKey("d", "noisy", 64, i), *clouds, truth, own, tags | {"object": f"o{i}"}, information)
        )
    record.add_problems(problems)
    record.add_problems(problems[:1])
    names = "problem dataset condition points object category angle_deg translation overlap symmetry truth source_pose"
    names += " eval_points moments digest information"
    rows = record.db.execute(f"SELECT {names.replace(' ', ', ')} FROM problems ORDER BY problem").fetchall()
    for row, problem in zip(rows, problems, strict=True):
        values = dict(zip(names.split(), row, strict=True))
        assert [values[name] for name in tags] == list(problem.tags.values())
        assert [values[name] for name in ("problem", "dataset", "condition", "points")] == [
            problem.key.id,
            "d",
            "noisy",
            64,
        ]
        for name, expected in (("truth", problem.T_target_source), ("source_pose", problem.source_pose)):
            assert np.frombuffer(values[name]).tolist() == expected.ravel().tolist()
        points = problem.evaluation_points
        assert values["eval_points"] == points[:FIRST].tobytes() and values["digest"] == problem.sha256()
        (mean, root), (first,), (count,) = decode([values["eval_points"]], [values["moments"]])
        expected = moments(points)
        assert np.array_equal(mean[0], expected.mean) and np.array_equal(root[0], expected.root)
        assert len(points) > FIRST and count == len(points) and np.array_equal(first, points[:FIRST])
        assert values["information"] == (None if problem.information is None else problem.information.tobytes())
    assert record.known_problems() == {p.key.id: p.sha256() for p in problems}
    poses = record.true_poses()
    assert all(np.array_equal(poses[p.key.id], p.T_target_source) for p in problems) and len(poses) == 2


CODES = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "is read-only",
    sqlite3.SQLITE_PERM: "no permission",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_IOERR: "the disk reports an error",
    sqlite3.SQLITE_CORRUPT: "damaged",
    sqlite3.SQLITE_NOTADB: "not an SQLite file",
    sqlite3.SQLITE_BUSY: "another process",
    sqlite3.SQLITE_LOCKED: "another process",
}


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("free", [0, (1 << 16) - 1, 1 << 16, 1 << 40])
def test_every_code_of_sqlite_has_its_message(monkeypatch, tmp_path, code, free):
    monkeypatch.setattr(database.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": free}))
    error = sqlite3.OperationalError("x")
    error.sqlite_errorcode = code | (9 << 8)  # an extended code
    full = code == sqlite3.SQLITE_IOERR and free < 1 << 16
    with pytest.raises(InputError) as caught, database.translate_errors(tmp_path / "r.sqlite"):
        raise error
    assert str(caught.value).startswith(f"{tmp_path / 'r.sqlite'}: ")
    assert ("the disk is full" if full else CODES[code]) in str(caught.value)


@pytest.mark.parametrize("application", [0, database.APPLICATION_ID, 7])
@pytest.mark.parametrize("missing", [None, "meta", "problems", "outcomes"])
def test_a_database_without_a_mark_is_recognised_by_the_columns_of_every_table(tmp_path, application, missing):
    file = tmp_path / "record.sqlite"
    ResultsDatabase(file).close()
    script(file, f"PRAGMA application_id = {application}")
    assert database.file_kind(file) is (database.FileKind.FOREIGN if application == 7 else database.FileKind.RESULTS)
    if missing:
        script(file, f"DROP TABLE {missing}; CREATE TABLE {missing} (other TEXT)")
        kind = database.FileKind.OUTDATED if application == database.APPLICATION_ID else database.FileKind.FOREIGN
        assert database.file_kind(file) is kind
    empty = tmp_path / "empty.sqlite"
    script(empty, f"PRAGMA application_id = {application}")
    assert (database.file_kind(empty) is database.FileKind.EMPTY) == (application != 7)


def test_an_outcome_and_a_fact_that_are_stored_again_replace_the_first(record):
    """A skipped outcome may be solved when the run continues."""
    record.add_outcomes([Outcome("m", "p0", "skipped", message="no package")], "global", GROUP)
    record.add_outcomes([Outcome("m", "p0", "ok", pose=np.eye(4), time_ms=5.0)], "global", GROUP)
    rows = record.db.execute("SELECT status, time_ms, message FROM outcomes").fetchall()
    assert rows == [("ok", 5.0, "")] and record.finished_keys("accuracy") == {("m", "p0", 0)}
    for value in ({"seed": 1}, None, {"seed": 2}):
        record.put("run", value)
        assert record.get("run") == value


def test_skipped_outcomes_are_neither_finished_nor_outcomes_of_their_method(record):
    for method, status in (("a", "ok"), ("b", "skipped"), ("c", "timeout")):
        record.add_outcomes([Outcome(method, "p0", status)], "global", GROUP)
    assert record.methods_with_outcomes() == {"a", "c"}
    assert record.finished_keys("accuracy") == {("a", "p0", 0), ("c", "p0", 0)} and not record.finished_keys("timing")


def test_outcomes_are_committed_after_an_interval_of_work_or_time_with_their_problems(record, monkeypatch):
    """A clock that only the test advances; the interval begins anew with each commit."""
    now, commits, waiting = [50.0], [], []
    monkeypatch.setattr(database.time, "monotonic", lambda: now[0])
    buffer = OutcomeBuffer(record, lambda n, what: commits.append((n, what)))
    steps = [(0.0, 400, False), (0.9, 500, False), (0.1, 99, False), (0.0, 1, True)]  # 1 s of work
    steps += [(1.0, 0, False), (0.001, 0, True), (0.9, 999, False), (0.0, 1, True), (0.9, 0, False)]  # more than 1 s
    for number, (seconds, ms, due) in enumerate(steps):
        now[0] += seconds
        given = [Outcome("m", f"{number} {i}", "ok", time_ms=ms / (1 + due)) for i in range(1 + due)]
        waiting += given
        buffer.add(given, "global", GROUP, str(number), [(f"p{number}", *[None] * (len(database.PROBLEM) - 1))])
        assert commits == ([(len(waiting), str(number))] if due else []), number
        if due:
            assert record.known_problems().keys() == {f"p{i}" for i in range(number + 1)}
            commits.clear()
            waiting.clear()
    for expected in ([(1, "")], []):  # nothing is committed twice
        with buffer:
            pass
        assert commits == expected and len(record.known_problems()) == len(steps)
        commits.clear()


def test_rows_are_stored_together_or_not_at_all(record):
    record.add_rows(ResultsDatabase.rows(outcomes(1, 1.0), "global", GROUP))
    row = ResultsDatabase.rows(outcomes(1, 1.0, "n"), "global", GROUP)[0]
    with pytest.raises(sqlite3.ProgrammingError):
        record.add_rows([row, row[:-1]], [("p", *[None] * (len(database.PROBLEM) - 1))])
    assert on_disk(record) == 1 and not record.known_problems()


def test_columns_of_later_versions_are_read_with_their_defaults_and_nothing_is_written(tmp_path):
    file = tmp_path / "old.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as db, db:
        for table, text in zip(("problems", "outcomes"), EARLIER[2], strict=True):
            db.execute(f"CREATE TABLE {table} ({text})")
        db.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
        db.execute("INSERT INTO outcomes (method, status) VALUES ('m', 'ok')")
        db.execute("INSERT INTO problems (problem, information) VALUES ('p', x'07')")
    before = tree(tmp_path)
    with contextlib.closing(database.open_to_read(file)) as db:
        assert db.execute("SELECT method, batch, gpu_memory_mb, machine FROM outcomes").fetchall() == [
            ("m", 1, None, "")
        ]
        assert db.execute("SELECT problem, information, moments FROM problems").fetchall() == [("p", b"\x07", None)]
        assert tree(tmp_path) == before
    with contextlib.closing(ResultsDatabase(file)) as opened:  # which adds them
        opened.add_outcomes([Outcome("n", "p", "ok", batch=3)], "global", GROUP)
        columns = "SELECT method, batch, gpu_memory_mb, machine FROM outcomes"
        assert opened.db.execute(columns).fetchall() == [("m", 1, None, ""), ("n", 3, None, "")]
        assert opened.db.execute("PRAGMA user_version").fetchone() == (database.SCHEMA,)
        assert opened.db.execute("PRAGMA application_id").fetchone() == (database.APPLICATION_ID,)


def test_the_mark_of_a_results_database_stays_that_of_earlier_versions():
    assert database.APPLICATION_ID.to_bytes(4, "big") == b"PCRB"


@pytest.mark.parametrize("log", [True, False])
def test_a_file_is_declared_immutable_unless_a_run_may_be_writing_to_it(tmp_path, monkeypatch, log):
    opened, file = [], tmp_path / "a b.sqlite"
    monkeypatch.setattr(database.sqlite3, "connect", lambda *given, **how: opened.append((given, how)))
    if log:
        (tmp_path / "a b.sqlite-wal").touch()
    database._read_only(file)
    (((uri,), how),) = opened
    assert uri == f"{file.as_uri()}?mode=ro{'' if log else '&immutable=1'}" and "a%20b" in uri
    assert how == {"uri": True, "timeout": 30}


def test_a_file_without_tables_has_no_values(tmp_path):
    file = tmp_path / "record.sqlite"
    script(file, f"PRAGMA application_id = {database.APPLICATION_ID}")
    with contextlib.closing(ResultsDatabase(file, read_only=True)) as opened:
        assert opened.get("run") is None
    assert database.file_kind(file) is database.FileKind.EMPTY


@pytest.mark.parametrize(
    ("version", "kind"), [(0, "RESULTS"), (database.SCHEMA, "RESULTS"), (database.SCHEMA + 1, "LATER")]
)
def test_a_version_above_ours_is_a_later_one(tmp_path, version, kind):
    file = tmp_path / "record.sqlite"
    ResultsDatabase(file).close()
    script(file, f"PRAGMA user_version = {version}")
    assert database.file_kind(file) is database.FileKind[kind]


@pytest.mark.parametrize("new_folder", [True, False])
@pytest.mark.parametrize("new_file", [True, False])
def test_a_database_that_cannot_be_opened_is_removed_if_it_is_new(tmp_path, monkeypatch, new_folder, new_file):
    folder = tmp_path if not (new_folder and new_file) else tmp_path / "new"
    file = folder / "record.sqlite"
    if not new_file:
        ResultsDatabase(file).close()

    def refuse(path):
        for end in ("", "-wal", "-shm", "-journal"):
            path.with_name(path.name + end).touch()
        raise sqlite3.OperationalError("x")

    monkeypatch.setattr(database, "_open_to_write", refuse)
    with pytest.raises(sqlite3.OperationalError):
        ResultsDatabase(file)
    assert folder.exists() == (folder is tmp_path) and file.exists() != new_file
    assert not new_file or not list(tmp_path.iterdir())


def test_texts_of_methods_and_of_facts_are_cleaned_before_they_are_stored(record):
    outcome = Outcome("m", "p", "error", message="a\nb\x1b[31m", stages={"s": float("nan")}, notes={"n\n": 2**70})
    record.add_outcomes([outcome], "global", GROUP)
    message, stages, notes = record.db.execute("SELECT message, stages, notes FROM outcomes").fetchone()
    assert message == "a b" and np.isnan(json.loads(stages)["s"]) and json.loads(notes) == {"n ": 2.0**70}
    long = "x" * 500_000
    record.put("command", {"text": long, "more": 3 * long})
    stored = record.get("command")
    assert stored["text"] == long and len(stored["more"]) == database.MAX_FACT


@pytest.mark.parametrize("layout", [np.asfortranarray, np.ascontiguousarray, np.float32, lambda T: T[:, ::-1][:, ::-1]])
def test_a_pose_is_stored_row_by_row_whatever_its_layout(record, layout):
    pose = layout(np.arange(16.0).reshape(4, 4))
    record.add_outcomes([Outcome("m", "p", "ok", pose=pose)], "global", GROUP)
    (stored,) = record.db.execute("SELECT pose FROM outcomes").fetchone()
    assert np.frombuffer(stored).tolist() == list(range(16))
