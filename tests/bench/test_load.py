"""`bench.load`: the tables of a run in two lines."""

import numpy as np
import pandas as pd
import pytest

import bench
from bench.cli import main
from bench.storage.csv_writer import csv_text
from common.errors import InputError


@pytest.fixture(autouse=True)
def _tables_only(monkeypatch):
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)


def test_the_tables_of_a_run_by_name_and_by_folder(folders):
    assert main.main(["report", "a", "--out", "one"]) == 0
    assert main.main(["report", "a"]) == 0
    run = bench.load("a")
    assert run.folder == bench.load(folders / "results" / "a").folder.relative_to(folders)
    assert {"summary", "trials", "poses", "timing"} <= set(run.names)
    answered = run.trials[run.trials["status"] == "ok"]
    mean = answered.groupby(["method", "condition"])["rmse"].mean()
    shown = run.summary.set_index(["method", "condition"])["rmse_mean_answered"]
    np.testing.assert_allclose(shown.loc[mean.index], mean, rtol=1e-12)
    assert run.run["config"]["seed"] == 0


def test_floats_are_read_exactly_and_without_a_warning(tmp_path, recwarn):
    values = np.random.default_rng(0).integers(0, 2**63, 1000).view(np.float64)
    values = np.r_[values[np.isfinite(values)], 5e-324, 0.1, -np.inf]
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "summary.csv").write_bytes(csv_text(pd.DataFrame({"x": values})))
    np.testing.assert_array_equal(bench.load(tmp_path).summary["x"], values)
    assert not recwarn.list


def test_a_missing_run_and_a_missing_table_are_named(folders):
    with pytest.raises(InputError, match=r"nowhere: has no run\.json"):
        bench.load("nowhere")
    assert main.main(["report", "a"]) == 0
    with pytest.raises(AttributeError, match=r"has no speeds\.csv; it has by_angle, .*trials"):
        _ = bench.load("a").speeds


def test_a_folder_comes_before_a_run_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder, text in (("results/a", "of results ü"), ("results/b", "b"), ("a", "of the folder ü")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "run.json").write_text(f'{{"command": "{text}"}}', encoding="utf-8")
        for name in ("z", "a", "m"):
            (tmp_path / folder / f"{name}.csv").write_text("x\n1\n")
    assert bench.load("a").run == {"command": "of the folder ü"} and bench.load("b").run == {"command": "b"}
    assert bench.load("results/a").run == {"command": "of results ü"} and bench.load("a").names == ["a", "m", "z"]
    (tmp_path / "c").touch()
    with pytest.raises(InputError, match=r"results/c: has no run\.json"):
        bench.load("c")
