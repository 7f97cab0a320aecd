"""What a record is read as."""

import numpy as np
import pandas as pd

from bench.evaluation import loader
from tests.bench.synthetic_run import as_loaded, synthetic_run
from tests.bench.write_record import write_record


def test_a_large_record_read_with_a_helper_process_is_the_same(tmp_path, monkeypatch):
    made = as_loaded(*synthetic_run(n=12, sizes=(256,), methods=("deepgmr", "icp")))
    made.information[3] = np.arange(36.0).reshape(6, 6)
    write_record(made, tmp_path)
    record = tmp_path / "record.sqlite"
    here = loader.load(record, made.run)
    monkeypatch.setattr(loader, "LARGE", 0)
    there = loader.load(record, made.run)
    for name in ("problems", "outcomes", "stages"):
        pd.testing.assert_frame_equal(getattr(there, name), getattr(here, name))
    assert np.array_equal(there.scenes.moments.root, here.scenes.moments.root)
    assert np.array_equal(there.scenes.truth, made.scenes.truth)
    assert list(there.information) == [3] and np.array_equal(there.information[3], made.information[3])
