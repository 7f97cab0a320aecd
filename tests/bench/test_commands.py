"""What is told before a run: lists, the doctor, the plan of a dry run; and flags from a file."""

import json
import subprocess
import sys

import pytest

from bench.cli import doctor, listing, main
from bench.planning import config as config_module
from bench.planning import config_file, dry_run
from bench.storage.environment import ROOT
from tests.bench.test_run import PLUGINS, QUICK
from tests.catalog import spec


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BENCH_DATA", raising=False)
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)
    return tmp_path


def test_list_says_kind_device_weights_licence_and_place(capsys):
    assert main.main(["list", "--data", "mydata", "--plugins", str(PLUGINS)]) == 0
    lines = capsys.readouterr().out.splitlines()
    weights = lines.index("weights of learned methods")
    methods, data = lines[:weights], lines[next(i for i, t in enumerate(lines) if t.startswith("data sets")) :]
    rows = {line.split()[0]: line for line in methods + data if line.startswith("  ") and line[2] != " "}
    assert rows["icp"].split()[:3] == ["icp", "local", "cpu"] and "cpu, cuda" in rows["deepgmr"]
    assert "unavailable: " in rows["bad_unset"] or "bad_unset" in rows
    assert any("deepgmr_shapes40_noisy.safetensors: shapes40, noisy, 40 of 40" in line for line in lines)
    assert any("below mydata" in line for line in lines)
    after = lines[lines.index(rows["modelnet40"]) + 1]
    assert "not here, 435 MB to fetch; licence: research use" in after
    assert "needs no files" in lines[lines.index(rows["shapes40"]) + 1]


def test_the_card_of_a_weight_file_is_read_without_a_library():
    from methods.learned.weights import read_card

    file = next(listing.WEIGHTS.glob("*.safetensors"))
    assert listing.card(file)["provenance"] == read_card(file).provenance


def test_doctor_tells_the_command_that_adds_what_is_missing(capsys, monkeypatch, here):
    monkeypatch.setattr(doctor, "installed", lambda package: package not in ("plotly", "distributed"))
    assert main.main(["doctor", "--plugins", str(PLUGINS)]) == 0
    out = capsys.readouterr().out
    assert f"what a run needs: plotly missing: {sys.executable} -m pip install -r requirements.txt" in out
    assert "data set modelnet40: not below data: bench.py data modelnet40" in out and "data set shapes40" not in out
    (here / "data" / "modelnet40").mkdir(parents=True)
    main.main(["doctor"])
    assert "data set modelnet40" not in capsys.readouterr().out


def test_requirements_of_other_platforms_are_not_missed():
    names = doctor.required(ROOT / "requirements.txt")
    assert "numpy" in names and len([n for n in names if n.startswith("open3d")]) == 1
    assert doctor.installed("numpy") and not doctor.installed("no-such-package-here")


def test_a_dry_run_plans_and_writes_nothing(here, capsys):
    asked = [*QUICK, "--methods", "good", "bad_unset", "--problems", "3", "--dry-run"]
    assert main.main(asked) == 0
    out = capsys.readouterr().out
    assert "problems  9 in 3 groups" in out and "time not known" in out and not (here / "results").exists()
    assert "not known: no run in results/" in out


def earlier_run(folder, rows, timed="", **config):
    """What a dry run reads of an earlier run: rows of its summary and of its times alone."""
    folder.mkdir(parents=True)
    (folder / "summary.csv").write_text(f"method,dataset,condition,points,time_ms_mean\n{rows}")
    (folder / "timing.csv").write_text(f"method,points,angle_low,angle_high,time_ms_mean\n{timed}")
    said = {"config": {"device": "cpu", "threads": 1} | config, "environment": {"cpu": dry_run.processor()}}
    (folder / "run.json").write_text(json.dumps(said))


@pytest.fixture
def told(capsys):
    """What a dry run of the method `good`, 9 calls of 60 points in three conditions, says of its time."""

    def call(*more):
        assert main.main([*QUICK, "--methods", "good", "--problems", "3", "--dry-run", *more]) == 0
        return capsys.readouterr().out

    return call


