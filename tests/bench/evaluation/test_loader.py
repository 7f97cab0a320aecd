"""Reading of results databases."""

import contextlib
import sqlite3

import numpy as np
import pandas as pd

from bench.evaluation import loader
from bench.evaluation.loader import POSE_COLUMNS
from tests.bench.stored_runs import write_record
from tests.bench.synthetic_run import as_loaded, synthetic_run


def test_a_large_record_read_with_a_helper_process_is_the_same(tmp_path, monkeypatch):
    synthetic = as_loaded(*synthetic_run(n=12, sizes=(256,), methods=("deepgmr", "icp")))
    synthetic.information[3] = np.arange(36.0).reshape(6, 6)
    write_record(synthetic, tmp_path)
    record = tmp_path / "record.sqlite"
    here = loader.load_run(record, synthetic.run)
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
