"""Fixtures of folders with and without runs."""

import pytest

from bench.cli import main
from tests.bench.command_line import QUICK, SHORT


@pytest.fixture
def bench(tmp_path, monkeypatch, request):
    """Return a function that runs a command line in an empty folder and returns the folder of the results.

    Reports are written only in tests with `report` in their names.
    """
    monkeypatch.chdir(tmp_path)
    if "report" not in request.node.name:
        monkeypatch.setattr("bench.report.begin_report", lambda *_: list)

    def call(*arguments, out="r", expect=0):
        assert main.main([*QUICK, "--out", out, *map(str, arguments)]) == expect
        return tmp_path / "results" / out

    return call


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A current folder with somebody's files in it, and a finished run `r`; figures are not drawn."""
    folder = tmp_path / "proj"
    (folder / "results" / "older").mkdir(parents=True)
    (folder / "results" / "older" / "trials.csv").write_text("x")
    (folder / "thesis.txt").write_text("precious")
    monkeypatch.chdir(folder)
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)
    return folder


@pytest.fixture
def finished_run(project):
    """The folder of a finished run."""
    assert main.main([*SHORT, "--out", "r"]) == 0
    return project / "results" / "r"


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """An empty current folder, without $BENCH_DATA; reports are not written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)
    return tmp_path