def test_the_time_is_that_of_the_same_condition_and_the_nearest_size(here, told):
    rows = "good,blobs,{},60,1000\ngood,blobs,{},600,9\n"
    earlier_run(here / "results" / "old", "".join(rows.format(c, c) for c in ("clean", "noisy", "resampled")))
    out = told()
    assert "9 calls  about 9 s" in out and "about 9 s with 1 jobs, by results/old; starting" in out
    earlier_run(here / "results" / "new", "good,blobs,noisy,120,40000\n")
    assert "9 calls  about 9 s" in told()  # 60 points are nearer
    earlier_run(here / "results" / "newer", "good,blobs,noisy,60,2000\n")
    assert "9 calls  about 12 s" in told() and "by results/old, results/newer; starting" in told()


def test_a_time_of_other_conditions_is_called_a_guess_and_no_call_takes_longer_than_it_may(here, told):
    earlier_run(here / "results" / "old", "good,other,real,6,1000000\nbad_exit,blobs,noisy,60,5\n")
    assert "about 45 s with 1 jobs, by results/old (in part of other data sets or conditions: a guess)" in told(
        "--timeout", "5"
    )
    earlier_run(here / "results" / "else", "good,other,real,60,1\n", device="cuda")
    assert "results/else" not in told("--timeout", "5")
    (here / "results" / "old" / "run.json").write_text("{}")
    assert "not known" in told()


def test_times_alone_are_added_within_their_budget(here, told):
    rows = "".join(f"good,blobs,{c},60,0\n" for c in ("clean", "noisy", "resampled"))
    earlier_run(here / "results" / "old", rows, "good,60,0,180,1000\ngood,60,0,30,9000\n")
    assert "about 4 s with 1 jobs" in told("--timing-rounds", "3")
    assert "about 3 s with 4 jobs" in told("--timing-rounds", "3", "--jobs", "4")  # the warm-up is shared
    assert "about 6 s with 1 jobs" in told("--timing-rounds", "3000")  # the budget of the preset, and a warm-up


def flags_of(*arguments):
    """The configuration that a command line makes."""
    made = []
    original = main._dry_run
    main._dry_run = lambda config, jobs: made.append((config, jobs))
    try:
        assert main.main([*arguments, "--dry-run", "--plugins", str(PLUGINS)]) == 0
    finally:
        main._dry_run = original
    return made[0]


def test_a_toml_stands_for_the_command_line_and_typed_flags_win(here):
    (here / "mine.toml").write_text(
        'methods = ["good", "icp[trim=0.2]"]\ndatasets = "blobs"\nconditions = ["noisy"]\npoints = [50, 60]\nproblems = 7\n'
        "memory_limit = 2.5\nskip_bad = false\njobs = 1\n[limits]\ngood = 0.5\n[timing]\nrounds = 1\n"
    )
    config, jobs = flags_of("--config", "mine.toml", "--problems", "9")
    assert config.to_json()["methods"] == ["good", "icp[trim=0.2]"] and config.points == config.timing_points == (
        50,
        60,
    )
    assert (config.problems, config.memory_limit_gb, config.limit(spec("good", PLUGINS)), jobs) == (9, 2.5, 4, 1)
    assert config.timing_rounds == 1 and config.timing_budget_s > 0
    typed, _ = flags_of("--methods", "good", "icp[trim=0.2]", "--datasets", "blobs", "--conditions", "noisy",
                        "--points", "50", "60", "--problems", "9", "--memory-limit", "2.5", "--timing-rounds", "1")  # fmt: skip
    assert {**typed.__dict__, "limits": None} == {**config.__dict__, "limits": None}


