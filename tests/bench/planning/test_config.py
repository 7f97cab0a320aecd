"""Configuration: presets, ranges, hash, differences, extra grids."""

import json
from argparse import Namespace
from dataclasses import replace

import numpy as np
import pytest

from bench.cli import main
from bench.evaluation.conventions import convention
from bench.planning import config
from bench.planning import config as config_module
from bench.planning.catalog import Catalog
from bench.planning.config import ExtraGrid, configuration_hash, load_preset
from common.errors import InputError
from common.keys import digest
from methods.core.registry import MethodRegistry
from tests.bench.command_line import PLUGINS, QUICK, configuration, refused
from tests.catalog import spec


def test_differences_between_configurations_are_short():
    many = list("abcdefgh")
    there = {"problems": 3, "methods": many, "points": [64], "limits": {"icp": 0.5}, "angles": [0, 180], "threshold": 1}
    empty_folder = {
        "problems": 4,
        "methods": [*many[1:], "z"],
        "points": [],
        "limits": {"fgr": 1},
        "angles": [0, 180],
        "batch": 2,
    }
    assert config_module.differences(there, empty_folder) == [
        "problems: 3 → 4",
        "methods: a → z, the others in both",
        "points: 64 → none",
        "limits.icp: 0.5 → –",
        "limits.fgr: – → 1",
    ]


@pytest.mark.parametrize(
    ("count", "line"),
    [(6, "a b c d e f → a b c d e z"), (7, "f → z, the others in both")],
)
def test_of_lists_of_more_than_six_entries_only_the_changed_ones_are_shown(count, line):
    entries = list("gabcdef")[-count:]
    assert config_module.differences({"m": entries}, {"m": [*entries[:-1], "z"]}) == [f"m: {line}"]
    assert config_module.differences({"m": entries}, {"m": entries[:-1]})[0].startswith("m: ")


def test_a_value_that_became_a_table_or_a_list_is_shown_as_it_is():
    there, here = {"gpu": {"name": "A"}, "kind": ["a"]}, {"gpu": None, "kind": "a"}
    assert config_module.differences(there, here) == ["gpu: {'name': 'A'} → –", "kind: a → a"]
    assert config_module.differences(here, there) == ["gpu: – → {'name': 'A'}", "kind: a → a"]


MOST = 10_000_000


@pytest.mark.parametrize(
    ("name", "valid", "invalid"),
    [
        *((name, (1, MOST), (0, -1, MOST + 1)) for name in ("problems", "threads", "repeats", "batch")),
        *((name, (1e-9, MOST), (0, -1.0, np.nextafter(MOST, np.inf))) for name in ("timeout", "memory_limit_gb")),
        ("points", ((1,), (MOST, 5)), ((0,), (5, MOST + 1))),
        ("timing_rounds", (0, MOST), (-1, MOST + 1)),
        (
            "angles",
            ((0, 180), (10.0, 20.0, 30.0)),
            ((), (20,), (0, 0), (0, 20, 20), (20, 10), (-0.1, 30), (0, 180.1), (0, 20, 180.1)),
        ),
        ("sampler", ("axis_angle", "haar"), ("har",)),
    ],
)
def test_every_number_of_a_configuration_has_its_range(given, name, valid, invalid):
    for value in valid:
        assert getattr(replace(given, **{name: value}), name) == value
    flag = {"memory_limit_gb": "--memory-limit", "sampler": "unknown sampler"}.get(name, f"--{name.replace('_', '-')}")
    for value in invalid:
        with pytest.raises(InputError, match=f"^{flag}"):
            replace(given, **{name: value})


def test_a_method_gets_its_share_of_the_problems_and_one_at_least(given):
    shares = replace(given, problems=45, limits={"icp": 0.1, "icp[trim=0.2]": 0.5, "fgr+icp": 0.001, "pca": 0.34})
    names = {"icp": 4, "icp[trim=0.2]": 22, "icp[trim=0.3]": 4, "icp+hgmr": 4, "fgr+icp": 1, "fgr": 45, "pca+icp": 15}
    assert {name: shares.limit(spec(name)) for name in names} == names


