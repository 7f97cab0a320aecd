"""Reading of results databases."""

import contextlib
import sqlite3
from functools import partial

import numpy as np
import pandas as pd
import pytest

from bench.evaluation import loader
from bench.evaluation.loader import POSE_COLUMNS
from common.errors import InputError
from tests.bench.stored_runs import write_record
from tests.bench.synthetic_run import as_loaded, synthetic_run


@pytest.mark.parametrize("missing", [(), ("batch", "gpu_memory_mb", "machine")])
def test_a_large_record_read_with_helper_processes_is_the_same(tmp_path, monkeypatch, missing):
    """Also one of an earlier version, which lacks columns and is read through a view."""
    synthetic = as_loaded(*synthetic_run(n=12, sizes=(256,), methods=("deepgmr", "icp")))
    synthetic.information[3] = np.arange(36.0).reshape(6, 6)
    write_record(synthetic, tmp_path)
    record = tmp_path / "record.sqlite"
    with contextlib.closing(sqlite3.connect(record)) as db:
        for column in missing:
            db.execute(f"ALTER TABLE outcomes DROP COLUMN {column}")
        db.commit()
    here = loader.load_run(record, synthetic.run)
    assert len(here.outcomes) == len(synthetic.outcomes)
    monkeypatch.setattr(loader, "LARGE", 0)
    there = loader.load_run(record, synthetic.run)
    for name in ("problems", "outcomes", "stages"):
        pd.testing.assert_frame_equal(getattr(there, name), getattr(here, name))
    assert np.array_equal(there.scenes.moments.root, here.scenes.moments.root)
    assert np.array_equal(there.scenes.truth, synthetic.scenes.truth)
    assert list(there.information) == [3] and np.array_equal(there.information[3], synthetic.information[3])


def test_reading_a_record_gives_back_what_was_written(stored_run, folders):
    from bench.report.command import read

    back = read(folders / "results" / "a")
    assert np.array_equal(back.outcomes[POSE_COLUMNS], stored_run.outcomes[POSE_COLUMNS], equal_nan=True)
    for name in stored_run.outcomes.columns.difference(POSE_COLUMNS):
        assert back.outcomes[name].astype(str).tolist() == stored_run.outcomes[name].astype(str).tolist(), name
    assert back.problems["problem"].tolist() == stored_run.problems["problem"].tolist()
    for ours, theirs in zip(
        (back.scenes.truth, *back.scenes.moments), (stored_run.scenes.truth, *stored_run.scenes.moments), strict=True
    ):
        assert ours.shape == theirs.shape
    assert sorted(back.stages["stage"].unique()) == ["features", "solve"] and len(back.stages) == len(stored_run.stages)


def test_the_order_of_the_rows_of_a_record_has_no_effect(tmp_path):
    """Runs with several processes store problems and outcomes in the order in which they are done."""
    run = as_loaded(*synthetic_run(n=8, sizes=(256,), methods=("deepgmr", "icp")))
    run.information[3] = np.arange(36.0).reshape(6, 6)
    write_record(run, tmp_path)
    here = loader.load_run(tmp_path / "record.sqlite", run.run)
    with contextlib.closing(sqlite3.connect(tmp_path / "record.sqlite")) as db, db:
        for table in ("problems", "outcomes"):
            db.execute(f"CREATE TABLE turned AS SELECT * FROM {table} ORDER BY problem DESC, rowid DESC")
            db.execute(f"DELETE FROM {table}")
            db.execute(f"INSERT INTO {table} SELECT * FROM turned")
            db.execute("DROP TABLE turned")
    there = loader.load_run(tmp_path / "record.sqlite", run.run)
    for name in ("problems", "outcomes"):
        pd.testing.assert_frame_equal(getattr(there, name), getattr(here, name))
    assert np.array_equal(there.scenes.truth, here.scenes.truth) and there.information.keys() == here.information.keys()


