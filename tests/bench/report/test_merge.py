"""`bench.py merge`: shards become the undivided run, and runs that contradict each other are refused."""

import contextlib
import io
import json
import random
import shutil
import sqlite3
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bench.cli import main
from bench.evaluation import aggregate
from bench.evaluation.conventions import convention
from bench.planning.catalog import Catalog
from bench.planning.config import configuration_hash
from bench.report import command
from bench.report import merge as merging
from bench.report.merge import Part, _unavailable, _write, joined_code, joined_facts, merge
from bench.report.verify import REQUESTED_COLUMNS
from bench.storage.csv_writer import csv_text
from common.errors import InputError
from tests.bench.command_line import PLUGINS, QUICK, read_csv, refused
from tests.bench.report.test_verify import InThisProcess

ARGUMENTS = "--methods good lottery halves oracle --conditions noisy clean --problems 5 --repeats 2".split()
METHODS, CONDITIONS = ["good", "lottery", "halves"], ["noisy", "clean"]
MEASURED = ("time_ms", "peak_mb", "stages")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of an undivided run, never changed by a test."""
    folder = tmp_path_factory.mktemp("merge")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("bench.cli.main.write_report", lambda *_: None)
        assert main.main([*QUICK, *ARGUMENTS, "--out", "whole"]) == 0
    return folder / "results" / "whole"


def edited(folder, *statements, run=None):
    """Change the database of a run by SQL, and the facts of the run by a function."""
    with contextlib.closing(sqlite3.connect(folder / "record.sqlite")) as db, db:
        for statement in statements:
            db.execute(*statement)
        if run:
            facts = json.loads(db.execute("SELECT value FROM meta WHERE key = 'run'").fetchone()[0])
            run(facts)
            facts["hash"] = configuration_hash(facts["config"])
            for key, value in (("run", facts), ("hash", facts["hash"])):
                db.execute("UPDATE meta SET value = ? WHERE key = ?", (json.dumps(value), key))
    return folder


def copied(whole, folder, *statements, run=None):
    shutil.copytree(whole, folder)
    return edited(folder, *statements, run=run)


def of_methods(methods):
    """A change of the facts of a run to those of a run of some of its methods."""

    def change(facts):
        facts["config"]["methods"] = methods
        facts["methods"] = {name: facts["methods"][name] for name in methods}

    return change


def of_condition(name):
    def change(facts):
        facts["config"]["conditions"] = [name]
        for fact in ("problem_sets", "kinds"):
            facts[fact] = {group: entry for group, entry in facts[fact].items() if f"/{name}/" in group}

    return change


def shards(whole, folder, count, draw):
    """Deal the calls of a run to `count` runs at random: by methods, by conditions, and the rest by problems and repeats."""
    folders = []
    for condition in CONDITIONS:
        part = copied(whole, folder / condition, run=of_condition(condition))
        for table in ("outcomes", "problems"):
            edited(part, (f"DELETE FROM {table} WHERE condition != ?", (condition,)))
        cut = draw.randint(1, len(METHODS) - 1)
        for number, methods in enumerate((METHODS[:cut], METHODS[cut:])):
            gone = [name for name in METHODS if name not in methods]
            places = ",".join("?" * len(gone))
            statement = (f"DELETE FROM outcomes WHERE method IN ({places})", gone)
            folders.append(copied(part, folder / f"{condition}{number}", statement, run=of_methods(methods)))
    pieces = []
    for number, part in enumerate(folders):
        with contextlib.closing(sqlite3.connect(part / "record.sqlite")) as db:
            rows = [row for (row,) in db.execute("SELECT rowid FROM outcomes WHERE method != 'oracle'")]
        draw.shuffle(rows)
        each = count // len(folders)
        for k in range(each):
            kept = ",".join(map(str, rows[k::each]))
            statement = (f"DELETE FROM outcomes WHERE method != 'oracle' AND rowid NOT IN ({kept or 'NULL'})",)
            pieces.append(copied(part, folder / f"piece{number}-{k}", statement))
    return pieces


def content(folder, without=()):
    """Everything in a database but some columns of the outcomes, and command and environment."""
    with contextlib.closing(sqlite3.connect(folder / "record.sqlite")) as db:
        names = [row[1] for row in db.execute("PRAGMA table_info(outcomes)")]
        kept = ", ".join(name for name in names if name not in without)
        rows = {
            "outcomes": db.execute(f"SELECT {kept} FROM outcomes ORDER BY 1, 2, 3, 4").fetchall(),
            "problems": db.execute("SELECT * FROM problems ORDER BY problem").fetchall(),
        }
        meta = {key: json.loads(value) for key, value in db.execute("SELECT key, value FROM meta")}
    meta["run"] = {key: fact for key, fact in meta["run"].items() if key not in ("command", "environment", "parts")}
    return rows | meta | {"finished": bool(meta.get("finished"))}


def csvs(folder):
    """The bytes of the CSVs that a run's database gives."""
    out = folder.parent / f"{folder.name}-csvs"
    return {
        file.name: file.read_bytes()
        for file in aggregate.write_csvs(aggregate.tables(command.read(folder), convention(None)), out)
    }


