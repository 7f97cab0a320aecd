"""Command line: bad input, missing packages, start-up, terminals."""

import io
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from bench.cli import main
from bench.planning.config import RunConfig
from bench.storage import environment, run_folder
from bench.storage.environment import ROOT
from common import files
from common.errors import InputError
from datasets.registry import DataRegistry
from tests.bench.command_line import PLUGINS, QUICK, SHORT, configuration, refused


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--methods", "icpp"], "unknown method 'icpp'; did you mean icp"),
        (["--methods", "icp[trimm=.2]"], "did you mean trim"),
        (["--methods", "icp+good"], "good takes no initial pose"),
        (["--datasets", "blob"], "unknown data set 'blob'; did you mean blobs"),
        (["--conditions", "noissy"], "unknown condition 'noissy'; did you mean noisy"),
        (["--conditions", "noisy[sigma=-1]"], "must not be negative"),
        (
            ["--conditions", "noisy[sigma=nan]"],
            "condition noisy: parameter sigma: 'nan' is not a finite number; write such",
        ),
        (["--conditions", "outliers[fraction=nan]"], "parameter fraction: 'nan' is not a finite number"),
        (["--methods", "icp[trim=nan]"], "method icp: parameter trim: 'nan' is not a finite number"),
        (
            ["--methods", "icp[trim=abc]"],
            "method icp: parameter trim: 'abc' is not a number; write such as icp[trim=0.1]",
        ),
        (["--angles", "0", "nan"], "--angles: must rise"),
        (["--max-angle", "nan"], "--angles: must rise"),
        (["--timeout", "nan"], "--timeout: must be above 0"),
        (["--preset", "quik"], "unknown preset 'quik'; did you mean quick"),
        (["--sampler", "har"], "unknown sampler 'har'; did you mean haar"),
        (["--points", "a"], "--points: 'a' is not a whole number"),
        (["--angles", "30", "10"], "--angles: must rise"),
        (["--problems", "0"], "--problems: must be 1 to 10000000"),
        (["--plugins", "nowhere"], "no such folder"),
        (["report", "nowhere"], "results/nowhere: no such run; looked in "),
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


def test_recorded_command_hides_the_data_folder():
    given = ["--methods", "icp[trim=.3]", "--data", "/home/me/my data", "--datasets", "modelnet40"]
    assert main._command_text(given) == "bench.py --methods 'icp[trim=.3]' --data $BENCH_DATA --datasets modelnet40"
    assert main._command_text(["--data=/home/me"]) == "bench.py --data=$BENCH_DATA"


@pytest.mark.parametrize("typed", [["--seed", "x"], ["--seed", str(2**63)], ["--jobs"], ["report"]])
def test_a_bad_flag_is_one_line(project, capsys, typed):
    refused(capsys, *(typed if typed == ["report"] else [*SHORT, *typed]))


def test_ascii_terminal_gets_an_aligned_table(finished_run, capsys, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert main.main(["report", "r", "--out", "x"]) == 0
    sys.stdout.flush()
    lines = written.getvalue().decode("ascii").splitlines()
    assert any("|identity" in line for line in lines)
    assert len({len(line.rstrip()) for line in lines if line.startswith("|")}) == 1  # its columns are aligned


def test_the_default_name_of_a_run_is_short(project, monkeypatch):
    flags = main._parser(train=False)[0].parse_args(["run"])
    config = object.__new__(RunConfig)
    datasets = tuple(DataRegistry.at().spec(f"pairs[path=scans{i}.h5]") for i in range(40))
    object.__setattr__(config, "datasets", datasets)
    monkeypatch.setattr(RunConfig, "hash", "0" * 64)
    assert len(main._run_folder(config, flags).name) < 100


CHECKS = ["check_run_folder", "check_writable", "check_report_folder", "require_clean_checkout"]


@pytest.mark.parametrize("check", CHECKS)
def test_a_run_starts_only_if_every_check_of_its_folder_passes(project, capsys, monkeypatch, check):
    def refuse(folder):
        raise InputError(f"{check} of {folder}")

    module = next(module for module in (environment, run_folder, files) if hasattr(module, check))
    monkeypatch.setattr(module, check, refuse)
    place = "reports" if check == "check_report_folder" else "results"
    assert f"{check} of {place}/r" in refused(capsys, *SHORT, "--out", "r").replace(f"{Path.cwd()}/", "")
    assert not (project / "results" / "r").exists()


def test_closed_pipe_is_no_error():
    arguments = f"{sys.executable} {ROOT / 'bench.py'} list | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", arguments], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("methods") and not done.stderr