@pytest.mark.parametrize("limit", [10**9, 0])
def test_problems_stored_while_a_record_is_read_are_in_what_was_read(tmp_path, monkeypatch, limit):
    """A report may be made while its run goes on: each outcome has its problem."""
    run = as_loaded(*synthetic_run(n=8, sizes=(256,), methods=("deepgmr",)))
    write_record(run, tmp_path)
    record, aside = tmp_path / "record.sqlite", ("problems", "outcomes")
    last = run.problems["problem"].iloc[-1]
    with contextlib.closing(sqlite3.connect(record)) as db, db:
        for table in aside:
            db.execute(f"CREATE TABLE later_{table} AS SELECT * FROM {table} WHERE problem = ?", (last,))
            db.execute(f"DELETE FROM {table} WHERE problem = ?", (last,))

    def store_meanwhile(read, *arguments):
        result = read(*arguments)
        with contextlib.closing(sqlite3.connect(record)) as db, db:
            for table in aside:
                db.execute(f"INSERT INTO {table} SELECT * FROM later_{table}")
        return result

    monkeypatch.setattr(loader, "LARGE", limit)
    monkeypatch.setattr(loader, "_read_parts", partial(store_meanwhile, loader._read_parts))
    read = loader.load_run(record, run.run)
    assert last in read.problems["problem"].to_list() and last not in read.outcomes["problem"].to_list()


def parts_of(by):
    """The tables of a run, and the runs of which it consists: one a method, or one a condition."""
    problems, outcomes, run = synthetic_run(
        n=9, sizes=(256,), methods=("deepgmr", "icp"), conditions=("clean", "noisy")
    )
    accuracy = outcomes["phase"] == "accuracy"
    problems, outcomes = (
        problems[~problems["problem"].str.contains("0-180")],
        outcomes[accuracy & (outcomes["status"] != "skipped")],
    )
    values = outcomes[by].unique()[::-1]
    parts = []
    for k, value in enumerate(values):
        own = problems if by == "method" else problems[problems["condition"] == value]
        facts = run | {
            "command": f"run {k}",
            "notes": ["both", f"note {k}"],
            "data": {f"d{k}": k},
            "unavailable": {f"u{k}": "no"},
        }
        facts |= {
            "config": run["config"] | {"angle_bins": [0, 10 + k, 180], "seed": k},
            "methods": {f"m{k}": {"kind": "x"}},
        }
        parts.append(as_loaded(own, outcomes[outcomes[by] == value], facts))
        parts[-1].information[2] = np.full((6, 6), float(k))
    return as_loaded(problems, outcomes, run), parts


@pytest.mark.parametrize("by", ["method", "condition"])
def test_runs_that_are_merged_are_the_whole_run(by):
    whole, parts = parts_of(by)
    merged = loader.merge(parts, ["a", "b"])
    pd.testing.assert_frame_equal(merged.problems, whole.problems)
    of_text = [name for name in whole.outcomes.columns if name not in POSE_COLUMNS]
    assert merged.outcomes[of_text].astype(str).equals(whole.outcomes[of_text].astype(str))
    np.testing.assert_array_equal(merged.outcomes[POSE_COLUMNS], whole.outcomes[POSE_COLUMNS])
    np.testing.assert_array_equal(merged.scenes.truth, whole.scenes.truth)
    for ours, theirs in zip(merged.scenes.moments, whole.scenes.moments, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert len(merged.stages) == sum(len(part.stages) for part in parts)
    named = {whole.problems["problem"][row]: matrix[0, 0] for row, matrix in merged.information.items()}
    given = [{part.problems["problem"][2]: float(k)} for k, part in enumerate(parts)]
    assert named == (given[0] if by == "method" else given[0] | given[1]), "of a problem of both, the first counts"
    run = merged.run
    assert (run["command"], run["notes"]) == ("run 0 ; run 1", ["both", "note 0", "note 1"])
    assert run["config"] == parts[0].run["config"] | {"angle_bins": [0, 10, 11, 180]} and run["config"]["seed"] == 0
    assert (run["data"], run["unavailable"]) == ({"d0": 0, "d1": 1}, {"u0": "no", "u1": "no"})
    assert set(run["methods"]) == {"m0", "m1"} and run["environment"] == parts[0].run["environment"]


def test_runs_that_contradict_each_other_are_not_merged():
    _, (first, second) = parts_of("method")
    with pytest.raises(
        InputError, match=r"a and b: both contain deepgmr on modelnet40/clean/1024; bench\.py compare a b"
    ):
        loader.merge([first, first], ["a", "b"])
    second.problems.loc[3, "digest"] = b"other"
    name = second.problems["problem"][3]
    with pytest.raises(InputError, match=f"a and b: problem {name} has different clouds"):
        loader.merge([first, second], ["a", "b"])
