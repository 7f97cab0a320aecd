"""`bench.py tune`: results, held-out objects, budget, and use of the settings in a run."""

import json
import shutil
import sys
import tomllib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bench import tuning
from bench.cli import main
from bench.isolation.protocol import Limits, MethodSetup, PairReply, Reply
from bench.planning.catalog import Catalog
from bench.storage.outcome import Status
from common.errors import InputError
from common.kinds import DataKind
from datasets.problems import ProblemKey, make_problem
from methods.base import LogUniform
from methods.core.registry import MethodRegistry, MethodSpec
from methods.core.tuned import BUILT_IN, read_tuned
from tests.bench.command_line import PLUGINS
from tests.catalog import build, open_data

METHOD = """
import numpy as np
from methods.base import LogUniform, Method, NoSolution, rigid
from plugin_good import _axes


class Base(Method):
    \"\"\"What the next has in common with others.\"\"\"

    search = {"turn": (0.0, 0.25, 0.5, 0.75)}
    turn: float = 0.0
    in_all = False

    def register(self, source, target):
        (cs, us), (ct, ut) = (_axes(c) for c in (source, target))
        c, s = np.cos(self.turn - 0.5), np.sin(self.turn - 0.5)
        R = ut @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ us.T
        return rigid(R, ct - R @ cs)


class Dial(Base):
    \"\"\"Principal axes, and a turn that is wrong but for turn = 0.5.\"\"\"

    variants = {"dial": {}, "dial_right": {"turn": 0.5}, "dial_set": {"turn": 0.0, "note_it": 2}}
    search = {"note_it": (1, 2)}
    note_it: int = 1


class Right(Base):
    \"\"\"The same, right as it is.\"\"\"

    variants = {"right": {}}
    turn: float = 0.5
"""


DATA = """
from pathlib import Path
from datasets.base import PointShape
from plugin_blobs import Blobs


class Guarded(Blobs):
    \"\"\"Blobs that tell which objects were looked at.\"\"\"

    seen = []

    def shape(self, split, index):
        self.seen.append((split, index))
        return super().shape(split, index)
"""


PAIRS = """
from datasets.base import PairSet


class Couples(PairSet):
    \"\"\"Pairs, of which there is none.\"\"\"

    def __len__(self):
        return 0

    def pair(self, row):
        raise IndexError
"""


ARGUMENTS = "--dataset guarded --condition clean --points 60 --budget 60".split()


@pytest.fixture(scope="module")
def plugins(tmp_path_factory):
    """A plug-in folder, of which a process inspects every method once for all tests."""
    folder = tmp_path_factory.mktemp("tuning") / "mine"
    folder.mkdir()
    for name in ("good.py", "blobs.py"):
        shutil.copy(PLUGINS / name, folder)
    # files are loaded in the order of their names, and these need the other two
    (folder / "measured.py").write_text(METHOD)
    (folder / "guarded.py").write_text(DATA)
    (folder / "couples.py").write_text(PAIRS)
    return folder