def test_output_after_a_closed_pipe_goes_nowhere(monkeypatch, tmp_path):
    """Python writes what is buffered when it ends, to the stream that is closed."""
    moved = []

    def closed(*_):
        raise BrokenPipeError

    monkeypatch.setattr(main, "_with_config", closed)
    monkeypatch.setattr(os, "dup2", lambda old, new: moved.append((Path(f"/proc/self/fd/{old}").readlink(), new)))
    with (tmp_path / "out").open("w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        assert main.main(["--config", "x.toml", "--methods", "icp"]) == 0
        assert moved == [(Path("/dev/null"), file.fileno())]


HEAVY = {"torch", "open3d", "pandas", "matplotlib", "plotly", "h5py", "trimesh", "rich", "joblib", "distributed"}


@pytest.mark.parametrize(("arguments", "without"), [("['--help']", {*HEAVY, "numpy", "scipy"}), ("['list']", HEAVY)])
def test_help_and_list_import_no_large_library(arguments, without):
    """Keep start-up fast; performance/harness.py measures its time."""
    code = f"import sys, contextlib\nfrom bench.cli import main\nwith contextlib.suppress(SystemExit): main.main({arguments})\n"
    code += "print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not without & set(done.stdout.splitlines()[-1].split())


def test_missing_packages_are_reported_with_the_fix():
    arguments = [sys.executable, "-S", str(ROOT / "bench.py"), "--methods", "icp", "--dry-run"]  # -S: no site-packages
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 2 and "package numpy is missing" in done.stderr
    assert "make bench" in done.stderr and ".venv/bin/python" in done.stderr


def test_missing_module_of_this_repository_is_raised(monkeypatch):
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
def test_misspelt_command_or_flag_gets_a_suggestion(capsys, typed, says):
    assert main.main(typed.split()) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_abbreviated_flag_is_accepted(capsys):
    config, _ = configuration("--method", "good", "--dataset", "blobs")
    assert [m.text for m in config.methods] == ["good"] and [d.text for d in config.datasets] == ["blobs"]


def test_data_leaves_out_bad_files_if_asked_and_prints_how_many(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.xyz").write_text("0 0 1\n1 0 0\n0 1 0\n1 1 1\n")
    (tmp_path / "mine" / "b.xyz").write_text("1 2 3\n4 5\n")
    arguments = ["data", "folder[path=mine]", "--data", str(tmp_path)]
    assert main.main(arguments) == 2
    assert "b.xyz: line 2 has 2 columns" in (error := capsys.readouterr().err) and "or give --skip-bad" in error
    assert main.main([*arguments, "--skip-bad"]) == 0
    output = capsys.readouterr().out
    assert "1 object in 1 category, ready" in output and "1 file is left out, the first because of:" in output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "bench.py"),
        (["run", "--data", "/mnt/x", "--seed", "1"], "bench.py run --data $BENCH_DATA --seed 1"),
        (["--data=/mnt/x", "--out", "a b"], "bench.py --data=$BENCH_DATA --out 'a b'"),
        (["list", "--data"], "bench.py list --data"),
        (["--methods", "icp[trim=0.1]"], "bench.py --methods 'icp[trim=0.1]'"),
    ],
)
def test_the_command_is_recorded_without_the_path_of_the_data(arguments, text):
    assert main._command_text(arguments) == text


@pytest.mark.parametrize(
    ("code", "signals", "expected"),
    [(0, [], 0), (130, [], 130), (130, [15], 143), (130, [1, 15], 129), (2, [15], 2), (0, [15], 0)],
)
def test_the_exit_code_after_a_signal_is_128_and_its_number(monkeypatch, code, signals, expected):
    monkeypatch.setattr("common.processes.like_ctrl_c", lambda: nullcontext(signals))
    monkeypatch.setattr(main, "_main", lambda arguments: code)
    assert main.main(["list"]) == expected
