"""Configuration: presets, differences, extra grids."""

import json
from argparse import Namespace

import pytest

from bench.cli import main
from bench.evaluation.conventions import convention
from bench.planning import config
from bench.planning import config as config_module
from bench.planning.catalog import Catalog
from bench.planning.config import load_preset
from methods.core.registry import MethodRegistry
from tests.bench.command_line import PLUGINS, QUICK, configuration, refused


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
