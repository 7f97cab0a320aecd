"""What each command passes on to the code that does its work, and what it prints and returns."""

import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import tuning
from bench.cli import doctor, listing, main, scaffold
from bench.conformance import command as conformance
from bench.evaluation import compare
from bench.evaluation.conventions import convention
from bench.pair import command as pair
from bench.planning import config, export_problems, tasks
from bench.planning.catalog import Catalog
from bench.planning.config import default_domain
from bench.report import command as report
from bench.report import gaussians, merge, replay, show, site, terminal, verify
from bench.storage import environment, run_folder
from common.kinds import DataKind
from datasets import download
from datasets.registry import DataRegistry
from tests.bench.command_line import PLUGINS

pytestmark = pytest.mark.usefixtures("empty_folder")
PLACES = ["--data", "mine", "--plugins", str(PLUGINS)]


@pytest.fixture
def calls(monkeypatch):
    """The calls of the functions that are replaced by `replace(module, name, result)`, in order."""
    made = []

    def replace(module, name, result=None):
        monkeypatch.setattr(module, name, lambda *a, **k: made.append((name, a, k)) or result)

    return SimpleNamespace(made=made, replace=replace)


def test_list_and_doctor_print_every_line(calls, capsys):
    calls.replace(listing, "sections", {"one": ["a", "b"], "two": ["c"]})
    assert main.main(["list", *PLACES]) == 0
    assert capsys.readouterr().out == "one\n  a\n  b\ntwo\n  c\n"
    for missing, text in ((["x", "y"], "missing\n  x\n  y\n"), ([], "nothing is missing\n\n")):
        calls.replace(doctor, "report", (["fact", "other"], missing))
        assert main.main(["doctor", *PLACES]) == 0
        assert capsys.readouterr().out == f"fact\nother\n\n{text}"
    assert [arguments for _, arguments, _ in calls.made] == [(Catalog.of("mine", PLUGINS),)] * 3


PAIR = "--methods icp pca --truth t.txt --points 9 --scale 2.5 --kind scans --out o --timeout 3 --memory-limit 4 --threads 2"


@pytest.mark.parametrize("given", [True, False])
def test_pair_passes_every_flag(calls, given):
    calls.replace(pair, "run")
    assert main.main(["pair", "a.ply", "b.ply", *(PAIR.split() if given else []), "--plugins", str(PLUGINS)]) == 0
    request, console = calls.made[0][1]
    flags = {
        "methods": ["icp", "pca"],
        "truth": Path("t.txt"),
        "points": 9,
        "scale": 2.5,
        "kind": DataKind.SCANS,
        "out": Path("o"),
        "timeout": 3.0,
        "memory_limit_gb": 4.0,
        "threads": 2,
    }
    expected = flags if given else dict.fromkeys(flags) | {"threads": 1}
    always = {"source": Path("a.ply"), "target": Path("b.ply"), "device": "cpu", "domain": default_domain()}
    values = {name: getattr(request, name) for name in (*expected, *always)}
    assert values == expected | always and request.registry.plugins == PLUGINS
    assert console.file is sys.stdout and set(asdict(request)) == {*values, "registry"}


@pytest.mark.parametrize("workflow", [True, False])
@pytest.mark.parametrize("own", [True, False])
def test_new_names_the_files_that_it_writes(calls, capsys, workflow, own, tmp_path):
    files = (tmp_path / "p" / "x.py", Path("/elsewhere/test_x.py"))
    calls.replace(scaffold, "write_workflow", tmp_path / "w.yml")
    calls.replace(scaffold, "write_templates", files)
    flags = [*(["--workflow"] if workflow else []), *(["--plugins", "p"] if own else [])]
    assert main.main(["new", "x", *flags]) == 0
    arguments = ("x", tmp_path / "p" if own else None)
    names = ["write_workflow"] * workflow + ["write_templates"]
    assert [(name, given) for name, given, _ in calls.made] == [(name, arguments) for name in names]
    first = "workflow  w.yml\n" if workflow else ""
    next_step = f"next    python bench.py check x{' --plugins p' if own else ''}\n"
    assert capsys.readouterr().out == f"{first}method  p/x.py\ntest    /elsewhere/test_x.py\n{next_step}"


