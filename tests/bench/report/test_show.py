"""`bench.py show`: page and picture of one problem."""

import json
from pathlib import Path

import pytest

from bench.cli import main
from bench.report.jobs import FigureJob, SavedFigure

PLUGINS = Path(__file__).parents[1] / "plugins"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("show")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("bench.report.begin_report", lambda *_: list)
        words = "--methods halves,good --datasets blobs --conditions noisy --points 60 --problems 3 --timing-rounds 0"
        assert main.main([*words.split(), "--jobs", "1", "--plugins", str(PLUGINS), "--out", "r"]) == 0
    return folder


def test_page_and_picture_of_a_problem(run, monkeypatch, capsys):
    monkeypatch.chdir(run)
    assert main.main(["show", "r", "blobs/noisy/60/00001", "--plugins", str(PLUGINS)]) == 0
    files = [run / line for line in capsys.readouterr().out.splitlines()]
    assert [f.suffix for f in files] == [".html", ".png", ".svg", ".pdf", ".txt"] and all(f.is_file() for f in files)
    page = files[0].read_text()
    data = json.loads(page.split('id="worst">')[1].split("</script>")[0])
    assert {m["name"] for m in data["methods"]} == {"halves", "good"}
    assert set(data["clouds"]) == {"blobs/noisy/60/00001"}


def test_unknown_problems_and_methods_are_refused(run, monkeypatch, capsys):
    monkeypatch.chdir(run)
    assert main.main(["show", "r", "blobs/noisy/60/7", "--plugins", str(PLUGINS)]) == 2
    assert (
        "not a problem of this run; its trials.csv lists them, such as blobs/noisy/60/00000" in capsys.readouterr().err
    )
    words = ["show", "r", "blobs/noisy/60/00001", "--methods", "gud", "--plugins", str(PLUGINS)]
    assert main.main(words) == 2 and "unknown method 'gud'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("methods", "drawn"), [([], ["halves", "good"]), (["good"], ["good"]), (["good", "halves"], ["good", "halves"])]
)
def test_the_picture_shows_the_methods_that_are_asked_for_or_the_best(run, monkeypatch, methods, drawn):
    """The page has all, or those; the problem's id is the name of both files."""
    seen = []
    monkeypatch.chdir(run)
    monkeypatch.setattr(FigureJob, "draw", lambda job, settings: seen.append(job) or SavedFigure("", "", "", ()))
    words = ["--methods", *methods] if methods else []
    assert main.main(["show", "r", "blobs/noisy/60/00002", *words, "--plugins", str(PLUGINS)]) == 0
    (job,) = seen
    (((title, panels, _),), names, where, note) = job.arguments
    assert (
        sorted(names) == sorted(drawn)
        and (names == drawn or not methods)
        and (where, note) == ("blobs/noisy/60/00002", "")
    )
    assert "disagree" not in job.caption and "Controls" not in job.caption, "the problem and the methods are chosen"
    assert title.endswith("\n00002") and len(panels) == 1 + len(drawn) and job.stem.name == "blobs-noisy-60-00002"
    page = job.stem.with_name("blobs-noisy-60-00002.html").read_text()
    data = json.loads(page.split('id="worst">')[1].split("</script>")[0])
    errors = [float(m["pairs"][0]["error"].split()[1].rstrip(",")) for m in data["methods"]]
    assert {m["name"] for m in data["methods"]} == set(drawn) and errors == sorted(errors)