@pytest.fixture
def folder(plugins, tmp_path, monkeypatch):
    """The plug-in folder, to which settings are written; without any, and with data that nobody has looked at."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)
    sys.modules.pop("plugin_guarded", None)
    yield plugins
    (plugins / "tuned.toml").unlink(missing_ok=True)


@pytest.fixture
def search(folder, capsys):
    def call(method, *more, expect=0):
        assert main.main(["tune", method, *ARGUMENTS, "--plugins", str(folder), *more]) == expect
        return capsys.readouterr()

    return call


def kept(folder):
    return tomllib.loads((folder / "tuned.toml").read_text())


def test_the_method_gets_the_device_seed_kind_and_limits_of_the_request(folder, monkeypatch):
    """A method without GPU code gets the CPU; one that cannot be set up is closed and refused."""
    made, closed, ready = [], [], Reply(Status.OK)

    class Process:
        def __init__(self, *arguments):
            made.append(arguments)

        def start(self):
            return ready

        def close(self):
            closed.append(self)

    monkeypatch.setattr(tuning, "MethodProcess", Process)
    asked = replace(request(folder), condition="resampled", seed=7, timeout=3.5, device="cuda:1")
    for name, device in (("dial", "cpu"), ("deepgmr", "cuda:1")):
        tuning.start_method(replace(asked, method=name))
        setup, limits = made[-1]
        assert (str(setup.method), setup.domain, setup.device) == (name, "guarded", device)
        assert (setup.seed, setup.kind, limits) == (7, DataKind.OBJECTS, Limits(3.5, 8.0))
    ready = Reply(Status.ERROR, message="no weights")
    with pytest.raises(InputError, match="dial cannot be tuned: no weights"):
        tuning.start_method(asked)
    assert len(closed) == 1


def test_best_value_is_found_and_used_by_a_run(search, folder, tmp_path, monkeypatch):
    ended, close = [], tuning.MethodProcess.close
    monkeypatch.setattr(tuning.MethodProcess, "close", lambda process: ended.append(process) or close(process))
    output = search("dial").out
    assert len(ended) == 1
    entry = kept(folder)["dial"]["guarded_clean"]
    assert entry["values"]["turn"] == 0.5 and "better than the default on held-out objects" in entry["verdict"]
    assert entry["verdict"] in output and "dial[tuned=guarded_clean]" in output
    assert entry["training"]["found"] < 1e-3 < 0.1 < entry["training"]["default"]
    assert entry["validation"]["found"] < 1e-3 < 0.1 < entry["validation"]["default"]
    assert entry["validation"]["difference"][2] < 0 and entry["validation"]["p"] < 0.05
    assert (entry["budget"], entry["seed"]) == (60, 0) and entry["command"].startswith("bench.py tune dial --dataset")
    run = (
        "--methods dial,dial[tuned=guarded_clean],dial[tuned=guarded_clean]+icp --datasets guarded --conditions clean "
    )
    run += "--points 60 --problems 4 --timing-rounds 0 --jobs 1 --out r --plugins"
    assert main.main([*run.split(), str(folder)]) == 0
    trials = pd.read_csv(tmp_path / "results" / "r" / "trials.csv").groupby("method")["rmse"].max()
    assert trials["dial[tuned=guarded_clean]"] < 1e-3 < 0.1 < trials["dial"] and len(trials) == 3
    facts = json.loads((tmp_path / "results" / "r" / "run.json").read_text())
    assert facts["methods"]["dial[tuned=guarded_clean]"]["variant"]["turn"] == 0.5
    assert facts["config"]["tuned"]["dial[tuned=guarded_clean]"]["turn"] == 0.5

    # other values under the same name are another run
    (folder / "tuned.toml").write_text((folder / "tuned.toml").read_text().replace("turn = 0.5", "turn = 0.25"))
    assert main.main([*run.split(), str(folder)]) == 2


def test_only_training_objects_are_used_and_held_out_ones_last(search, folder):
    search("dial")
    seen = sys.modules["plugin_guarded"].Guarded.seen
    assert {split for split, _ in seen} == {"train"}
    calls = tuning.search_stages(60)[-1][1]
    learnt, tested = {i for _, i in seen[:calls]}, {i for _, i in seen[calls:]}
    assert tested and not learnt & tested


def test_same_seed_gives_the_same_settings_and_others_are_kept(search, folder):
    output = []
    for _ in range(2):
        search("dial", "--seed", "3")
        (entry,) = kept(folder)["dial"].values()
        output.append({k: {**v, "ms": 0} if k in ("training", "validation") else v for k, v in entry.items()})
    assert output[0] == output[1]
    search("dial", "--name", "other", "--seed", "4")
    search("dial_right")
    assert set(kept(folder)["dial"]) == {"guarded_clean", "other"} and "dial_right" in kept(folder)


def test_default_stays_if_no_candidate_is_better(search, folder):
    output = search("right").out
    assert "the default stays: no candidate is better" in output
    assert f"right[tuned=guarded_clean] in {folder}/tuned.toml: no values, the same as right" in output
    assert kept(folder)["right"]["guarded_clean"]["values"] == {}
    built = build("right[tuned=guarded_clean]", folder)
    assert built.turn == 0.5


def test_written_values_override_tuned_ones_and_list_shows_them(search, folder, capsys):
    search("dial")
    assert build("dial[tuned=guarded_clean,turn=0.75]", folder).turn == 0.75
    assert main.main(["list", "--plugins", str(folder)]) == 0
    line = next(t for t in capsys.readouterr().out.splitlines() if "dial[tuned=guarded_clean]" in t)
    assert "better than the default" in line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["good"], "good: its class declares no 'search' to tune; methods that do: "),
        (["dial_set"], "dial_set: its class declares no 'search'"),
        (["dail"], "unknown method 'dail'; did you mean dial"),
        (["dial", "--dataset", "gaurded"], "unknown data set 'gaurded'; did you mean guarded"),
        (["dial", "--condition", "nosy"], "unknown condition 'nosy'"),
        (["dial", "--condition", "real"], "--condition real: is for sets of real pairs"),
        (["dial", "--dataset", "couples"], "a set of real pairs, not of objects"),
        (["dial", "--points", "500"], "--points 500 of guarded, clean: objects have 200 fixed points"),
        (["dial", "--budget", "12"], "--budget 12: too small to compare settings; give at least 30 calls"),
        (["dial", "--name", "a b"], "--name 'a b': use letters, digits and _ only"),
    ],
)
def test_invalid_request_is_one_line(search, folder, words, message):
    error = search(*words, expect=2).err
    assert message in error and error.count("\n") == 1 and not (folder / "tuned.toml").exists()


def test_space_excludes_fixed_parameters_and_default_values(folder):
    assert tuning.search_space(request(folder)) == {"turn": (0.25, 0.5, 0.75), "note_it": (2,)}
    assert tuning.search_space(request(folder, "dial_right")) == {"note_it": (2,)}


def test_declared_search_values_are_valid(tmp_path):
    for method, offer in MethodRegistry().entries.items():
        for name, where in offer.cls.search.items():
            for value in (where.low, where.high) if isinstance(where, LogUniform) else where:
                built = build(tuning.spec_of(method, {name: value}))
                assert built.parameters[name] == value
    odd = "from methods.base import Method\nclass Odd(Method):\n    search = {'note_it': (1, 2)}\n    noted: int = 1\n"
    (tmp_path / "odd.py").write_text(odd)
    with pytest.raises(InputError, match=r"unknown parameter in Odd\.search 'note_it'; did you mean noted"):
        tuning.search_space(request(tmp_path, "odd"))


def request(folder, method="dial"):
    return tuning.TuneRequest(
        method, "guarded", "clean", 60, 60, 0, 5.0, "guarded_clean", Catalog.of("data", folder), ""
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[dial", "tuned.toml: not TOML"),
        ("dial = 3", "tuned.toml: [dial.] has no table 'values'"),
        ("[dial.a]\nvalues = 3", "tuned.toml: [dial.a] has no table 'values'"),
        ("[dial.b]\nvalues = {}", "unknown tuned settings of dial (bench.py tune makes them) 'a'; known: b"),
        ("", "unknown tuned settings of dial (bench.py tune makes them) 'a'; known: none"),
        ("[dial.a]\nvalues = {trun = 1}", "unknown parameter of method dial 'trun'; did you mean turn"),
    ],
)
def test_missing_or_broken_settings_are_reported(folder, capsys, text, message):
    (folder / "tuned.toml").write_text(text)
    words = ["--methods", "dial[tuned=a]", "--datasets", "guarded", "--plugins", str(folder), "--dry-run"]
    assert main.main(words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("budget", [30, 31, 60, 300, 1000, 5000])
def test_search_and_validation_use_the_budget(budget):
    stages, validation = tuning.search_stages(budget), tuning.validation_problems(budget)
    used = tuning.count_calls(stages) + 2 * validation
    assert budget - 1 <= used <= budget and tuning.count_calls(stages) <= tuning.SEARCH_SHARE * budget
    assert stages[-1][0] == 2 and validation >= 10
    calls, arguments = 0, 0  # by hand: those that are left are arguments what is new
    for number, problems in stages:
        calls, arguments = calls + number * (problems - arguments), problems
    assert calls == tuning.count_calls(stages)


class AnyName:
    """A registry that knows every name."""

    def spec(self, text):
        return MethodSpec(text, self)


class FakeProcess:
    """Method process that counts its calls; the parameter `mode` selects its result."""

    def __init__(self, problems):
        self.setup, self.calls = MethodSetup(MethodSpec("m", AnyName()), "d"), 0
        self.truth = {p.source.tobytes(): p.T_target_source for p in problems}

    def set_up(self, setup):
        self.setup = setup

    def call(self, request):
        self.calls += 1
        (source,) = request.sources
        mode, pose = self.setup.method.text.partition("mode=")[2].rstrip("]"), np.array(self.truth[source.tobytes()])
        if mode == "fails":
            return Reply(Status.TIMEOUT, time_ms=9.0)
        pose[0, 3] += {"": 0.3, "near": 0.1, "slow": 0.1, "far": 50.0}[mode]
        return Reply(pairs=[PairReply(pose=pose)], time_ms=5.0 if mode == "slow" else 1.0)


@pytest.fixture
def evaluator(folder):
    data = open_data("guarded", None, folder)
    problems = [make_problem(data, ProblemKey("guarded", "clean", 50, i, split="train")) for i in range(10)]
    return tuning.CandidateEvaluator(FakeProcess(problems), problems)


def test_errors_are_at_most_one_and_no_call_is_made_twice(evaluator):
    for text, mean in {"m": 0.3, "m[mode=near]": 0.1, "m[mode=far]": 1.0, "m[mode=fails]": 1.0}.items():
        assert evaluator.score(text, 5).mean == pytest.approx(mean)
    assert evaluator.process.calls == 20
    assert len(evaluator.score("m", 8).errors) == 8 and evaluator.process.calls == 23
    assert len(evaluator.score("m", 4).errors) == 4 and evaluator.process.calls == 23


def test_faster_of_equal_candidates_wins_and_the_default_is_never_dropped(evaluator):
    console = SimpleNamespace(print=lambda *_, **__: None)
    drawn = ["m[mode=slow]", "m[mode=near]", "m[mode=far]", "m[mode=fails]"]
    assert tuning.successive_halving(evaluator, ["m", *drawn], [(5, 2), (3, 4), (2, 8)], console) == "m[mode=near]"
    assert len(evaluator.results["m"]) == 8 and len(evaluator.results["m[mode=fails]"]) == 2
    assert len(evaluator.results["m[mode=slow]"]) == 4
    assert tuning.successive_halving(evaluator, ["m", "m[mode=far]"], [(2, 8)], console) == "m"


def test_candidate_is_better_only_if_separable_from_the_default(evaluator):
    def verdict_of(errors):
        held_out = SimpleNamespace(problems=[0] * 20)
        held_out.score = lambda text, count: tuning.Score(tuple(errors if text != "m" else [0.2] * count), 1.0)
        request = SimpleNamespace(method="m", seed=0, catalog=Catalog.of())
        evaluator.problems = evaluator.problems[:8]
        return tuning.compare_with_default(request, "icp[trim=0.2]", evaluator, held_out)

    assert (
        verdict_of([0.1] * 20)["verdict"]
        == "better than the default on held-out objects: 0.1000, not 0.2000 (p 0.0002)"
    )
    same = verdict_of([0.2] * 20)
    assert same["values"] == {} and same["validation"]["difference"][0] == 0
    assert same["verdict"].startswith("the default stays: icp[trim=0.2] is not better on held-out objects")
    luck = verdict_of([0.0] + [0.2] * 19)
    assert luck["verdict"] == "kept, but not separable from the default on held-out objects: 0.1900, not 0.2000 (p 1)"
    assert luck["values"] == {"trim": 0.2}


def test_candidate_worse_on_held_out_objects_is_not_kept(evaluator):
    held_out = SimpleNamespace(problems=[0] * 20)
    held_out.score = lambda text, count: tuning.Score((0.2 if text == "m" else 0.4,) * count, 1.0)
    entry = tuning.compare_with_default(SimpleNamespace(method="m", seed=0), "m[mode=near]", evaluator, held_out)
    assert entry["values"] == {} and entry["found"] == "m[mode=near]"
    assert entry["verdict"] == "the default stays: m[mode=near] is not better on held-out objects: 0.4000, not 0.2000"
    assert entry["training"]["found"] < entry["training"]["default"]


def test_candidates_are_different_seeded_and_within_their_ranges(folder):
    space = {"real": LogUniform(0.01, 1.0), "whole": LogUniform(1, 1000), "word": ("a", None)}
    some, more = (tuning.draw_candidates(request(folder, "m"), space, n) for n in (5, 200))
    assert more[0] == "m" and more[:5] == some and len(set(more)) == 200
    values = [dict(pair.split("=") for pair in text[2:-1].split(",")) for text in more[1:]]
    real, whole = ([v[name] for v in values if name in v] for name in ("real", "whole"))
    assert all(0.01 <= float(x) <= 1 for x in real) and all(1 <= int(x) <= 1000 for x in whole)
    assert 0.3 < np.mean([float(x) < 0.1 for x in real]) < 0.7  # evenly in the logarithm
    assert 0.4 < len(real) / 199 < 0.8  # each varies by a coin
    assert len(tuning.draw_candidates(request(folder, "m"), {"word": ("a", "b")}, 200)) == 3


def test_settings_are_read_back_unchanged(tmp_path):
    file = tmp_path / "tuned.toml"
    values = {"a": 0.25, "b": 3, "c": True, "d": "none", "e": 'say "é"\n', "f": [1, 2.5], "g": 1e-07, "h": {"i": []}}
    tuning.save_settings(file, "a-b", "x", {"values": values})
    tuning.save_settings(file, "b.c", "x", {"values": {}, "n": 1})
    assert read_tuned(file) == {"a-b": {"x": {"values": values}}, "b.c": {"x": {"values": {}, "n": 1}}}


def test_built_in_settings_can_be_built():
    for method, entries in read_tuned(BUILT_IN).items():
        for name, entry in entries.items():
            built = build(f"{method}[tuned={name}]").parameters
            assert {k: "none" if built[k] is None else built[k] for k in entry["values"]} == entry["values"]
            assert set(entry["validation"]) >= {"default", "found"} and entry["command"].startswith("bench.py tune")