@pytest.mark.parametrize("passed", [True, False])
@pytest.mark.parametrize("domain", ["rooms", None])
def test_check_fails_if_the_method_does(calls, passed, domain):
    calls.replace(conformance, "run", passed)
    given = ["--domain", domain] if domain else []
    assert main.main(["check", "good", *given, "--plugins", str(PLUGINS)]) == int(not passed)
    method, of, console, device = calls.made[0][1]
    assert (str(method), of, device, console.file) == ("good", domain or default_domain(), "cpu", sys.stdout)
    assert method.registry.plugins == PLUGINS


@pytest.fixture
def finished(calls, monkeypatch, tmp_path):
    """A run `r` whose data and replays are stand-ins."""
    (tmp_path / "results" / "r").mkdir(parents=True)
    calls.replace(report, "read", "data")
    calls.replace(replay, "ProblemReplay", SimpleNamespace(catalog=SimpleNamespace(methods="methods")))
    return Path("results") / "r"


@pytest.mark.parametrize("given", [True, False])
def test_draw_writes_the_figure_of_a_method(calls, finished, capsys, given):
    job = SimpleNamespace(draw=lambda: SimpleNamespace(files=["a.svg", "b.pdf"]))
    calls.replace(gaussians, "drawn_job", job)
    calls.replace(gaussians, "first_method", "first+one")
    flags = ["--method", "hgmr", "--out", "deep/stem"] if given else []
    assert main.main(["draw", "gmm", "r", "p/1", "p/2", *flags, *PLACES]) == 0
    made = {name: arguments for name, arguments, _ in calls.made}
    stem = Path("deep/stem") if given else Path("reports/r/figures/gaussians_first-one_p-1")
    data, _, method, problems, place = made["drawn_job"]
    assert (data, method, problems) == ("data", "hgmr" if given else "first+one", ["p/1", "p/2"])
    assert place == stem and stem.parent.is_dir() and made["read"] == (finished,)
    assert made["ProblemReplay"] == ("data", Catalog.of("mine", PLUGINS)) and ("first_method" in made) != given
    assert given or made["first_method"] == ("data", "methods")
    assert capsys.readouterr().out == "a.svg\nb.pdf\n"


@pytest.mark.parametrize("given", [True, False])
def test_show_writes_the_view_of_a_problem(calls, finished, capsys, given):
    calls.replace(show, "write_view", ["x.html", "x.json"])
    flags = ["--methods", "icp", "pca", "--out", "o"] if given else []
    assert main.main(["show", "r", "p/1", *flags, *PLACES]) == 0
    made = {name: arguments for name, arguments, _ in calls.made}
    data, _, problem, methods, criterion, out = made["write_view"]
    assert (data, problem, methods) == ("data", "p/1", ["icp", "pca"] if given else [])
    assert criterion == convention(None, None) and out == (Path("o") if given else Path("reports/r/problems"))
    assert made["ProblemReplay"] == ("data", Catalog.of("mine", PLUGINS)) and made["read"] == (finished,)
    assert capsys.readouterr().out == "x.html\nx.json\n"


@pytest.mark.parametrize("given", [True, False])
def test_tune_passes_every_flag(calls, given):
    calls.replace(tuning, "run")
    flags = "--points 7 --budget 80 --seed 3 --timeout 4 --name mine".split() if given else []
    typed = ["tune", "icp", "--dataset", "d", "--condition", "noisy[sigma=0.1]", *flags, *PLACES]
    assert main.main(typed) == 0
    request, console = calls.made[0][1]
    sizes = (7, 80, 3, 4.0, "mine") if given else (1024, 300, 0, 20, "d_noisy_sigma_0_1")
    assert (request.points, request.budget, request.seed, request.timeout, request.name) == sizes
    assert (request.method, request.dataset, request.condition, request.device) == (
        "icp",
        "d",
        "noisy[sigma=0.1]",
        "cpu",
    )
    assert request.catalog == Catalog.of("mine", PLUGINS) and request.command == main._command_text(typed)
    assert console.file is sys.stdout


