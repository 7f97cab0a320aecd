"""The comparison of the answers of two runs, `performance/same_answers.py`."""

import json

import pandas as pd
import pytest

from performance import same_answers

PROBLEMS = 4


@pytest.fixture
def runs(tmp_path):
    """Two runs with the same answers; method a has a timed call, too, with another pose in each run."""
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        facts = {"problem_sets": {"d/noisy/64": "abc"}, "environment": {"cpu": f"processor {name}"}}
        (folder / "run.json").write_text(json.dumps(facts))
        rows = [
            {"dataset": "d", "condition": "noisy", "points": 64, "problem": f"d/noisy/64/{i}", "repeat": 0, "method": m}
            for m in ("a", "b", "never")
            for i in range(PROBLEMS)
        ]
        keys = pd.DataFrame(rows)
        ok = keys["method"] != "never"
        keys.assign(rmse=0.1 * ok + 9 * ~ok).to_csv(folder / "trials.csv", index=False)
        poses = keys.assign(status=ok.map({True: "ok", False: "skipped"}), phase="accuracy")
        for element in same_answers.POSE_COLUMNS:
            poses[element] = 0.5 * ok
            poses.loc[~ok, element] = float("nan")
        timed = poses.iloc[[0]].assign(phase="timing", t00=ord(name[0]))
        pd.concat([poses, timed]).to_csv(folder / "poses.csv", index=False)
    return tmp_path / "one", tmp_path / "two"


def _change(run, table, row, **values):
    frame = pd.read_csv(run / f"{table}.csv")
    for column, value in values.items():
        frame.loc[row, column] = value
    frame.to_csv(run / f"{table}.csv", index=False)


def _lines(runs, capsys):
    same_answers.main(*map(str, runs))
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_equal_runs_have_the_same_answers(runs, capsys):
    problems, processors, _, *methods = _lines(runs, capsys)
    assert problems == ["problems:", "the", "same"] and processors[1:] == ["processor", "one", "|", "processor", "two"]
    assert methods == [[m, "4", "1.000", "1.000", "1.000", "0"] for m in ("a", "b")]  # not the one without an answer


def test_other_poses_statuses_and_problems_are_counted(runs, capsys):
    _change(runs[1], "poses", 0, t03=0.5 + 2e-6)
    _change(runs[1], "poses", 1, t03=0.5 + 2e-7)
    _change(runs[1], "poses", PROBLEMS, status="timeout")
    _change(runs[1], "trials", PROBLEMS, rmse=float("inf"))
    (runs[1] / "run.json").write_text(json.dumps({"problem_sets": {}, "environment": {"cpu": "x"}}))
    problems, _, _, *methods = _lines(runs, capsys)
    assert problems == ["problems:", "different"]
    assert methods == [["a", "4", "0.750", "1.000", "1.000", "0"], ["b", "4", "0.750", "1.000", "0.750", "1"]]


def test_outcomes_of_one_run_alone_are_named(runs, capsys):
    for table in ("poses", "trials"):
        frame = pd.read_csv(runs[1] / f"{table}.csv")
        frame[(frame["method"] != "b") | (frame["problem"] == "d/noisy/64/0")].to_csv(
            runs[1] / f"{table}.csv", index=False
        )
    _, _, missing, _, *methods = _lines(runs, capsys)
    assert missing == "only in run 1: 3 outcomes of b".split()
    assert methods == [["a", "4", "1.000", "1.000", "1.000", "0"], ["b", "1", "1.000", "1.000", "1.000", "0"]]


@pytest.mark.parametrize("answered", [0, 1])
def test_a_method_that_answered_in_one_run_is_shown(runs, capsys, answered):
    for row in range(2 * PROBLEMS, 3 * PROBLEMS):
        _change(runs[answered], "poses", row, status="ok")
    assert _lines(runs, capsys)[-1] == ["never", "4", "0.000", "0.000", "0.000", "0"]
