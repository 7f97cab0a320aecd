import dataclasses
import json
import shutil
import sqlite3

import numpy as np
import pytest

from bench.cli import main
from bench.evaluation.compare import compare
from bench.evaluation.conventions import CONVENTIONS
from bench.evaluation.loader import POSE_COLUMNS
from common.errors import InputError
from tests.bench.synthetic_run import as_loaded, synthetic_run
from tests.bench.write_record import write_record

CRITERION = CONVENTIONS["deepgmr"]


@pytest.fixture(scope="module")
def run():
    return as_loaded(
        *synthetic_run(n=60, sizes=(256,), methods=("icp", "fgr", "teaser"), conditions=("clean", "noisy"))
    )


def changed(run, method, condition, move=0.0, share=0.0, fail=0.0):
    """The run with some of a method's answers moved, spoilt or lost."""
    o = run.outcomes.copy()
    mine = np.flatnonzero((o["method"] == method) & (o["condition"] == condition) & (o["phase"] == "accuracy"))
    o.loc[mine, "t03"] += move
    o.loc[mine[: int(share * len(mine))], "t03"] += 5
    o.loc[mine[: int(fail * len(mine))], "status"] = "timeout"
    return dataclasses.replace(run, outcomes=o)


def verdicts(a, b):
    return {
        (c.method, c.group.split("/")[1], c.quantity.split(",")[0]): c.verdict
        for c in compare(a, b, ("A", "B"), CRITERION).changes
    }


def test_a_run_is_the_same_as_itself(run):
    found = compare(run, run, ("A", "B"), CRITERION)
    assert {c.verdict for c in found.changes} == {"same", "not tested"} and not found.remarks
    assert all(c.difference.mean == 0 for c in found.changes)


def test_what_got_worse_is_found_and_nothing_else(run):
    worse = changed(run, "fgr", "noisy", share=0.4)
    found = {key for key, v in verdicts(run, worse).items() if v != "same" and v != "not tested"}
    assert ("fgr", "noisy", "recall@0.2") in found and {key[:2] for key in found} == {("fgr", "noisy")}
    assert verdicts(run, worse)["fgr", "noisy", "recall@0.2"] == "worse"
    assert verdicts(worse, run)["fgr", "noisy", "recall@0.2"] == "better"


def test_lost_answers_are_a_regression_even_of_the_mean_over_answered(run):
    found = verdicts(run, changed(run, "icp", "clean", fail=0.5))
    assert found["icp", "clean", "answered"] == "worse"


def test_a_shift_of_less_than_a_percent_is_no_change(run):
    found = verdicts(run, changed(run, "icp", "noisy", move=1e-9))
    assert set(found.values()) == {"same", "not tested"}


def test_differences_are_paired_and_cover_the_truth(run):
    moved = changed(run, "teaser", "clean", move=0.05)
    for change in compare(run, moved, ("A", "B"), CRITERION).changes:
        if change.quantity.startswith("RMSE"):
            d = change.difference
            assert d.low <= d.mean <= d.high
            assert d.mean == pytest.approx(change.b - change.a, abs=1e-12)


def test_other_problems_are_refused_with_the_reason(run):
    other = dataclasses.replace(run, run=run.run | {"problem_sets": {"modelnet40/clean/1024": "x"}})
    with pytest.raises(InputError, match=r"A and B: the problems of modelnet40/clean/1024 differ \(other data\)"):
        compare(run, other, ("A", "B"), CRITERION)
    seeded = dataclasses.replace(other, run=other.run | {"config": run.run["config"] | {"seed": 5}})
    with pytest.raises(InputError, match="seed is 0 and 5"):
        compare(run, seeded, ("A", "B"), CRITERION)
    with pytest.raises(InputError, match="share no problem set"):
        compare(run, dataclasses.replace(run, run=run.run | {"problem_sets": {}}), ("A", "B"), CRITERION)


