"""Synthetic runs in memory and in folders, for tests of comparison, loader and report."""

import pytest

from tests.bench.stored_runs import changed, write_record
from tests.bench.synthetic_run import as_loaded, synthetic_run


@pytest.fixture(scope="session")
def stored_run():
    return as_loaded(
        *synthetic_run(n=60, sizes=(256,), methods=("icp", "fgr", "teaser"), conditions=("clean", "noisy"))
    )


@pytest.fixture
def folders(stored_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_record(stored_run, tmp_path / "results" / "a")
    write_record(changed(stored_run, "fgr", "noisy", share=0.5), tmp_path / "results" / "b")
    return tmp_path
