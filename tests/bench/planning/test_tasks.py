"""Problem groups, tasks and batches of tasks."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest

from bench.isolation.protocol import Limits, MethodSetup
from bench.planning.tasks import (
    BATCHES_PER_WORKER,
    PROBLEMS_PER_BATCH,
    WHOLE,
    Shard,
    Task,
    batch_tasks,
    domain_of,
    make_group,
    make_groups,
    make_tasks,
    method_setup,
)
from common.errors import InputError
from common.keys import rng
from common.kinds import DataKind
from datasets.base import Data, DataSet, PairSet
from datasets.conditions import ConditionSpec
from datasets.problems import ProblemKey
from methods.core.registry import MethodSpec
from tests.bench.command_line import QUICK, configuration, refused
from tests.bench.planning.extra_grid import FILE
from tests.catalog import open_data, spec


class Scans(PairSet):
    """Five pairs; they are not read."""

    kind = DataKind.SCANS
    remarks = ("two files were left out",)

    def __len__(self):
        return 5

    def pair(self, row):
        raise NotImplementedError


class Objects(DataSet):
    """Seven categories of objects with 100 fixed points, of which the smallest has fewer."""

    categories = tuple("abcdefg")

    def labels(self, split):
        raise NotImplementedError

    def shape(self, split, index):
        raise NotImplementedError

    def points_for(self, requested, needed):
        return 100, f"{needed} are needed" if needed > 100 else ""


def named(dataset):
    """The specification of a data set that is not in the registry."""

    class Spec(SimpleNamespace):
        def __str__(self):
            return self.text

    dataset.name = "data"
    return Spec(text="data[x=1]", is_pairs=isinstance(dataset, PairSet), open=lambda: dataset)


@pytest.mark.parametrize("shard", [WHOLE, Shard(2, 3)])
@pytest.mark.parametrize(("batch", "size"), [(1, 20), (7, 14), (20, 20), (50, 50)])
def test_tasks_hold_every_call_that_remains_once(given, shard, batch, size):
    """Against a plain list of the calls: by method, group, repeat and problem, in pieces of at most 20 or one batch."""
    config, draw = replace(given, batch=batch), rng("tasks")
    groups = make_groups(config)
    ids = [key.id for group in groups for key in group.keys]
    methods = {"lottery": (3, 20, 45, 1), "together": (1, size, 45, batch), "identity": (1, 20, 22, 1)}
    methods |= {"random_pose": (3, 20, 45, 1)}
    done = {(m, i, r) for m in methods for i in ids for r in range(3) if draw.random() < 0.1}
    stored = {i for i in ids if draw.random() < 0.9}
    expected = []
    for method, (repeats, most, count, pairs) in methods.items():
        for group in groups:
            for repeat in range(repeats if method != "random_pose" or group is groups[0] else 0):
                own = [k for k in group.keys[:count] if (k.index + repeat) % shard.count == shard.number - 1]
                left = [k for k in own if (method, k.id, repeat) not in done]
                for start in range(0, len(left), most):
                    piece = tuple(left[start : start + most])
                    new = not {k.id for k in piece} <= stored
                    expected.append((method, group.name, repeat, piece, pairs, new))
    tasks = make_tasks(config, groups, done, stored, shard)
    assert expected == [(t.setup.method.text, t.group.name, t.repeat, t.keys, t.batch, t.new) for t in tasks]
    assert len({new for *_, new in expected}) == 2
    for task in tasks:
        assert task.limits == config.call_limits and task.group.keys == ()
        assert task.setup == MethodSetup(task.setup.method, "blobs", "cpu", 2, 5, DataKind.OBJECTS)


def test_a_method_computes_on_the_given_device_if_it_can(given):
    config, group = replace(given, device="cuda:1"), make_groups(given)[0]
    devices = {name: method_setup(config, spec(name), group).device for name in ("icp", "deepgmr", "deepgmr+icp")}
    assert devices == {"icp": "cpu", "deepgmr": "cuda:1", "deepgmr+icp": "cuda:1"}


@pytest.mark.parametrize(("problems", "used"), [(4, 4), (5, 5), (6, 5)])
def test_a_set_of_pairs_gives_each_pair_once(given, problems, used):
    dataset, condition = named(Scans()), ConditionSpec.parse("real")
    group = make_group(replace(given, problems=problems), dataset, condition, 300)
    assert group.keys == tuple(ProblemKey("data[x=1]", "real", 300, i, 5, sampler="none") for i in range(used))
    few = ("data[x=1] has 5 pairs, and each is used once",) if problems > 5 else ()
    assert group.remarks == ("two files were left out", *few) and group.skip == ""
    assert (group.domain, group.kind, group.points, group.requested) == ("data", DataKind.SCANS, 300, 300)
    assert (group.is_real, group.columns) == (True, ("data[x=1]", "real", 300))


@pytest.mark.parametrize(
    ("condition", "requested", "points", "skip", "remarks"),
    [
        ("clean", 100, 100, "", ()),
        ("clean", 101, 101, "objects have 100 fixed points, 101 are requested; points are never repeated; 101 are needed",
         ("101 are needed",)),
        ("resampled", 80, 50, "", ("160 are needed",)),
        ("unseen", 60, 60, "", ()),
    ],
)  # fmt: skip
def test_objects_with_few_points_give_smaller_clouds_or_a_reason(given, condition, requested, points, skip, remarks):
    group = make_group(given, named(Objects()), ConditionSpec.parse(condition), requested)
    assert (group.points, group.requested, group.skip, group.remarks) == (points, requested, skip, remarks)
    assert group.name == f"data[x=1]/{condition}/{points}" and {key.points for key in group.keys} == {points}
    assert group.domain == ("data/first3" if condition == "unseen" else "data") and not group.is_real
    assert domain_of(named(Scans()).open(), ConditionSpec.parse("unseen").value) == "data"


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "3/", "/3", "a/3", "1/b", "-1/3", "1.0/3", "0/0"])
def test_a_shard_that_is_none_is_refused(text):
    with pytest.raises(InputError, match=f"--shard {text}: give the number of the shard and how many there are"):
        Shard.parse(text)


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


@pytest.mark.parametrize("counts", [[20] * 64, rng("batches").integers(1, 21, 64).tolist()])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_batch_is_as_long_as_its_share_of_the_problems_allows(counts, workers):
    """Greedily: the next task is in the same batch exactly if it has the same setup and the sum stays within the share."""
    setups = [MethodSetup(MethodSpec("ab"[k >= 40]), "d") for k in range(64)]
    tasks = [Task(setup, None, tuple(range(n)), None) for setup, n in zip(setups, counts, strict=True)]
    most, expected = min(sum(counts) // (8 * workers), 120), [[0]]
    for k in range(1, 64):
        fits = sum(counts[i] for i in expected[-1]) + counts[k] <= most
        expected += [[]] if k == 40 or not fits else []
        expected[-1].append(k)
    assert batch_tasks(tasks, workers) == [[tasks[k] for k in batch] for batch in expected]


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
