"""`[[more]]`: cells beside a run's own, for methods of their own."""

from argparse import Namespace
from pathlib import Path

import pandas as pd
import pytest

from bench.cli import main
from bench.planning import config
from bench.planning.catalog import Catalog
from methods.core.registry import MethodRegistry

PLUGINS = Path(__file__).parent / "plugins"
FILE = """
methods = ["good"]
datasets = ["blobs"]
conditions = ["noisy"]
points = [60]
problems = 3
timing-rounds = 0

[[more]]
methods = ["good", "identity"]
datasets = ["blobs"]
conditions = ["noisy", "clean"]
points = [60, 40]
"""


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)

    def call(text, *words):
        Path("a.toml").write_text(text)
        return main.main(["--config", "a.toml", "--jobs", "1", "--plugins", str(PLUGINS), *words])

    return call


def test_each_method_is_asked_what_it_is_asked_for_and_nothing_twice(bench, tmp_path):
    assert bench(FILE, "--out", "r") == 0
    trials = pd.read_csv(tmp_path / "results" / "r" / "trials.csv")
    count = trials.groupby(["method", "condition", "points"]).size().to_dict()
    cells = [("noisy", 60), ("noisy", 40), ("clean", 60), ("clean", 40)]
    assert count == {(m, *cell): 3 for m in ("good", "identity") for cell in cells}
    alone = FILE.replace("points = [60, 40]", "points = [40]")
    assert bench(alone, "--out", "s") == 0
    trials = pd.read_csv(tmp_path / "results" / "s" / "trials.csv")
    assert set(trials[trials["points"] == 60]["method"]) == {"good"}


def test_a_run_s_own_configuration_repeats_it(bench, tmp_path, capsys):
    assert bench(FILE, "--out", "r") == 0
    assert main.main(["--config", "results/r/run.json", "--plugins", str(PLUGINS), "--out", "r", "--jobs", "1"]) == 0
    assert "continuing: 24 outcomes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[more]]", "[more]", "field 'more' is no list of tables; write [[more]]"),
        ('methods = ["good", "identity"]', "", "a table [[more]] lacks 'methods'"),
        ("points = [60, 40]", "points = 60", "field 'more.points' is 60; give a list of whole numbers"),
        ("points = [60, 40]", "points = [60]\npoint = [3]", "did you mean points"),
        ('"identity"', '"identiti"', "unknown method 'identiti'"),
    ],
)
def test_bad_tables(bench, capsys, old, new, message):
    assert bench(FILE.replace(old, new)) == 2
    assert message in capsys.readouterr().err


def paper(**given):
    names = "datasets conditions points angles max_angle sampler problems timeout memory_limit timing_rounds"
    flags = dict.fromkeys(names.split()) | {"methods": ["all"], "preset": "paper", "overrides": {}, "skip_bad": False}
    return config.from_flags(
        Namespace(**flags | {"seed": 0, "threads": 1, "device": "cpu", "repeats": 1, "batch": 1} | given), Catalog.of()
    )


def test_the_paper_preset_has_more_unless_the_run_is_narrowed():
    asked = {method.text for more in paper().more for method in more.methods}
    assert asked and all(asked & {m.text} for more in paper().more for m in more.methods)
    assert not paper(methods=["icp"]).more and not paper(points=["64"]).more and not paper(conditions=["clean"]).more
    left_out = {name for name, offer in MethodRegistry().entries.items() if not offer.cls.in_all}
    assert left_out and left_out <= asked and not left_out & {method.text for method in paper().methods}
