"""The cache: what is kept, for how long, and what happens when it can't be."""

import logging

import numpy as np
import pytest

from common.keys import rng
from datasets import cache


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "data.bin"
    path.write_text("one")
    return path


def make_counted(calls):
    def make():
        calls.append(1)
        return {"big": rng("cache").random((5000, 3)), "none": np.zeros((0, 3)), "text": np.array(["a", "bc"])}

    return make


def test_arrays_are_computed_once_and_mapped(file):
    calls = []
    first, again = (cache.load_or_compute("x", [file], make_counted(calls)) for _ in range(2))
    assert len(calls) == 1 and isinstance(again["big"], np.memmap)
    for name in ("big", "none", "text"):
        np.testing.assert_array_equal(first[name], again[name])
    with pytest.raises(ValueError, match="read-only"):
        again["big"][0] = 0


def test_another_file_parameter_or_time_is_another_entry(file):
    calls = []
    cache.load_or_compute("x", [file], make_counted(calls))
    cache.load_or_compute("y", [file], make_counted(calls))
    file.write_text("three")
    cache.load_or_compute("x", [file], make_counted(calls))
    assert len(calls) == 3


def test_a_damaged_entry_is_made_again(file, cache_folder):
    calls = []
    cache.load_or_compute("x", [file], make_counted(calls))
    big = next(cache_folder.rglob("big.npy"))
    big.write_bytes(big.read_bytes()[:1000])
    assert cache.load_or_compute("x", [file], make_counted(calls))["big"].shape == (5000, 3)
    assert len(calls) == 2 and not list(cache_folder.glob("*.tmp"))


def test_a_cache_that_cannot_be_written_is_said_and_does_without(file, cache_folder, monkeypatch, caplog):
    monkeypatch.setenv("BENCH_CACHE", str(file))  # a file is no folder
    with caplog.at_level(logging.WARNING):
        assert cache.load_or_compute("x", [file], make_counted([]))["big"].shape == (5000, 3)
    assert "the cache cannot be written" in caplog.text
