"""Whole runs through the command line, on a data set and methods from a plug-in folder."""

import contextlib
import json
import pickle
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pandas as pd
import psutil
import pytest

from bench.cli import main
from bench.isolation import process
from bench.isolation.process import ROOT, MethodProcess
from bench.isolation.protocol import Limits, MethodSetup
from datasets.problems import ProblemKey, make_problem
from tests.bench.plugins.held import GATE
from tests.bench.waiting import wait_until
from tests.catalog import open_data, spec

PLUGINS = Path(__file__).parent / "plugins"
QUICK = ["--datasets", "blobs", "--points", "60", "--plugins", str(PLUGINS), "--timing-rounds", "0", "--jobs", "1"]
TIMES = ["time_ms", "peak_mb"]


@pytest.fixture
def bench(tmp_path, monkeypatch, request):
    """Run the command line in a folder of its own; returns the folder of the results.

    Only tests that name the report draw one.
    """
    monkeypatch.chdir(tmp_path)
    if "report" not in request.node.name:
        monkeypatch.setattr("bench.report.begin_report", lambda *_: list)

    def call(*arguments, out="r", expect=0):
        assert main.main([*QUICK, "--out", out, *map(str, arguments)]) == expect
        return tmp_path / "results" / out

    return call


def read(folder, name):
    return pd.read_csv(folder / f"{name}.csv")


def test_a_run_writes_csvs_and_a_report(bench, tmp_path, capsys):
    folder = bench("--methods", "good,lottery,good+icp,oracle,identity", "--problems", 8, "--timing-rounds", 2)
    names = "poses trials summary per_category by_angle cdf stages timing"
    assert all((folder / f"{n}.csv").stat().st_size for n in names.split())
    said = json.loads((folder / "run.json").read_text())
    assert set(said["problem_sets"]) == {f"blobs/{c}/60" for c in ("clean", "noisy", "resampled")}
    assert all(len(h) == 64 for h in said["problem_sets"].values())
    report = tmp_path / "reports" / "r"
    assert (
        (report / "report.html").is_file() and list(report.glob("figures/*.png")) and list(report.glob("figures/*.svg"))
    )
    printed = capsys.readouterr().out
    for expected in ("registering: ", "good+icp", "report", "CSVs", "plots"):
        assert expected in printed
    summary = read(folder, "summary").set_index(["method", "condition"])
    assert len(summary) == 5 * 3 and (summary["problems"] == 8).all()
    assert (summary.loc["oracle"]["rmse_mean_answered"] < 1e-9).all() and (summary.loc["oracle"]["recall"] == 1).all()
    timing = read(folder, "timing")
    assert set(timing["method"]) == {"good", "lottery", "good+icp", "identity"}
    assert (read(folder, "stages").query("method == 'good'")["stage"] == "solve").all()


@pytest.mark.parametrize("jobs", [2])
def test_trials_are_byte_identical_for_any_number_of_jobs(bench, jobs):
    asked = ["--methods", "good", "lottery", "icp", "identity", "--problems", 50, "--conditions", "noisy"]
    one, other = bench(*asked, out="one"), bench(*asked, "--jobs", jobs, out="other")
    texts = [read(f, "trials").drop(columns=TIMES).to_csv() for f in (one, other)]
    assert texts[0] == texts[1] and len(read(one, "trials")) == 200


