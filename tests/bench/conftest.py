"""Fixtures of folders with and without runs, and of synthetic runs."""

import shutil
from pathlib import Path

import pytest

from bench.cli import main
from tests.bench.command_line import QUICK, SHORT
from tests.bench.png_figures import save_png_only
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


@pytest.fixture
def png_only(monkeypatch):
    """Save figures as PNGs only, in this process."""
    save_png_only(monkeypatch)


@pytest.fixture
def bench(tmp_path, monkeypatch, request, png_only):
    """Return a function that runs a command line in an empty folder and returns the folder of the results.

    Reports of runs are written only on request, those of other commands only in tests with `report` in their names.
    """
    monkeypatch.chdir(tmp_path)
    if "report" not in request.node.name:
        monkeypatch.setattr("bench.report.begin_report", lambda *_: list)

    def call(*arguments, out="r", expect=0, report=False):
        with pytest.MonkeyPatch.context() as patch:
            if not report:
                patch.setattr("bench.report.begin_report", lambda *_: list)
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


@pytest.fixture(scope="session")
def short_run(tmp_path_factory):
    """The folder of a finished run that no test changes."""
    folder = tmp_path_factory.mktemp("short")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("bench.report.begin_report", lambda *_: list)
        assert main.main([*SHORT, "--out", "r"]) == 0
    assert [path.name for path in folder.iterdir()] == ["results"]
    return folder / "results" / "r"


@pytest.fixture
def finished_run(project, short_run):
    """The folder of a finished run, as the run `r` of the current folder."""
    return Path(shutil.copytree(short_run, project / "results" / "r"))


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """An empty current folder, without $BENCH_DATA; reports are not written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)
    return tmp_path
