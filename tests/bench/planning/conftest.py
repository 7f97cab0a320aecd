"""Runs from a configuration file."""

from pathlib import Path

import pytest

from bench.cli import main
from tests.bench.command_line import PLUGINS


@pytest.fixture
def run_file(tmp_path, monkeypatch):
    """Return a function that runs a configuration file, given by its text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)

    def call(text, *words):
        Path("a.toml").write_text(text)
        return main.main(["--config", "a.toml", "--jobs", "1", "--plugins", str(PLUGINS), *words])

    return call
