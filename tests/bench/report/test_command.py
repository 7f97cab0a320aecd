"""`bench.py report` on stored runs."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bench.cli import main
from bench.evaluation import fit
from bench.evaluation.conventions import CONVENTIONS
from bench.report import command, replay
from bench.report.command import ReportRequest
from common.errors import InputError
from tests.bench.command_line import PLUGINS
from tests.bench.png_figures import save_blank
from tests.bench.stored_runs import write_record
from tests.own_cache import use_cache


def test_the_report_command(folders, capsys, monkeypatch):
    save_blank(monkeypatch)
    assert main.main(["report", "a", "--convention", "kitti", "--threshold", "10", "0.5", "--against", "paper"]) == 0
    report = folders / "reports" / "a.kitti@10,0.5"
    assert (report / "report.html").is_file() and (report / "csv" / "summary.csv").is_file()
    assert not (folders / "results" / "a" / "summary.csv").exists() and not list(folders.rglob("*.parquet"))
    assert "rte_mean_answered" in (report / "csv" / "summary.csv").read_text().splitlines()[0]
    for wrong, why in (
        (["report", "a", "b"], "both contain fgr on modelnet40/clean/1024"),
        (["report", "a", "--convention", "3dmatch"], "gt.info"),
        (["report", "a", "--convention", "rpmnet"], "modelnet40"),
        (["report", "nowhere"], f"nowhere: no such run; looked in {folders / 'results'}"),
    ):
        capsys.readouterr()
        assert main.main(wrong) == 2
        assert why in capsys.readouterr().err


@pytest.mark.parametrize("least", [12, 13])
def test_a_page_is_there_while_fits_are_computed_for_a_run_of_many_outcomes(tmp_path, monkeypatch, capsys, least):
    """It says that more follows and is written once; the last page says nothing of it."""
    save_blank(monkeypatch)
    use_cache(monkeypatch, tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    run = (
        "--methods halves,good --datasets blobs --conditions noisy --points 60 --problems 6 --timing-rounds 0 --jobs 1"
    )
    monkeypatch.setattr(command, "FIRST_PAGE_FROM", least)
    report, seen = tmp_path / "reports" / "r" / "report.html", []
    rival = fit.rival
    monkeypatch.setattr(fit, "rival", lambda own: seen.append(report.is_file() and report.read_text()) or rival(own))
    assert main.main([*run.split(), "--plugins", str(PLUGINS), "--out", "r"]) == 0
    assert len(seen) == 6 and len(set(seen)) == 1
    early, follows = seen[0], "The report is being completed"
    assert bool(early) == (least == 12) and follows not in report.read_text()
    assert not early or (follows in early and "halves" in early and "figures/" not in early)
    assert ("(ceilings and figures follow)" in capsys.readouterr().out) == bool(early)


def test_two_runs_in_one_report(stored_run, folders, monkeypatch):
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)
    o = stored_run.outcomes
    write_record(dataclasses.replace(stored_run, outcomes=o[o["method"] == "icp"]), folders / "results" / "c")
    write_record(dataclasses.replace(stored_run, outcomes=o[o["method"] != "icp"]), folders / "results" / "d")
    assert main.main(["report", "c", "d", "--out", "both"]) == 0 and main.main(["report", "a", "--out", "one"]) == 0
    for name in ("summary", "trials", "cdf", "per_category"):
        one, two = ((folders / "reports" / r / "csv" / f"{name}.csv").read_bytes() for r in ("one", "both"))
        assert one == two, name


RUN = Path("results/a")


def request(*folders, **changes):
    return ReportRequest(folders or (RUN,), Path("reports"), None, **changes)


def test_a_report_is_plain_with_estimates_and_without_further_files_unless_asked():
    (fields,) = ([getattr(request(), field.name) for field in dataclasses.fields(ReportRequest)[3:]],)
    assert fields == [None, None, None, None, True, (), (), "page", None, False, False, False]


@pytest.mark.parametrize(
    ("changes", "name", "plain"),
    [
        ({}, "a", True),
        ({"against": "paper", "as_good": False, "width": "column", "coloured": True, "parquet": True}, "a", True),
        ({"convention": "kitti"}, "a.kitti", False),
        ({"thresholds": [0.25]}, "a.deepgmr@0.25", False),
        ({"convention": "kitti", "thresholds": [10.0, 0.5], "methods": ["icp"]}, "a.kitti@10,0.5.part", False),
        ({"conditions": ["noisy"]}, "a.part", False),
        ({"out": "mine", "methods": ["icp"]}, "mine", False),
    ],
)
def test_a_report_of_other_numbers_has_its_own_folder(changes, name, plain):
    """That of several runs, too; the CSVs of a plain one are those of the run."""
    one = request(**changes)
    assert one.folder == Path("reports") / name and one.plain == plain
    several = request(RUN, Path("results/b"), **changes)
    assert several.folder == Path("reports") / name.replace("a", "a+b", name != "mine") and not several.plain


def test_why_there_is_no_record_and_what_can_be_done(tmp_path):
    run = tmp_path / "r"
    assert command._why_no_record(run) == f"{run}: no such run; looked in {tmp_path}: give the name or folder of a run"
    run.mkdir()
    for text in (None, "{", "[]", "{}", "3"):
        if text:
            (run / "run.json").write_text(text)
        assert command._why_no_record(run) == f"{run}: no record.sqlite; give the name or folder of a run"
    (run / "run.json").write_text(json.dumps({"command": "bench.py x"}))
    assert command._why_no_record(run) == f"{run}: no record.sqlite; this command makes it again: bench.py x"
    (run / "trials.csv").touch()
    assert "only run.json and CSVs, which bench.load" in command._why_no_record(run)
    with pytest.raises(InputError, match=r"makes the record again: bench\.py x"):
        command.open_record(run)


def test_a_style_file_is_checked_and_its_path_does_not_depend_on_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own.mplstyle").write_text("axes.facecolor: ff0000\n")
    assert command._checked_sheet(None) is None
    assert command._checked_sheet(Path("own.mplstyle")) == tmp_path / "own.mplstyle"
    Path("binary").write_bytes(b"\xff\xfe\x00")
    for wrong in ("absent", "binary"):
        with pytest.raises(InputError, match=f"--style {wrong}: .*; give a matplotlib style file"):
            command._checked_sheet(Path(wrong))


def test_how_the_first_problem_of_a_method_without_answers_ended_is_noted():
    rows = [("a", "skipped", "left"), ("a", "timeout", "x" * 300), ("a", "error", "second"), ("b", "crash", "")]
    rows += [("c", "error", "no"), ("c", "ok", "")]
    outcomes = pd.DataFrame(rows, columns=["method", "status", "message"])
    summary = pd.DataFrame(
        {"method": ["a", "a", "b", "c", "c", "d"], "problems": [2, 1, 1, 1, 1, 0], "answered": [0, 0, 0, 0, 1, 0]}
    )
    first, second = command._unanswered_notes(SimpleNamespace(outcomes=outcomes), summary)
    assert first.startswith("a never answered: timeout, xxx") and first.endswith("… (300 characters)")
    assert len(first) == len("a never answered: timeout, ") + 200
    assert second == "b never answered: crash, without a message"


def test_places_are_listed_below_each_other():
    places = {"csvs": Path("c"), "plots": Path("p"), "report": Path("r/report.html")}
    assert command._lines(places) == ["CSVs    c", "plots   p", "report  r/report.html"]


def test_trials_have_the_errors_that_only_the_convention_needs(stored_run, monkeypatch):
    """An error of all trials that is unknown has its reason; none is unknown where nothing was evaluated."""
    made, values = [], {}

    def compute(name):
        return lambda loaded, replay, table: made.append(name) or np.full(len(table), values.get(name, 0.5))

    monkeypatch.setattr(replay, "chamfer", compute("chamfer"))
    monkeypatch.setattr(replay, "correspondence_rmse", compute("rmse_correspondences"))
    clouds = SimpleNamespace(missing={"modelnet40": "no data"})
    left = pd.Categorical(["skipped"] * len(stored_run.outcomes))
    command._trials_for(stored_run, CONVENTIONS["deepgmr"], clouds)
    assert made == []
    metric = {criterion.metric: criterion for criterion in CONVENTIONS.values()}
    for name in ("chamfer", "rmse_correspondences"):
        table = command._trials_for(stored_run, metric[name], clouds)
        assert made.pop() == name and made == [] and (table[name] == 0.5).all() and "success" in table
        values[name] = np.nan
        with pytest.raises(InputError, match=f"--convention {metric[name].name}: modelnet40: no data"):
            command._trials_for(stored_run, metric[name], clouds)
        with pytest.raises(InputError, match=r"no problem of the run has gt\.info"):
            command._trials_for(stored_run, metric[name], SimpleNamespace(missing={}))
        skipped = dataclasses.replace(stored_run, outcomes=stored_run.outcomes.assign(status=left))
        assert command._trials_for(skipped, metric[name], clouds)[name].isna().all()
        made.clear()
