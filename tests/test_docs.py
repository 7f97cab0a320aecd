"""Every command in the README and in `docs/` is run, the tutorials exactly as written, and the site builds without a warning.

What a command is replaced by, so that all take seconds and touch nothing of the user's:
    a run: planned with --dry-run, which checks every name and opens the data, on small stand-ins for ModelNet40 and 3DMatch;
    pair, new, check, list, doctor, problems, report, compare, verify, draw, show: done, with small files and folders;
    train, tune, data: their flags are parsed. Training, searches and downloads have tests of their own;
    make: its target exists;
    `NOT_RUN`: not done, for the reason given there.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from bench.cli import main
from bench.cli.scaffold import write_templates as write_new
from bench.isolation.guard import ROOT
from bench.pair.files import write_ply
from common.keys import rng
from docs.scripts import make_choosing, make_geometric, make_readme
from tests.bench.command_line import PLUGINS, QUICK
from tests.bench.png_figures import save_png_only
from tests.bench.report.one_group import one_group
from tests.own_cache import use_cache

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TUTORIALS = ["add-a-method.md", "add-a-data-set.md"]
NOT_RUN = {
    "pip": "installs packages",
    "pre-commit": "changes the user's git hooks",
    "dask": "starts servers; tests/bench/execution/test_executor.py runs on a cluster",
    "PYTHONPATH=.": "as dask",
    "performance.harness": "measures for minutes",
    "performance.deepgmr": "measures for minutes",
    "performance.memory": "measures for minutes",
    "performance.same_answers": "compares runs of minutes; tests/test_same_answers.py compares small ones",
    "performance.gpu": "measures for minutes; tests/test_gpu_measurement.py runs its parts on the CPU",
    ".venv/bin/python": "installs packages",
    "git": "fetches the code of others",
    "FCGF_FOLDER=FCGF": "needs that code; tests/methods/learned/test_external.py has a stub of it",
    "python3": "makes an environment",
    "performance.adapters": "measures for minutes",
    "performance.teaser": "measures for minutes",
    "performance.scan_settings": "measures for minutes",
    "docs.scripts.make_geometric": "reads runs of hours; a test below makes its tables from rows",
}


def blocks(page, kind):
    """The content of the fenced blocks of a kind; "" for those that say none."""
    fenced = re.findall(r"^```([^\n]*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [content for language, content in fenced if language == kind]


def commands(page):
    """The commands of a page's sh blocks, and those that begin with `python bench.py` within a sentence."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    lines += [" ".join(text.split()) for text in re.findall(r"`(python bench\.py [^`…]+)`", prose)]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