def test_the_run_json_of_a_run_makes_the_same_run(here, capsys):
    asked = ["--methods", "good", "oracle", "--problems", "2", "--max-angle", "50", "--conditions", "noisy[sigma=0.02]"]
    assert main.main([*QUICK, *asked, "--out", "r"]) == 0
    said = json.loads((here / "results" / "r" / "run.json").read_text())
    config, _ = flags_of("--config", "results/r/run.json")
    assert config.hash == said["hash"]
    again = ["--config", "results/r/run.json", "--out", "r", "--plugins", str(PLUGINS), "--jobs", "1"]
    capsys.readouterr()
    assert main.main(again) == 0 and "continuing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("problms = 3", "unknown setting of c.toml 'problms'; did you mean problems"),
        ("problems = ", "neither TOML nor a run.json"),
        ("problems = {a = 1}", "field 'problems' is a table"),
        ("limits = 3", "field 'limits' is no table"),
        ("[timing]\nround = 1", "unknown setting of c.toml, [timing] 'round'; did you mean rounds"),
    ],
)
def test_a_bad_file_is_one_line(here, capsys, text, says):
    (here / "c.toml").write_text(text)
    assert main.main(["--config", "c.toml"]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_a_missing_file_and_a_foreign_json_are_told(here, capsys):
    assert main.main(["--config", "nowhere.toml"]) == 2 and "cannot be read" in capsys.readouterr().err
    (here / "x.json").write_text("[1]")
    assert main.main(["--config", "x.json"]) == 2 and "nor a run.json" in capsys.readouterr().err


def test_arguments_of_a_file_stand_in_one_token_each():
    file = config_file.ConfigFile("f", {"methods": ["a", "b[x=1,y=2]"], "dry_run": True, "skip_bad": False}, {})
    assert file.arguments(["methods", "dry-run", "skip-bad"]) == ["--methods=a,b[x=1,y=2]", "--dry-run"]


def test_a_reader_that_has_seen_enough_is_no_error():
    asked = f"{sys.executable} {ROOT / 'bench.py'} list | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", asked], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("methods") and not done.stderr


HEAVY = {"torch", "open3d", "pandas", "matplotlib", "plotly", "h5py", "trimesh", "rich", "joblib", "distributed"}


@pytest.mark.parametrize(("asked", "without"), [("['--help']", {*HEAVY, "numpy", "scipy"}), ("['list']", HEAVY)])
def test_what_everybody_begins_with_loads_no_large_library(asked, without):
    """What they cost is measured by performance/harness.py; here is why they stay that cheap."""
    code = f"import sys, contextlib\nfrom bench.cli import main\nwith contextlib.suppress(SystemExit): main.main({asked})\n"
    code += "print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not without & set(done.stdout.splitlines()[-1].split())


def test_a_python_without_the_packages_is_told_which_has_them():
    asked = [sys.executable, "-S", str(ROOT / "bench.py"), "--methods", "icp", "--dry-run"]  # -S: no site-packages
    done = subprocess.run(asked, capture_output=True, text=True)
    assert done.returncode == 2 and "package numpy is missing" in done.stderr
    assert "make bench" in done.stderr and ".venv/bin/python" in done.stderr


def test_a_module_of_ours_that_is_missing_is_a_fault(monkeypatch):
    monkeypatch.setitem(sys.modules, "bench.cli.listing", None)
    with pytest.raises(ModuleNotFoundError):
        main.main(["list"])


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("repot results/x", "unknown command 'repot'; did you mean report"),
        ("--metods icp", "unknown flag of run '--metods'; did you mean --methods"),
        ("run --datset=shapes40", "unknown flag of run '--datset'; did you mean --dataset"),
        ("compare a b --dataset x", "unknown flag of compare '--dataset'"),
        ("tune --condtion noisy", "unknown flag of tune '--condtion'; did you mean --condition"),
        ("train --metod x", "unknown flag of train '--metod'"),
    ],
)
def test_a_misspelt_command_or_flag_gets_the_nearest_name(capsys, typed, says):
    assert main.main(typed.split()) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_an_abbreviated_flag_is_taken(capsys):
    config, _ = flags_of("--method", "good", "--dataset", "blobs")
    assert config.to_json()["methods"] == ["good"] and config.to_json()["datasets"] == ["blobs"]


def test_what_differs_between_configurations_is_told_in_short():
    many = list("abcdefgh")
    there = {"problems": 3, "methods": many, "points": [64], "limits": {"icp": 0.5}, "angles": [0, 180], "threshold": 1}
    here = {
        "problems": 4,
        "methods": [*many[1:], "z"],
        "points": [],
        "limits": {"fgr": 1},
        "angles": [0, 180],
        "batch": 2,
    }
    assert config_module.differences(there, here) == [
        "problems: 3 → 4",
        "methods: a → z, the others in both",
        "points: 64 → none",
        "limits.icp: 0.5 → –",
        "limits.fgr: – → 1",
    ]