def test_every_kind_of_misbehaviour_is_an_outcome_and_spares_the_others(bench, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(OWNER, str(tmp_path))
    hows = "segfault exit kill shape nan reflection scale text none print mutate memory raise give_up unset broken"
    methods = [*(f"bad_{h}" for h in (hows + " balloon family").split()), "good"]
    asked = ("--problems", 2, "--conditions", "noisy")
    folder = bench("--methods", *methods, *asked, "--timeout", 3600, "--memory-limit", 0.5)
    poses = read(folder, "poses").query("phase == 'accuracy'")
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
    wait_until(lambda: not _left_behind(tmp_path))
    assert "noise" not in capsys.readouterr().out
    alone = bench("--methods", "good", *asked, out="alone")
    both = [read(f, "trials").query("method == 'good'")["rmse"].tolist() for f in (folder, alone)]
    assert both[0] == both[1]
    summary = read(folder, "summary").set_index("method")
    failed = summary.loc[[m for m, s in expected.items() if s not in ("ok", "skipped")]]
    assert (failed["recall"] == 0).all() and (failed["answered"] == 0).all() and (failed["problems"] == 2).all()


def test_calls_that_never_end_time_out_and_spare_the_others(bench, tmp_path, monkeypatch):
    """`good` needs about a thousandth of the limit."""
    monkeypatch.setenv(OWNER, str(tmp_path))
    methods = ["bad_sleep", "bad_deaf", "good"]
    folder = bench("--methods", *methods, "--problems", 2, "--conditions", "noisy", "--timeout", 2.5)
    poses = read(folder, "poses").query("phase == 'accuracy'").groupby("method")
    assert poses["status"].agg(list).to_dict() == {
        "bad_sleep": ["timeout"] * 2,
        "bad_deaf": ["timeout"] * 2,
        "good": ["ok"] * 2,
    }
    assert poses["message"].first()[["bad_sleep", "bad_deaf"]].eq("no answer within 2.5 s").all()
    wait_until(lambda: not _left_behind(tmp_path))
    summary = read(folder, "summary").set_index("method").loc[["bad_sleep", "bad_deaf"]]
    assert (summary["recall"] == 0).all() and (summary["answered"] == 0).all() and (summary["problems"] == 2).all()


def test_a_method_that_never_answers_is_told_with_its_reason(bench, capsys):
    bench("--methods", "bad_shape", "good", "--problems", 2, "--conditions", "noisy")
    told = [line for line in capsys.readouterr().out.splitlines() if "never answered" in line]
    assert len(told) == 1 and told[0].startswith("bad_shape never answered: invalid, the answer has shape")


def test_a_method_whose_file_changed_is_not_continued(bench, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    for name in ("good.py", "blobs.py"):
        shutil.copy(PLUGINS / name, tmp_path / "mine")
    asked = ["--methods", "good", "identity", "--problems", 2, "--conditions", "noisy", "--plugins", tmp_path / "mine"]
    bench(*asked)
    bench(*asked)
    with (tmp_path / "mine" / "good.py").open("a") as file:
        file.write("# another version\n")
    bench(*asked, expect=2)
    assert "good.py changed since; give --fresh" in capsys.readouterr().err
    bench(*asked, "--fresh")


@pytest.mark.parametrize("method", ["taught", "taught+icp"])
def test_a_method_whose_helper_or_weights_changed_is_not_continued(bench, tmp_path, capsys, method):
    mine = tmp_path / "mine"
    mine.mkdir()
    shutil.copy(PLUGINS / "blobs.py", mine)
    (mine / "helper.py").write_text("")
    (mine / "weights.txt").write_text("1")
    (mine / "taught.py").write_text(TAUGHT)
    asked = ["--methods", method, "--problems", 2, "--conditions", "noisy", "--plugins", mine]
    bench(*asked)
    bench(*asked)
    (mine / "weights.txt").write_text("2")
    bench(*asked, expect=2)
    assert f"the weights of {method} on blobs changed since; give --fresh" in capsys.readouterr().err
    bench(*asked, "--fresh")
    (mine / "helper.py").rename(mine / "away")
    (mine / "helper").mkdir()  # a package in its place
    (mine / "away").rename(mine / "helper" / "__init__.py")
    bench(*asked, expect=2)
    assert "helper.py, helper/__init__.py changed since; give --fresh" in capsys.readouterr().err


def test_what_changed_before_there_was_an_outcome_is_no_reason_to_refuse(bench, tmp_path, capsys):
    mine = tmp_path / "mine"
    mine.mkdir()
    shutil.copy(PLUGINS / "blobs.py", mine)
    (mine / "helper.py").write_text("")
    (mine / "taught.py").write_text(TAUGHT.replace("self.note", "raise Unavailable('not yet') #"))
    asked = ["--methods", "taught", "--problems", 2, "--conditions", "noisy", "--plugins", mine]
    bench(*asked)
    assert "not yet" in capsys.readouterr().out
    (mine / "taught.py").write_text(TAUGHT.replace("self.note", "return #"))
    bench(*asked)


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


OWNER = "BENCH_TEST_OWNER"
"""The variable by which processes of a test's run are known, also where another run in this checkout has some."""


def _left_behind(owner):
    """Worker processes of a test's runs that still run."""
    mine = []
    for running in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if "bench.isolation.server" in running.cmdline() and running.environ().get(OWNER) == str(owner):
                mine += [running.pid] * (running.status() != psutil.STATUS_ZOMBIE)
    return mine


def test_the_same_command_continues_and_another_configuration_is_refused(bench, capsys):
    asked = ["--methods", "good", "identity", "--problems", 6, "--conditions", "noisy"]
    folder = bench(*asked)
    whole = read(folder, "trials")
    with sqlite3.connect(folder / "record.sqlite") as db:
        db.execute("DELETE FROM outcomes WHERE method = 'good' AND problem LIKE '%00002'")
        kept = dict(db.execute("SELECT problem, time_ms FROM outcomes WHERE method = 'good'"))
    bench(*asked)
    assert "registering: 1 of 1" in capsys.readouterr().out
    pd.testing.assert_frame_equal(read(folder, "trials").drop(columns=TIMES), whole.drop(columns=TIMES))
    with sqlite3.connect(folder / "record.sqlite") as db:
        now = dict(db.execute("SELECT problem, time_ms FROM outcomes WHERE method = 'good'"))
    assert {k: now[k] for k in kept} == kept
    bench("--methods", " ", expect=2)
    assert "--methods: names none" in capsys.readouterr().err
    bench(*asked, "--seed", 1, expect=2)
    assert "another configuration (there → here: seed: 0 → 1); give --fresh" in capsys.readouterr().err
    bench(*asked, "--seed", 1, "--fresh")
    assert not read(folder, "trials")["rmse"].equals(whole["rmse"])


def test_a_killed_run_keeps_what_it_reported_and_ends_equal(bench, tmp_path, monkeypatch):
    (gate := tmp_path / "gate").mkdir()
    monkeypatch.setenv(GATE, str(gate))
    asked = ["--methods", "good", "lottery", "held", "--problems", "3", "--conditions", "noisy"]
    command = [sys.executable, str(ROOT / "bench.py"), *QUICK, *asked, "--out", "killed"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    record = tmp_path / "results" / "killed" / "record.sqlite"
    wait_until(lambda: process.poll() is not None or (list(gate.iterdir()) and _count(record) == 6))
    assert process.poll() is None, process.communicate()
    process.kill()
    process.wait()
    assert _count(record) == 6
    (gate / "open").touch()
    resumed, whole = bench(*asked, out="killed"), bench(*asked, out="whole")
    same = [read(f, "trials").drop(columns=TIMES).to_csv() for f in (resumed, whole)]
    assert same[0] == same[1]


def _count(record):
    if not record.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{record}?mode=ro", uri=True) as db:
            return db.execute("SELECT COUNT(*) FROM outcomes").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def test_a_method_whose_package_is_missing_was_not_asked(bench, capsys):
    folder = bench("--methods", "needy", "good", "needy+icp", "--problems", 2, "--conditions", "noisy", out="needy")
    assert set(read(folder, "trials").query("method != 'good'")["status"]) == {"skipped"}
    said = capsys.readouterr().out
    assert "needy is not available on blobs: package package_from_nowhere is missing: pip install" in said
    assert "Not run: needy, needy+icp" in said


def test_a_report_of_a_stopped_run_says_so(bench, capsys):
    folder = bench("--methods", "good", "--problems", 2, "--conditions", "noisy", out="half")
    assert "stopped before its end" not in capsys.readouterr().out
    with sqlite3.connect(folder / "record.sqlite") as db:
        db.execute("DELETE FROM meta WHERE key = 'finished'")
    assert main.main(["report", str(folder)]) == 0
    assert "stopped before its end" in capsys.readouterr().out
    assert any("stopped before its end" in note for note in json.loads((folder / "run.json").read_text())["notes"])


def test_points_that_fixed_sets_lack_are_skipped_with_the_reason(bench, capsys):
    folder = bench("--methods", "good", "--problems", 2, "--points", "100", "150", "300")
    trials = read(folder, "trials")
    given = trials.groupby(["condition", "points"])["status"].first().to_dict()
    assert given["clean", 100] == given["clean", 150] == given["resampled", 100] == "ok"
    assert given["clean", 300] == "skipped" and ("resampled", 150) not in given
    assert "N = 100 instead of 150" in capsys.readouterr().out
    summary = read(folder, "summary")
    assert summary[summary.points == 300]["problems"].eq(0).all()


def test_only_two_clouds_and_a_seed_cross_into_a_worker(monkeypatch):
    """Every byte that goes to the worker is read here: an array or string that holds the truth would show."""
    sent = []
    real = pickle.dumps
    monkeypatch.setattr(process.pickle, "dumps", lambda o, **k: (sent.append(o), real(o, **k))[1])
    from bench.execution.pool_worker import solve_problems
    from bench.storage.outcome import Phase

    problem = make_problem(open_data("blobs", None, PLUGINS), ProblemKey("blobs", "noisy", 50, 1))
    worker = MethodProcess(MethodSetup(spec("good", PLUGINS), "blobs"), Limits(20, 4))
    try:
        assert solve_problems(worker, [problem], Phase.ACCURACY, 0)[0].status == "ok"
    finally:
        worker.close()
    setup, request = sent
    assert set(vars(setup)) == {"method", "device", "threads", "seed", "domain"}
    assert set(vars(setup.method)) == {"text", "registry"} and set(vars(setup.method.registry)) == {"plugins"}
    assert set(vars(request)) == {"sources", "targets", "seed"}
    assert request.sources == [problem.source] and request.targets == [problem.target]
    assert isinstance(request.seed, int)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--methods", "icpp"], "unknown method 'icpp'; did you mean icp"),
        (["--methods", "icp[trimm=.2]"], "did you mean trim"),
        (["--methods", "icp+good"], "good takes no initial pose"),
        (["--datasets", "blob"], "unknown data set 'blob'; did you mean blobs"),
        (["--conditions", "noissy"], "unknown condition 'noissy'; did you mean noisy"),
        (["--conditions", "noisy[sigma=-1]"], "must not be negative"),
        (["--preset", "quik"], "unknown preset 'quik'; did you mean quick"),
        (["--sampler", "har"], "unknown sampler 'har'; did you mean haar"),
        (["--points", "a"], "--points: invalid literal"),
        (["--angles", "30", "10"], "--angles: must rise"),
        (["--problems", "0"], "--problems: must be at least 1"),
        (["--plugins", "nowhere"], "no such folder"),
        (["report", "nowhere"], "no record.sqlite"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, monkeypatch, capsys, arguments, says):
    monkeypatch.chdir(tmp_path)
    command = arguments if arguments[0] == "report" else [*QUICK, "--methods", "good", *arguments]
    assert main.main(command) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1 and not (tmp_path / "results").exists()


def test_help_and_list(capsys):
    with pytest.raises(SystemExit):
        main.main(["--help"])
    assert main.main(["list", "--plugins", str(PLUGINS)]) == 0
    out = capsys.readouterr().out
    for name in ("icp", "good", "blobs", "modelnet40", "resampled", "quick"):
        assert f"  {name} " in out


def test_a_recorded_command_names_no_folder_of_the_data():
    given = ["--methods", "icp[trim=.3]", "--data", "/home/me/my data", "--datasets", "modelnet40"]
    assert main._recorded(given) == "bench.py --methods 'icp[trim=.3]' --data $BENCH_DATA --datasets modelnet40"
    assert main._recorded(["--data=/home/me"]) == "bench.py --data=$BENCH_DATA"