def test_what_only_one_has_is_said(run):
    fewer = dataclasses.replace(run, outcomes=run.outcomes[run.outcomes["method"] != "icp"].reset_index(drop=True))
    assert "only in A: icp on modelnet40/clean/1024" in compare(run, fewer, ("A", "B"), CRITERION).remarks


@pytest.fixture
def folders(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_record(run, tmp_path / "results" / "a")
    write_record(changed(run, "fgr", "noisy", share=0.5), tmp_path / "results" / "b")
    return tmp_path


def test_the_command(folders, capsys):
    assert main.main(["compare", "a", "b"]) == 0
    out = capsys.readouterr().out
    assert "recall@0.2" in out and "worse" in out and "b compared with a: 0 better" in out
    assert main.main(["compare", "a", "b", "--fail-on-regression"]) == 1
    assert main.main(["compare", "b", "a", "--fail-on-regression"]) == 0
    assert main.main(["compare", "a", "a", "--fail-on-regression"]) == 0
    db = sqlite3.connect(folders / "results" / "b" / "record.sqlite")
    said = json.loads(db.execute("SELECT value FROM meta WHERE key = 'run'").fetchone()[0])
    said["problem_sets"] = dict.fromkeys(said["problem_sets"], "other")
    with db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'run'", (json.dumps(said),))
    db.close()
    capsys.readouterr()
    assert main.main(["compare", "a", "b"]) == 2
    assert capsys.readouterr().err.startswith("bench.py: a and b: the problems of modelnet40/clean/1024 differ")
    shutil.rmtree(folders / "results" / "b")
    assert main.main(["compare", "a", "b"]) == 2 and main.main(["compare", "a", "a", "--convention", "kiti"]) == 2


def test_reading_a_record_gives_back_what_was_written(run, folders):
    from bench.report.command import read

    back = read(folders / "results" / "a")
    assert np.array_equal(back.outcomes[POSE_COLUMNS], run.outcomes[POSE_COLUMNS], equal_nan=True)
    for name in run.outcomes.columns.difference(POSE_COLUMNS):
        assert back.outcomes[name].astype(str).tolist() == run.outcomes[name].astype(str).tolist(), name
    assert back.problems["problem"].tolist() == run.problems["problem"].tolist()
    for ours, theirs in zip(
        (back.scenes.truth, *back.scenes.moments), (run.scenes.truth, *run.scenes.moments), strict=True
    ):
        assert ours.shape == theirs.shape
    assert sorted(back.stages["stage"].unique()) == ["features", "solve"] and len(back.stages) == len(run.stages)


def test_the_report_command(folders, capsys):
    assert main.main(["report", "a", "--convention", "kitti", "--threshold", "10", "0.5", "--against", "paper"]) == 0
    made = folders / "reports" / "a.kitti@10,0.5"
    assert (made / "report.html").is_file() and (made / "csv" / "summary.csv").is_file()
    assert not (folders / "results" / "a" / "summary.csv").exists()
    assert "rte_mean_answered" in (made / "csv" / "summary.csv").read_text().splitlines()[0]
    for wrong, why in (
        (["report", "a", "b"], "both contain fgr on modelnet40/clean/1024"),
        (["report", "a", "--convention", "3dmatch"], "gt.info"),
        (["report", "a", "--convention", "rpmnet"], "modelnet40"),
        (["report", "nowhere"], "no record.sqlite"),
    ):
        capsys.readouterr()
        assert main.main(wrong) == 2
        assert why in capsys.readouterr().err


def test_two_runs_in_one_report(run, folders, monkeypatch):
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)
    o = run.outcomes
    write_record(dataclasses.replace(run, outcomes=o[o["method"] == "icp"]), folders / "results" / "c")
    write_record(dataclasses.replace(run, outcomes=o[o["method"] != "icp"]), folders / "results" / "d")
    assert main.main(["report", "c", "d", "--out", "both"]) == 0 and main.main(["report", "a", "--out", "one"]) == 0
    for name in ("summary", "trials", "cdf", "per_category"):
        one, two = ((folders / "reports" / r / "csv" / f"{name}.csv").read_bytes() for r in ("one", "both"))
        assert one == two, name
