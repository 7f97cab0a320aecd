"""Whole runs through the command line, on a data set and methods from a plug-in folder."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pandas as pd
import psutil
import pytest

from bench.cli import main
from bench.evaluation.aggregate import FROM_CLOUDS
from bench.isolation import guard
from bench.isolation.guard import ROOT
from tests.bench.background_run import count_outcomes, is_method_process
from tests.bench.command_line import PLUGINS, QUICK, SHORT, TIME_COLUMNS, read_csv, refused, tree
from tests.bench.plugins.held import GATE
from tests.bench.png_figures import save_blank
from tests.bench.waiting import wait_until


def test_a_run_writes_csvs_and_a_report(bench, tmp_path, monkeypatch, capsys):
    save_blank(monkeypatch)
    methods = "good,lottery,good+icp,oracle,identity"
    folder = bench("--methods", methods, "--problems", 8, "--timing-rounds", 2, report=True)
    names = "poses trials summary per_category by_angle cdf stages timing"
    assert all((folder / f"{n}.csv").stat().st_size for n in names.split())
    facts = json.loads((folder / "run.json").read_text())
    assert set(facts["problem_sets"]) == {f"blobs/{c}/60" for c in ("clean", "noisy", "resampled")}
    assert all(len(h) == 64 for h in facts["problem_sets"].values())
    report = tmp_path / "reports" / "r"
    assert (report / "report.html").is_file() and list(report.glob("figures/*.png"))
    printed = capsys.readouterr().out
    for expected in ("registering: ", "good+icp", "report", "CSVs", "plots"):
        assert expected in printed
    summary = read_csv(folder, "summary").set_index(["method", "condition"])
    assert len(summary) == 5 * 3 and (summary["problems"] == 8).all()
    assert (summary.loc["oracle"]["rmse_mean_answered"] < 1e-9).all() and (summary.loc["oracle"]["recall"] == 1).all()
    timing = read_csv(folder, "timing")
    assert set(timing["method"]) == {"good", "lottery", "good+icp", "identity"}
    assert (read_csv(folder, "stages").query("method == 'good'")["stage"] == "solve").all()


@pytest.mark.parametrize("jobs", [2])
def test_trials_are_byte_identical_for_any_number_of_jobs(bench, jobs):
    arguments = ["--methods", "good", "lottery", "pca", "identity", "--problems", 24, "--conditions", "noisy"]
    first, other = bench(*arguments, out="one"), bench(*arguments, "--jobs", jobs, out="other")
    texts = [read_csv(f, "trials").drop(columns=TIME_COLUMNS).to_csv() for f in (first, other)]
    assert texts[0] == texts[1] and len(read_csv(first, "trials")) == 96


def test_every_failure_is_an_outcome_and_affects_no_other_method(bench, tmp_path, monkeypatch, capsys):
    hows = "segfault exit kill shape nan reflection scale text none print mutate memory raise give_up unset broken"
    methods = [*(f"bad_{h}" for h in (hows + " balloon family").split()), "good"]
    arguments = ("--problems", 2, "--conditions", "noisy")
    folder = bench("--methods", *methods, *arguments, "--timeout", 3600, "--memory-limit", 0.5)
    poses = read_csv(folder, "poses").query("phase == 'accuracy'")
    got = poses.groupby("method")["status"].agg(lambda s: "/".join(sorted(set(s)))).to_dict()
    expected = dict.fromkeys(("bad_segfault", "bad_exit", "bad_kill", "bad_family"), "crash")
    expected |= dict.fromkeys(
        ("bad_shape", "bad_nan", "bad_reflection", "bad_scale", "bad_text", "bad_none"), "invalid"
    )
    expected |= dict.fromkeys(("bad_print", "bad_mutate", "good"), "ok")
    expected |= {
        "bad_balloon": "out_of_memory",
        "bad_memory": "out_of_memory",
        "bad_raise": "error",
        "bad_broken": "error",
    }
    expected |= {"bad_give_up": "no_solution", "bad_unset": "skipped"}
    assert got == expected
    messages = poses.groupby("method")["message"].first()
    for method, says in {
        "bad_segfault": "SIGSEGV",
        "bad_exit": "exit code 3 | about to leave",
        "bad_raise": "RuntimeError: something broke",
        "bad_give_up": "too few matches",
        "bad_unset": "pip install nowhere",
        "bad_reflection": "reflection",
    }.items():
        assert says in messages[method]
    wait_until(lambda: not remaining_processes())
    assert "noise" not in capsys.readouterr().out
    alone = bench("--methods", "good", *arguments, out="alone")
    both = [read_csv(f, "trials").query("method == 'good'")["rmse"].tolist() for f in (folder, alone)]
    assert both[0] == both[1]
    summary = read_csv(folder, "summary").set_index("method")
    failed = summary.loc[[m for m, s in expected.items() if s not in ("ok", "skipped")]]
    assert (failed["recall"] == 0).all() and (failed["answered"] == 0).all() and (failed["problems"] == 2).all()


def test_calls_that_never_end_time_out_and_affect_no_other_method(bench, tmp_path, monkeypatch):
    """`good` needs about a thousandth of the limit."""
    methods = ["bad_sleep", "bad_deaf", "good"]
    folder = bench("--methods", *methods, "--problems", 2, "--conditions", "noisy", "--timeout", 2.5)
    poses = read_csv(folder, "poses").query("phase == 'accuracy'").groupby("method")
    assert poses["status"].agg(list).to_dict() == {
        "bad_sleep": ["timeout"] * 2,
        "bad_deaf": ["timeout"] * 2,
        "good": ["ok"] * 2,
    }
    assert poses["message"].first()[["bad_sleep", "bad_deaf"]].eq("no answer within 2.5 s").all()
    wait_until(lambda: not remaining_processes())
    summary = read_csv(folder, "summary").set_index("method").loc[["bad_sleep", "bad_deaf"]]
    assert (summary["recall"] == 0).all() and (summary["answered"] == 0).all() and (summary["problems"] == 2).all()


def test_method_without_any_pose_is_shown_with_the_reason(bench, capsys):
    bench("--methods", "bad_shape", "good", "--problems", 2, "--conditions", "noisy")
    lines = [line for line in capsys.readouterr().out.splitlines() if "never answered" in line]
    assert len(lines) == 1 and lines[0].startswith("bad_shape never answered: invalid, the pose has shape")


def test_changed_method_file_is_not_continued(bench, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    for name in ("good.py", "blobs.py"):
        shutil.copy(PLUGINS / name, tmp_path / "mine")
    arguments = [
        "--methods",
        "good",
        "identity",
        "--problems",
        2,
        "--conditions",
        "noisy",
        "--plugins",
        tmp_path / "mine",
    ]
    bench(*arguments)
    bench(*arguments)
    with (tmp_path / "mine" / "good.py").open("a") as file:
        file.write("# another version\n")
    bench(*arguments, expect=2)
    assert "good.py changed since; give --fresh" in capsys.readouterr().err
    bench(*arguments, "--fresh")


@pytest.mark.parametrize("method", ["taught", "taught+icp"])
def test_changed_helper_or_weights_are_not_continued(bench, tmp_path, capsys, method):
    mine = tmp_path / "mine"
    mine.mkdir()
    shutil.copy(PLUGINS / "blobs.py", mine)
    (mine / "helper.py").write_text("")
    (mine / "weights.txt").write_text("1")
    (mine / "taught.py").write_text(TAUGHT)
    arguments = ["--methods", method, "--problems", 2, "--conditions", "noisy", "--plugins", mine]
    bench(*arguments)
    bench(*arguments)
    (mine / "weights.txt").write_text("2")
    bench(*arguments, expect=2)
    assert f"the weights of {method} on blobs changed since; give --fresh" in capsys.readouterr().err
    bench(*arguments, "--fresh")
    (mine / "helper.py").rename(mine / "away")
    (mine / "helper").mkdir()  # a package in its place
    (mine / "away").rename(mine / "helper" / "__init__.py")
    bench(*arguments, expect=2)
    assert "helper.py, helper/__init__.py changed since; give --fresh" in capsys.readouterr().err


def test_changes_before_the_first_outcome_are_accepted(bench, tmp_path, capsys):
    mine = tmp_path / "mine"
    mine.mkdir()
    shutil.copy(PLUGINS / "blobs.py", mine)
    (mine / "helper.py").write_text("")
    (mine / "taught.py").write_text(TAUGHT.replace("self.note", "raise Unavailable('not yet') #"))
    arguments = ["--methods", "taught", "oracle", "--problems", 2, "--conditions", "noisy", "--plugins", mine]
    bench(*arguments)
    assert "not yet" in capsys.readouterr().out
    (mine / "taught.py").write_text(TAUGHT.replace("self.note", "return #"))
    bench(*arguments)


TAUGHT = """
import hashlib
from pathlib import Path

