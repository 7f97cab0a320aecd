"""Runs from a configuration file, and a configuration of several kinds of methods."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.cli import main
from bench.planning.config import ExtraGrid
from tests.bench.command_line import PLUGINS, QUICK, configuration
from tests.catalog import spec


@pytest.fixture
def run_file(tmp_path, monkeypatch):
    """Return a function that runs a configuration file, given by its text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)

    def call(text, *words):
        Path("a.toml").write_text(text)
        return main.main(["--config", "a.toml", "--jobs", "1", "--plugins", str(PLUGINS), *words])

    return call


@pytest.fixture(scope="session")
def given():
    """A configuration with a random method, one that takes batches, one of half the problems, and one of an extra grid."""
    flags = ["--problems", "45", "--repeats", "3", "--batch", "7", "--seed", "5", "--threads", "2", "--timeout", "0.1"]
    config, _ = configuration(*QUICK, "--methods", "lottery", "together", "identity", *flags)
    more = ExtraGrid((spec("random_pose", PLUGINS),), config.datasets, config.conditions[:1], (60,), 30)
    return replace(config, limits={"identity": 0.5}, more=(more,))
