"""What the tests of data sets share."""

import pytest


@pytest.fixture(autouse=True)
def cache_folder(tmp_path_factory, monkeypatch):
    """Give every test its own cache, so that nothing is written to the user's."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("BENCH_CACHE", str(folder))
    return folder