import numpy as np

from methods.base import Method, Unavailable

FOLDER = Path(__file__).parent
try:
    import helper
except ImportError:  # as in these tests: a plug-in's folder is no place where Python looks
    helper = None


class Taught(Method):
    \"\"\"Answers what its weights say.\"\"\"

    def setup(self, device, seed, domain):
        self.note(sha256=hashlib.sha256((FOLDER / "weights.txt").read_bytes()).hexdigest())

    def register(self, source, target):
        return np.eye(4)
"""


def remaining_processes():
    """Return the method processes that this process started and that still exist."""
    own = os.environ[guard.COMMAND]
    return [process for process in psutil.process_iter() if is_method_process(process, own)]


def test_the_same_command_continues_and_another_configuration_is_refused(bench, capsys):
    arguments = ["--methods", "good", "identity", "--problems", 6, "--conditions", "noisy"]
    folder = bench(*arguments)
    whole = read_csv(folder, "trials")
    with sqlite3.connect(folder / "record.sqlite") as db:
        db.execute("DELETE FROM outcomes WHERE method = 'good' AND problem LIKE '%00002'")
        kept = dict(db.execute("SELECT problem, time_ms FROM outcomes WHERE method = 'good'"))
    bench(*arguments)
    assert "registering: 1 of 1" in capsys.readouterr().out
    pd.testing.assert_frame_equal(
        read_csv(folder, "trials").drop(columns=TIME_COLUMNS), whole.drop(columns=TIME_COLUMNS)
    )
    with sqlite3.connect(folder / "record.sqlite") as db:
        now = dict(db.execute("SELECT problem, time_ms FROM outcomes WHERE method = 'good'"))
    assert {k: now[k] for k in kept} == kept
    bench("--methods", " ", expect=2)
    assert "--methods: is empty" in capsys.readouterr().err
    bench(*arguments, "--seed", 1, expect=2)
    assert "another configuration (there → here: seed: 0 → 1); give --fresh" in capsys.readouterr().err
    bench(*arguments, "--seed", 1, "--fresh")
    assert not read_csv(folder, "trials")["rmse"].equals(whole["rmse"])


def test_run_on_problems_that_changed_is_refused_and_still_reported(bench, capsys):
    arguments = ["--methods", "good", "--problems", 2, "--conditions", "noisy"]
    folder = bench(*arguments)
    trials = read_csv(folder, "trials")
    with sqlite3.connect(folder / "record.sqlite") as db:
        db.execute("UPDATE problems SET digest = zeroblob(32) WHERE problem LIKE '%00000'")
    bench(*arguments, expect=2)
    assert "noisy/60/00000 is generated differently now" in capsys.readouterr().err
    assert main.main(["report", str(folder)]) == 0
    fits = [*FROM_CLOUDS]  # need the clouds, which are other ones now
    again = read_csv(folder, "trials")
    assert again.loc[again["problem"].str.endswith("00000"), "rival_ratio"].isna().all()
    pd.testing.assert_frame_equal(again.drop(columns=fits), trials.drop(columns=fits))


def test_killed_run_keeps_its_outcomes_and_continues_to_the_same_results(bench, tmp_path, monkeypatch):
    (gate := tmp_path / "gate").mkdir()
    monkeypatch.setenv(GATE, str(gate))
    # The outcomes of `bad_exit` have no duration: they and all before them are committed at once.
    arguments = ["--methods", "good", "lottery", "bad_exit", "held", "--problems", "3", "--conditions", "noisy"]
    command = [sys.executable, str(ROOT / "bench.py"), *QUICK, *arguments, "--out", "killed"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    record = tmp_path / "results" / "killed" / "record.sqlite"
    wait_until(lambda: process.poll() is not None or (list(gate.iterdir()) and count_outcomes(record) == 9))
    assert process.poll() is None, process.communicate()
    process.kill()
    process.wait()
    assert count_outcomes(record) == 9
    with sqlite3.connect(record) as db:
        solved = set(db.execute("SELECT problem FROM outcomes WHERE method != 'bench:oracle'"))
        assert solved <= set(db.execute("SELECT problem FROM problems"))
    (gate / "open").touch()
    resumed, whole = bench(*arguments, out="killed"), bench(*arguments, out="whole")
    same = [read_csv(f, "trials").drop(columns=TIME_COLUMNS).to_csv() for f in (resumed, whole)]
    assert same[0] == same[1]


def test_method_with_missing_package_is_not_run(bench, capsys):
    folder = bench("--methods", "needy", "good", "needy+icp", "--problems", 2, "--conditions", "noisy", out="needy")
    assert set(read_csv(folder, "trials").query("method != 'good'")["status"]) == {"skipped"}
    facts = capsys.readouterr().out
    assert "needy is not available on blobs: package package_from_nowhere is missing: pip install" in facts
    assert "Not run: needy, needy+icp" in facts


@pytest.mark.parametrize("fresh", [[], ["--fresh"]])
def test_a_run_without_an_available_method_is_refused_before_anything_is_written(bench, project, capsys, fresh):
    arguments = ["--methods", "needy", "needy+icp", "--problems", 2, "--conditions", "noisy"]
    bench("--methods", "good", "--problems", 2, "--conditions", "noisy", out="done")
    before = tree(project)
    for out in ("new", *(["done"] if fresh else [])):
        error = refused(capsys, *QUICK, "--out", out, *arguments, *fresh)
        assert "--methods: none is available: needy (package package_from_nowhere is missing: pip install" in error
        assert "; needy+icp (" in error and tree(project) == before


def test_the_control_oracle_needs_no_available_method(bench):
    folder = bench("--methods", "needy", "oracle", "--problems", 2, "--conditions", "noisy")
    assert read_csv(folder, "trials").groupby("method")["status"].first().to_dict() == {
        "needy": "skipped",
        "oracle": "ok",
    }


def test_a_folder_that_cannot_be_created_is_one_line(project, capsys):
    for out in ("/proc/zz", "/proc/self/zz/deep"):
        assert f"{out}: no folder can be created there; use another one" in refused(capsys, *SHORT, "--out", out)


def test_a_report_of_a_stopped_run_says_so(bench, capsys):
    folder = bench("--methods", "good", "--problems", 2, "--conditions", "noisy", out="half")
    assert "stopped before its end" not in capsys.readouterr().out
    with sqlite3.connect(folder / "record.sqlite") as db:
        db.execute("DELETE FROM meta WHERE key = 'finished'")
    assert main.main(["report", str(folder)]) == 0
    assert "stopped before its end" in capsys.readouterr().out
    assert any("stopped before its end" in note for note in json.loads((folder / "run.json").read_text())["notes"])


def test_too_many_points_for_a_fixed_set_are_skipped_with_the_reason(bench, capsys):
    folder = bench("--methods", "good", "--problems", 2, "--points", "100", "150", "300")
    trials = read_csv(folder, "trials")
    given = trials.groupby(["condition", "points"])["status"].first().to_dict()
    assert given["clean", 100] == given["clean", 150] == given["resampled", 100] == "ok"
    assert given["clean", 300] == "skipped" and ("resampled", 150) not in given
    assert "N = 100 instead of 150" in capsys.readouterr().out
    summary = read_csv(folder, "summary")
    assert summary[summary.points == 300]["problems"].eq(0).all()


def test_only_random_methods_are_repeated_and_the_first_repeat_is_unchanged(bench):
    arguments = ["--methods", "good", "lottery", "oracle", "--problems", 12, "--conditions", "noisy"]
    once, thrice = bench(*arguments, out="once"), bench(*arguments, "--repeats", 3, "--jobs", 2, out="thrice")
    few, many = read_csv(once, "trials"), read_csv(thrice, "trials")
    assert many.groupby("method")["repeat"].nunique().to_dict() == {"good": 1, "lottery": 3, "oracle": 1}
    first = many[many["repeat"] == 0].reset_index(drop=True)
    pd.testing.assert_frame_equal(few.drop(columns=TIME_COLUMNS), first.drop(columns=TIME_COLUMNS))
    assert many[many["method"] == "lottery"].groupby("problem")["rre_deg"].nunique().eq(3).all(), "seeds differ"
    row = read_csv(thrice, "summary").set_index("method").loc["lottery"]
    mine = many[many["method"] == "lottery"]
    assert (row["problems"], row["distinct_problems"]) == (36, 12)
    assert row["recall"] == pytest.approx((mine["rmse"] < 0.2).groupby(mine["problem"]).mean().mean())
    assert row["rmse_mean_answered"] == pytest.approx(mine.groupby("problem")["rmse"].mean().mean())
    assert row["rmse_median"] == pytest.approx(mine.groupby("problem")["rmse"].median().median())
    assert row["rmse_mean_low"] <= row["rmse_mean_answered"] <= row["rmse_mean_high"]
    assert row["rmse_seed_sd"] > 0 and row["recall_seed_sd"] >= 0
    assert np.isnan(read_csv(thrice, "summary").set_index("method").loc["good", "rmse_seed_sd"])
    with sqlite3.connect(thrice / "record.sqlite") as db:
        db.execute("DELETE FROM outcomes WHERE repeat = 2 AND problem LIKE '%00003'")
    again = read_csv(bench(*arguments, "--repeats", 3, out="thrice"), "trials")
    pd.testing.assert_frame_equal(again.drop(columns=TIME_COLUMNS), many.drop(columns=TIME_COLUMNS))