def test_methods_are_those_of_the_run_then_those_of_extra_grids_each_once(given):
    grids = [ExtraGrid(tuple(map(spec, names)), (), (), ()) for names in (("pca", "icp"), ("fgr", "pca"))]
    run = replace(given, methods=(spec("icp"), spec("hgmr")), more=tuple(grids))
    assert [method.text for method in run.every_method] == ["icp", "hgmr", "pca", "fgr"]


def test_the_hash_is_of_the_values_whatever_their_order_without_those_that_earlier_versions_lack():
    values = {"problems": 3, "limits": {"b": 1, "a": 0.5}, "methods": ["icp"], "oracle": False, "points": [1]}
    plain = digest(json.dumps(values, sort_keys=True))
    unused = {"repeats": 1, "batch": 1, "more": [], "kind": None, "tuned": {}, "gpu": {}}
    ignored = {"threshold": 0.2, "angle_bins": [0, 180]}
    assert configuration_hash(values) == configuration_hash(values | unused | ignored) == plain
    assert configuration_hash(dict(reversed(values.items())) | {"limits": {"a": 0.5, "b": 1}}) == plain
    used = {"repeats": 2, "batch": 2, "more": [{}], "kind": "scans", "tuned": {"a": {}}, "gpu": {"name": "A"}}
    used |= {"problems": 4, "points": [], "oracle": True, "new": 1}
    hashes = {configuration_hash(values | unused | {name: value}) for name, value in used.items()}
    assert len(hashes | {plain}) == len(used) + 1


def test_run_json_gives_the_same_configuration(empty_folder, capsys):
    arguments = [
        "--methods",
        "good",
        "oracle",
        "--problems",
        "2",
        "--max-angle",
        "50",
        "--conditions",
        "noisy[sigma=0.02]",
    ]
    assert main.main([*QUICK, *arguments, "--out", "r"]) == 0
    facts = json.loads((empty_folder / "results" / "r" / "run.json").read_text())
    config, _ = configuration("--config", "results/r/run.json")
    assert config.hash == facts["hash"]
    again = ["--config", "results/r/run.json", "--out", "r", "--plugins", str(PLUGINS), "--jobs", "1"]
    capsys.readouterr()
    assert main.main(again) == 0 and "continuing" in capsys.readouterr().out


def paper(**given):
    names = "datasets conditions points angles max_angle sampler problems timeout memory_limit timing_rounds kind"
    flags = dict.fromkeys(names.split()) | {"methods": ["all"], "preset": "paper", "overrides": {}, "skip_bad": False}
    return config.from_flags(
        Namespace(**flags | {"seed": 0, "threads": 1, "device": "cpu", "repeats": 1, "batch": 1, "kind": None} | given),
        Catalog.of(),
    )


def test_paper_preset_has_extra_grids_unless_narrowed():
    in_grids = {method.text for grid in paper().more for method in grid.methods}
    assert in_grids
    assert not paper(methods=["icp"]).more and not paper(points=["64"]).more and not paper(conditions=["clean"]).more
    left_out = {name for name, entry in MethodRegistry().entries.items() if not entry.cls.in_all} - {"deepgmr_scans"}
    assert left_out and left_out <= in_grids and not left_out & {method.text for method in paper().methods}


FLAGS = [
    ({"problems": 7}, {"problems": 7}),
    ({"timeout": 20.0, "memory_limit": 2.0}, {"timeout": 20, "memory_limit_gb": 2}),
    ({"timeout": 20.5, "memory_limit": 2.5}, {"timeout": 20.5, "memory_limit_gb": 2.5}),
    ({"timing_rounds": 0}, {"timing_rounds": 0}),
    ({"points": ["64,32"]}, {"points": [64, 32], "timing_points": [64, 32], "more": []}),
    ({"points": ["64"], "overrides": {"timing": {"points": [9]}}}, {"points": [64], "timing_points": [9], "more": []}),
    (
        {"overrides": {"timing": {"rounds": 3, "budget_s": 0.5}, "limits": {"icp": 0.5}}},
        {"timing_rounds": 3, "timing_budget_s": 0.5, "limits": {"icp": 0.5}},
    ),
    ({"angles": ["10", "20.5"]}, {"angles": [10.0, 20.5]}),
    ({"max_angle": 75.0}, {"angles": [0.0, 30.0, 60.0, 75.0]}),
    ({"max_angle": 60.0}, {"angles": [0.0, 30.0, 60.0]}),
    ({"sampler": "haar", "seed": 4, "threads": 3}, {"sampler": "haar", "seed": 4, "threads": 3}),
    ({"repeats": 2, "batch": 8}, {"repeats": 2, "batch": 8}),
    ({"kind": "scans"}, {"kind": "scans"}),
    ({"datasets": ["icl_nuim"]}, {"datasets": ["icl_nuim"], "more": []}),
    ({"datasets": ["folder,fragments"], "skip_bad": True},
     {"datasets": ["folder[skip_bad=true]", "fragments[skip_bad=true]"], "more": [],
      "conditions": ["clean", "noisy", "unseen", "partial", "partial[visibility=hpr]", "real"]}),
    ({"datasets": ["stanford"]}, {"datasets": ["stanford"], "conditions": ["real"], "more": []}),
    ({"conditions": ["noisy,clean"]}, {"conditions": ["noisy", "clean"], "more": []}),
    ({"methods": ["icp", "oracle", "icp"]}, {"methods": ["icp"], "oracle": True, "more": []}),
    ({"methods": ["icp"]}, {"methods": ["icp"], "oracle": False, "more": []}),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "changed"), FLAGS)