REPORT = "--convention kitti --threshold 1 2 --against paper --no-as-good --methods icp pca --conditions clean --width column"
REPORT += " --style s.mplstyle --colour --json --parquet --out o"


@pytest.mark.parametrize("given", [True, False])
def test_report_passes_every_flag(calls, finished, given):
    calls.replace(report, "write")
    assert main.main(["report", "r", str(finished), *(REPORT.split() if given else []), *PLACES]) == 0
    request, console = calls.made[0][1]
    expected = {"folders": [finished, finished], "reports": report.REPORTS, "catalog": Catalog.of("mine", PLUGINS)}
    flags = {
        "convention": "kitti",
        "thresholds": [1.0, 2.0],
        "against": "paper",
        "out": "o",
        "as_good": False,
        "methods": ["icp", "pca"],
        "conditions": ["clean"],
        "width": "column",
        "sheet": Path("s.mplstyle").resolve(),
        "coloured": True,
        "as_json": True,
        "parquet": True,
    }
    plain = report.ReportRequest(**expected)
    expected |= flags if given else {name: getattr(plain, name) for name in flags}
    for name, value in expected.items():
        assert getattr(request, name) in (value, list(value) if isinstance(value, tuple) else value), name
    assert vars(request).keys() == expected.keys() and (console.file is sys.stderr) == given


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("regressions", [[], ["one"]])
def test_compare_compares_the_second_run_with_the_first(calls, finished, capsys, fails, regressions):
    (finished.parent / "s").mkdir()
    calls.replace(compare, "compare", SimpleNamespace(regressions=regressions))
    calls.replace(terminal, "comparison_summary", "the table")
    flags = ["--fail-on-regression"] if fails else []
    code = main.main(["compare", "s", str(finished), "--convention", "kitti", *flags])
    assert code == int(fails and bool(regressions)) and capsys.readouterr().out == "the table\n"
    made = [(name, arguments) for name, arguments, _ in calls.made]
    assert made[:2] == [("read", (Path("results") / "s",)), ("read", (finished,))]
    assert made[2] == ("compare", ("data", "data", ("s", "r"), convention("kitti", None)))
    assert made[3][1][1] == ("s", "r")


@pytest.mark.parametrize("verified", [True, False])
@pytest.mark.parametrize(
    ("typed", "budget", "seed", "as_json"), [("", 90, None, False), ("--budget 0 --seed 4 --json", 0, 4, True)]
)
def test_verify_fails_if_the_run_is_not_verified(calls, finished, verified, typed, budget, seed, as_json):
    calls.replace(verify, "run", verified)
    assert main.main(["verify", "r", *typed.split(), *PLACES]) == int(not verified)
    request, console, json = calls.made[0][1]
    assert request == verify.VerifyRequest(finished, Catalog.of("mine", PLUGINS), budget, seed)
    assert json == as_json and console.file is sys.stdout
    assert main.main(["verify", "r", "--seed", str(2**63)]) == 2 and len(calls.made) == 1


