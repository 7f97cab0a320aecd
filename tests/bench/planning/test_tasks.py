"""Problem groups, tasks and batches of tasks."""

import pandas as pd

from bench.isolation.protocol import Limits, MethodSetup
from bench.planning.tasks import (
    BATCHES_PER_WORKER,
    PROBLEMS_PER_BATCH,
    Shard,
    Task,
    batch_tasks,
    make_groups,
    method_setup,
)
from common.kinds import DataKind
from datasets.base import Data
from datasets.problems import ProblemKey
from methods.core.registry import MethodSpec
from tests.bench.command_line import QUICK, configuration, refused
from tests.bench.planning.extra_grid import FILE
from tests.catalog import open_data


def test_batches_hold_each_task_once_and_one_setup_and_are_enough_for_all_workers():
    tasks = [
        Task(MethodSetup(MethodSpec(m), "d"), None, tuple(range(n)), Limits(1, 1))
        for m in "abcdefgh"
        for n in (20, 20, 5)
    ]
    for workers in (1, 2, 100):
        batches = batch_tasks(tasks, workers)
        assert [p for batch in batches for p in batch] == tasks
        assert all(len({p.setup for p in batch}) == 1 for batch in batches)
    assert len(batch_tasks(tasks, 1)) < len(tasks) == len(batch_tasks(tasks, 100))
    many = batch_tasks(tasks * 40, 2)
    assert (
        max(sum(len(p.keys) for p in batch) for batch in many) <= PROBLEMS_PER_BATCH
        and len(many) >= BATCHES_PER_WORKER * 2
    )
    assert batch_tasks([], 2) == []


def test_each_method_gets_its_groups_once(run_file, tmp_path):
    assert run_file(FILE, "--out", "r") == 0
    trials = pd.read_csv(tmp_path / "results" / "r" / "trials.csv")
    count = trials.groupby(["method", "condition", "points"]).size().to_dict()
    groups = [("noisy", 60), ("noisy", 40), ("clean", 60), ("clean", 40)]
    assert count == {(m, *group): 3 for m in ("good", "identity") for group in groups}
    alone = FILE.replace("points = [60, 40]", "points = [40]")
    assert run_file(alone, "--out", "s") == 0
    trials = pd.read_csv(tmp_path / "results" / "s" / "trials.csv")
    assert set(trials[trials["points"] == 60]["method"]) == {"good"}


def test_data_sets_declare_their_kind_and_the_flag_overrides_it(capsys, monkeypatch):
    kinds = {name: open_data(name).kind for name in ("shapes40", "fragments", "icl_nuim_pairs", "stanford")}
    scans, images = DataKind.SCANS, DataKind.RANGE_IMAGES
    assert kinds == {"shapes40": DataKind.OBJECTS, "fragments": scans, "icl_nuim_pairs": scans, "stanford": images}
    short = [*QUICK, "--methods", "good", "--problems", "1"]
    config, _ = configuration(*short)
    assert {group.kind for group in make_groups(config)} == {DataKind.OBJECTS}
    given, _ = configuration(*short, "--kind", "scans")
    setups = [method_setup(given, given.methods[0], group) for group in make_groups(given)]
    assert {setup.kind for setup in setups} == {DataKind.SCANS}
    assert given.hash != config.hash and given.to_json()["kind"] == "scans"
    assert "rooms" in refused(capsys, *short, "--kind", "rooms")
    monkeypatch.setattr(Data, "kind", images)
    assert {group.kind for group in make_groups(config)} == {images}


def test_an_extra_grid_may_have_fewer_problems(capsys):
    config, _ = configuration("--preset", "quick", "--methods", "all")
    sizes = {group.dataset.text: len(group.keys) for group in make_groups(config)}
    assert sizes == {"shapes40": 40, "rooms": 12}
    few, _ = configuration("--preset", "quick", "--methods", "all", "--problems", "3")
    assert {len(group.keys) for group in make_groups(few)} == {3}
    assert few.to_json()["more"][0]["problems"] == 12


def test_shards_divide_the_calls_of_every_method():
    for count in (1, 2, 3, 20):
        parts = [Shard.parse(f"{k}/{count}") for k in range(1, count + 1)]
        owners = [[p for p in parts if p.has(index, repeat)] for index in range(40) for repeat in range(3)]
        assert all(len(own) == 1 for own in owners)
        sizes = [sum(p.has(index, 0) for index in range(40)) for p in parts]
        assert max(sizes) - min(sizes) <= 1 and [str(p) for p in parts][-1] == f"{count}/{count}"


def test_a_problem_is_drawn_as_the_configuration_says():
    """Each flag that decides on problems is in the key of every one of them, and so in its random numbers."""
    flags = [
        "--seed",
        "7",
        "--sampler",
        "haar",
        "--angles",
        "10",
        "30",
        "60",
        "--problems",
        "4",
        "--points",
        "50",
        "40",
    ]
    config, _ = configuration(*QUICK, "--methods", "good", "--conditions", "noisy[sigma=0.02]", "clean", *flags)
    groups = make_groups(config)
    assert [(group.condition.text, group.points) for group in groups] == [
        (condition, points) for condition in ("noisy[sigma=0.02]", "clean") for points in (50, 40)
    ]
    for group in groups:
        assert group.keys == tuple(
            ProblemKey("blobs", group.condition.text, group.points, i, 7, "test", "haar", (10.0, 60.0))
            for i in range(4)
        )