COMMANDS = [(page.name, words) for page in PAGES if page.name not in TUTORIALS for words in commands(page)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with all that the commands name: two scans and their pose, settings, runs, data, and a method."""
    folder = tmp_path_factory.mktemp("docs")
    cloud = rng("docs").normal(size=(300, 3)) * (1, 0.5, 0.2)
    write_ply(folder / "scan_a.ply", cloud)
    write_ply(folder / "scan_b.ply", cloud)
    np.savetxt(folder / "pose.txt", np.eye(4))
    (folder / "mine.toml").write_text(blocks(ROOT / "docs" / "configuration.md", "toml")[0])
    (folder / "own.mplstyle").write_text("font.size: 8\n")
    write_new("my_method", folder / "plugins")
    for name in ("good.py", "blobs.py", "halves.py"):
        shutil.copy(PLUGINS / name, folder / "plugins")
    modelnet40(folder / "data" / "modelnet40" / "modelnet40_ply_hdf5_2048")
    for scene in ("sun3d-hotel_umd-maryland_hotel3", "7-scenes-redkitchen"):
        fragments(folder / "data" / "3dmatch" / scene, cloud)
    fragments(folder / "data" / "range_pairs" / "pair_00", cloud)
    problem_list(folder / "data" / "eth", cloud)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("bench.report.begin_report", lambda *_: list)
        arguments = ["--methods", "good", "halves", "--problems", "2", "--conditions", "noisy", "--out", "NAME"]
        assert main.main([*QUICK, *arguments]) == 0
    for name in ("BEFORE", "AFTER", "part1", "part2", "whole", "reference", "reference-scans", "my_run"):
        shutil.copytree(folder / "results" / "NAME", folder / "results" / name)
    return folder


def modelnet40(folder):
    """A data set of the form of ModelNet40's points, with one object a category."""
    folder.mkdir(parents=True)
    for split in ("train", "test"):
        with h5py.File(folder / f"ply_data_{split}0.h5", "w") as file:
            file["data"] = rng(split).uniform(-0.5, 0.5, (40, 2048, 3)).astype(np.float32)
            file["label"] = np.arange(40, dtype=np.uint8)[:, None]
        (folder / f"{split}_files.txt").write_text(f"data/modelnet40_ply_hdf5_2048/ply_data_{split}0.h5\n")


def fragments(folder, cloud):
    """A scene of the form of 3DMatch, of two fragments that are one cloud, and a third that contains a fifth of it."""
    folder.mkdir(parents=True)
    share = len(cloud) // 5
    for number, points in ((0, cloud), (2, cloud), (4, np.concatenate([cloud[:share], cloud[share:] + 20]))):
        write_ply(folder / f"cloud_bin_{number}.ply", points)
    rows = "\n".join(" ".join(map(str, row)) for row in np.eye(4))
    (folder / "gt.log").write_text(f"0 2 5\n{rows}\n0 4 5\n{rows}\n")


def problem_list(folder, cloud):
    """A list of one registration problem beside its cloud."""
    (folder / "plain").mkdir(parents=True)
    write_ply(folder / "plain" / "a.ply", cloud)
    names = " ".join(f"t{k}" for k in range(1, 13))
    motion = " ".join(map(str, np.eye(4)[:3].ravel()))
    (folder / "plain_global.txt").write_text(f"id source target overlap {names}\n1 a.ply a.ply 1.0 {motion}\n")


def small(words, folder, own):
    """A command of `bench.py` with what replaces it, see above."""
    name = (
        words[0]
        if words
        and words[0]
        in "list doctor pair new check report compare verify problems train data tune draw show merge publish".split()
        else "run"
    )
    words = [
        str(folder / "data") if before == "--data" else word for before, word in zip(["", *words], words, strict=False)
    ]
    plugins = ["--plugins", str(folder / "plugins")]
    if name == "merge":  # the stand-ins of its parts are one run, and the folder is new
        words = [*words[:-1], own.name]
    if name == "new" and "--workflow" in words:
        own = own / "mine"
    words = words[: words.index(">")] if ">" in words else words
    if name in ("report", "show") and "--methods" in words:  # methods of the stand-in's run
        stand_in = {"deepgmr": "good", "icp": "halves", "fgr": "halves"}
        words = list(dict.fromkeys(stand_in.get(word, word) for word in words))
    if name in ("draw", "show"):  # a problem of the stand-in's run
        words = [re.sub(r"^shapes40/noisy/\d+/", "blobs/noisy/60/", word).replace("00003", "00001") for word in words]
    more = {
        "run": [*plugins, "--dry-run"],
        "pair": ["--methods", "icp", "--points", "200"],
        "new": ["--plugins", str(own)],
        "check": plugins,
        "problems": ["--problems", "1"],
        "draw": plugins,
        "show": plugins,
        "verify": [*plugins, "--budget", "0"],
        "merge": plugins,
        "publish": plugins,
    }
    return name, [*words, *more.get(name, [])]


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=[f"{page}: {shlex.join(words)}" for page, words in COMMANDS])
def test_a_command_of_the_documentation_works(place, tmp_path, monkeypatch, page, words):
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return
    script = words[2 if words[1] == "-m" else 1] if words[0] == "python" else words[0]
    if script in NOT_RUN:
        assert not script.startswith("performance.") or importlib.util.find_spec(script)
        return
    assert script == "bench.py", f"say in NOT_RUN why '{shlex.join(words)}' of {page} is not run, or run it"
    monkeypatch.chdir(place)
    use_cache(monkeypatch, place / "cache")
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)
    name, arguments = small(words[2:], place, tmp_path)
    if name in ("train", "data", "tune"):
        main._parser(train=name == "train")[0].parse_args(arguments)
    else:
        assert main.main(arguments) == 0


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_works_exactly_as_written(tmp_path, monkeypatch, name):
    """In an empty folder: files are written as the page says, and commands given, in the page's order.

    The first command is given in a shell. Those of `bench.py` after it are called with the same words in this process, which has
    imported what they need; their figures are PNGs.
    """
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    save_png_only(monkeypatch)
    monkeypatch.chdir(tmp_path)
    for part in ("bench.py", "bench", "common", "datasets", "methods"):
        (tmp_path / part).symlink_to(ROOT / part)
    given = 0
    for file, content, script in re.findall(
        r"`(mine/\w+\.py)`:\n\n```python\n(.*?)^```$|^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL
    ):
        if file:
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).write_text(content)
        for line in script.splitlines():
            words = shlex.split(line)
            if given and words[:2] == ["python", "bench.py"]:
                assert main.main(words[2:]) == 0, line
            else:
                shell(line, tmp_path)
            given += 1