def test_merge_checks_its_folders_first_and_prints_what_is_missing(calls, finished, capsys):
    calls.replace(merge, "merge", ["m on x: 3 of 4", "[a] on y"])
    calls.replace(report, "write")
    for name in ("check_report_folder", "resolve_folder"):
        calls.replace(run_folder, name, Path("results/new") if name == "resolve_folder" else None)
    calls.replace(environment, "require_clean_checkout")
    assert main.main(["merge", "r", str(finished), "--out", "new", *PLACES]) == 0
    new, catalog = Path("results/new"), Catalog.of("mine", PLUGINS)
    assert [(name, arguments) for name, arguments, _ in calls.made[:4]] == [
        ("resolve_folder", ("new", report.RESULTS)),
        ("check_report_folder", (report.REPORTS / "new",)),
        ("require_clean_checkout", (new,)),
        ("merge", ([finished, finished], new, catalog)),
    ]
    assert calls.made[4][1][0] == report.ReportRequest([new], report.REPORTS, catalog)
    assert capsys.readouterr().out == "incomplete: m on x: 3 of 4\nincomplete: [a] on y\n"


@pytest.mark.parametrize("poses", [True, False])
def test_publish_tells_the_size_without_poses(calls, finished, capsys, tmp_path, poses):
    files = [tmp_path / name for name in ("index.html", "a.js", "poses.js")]
    for file, size in zip(files, (200_000, 2_000_000, 9_000_000), strict=True):
        file.write_bytes(bytes(size))
    calls.replace(site, "publish", files)
    assert main.main(["publish", "r", str(finished), "--site", "s", *([] if poses else ["--no-poses"]), *PLACES]) == 0
    assert calls.made[0][1] == ([finished, finished], Path("s"), Catalog.of("mine", PLUGINS), poses)
    assert capsys.readouterr().out == f"{files[0]}: 2 runs, 2.2 MB without poses\n"


@pytest.mark.parametrize("to", [None, "file.h5"])
def test_problems_are_exported_or_hashed_and_skipped_groups_told(calls, capsys, to):
    groups = [SimpleNamespace(name=name, skip=skip) for name, skip in (("a", ""), ("b", "too few points"), ("c", ""))]
    calls.replace(tasks, "make_groups", groups)
    calls.replace(config, "problems_config", "config")
    for name in ("export", "hashes"):
        calls.replace(export_problems, name, {"a": "12", "c": "34"})
    assert main.main(["problems", *(["--export", to] if to else []), "--datasets", "shapes40", *PLACES]) == 0
    live = [groups[0], groups[2]]
    assert calls.made[0][1][1] == Catalog.of("mine", PLUGINS) and calls.made[1][1] == ("config",)
    assert calls.made[2][:2] == (("export", (Path(to), live)) if to else ("hashes", (live,)))
    output = capsys.readouterr()
    assert (output.out, output.err) == ("12  a\n34  c\n", "b is skipped: too few points\n")


@pytest.mark.parametrize("archives", [(), ("archive",)])
@pytest.mark.parametrize("skip", [True, False])
def test_data_is_fetched_prepared_and_described(calls, capsys, archives, skip):
    made = SimpleNamespace(
        licence="free", archives=archives, name="own", where="ask", remarks=["r"], prepare=lambda: "9 objects"
    )
    left = SimpleNamespace(**vars(made) | {"prepare": lambda: "8 objects"})
    spec = SimpleNamespace(build=lambda: made, skipping_bad=lambda: SimpleNamespace(build=lambda: left))
    calls.replace(DataRegistry, "at", SimpleNamespace(spec=lambda text: spec, root="root"))
    calls.replace(download, "install_archives")
    assert main.main(["data", "set[a=1]", *(["--skip-bad"] if skip else []), *PLACES]) == 0
    expected = f"set[a=1]: licence: free\nset[a=1]: {'8' if skip else '9'} objects, ready\n  r\n"
    assert capsys.readouterr().out == expected and calls.made[0][1] == ("mine", PLUGINS)
    assert [arguments for _, arguments, _ in calls.made[1:]] == [("own", archives, "root", None, print)] * len(archives)
    calls.made.clear()
    assert main.main(["data", "set", "--from", "a.zip"]) == (0 if archives else 2)
    assert archives or "--from: own has no archive to import; ask" in capsys.readouterr().err
    assert len(calls.made) == 1 + len(archives)
