"""What each command hands over to the code that does its work, and what it prints and returns."""

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import tuning
from bench.cli import doctor, listing, main, scaffold
from bench.conformance import command as conformance
from bench.evaluation.conventions import convention
from bench.pair import command as pair
from bench.planning.catalog import Catalog
from bench.planning.config import default_domain
from bench.report import command as report
from bench.report import gaussians, replay, show
from common.kinds import DataKind
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
    assert not console.stderr and set(asdict(request)) == {*values, "registry"}


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
    assert (str(method), of, device, console.stderr) == ("good", domain or default_domain(), "cpu", False)
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
    assert not console.stderr