def test_the_readmes_method_conforms(tmp_path, capsys):
    (tmp_path / "centroid_align.py").write_text(blocks(ROOT / "README.md", "python")[0])
    assert main.main(["check", "centroid_align", "--plugins", str(tmp_path)]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(("page", "count"), [("verify.md", 1), ("api.md", 3)])
def test_the_code_that_reads_the_reference_run_works(monkeypatch, page, count):
    monkeypatch.chdir(ROOT)
    examples = blocks(ROOT / "docs" / page, "python")
    assert len(examples) == count
    for code in examples:
        exec(compile(code, page, "exec"), {})


def test_the_script_of_a_slurm_cluster_starts_a_worker_in_the_repository(capsys):
    """The page's code up to the job script; jobs need a cluster."""
    pytest.importorskip("dask_jobqueue", reason="requirements-cluster.txt is not installed")
    (code,) = blocks(ROOT / "docs" / "cluster.md", "python")
    names = {}
    exec(compile(code, "cluster.md", "exec"), names)
    names["cluster"].close()
    script = capsys.readouterr().out
    assert "#SBATCH --mem=8G" in script and "#SBATCH -t 02:00:00" in script
    assert "export PYTHONPATH=$SLURM_SUBMIT_DIR OMP_NUM_THREADS=1" in script
    assert re.search(r"distributed\.cli\.dask_worker|dask worker", script) and "--nthreads 1" in script


def shell(line, folder):
    """Give a command as a user in an activated environment does."""
    bin_folder = str(Path(sys.executable).parent)
    path = bin_folder + os.pathsep + os.environ["PATH"]
    plain = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # pytest as `pip install pytest` gives it
    env = os.environ | plain | {"PATH": path}
    done = subprocess.run(line, shell=True, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def test_the_tutorials_code_is_in_the_form_of_the_others(tmp_path):
    for page in PAGES:
        for number, code in enumerate(blocks(page, "python")):
            (tmp_path / f"{page.name}.{number}.py").write_text(code, encoding="utf-8")
    arguments = [sys.executable, "-m", "ruff", "format", "--check", "--config", str(ROOT / "pyproject.toml")]
    done = subprocess.run([*arguments, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_commands_stand_in_blocks_that_are_marked():
    for page in PAGES:
        for block in blocks(page, ""):
            assert "bench.py" not in block and "make " not in block, f"{page.name}: mark the block with sh\n{block}"


def test_the_site_builds_without_a_warning(tmp_path):
    arguments = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr and (tmp_path / "add-a-method" / "index.html").is_file()
    page = (tmp_path / "index.html").read_text()
    assert not re.search(r'(?:src|href)="https?://(?!www\.mkdocs\.org)', page)


@pytest.mark.parametrize("page", [p for p in PAGES if p.parent == ROOT], ids=lambda p: p.name)
def test_links_of_pages_outside_the_site_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_choosing_is_written_by_the_rule_of_the_report():
    hits = {"slow": 36, "fast": 34, "poor": 4, "truth": 40}
    methods = {
        m: ("control" if m == "truth" else "local", np.where(np.arange(40) < n, 0.1, 0.9)) for m, n in hits.items()
    }
    frames = one_group(methods | {"few": ("local", np.full(2, 0.1))}, {}, {"slow": 200.0, "fast": 20.0, "poor": 1.0})
    text = make_choosing.tables(frames["summary"], frames["trials"], frames["timing"], "reference")
    recommended = "Recommended: **fast** (20 ms, timed alone), the fastest of them."
    assert f"Tied for the best recall: **slow** 0.90, **fast** 0.85 (2 methods). {recommended}" in text
    assert "## d, same points with noise, 64 points\n\n<small>`d`, `noisy`, 64 points</small>" in text
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
    assert rows == ["| method", "| slow", "| fast", "| poor", "| few, n = 2"]
    page = make_choosing.PAGE.read_text()
    assert text in make_choosing.filled(make_choosing.filled(page, text), text)


@pytest.mark.parametrize(("script", "runs"), [(make_choosing, make_choosing.RUNS), (make_readme, ["reference"])])
def test_tables_of_the_reference_runs_are_what_their_script_writes(script, runs):
    page, folders = script.PAGE.read_text(), [ROOT / "results" / run for run in runs]
    assert script.written(page, *(folder for folder in folders if folder.exists())) == page


def test_the_page_of_geometric_methods_sets_tuned_and_printed_beside_untuned():
    row = {"condition": "noisy[clip=0.05]", "points": "1024", "kind": "global", "problems": "9", "answered": "8"}
    row |= {"recall_low": "0.5", "recall_high": "0.8", "rmse_mean_answered": "0.123"}
    plain = [row | {"method": "icp", "recall": "0.6"}, row | {"method": "fgr+icp", "recall": "0.7"}]
    plain += [row | {"method": "icp", "recall": "0.1", "problems": "3"}, row | {"method": "cpd", "recall": ""}]
    tuned = [row | {"method": "fgr[tuned=here]+icp", "recall": "0.75"}]
    paper = [
        {"table": "accuracy", "dataset": data, "condition": "noisy", "method": "icp", "metric": metric, "value": value}
        for data, metric, value in [
            ("modelnet40", "recall", "0.11"),
            ("modelnet40", "rmse", "0.2"),
            ("icl", "rmse", "9"),
        ]
    ]
    written = make_geometric.condition_tables(plain + tuned, paper).splitlines()
    assert written[0] == "## noisy[clip=0.05], 1024 points"
    assert [line for line in written if line.startswith("| `")] == [
        "| `fgr+icp` | 0.70 [0.50, 0.80] | 0.75 [0.50, 0.80] | – | 0.12 | – | 8/9 |",
        "| `icp` | 0.60 [0.50, 0.80] | – | 0.11 | 0.12 | 0.2 | 8/9 |",
    ]