def test_a_flag_changes_what_it_names_and_nothing_else(flags, changed):
    plain, values = paper().to_json(), paper(**flags).to_json()
    assert json.dumps(values) == json.dumps(plain | changed)  # 20 and 20.0 differ


def test_without_flags_the_values_are_those_of_the_preset():
    preset, values = load_preset("paper"), paper().to_json()
    timing = {f"timing_{name}": preset["timing"][name] for name in ("points", "rounds", "budget_s")}
    names = "datasets conditions points angles sampler problems timeout memory_limit_gb limits more"
    assert {name: values[name] for name in names.split()} == {name: preset[name] for name in names.split()}
    assert {name: values[name] for name in timing} == timing and values["oracle"] is True and values["kind"] is None
    methods = [name for name, entry in MethodRegistry().entries.items() if entry.facts.in_all]
    assert values["methods"] == [*methods, *preset["chains"]]


def test_tuned_settings_and_the_gpu_are_part_of_a_configuration(monkeypatch):
    facts = {"name": "A", "driver": "1", "cuda": "2"}
    monkeypatch.setattr("common.devices.identity", lambda device: facts if device == "cuda:0" else {})
    one, two = (f"{method}[tuned=modelnet40_partial_visibility_hpr]" for method in ("fgr", "icp"))
    grid = {"methods": [two, "pca"], "datasets": ["shapes40"], "conditions": ["clean"], "points": [9]}
    run = paper(methods=[one], device="cuda:0", overrides={"more": [grid]})
    assert (run.device, run.gpu) == ("cuda:0", facts) and paper().gpu == {}
    assert run.tuned == {name: spec(name).parameters for name in (one, two)} and paper().tuned == {}
    assert run.to_json()["more"] == [grid]


def test_presets_do_not_set_repeats_and_batch():
    assert not {"repeats", "batch"} & load_preset("quick").keys()


@pytest.mark.parametrize("flag", ["--repeats", "--batch"])
def test_repeats_and_batch_must_be_positive(bench, capsys, flag):
    bench("--methods", "good", flag, 0, expect=2)
    assert f"{flag}: must be 1 to 10000000" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--datasets", "stanford", "--conditions", "noisy"],
            "--conditions noisy: is for objects; real pairs have one condition",
        ),
        (["--datasets", "blobs", "--conditions", "real"], "--conditions real: needs a data set of real pairs"),
        (
            ["--datasets", "blobs,stanford", "--conditions", "noisy"],
            "--datasets stanford: real pairs have one condition, real",
        ),
        (
            ["--datasets", "blobs,stanford", "--conditions", "real"],
            "--datasets blobs: real is for real pairs, not for objects",
        ),
        (["--datasets", "stanfrd"], "did you mean stanford"),
    ],
)
def test_condition_that_does_not_fit_the_data_is_one_line(empty_folder, capsys, arguments, says):
    assert says in refused(capsys, "problems", "--plugins", PLUGINS, *arguments)


def test_the_threshold_of_a_run_is_that_of_the_default_convention():
    assert config.RECALL_THRESHOLD == convention(None, None).threshold == 0.2
