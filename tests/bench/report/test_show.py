"""`bench.py show`: page and picture of one problem."""

import json
from pathlib import Path

import pytest

from bench.cli import main

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
