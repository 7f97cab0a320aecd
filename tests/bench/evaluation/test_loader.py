"""Reading of results databases."""

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
    here = loader.load(record, synthetic.run)
    monkeypatch.setattr(loader, "LARGE", 0)
    there = loader.load(record, synthetic.run)
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