@pytest.mark.parametrize("seed", range(2))
def test_twenty_shards_become_the_undivided_run_byte_for_byte(whole, tmp_path, seed):
    draw = random.Random(seed)
    pieces = shards(whole, tmp_path / "shards", 20, draw)
    assert len(pieces) == 20
    merged = tmp_path / "merged"
    assert merge([*pieces, draw.choice(pieces)], merged, Catalog.of(None, PLUGINS)) == []  # one of them twice
    assert content(merged) == content(whole)
    assert csvs(merged) == csvs(copied(whole, tmp_path / "whole"))


def test_runs_of_shards_become_the_undivided_run_but_for_times(whole, bench, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("bench.cli.main.write_report", lambda *_: None)
    parts = [bench(*ARGUMENTS, "--shard", f"{k}/2", out=f"s{k}") for k in (1, 2)]
    assert 0 < len(command.read(parts[1]).outcomes) < len(command.read(whole).outcomes)
    assert "this is shard 2/2" in command.read(parts[1]).run["notes"][-1]
    assert main.main(["merge", "s2", "s1", "--out", "m", "--plugins", str(PLUGINS)]) == 0
    assert main.main(["verify", "m", "--budget", "0", "--plugins", str(PLUGINS)]) == 0
    folder = tmp_path / "results" / "m"
    assert content(folder, MEASURED) == content(whole, MEASURED)
    frames = aggregate.tables(command.read(whole), convention(None))
    for name in ("trials", "poses", "summary"):
        ours = read_csv(folder, name)
        theirs = pd.read_csv(io.BytesIO(csv_text(frames[name])))
        kept = [c for c in ours if not c.startswith(("time_ms", "peak_mb")) and c not in REQUESTED_COLUMNS]
        assert len(kept) > 20 and ours[kept].equals(theirs[kept]), name
    assert "holds shard 2/2, not 1/2" in refused(capsys, *QUICK, *ARGUMENTS, "--shard", "1/2", "--out", "s2")
    for text in ("3/2", "0/2", "2", "a/b", "-1/2"):
        assert "such as 3/20" in refused(capsys, *QUICK, *ARGUMENTS, f"--shard={text}", "--out", "x")


def test_times_keep_their_machine_and_are_not_averaged(whole, tmp_path):
    second = "problem LIKE '%2'"
    a = copied(whole, tmp_path / "a", (f"DELETE FROM outcomes WHERE method != 'oracle' AND {second}",))
    there = (f"DELETE FROM outcomes WHERE method != 'oracle' AND NOT {second}",)
    b = copied(whole, tmp_path / "b", there, ("UPDATE outcomes SET machine = 'other' WHERE method != 'oracle'",))
    merge([a, b], tmp_path / "m", Catalog.of(None, PLUGINS))
    frames = aggregate.tables(command.read(tmp_path / "m"), convention(None))
    assert (
        frames["summary"]
        .query("method != 'oracle'")[["time_ms_median", "time_ms_p95", "time_ms_mean"]]
        .isna()
        .all(axis=None)
    )
    assert frames["by_angle"].query("method != 'oracle'")["time_ms_median"].isna().all()
    timed = frames["timing"].query("method == 'good' and angle_high - angle_low == 180")
    assert timed["machine"].nunique() == 2 and timed["problems"].tolist() in ([8, 2], [2, 8])
    alone = aggregate.of_one_machine(frames["timing"].query("method == 'good'"))
    assert alone["machine"].nunique() == 1
    assert frames["summary"]["recall"].equals(
        aggregate.tables(command.read(whole), convention(None))["summary"]["recall"]
    )


def test_runs_of_several_seeds_have_the_problems_of_all(whole, bench, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("bench.cli.main.write_report", lambda *_: None)
    monkeypatch.setattr("bench.report.solve_again.MethodProcess", InThisProcess)
    other = bench(*ARGUMENTS, "--seed", "7", out="other")
    plugins = ("--plugins", str(PLUGINS))
    assert main.main(["merge", str(whole), "other", "--out", "m", *plugins]) == 0
    assert main.main(["verify", "m", "--budget", "1000", "--seed", "0", *plugins]) == 0
    assert "not solved" not in capsys.readouterr().out
    loaded = command.read(tmp_path / "results" / "m")
    assert loaded.run["config"]["seeds"] == [0, 7] and set(loaded.outcomes["seed"]) == {0, 7}
    alone = [command.read(folder) for folder in (whole, other)]
    assert set(loaded.problems["digest"]) == {digest for run in alone for digest in run.problems["digest"]}
    tables = [aggregate.tables(run, convention(None))["summary"] for run in (loaded, *alone)]
    assert (tables[0]["problems"] == tables[1]["problems"] + tables[2]["problems"]).all()
    np.testing.assert_allclose(tables[0]["recall"], (tables[1]["recall"] + tables[2]["recall"]) / 2)
    facts = tmp_path / "results" / "m" / "run.json"
    assert "have the seeds 0, 7; give the run.json of one" in refused(capsys, "--config", str(facts), *plugins)
    halves = [copied(tmp_path / "results" / "m", tmp_path / name, *gone) for name, gone in MINUS.items()]
    assert merge([whole, *halves], tmp_path / "again", Catalog.of(None, PLUGINS)) == []
    assert csvs(tmp_path / "again") == csvs(tmp_path / "results" / "m")
    assert merge([other, whole], tmp_path / "reversed", Catalog.of(None, PLUGINS)) == []
    copied(other, tmp_path / "lacking", ("DELETE FROM outcomes WHERE method = 'good' AND problem LIKE '%noisy%3'",))
    missing = merge([whole, tmp_path / "lacking"], tmp_path / "part", Catalog.of(None, PLUGINS))
    assert missing == ["good has outcomes of 9 problems of blobs/noisy/60, not of 10"]


MINUS = {
    "a": [("DELETE FROM outcomes WHERE method != 'oracle' AND problem LIKE '%seed=7/%'",)],
    "b": [("DELETE FROM outcomes WHERE method != 'oracle' AND problem NOT LIKE '%seed=7/%'",)],
}
"""Statements that leave one part of the outcomes each."""


def test_an_incomplete_union_is_marked_and_lists_what_is_missing(whole, tmp_path):
    a = copied(whole, tmp_path / "a", ("DELETE FROM outcomes WHERE method != 'good'",), run=of_methods(["good"]))
    gone = ("DELETE FROM outcomes WHERE method != 'halves' OR condition != 'noisy'",)
    b = copied(whole, tmp_path / "b", gone, run=of_methods(["halves"]))
    missing = merge([a, b], tmp_path / "m", Catalog.of(None, PLUGINS))
    assert "halves has outcomes of 0 problems of blobs/clean/60, not of 5" in missing
    notes = command.read(tmp_path / "m").run["notes"]
    assert any("stopped before its end" in note for note in notes)


def test_a_skipped_outcome_gives_way_to_one_that_was_run(whole, tmp_path):
    absent = "UPDATE outcomes SET status = 'skipped', pose = NULL, message = 'missing' WHERE method = 'halves'"
    a = copied(whole, tmp_path / "a", (absent,), run=lambda facts: facts["unavailable"].update(halves="missing"))
    (tmp_path / "m0").mkdir()
    for number, order in enumerate(([a, whole], [whole, a])):
        assert merge(order, tmp_path / f"m{number}", Catalog.of(None, PLUGINS)) == []
        assert content(tmp_path / f"m{number}") == content(whole)


OTHER_TIME = "UPDATE outcomes SET time_ms = time_ms + 1 WHERE method = 'good' AND problem LIKE '%noisy%3'"
OTHER_POSE = "UPDATE outcomes SET pose = zeroblob(128) WHERE method = 'good' AND problem LIKE '%noisy%3'"
OTHER_STATUS = "UPDATE outcomes SET status = 'timeout' WHERE method = 'good' AND problem LIKE '%noisy%3'"
OTHER_DIGEST = "UPDATE problems SET digest = zeroblob(32) WHERE problem LIKE '%noisy%3'"
OTHER_CODE = "UPDATE meta SET value = replace(value, 'good.py\": \"', 'good.py\": \"0') WHERE key = 'code'"


def other_set(facts):
    facts["problem_sets"]["blobs/noisy/60"] = "0" * 64


CONFLICTS = {
    "time": ([OTHER_TIME], None, r"a and b: good on blobs/noisy/60/00003 \(accuracy, repeat 0\) was run twice"),
    "pose": ([OTHER_POSE], None, r"a and b: good on blobs/noisy/60/00003 .* has two poses"),
    "status": ([OTHER_STATUS], None, r"a and b: good on blobs/noisy/60/00003 .* ended with ok and with timeout"),
    "problem": ([OTHER_DIGEST], None, "a and b: problem blobs/noisy/60/00003 has different clouds"),
    "set": ([], other_set, r"a and b: blobs/noisy/60 has other problems \(another SHA-256\)"),
    "limit": ([], lambda facts: facts["config"].update(timeout=7), "a and b: differ in timeout: 120 → 7"),
    "code": ([OTHER_CODE], None, r"a and b: good has other code \(.*good.py\)"),
    "weights": (
        [],
        lambda facts: facts["setup"].update({"good on blobs": {"w.pth sha256": "1"}}),
        "a and b: good on blobs has other weights",
    ),
}


@pytest.mark.parametrize("what", CONFLICTS)
def test_a_conflict_is_named_and_nothing_is_written(whole, tmp_path, what):
    statements, run, says = CONFLICTS[what]
    weights = {"good on blobs": {"w.pth sha256": "0"}}
    a = copied(whole, tmp_path / "a", run=(lambda facts: facts["setup"].update(weights)) if what == "weights" else None)
    b = copied(whole, tmp_path / "b", *((statement,) for statement in statements), run=run)
    with pytest.raises(InputError, match=says):
        merge([a, b], tmp_path / "m", Catalog.of(None, PLUGINS))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_bad_folders_are_one_line(whole, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "record.sqlite").write_text("no database" * 50)
    copied(whole, tmp_path / "later", ("PRAGMA user_version = 99",))
    copied(whole, tmp_path / "old", ("ALTER TABLE outcomes DROP COLUMN kind",))
    for name, says in {
        "absent": "no such run",
        "text": "not an SQLite file",
        "later": "a later version of this benchmark",
        "old": "a results database of an older version, with columns missing",
    }.items():
        error = refused(capsys, "merge", whole, tmp_path / name, "--out", "m", "--plugins", PLUGINS)
        assert says in error and name in error
    shutil.copytree(whole, tmp_path / "results" / "m")
    assert "m: exists already" in refused(capsys, "merge", whole, "--out", "m", "--plugins", PLUGINS)
    (tmp_path / "results" / "file").write_text("")
    with pytest.raises(InputError, match="file: exists already; give a new name"):
        merge([whole], tmp_path / "results" / "file", Catalog.of(None, PLUGINS))


def part(name, methods=(), code=None, facts=None, **stored):
    """A part whose database has outcomes of some methods and stored values."""
    database = SimpleNamespace(methods_with_outcomes=lambda: set(methods), get=stored.get)
    return Part(name, database, facts or {}, code or {})


def test_the_code_of_a_method_is_that_of_a_run_which_solved_problems():
    old, new = {"a.py": "1", "b.py": "1"}, {"a.py": "2", "c.py": "1"}
    code = [{"form": 2, "methods": {"m": hashes, "n": old}} for hashes in (old, new)]
    for order in (("x", "y"), ("y", "x")):
        parts = [part("x", ["m"], code[0]), part("y", ["n"], code[1])]
        parts.sort(key=lambda p: order.index(p.name))
        assert joined_code(parts) == {"form": 2, "methods": {"m": old, "n": old}}
    both = [part("x", ["m"], code[0]), part("y", ["m"], code[1])]
    with pytest.raises(InputError, match=r"^x and y: m has other code \(a\.py, b\.py, c\.py\); run both"):
        joined_code(both)
    earlier = part("z", ["m"], {"form": 1, "methods": {"m": new, "k": new}})
    assert joined_code([earlier, both[0]]) == {"form": 2, "methods": {"m": old, "n": old}}
    assert joined_code([part("w", ["m"])]) == {}
    assert joined_code([part("x", [], code[0]), part("y", [], code[1])])["methods"]["m"] == old


def test_a_method_is_unavailable_if_no_run_solved_a_problem_with_it():
    parts = [part("x", ["a"], facts={"unavailable": {"b": "1", "c": "1"}})]
    parts.append(part("y", ["b"], facts={"unavailable": {"a": "2", "c": "2"}}))
    assert _unavailable(parts) == {"c": "2"}


def test_lists_settings_and_facts_of_the_parts_are_joined_in_order():
    config = {"seed": 0, "oracle": False, "points": [64], "timing_points": [], "datasets": ["d"], "timeout": 5}
    facts = {"notes": ["n"], "shard": "1/2", "kinds": {"d": "objects"}, "data": {}, "machines": {}, "setup": {}}
    first = facts | {"command": "one", "environment": "here", "unavailable": {}, "methods": {"a": 1}}
    first |= {"problem_sets": {"d/noisy/64": "1"}, "config": config | {"methods": ["a"], "conditions": ["noisy"]}}
    second = first | {"command": "two", "notes": ["n", "m"], "methods": {"a": 2, "b": 1}, "machines": {"x": 1}}
    changed = {"methods": ["b", "a"], "conditions": ["clean", "noisy"], "oracle": True, "tuned": {"b": 1}, "seed": 7}
    second |= {"config": config | changed, "problem_sets": {"d/noisy/64": "2"}}
    joined = joined_facts([part("x", facts=first), part("y", facts=second), part("z", facts=first)])
    assert joined["command"] == "one ; two" and joined["notes"] == ["n", "m"] and "shard" not in joined
    assert joined["methods"] == {"a": 1, "b": 1} and joined["machines"] == {"x": 1}
    assert joined["parts"] == [
        {"run": n, "command": c, "environment": "here"} for n, c in zip("xyz", ("one", "two", "one"), strict=True)
    ]
    own = joined["config"]
    assert (own["methods"], own["conditions"], own["points"]) == (["a", "b"], ["noisy", "clean"], [64])
    assert own["oracle"] is True and own["tuned"] == {"b": 1} and own["seeds"] == [0, 7] and own["repeats"] == 1
    assert joined["hash"] == configuration_hash(own) and joined["problem_sets"] == {"d/noisy/64": "1"}
    same = joined_facts([part("x", facts=first), part("z", facts=first)])
    assert "seeds" not in same["config"] and same["config"]["oracle"] is False
    tuned = [first | {"config": first["config"] | {"tuned": {"a": n, "b": 1}}} for n in (1, 2)]
    with pytest.raises(InputError, match="x and y: differ in the tuned settings of a; run one again"):
        joined_facts([part("x", facts=tuned[0]), part("y", facts=tuned[1])])


@pytest.mark.parametrize(
    ("drifts", "kept"), [((3.0, None), True), ((None, 3.0), True), ((3.0, 4.0), False), ((), False)]
)
def test_the_drift_of_one_machine_is_kept_and_that_of_several_is_not(tmp_path, monkeypatch, drifts, kept):
    added, target = [], {}
    database = SimpleNamespace(put=target.__setitem__, close=lambda: target.update(closed=True))
    monkeypatch.setattr(merging, "ResultsDatabase", lambda path: database)
    union = SimpleNamespace(add=lambda *given: added.append(given))
    monkeypatch.setattr(merging, "Union", lambda database, seed: target.update(seed=seed) or union)
    facts = [{"config": {"seed": 5 + i}} for i in range(2)]
    parts = [
        part(n, facts=f, sentinel_ms=d, warm_up_s=9.0)
        for n, f, d in zip("xy", facts, drifts or (None, None), strict=True)
    ]
    _write(tmp_path, parts, {"hash": "h"})
    assert target["seed"] == 5 and target["hash"] == "h" and target["run"] == {"hash": "h"} and target["closed"]
    assert [(name, seed) for name, _, seed in added] == [("x", 5), ("y", 6)]
    assert (target.get("sentinel_ms"), target.get("warm_up_s")) == ((3.0, 9.0) if kept else (None, None))
