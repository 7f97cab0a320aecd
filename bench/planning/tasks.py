"""Problem groups of a run, and the tasks of methods on them. No problem is generated here."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace

from bench.isolation.protocol import Limits, MethodSetup
from bench.planning.config import ExtraGrid, RunConfig
from common.errors import InputError
from common.kinds import DataKind
from common.text import counted
from datasets.base import DataSet, NotEnoughPoints, PairSet
from datasets.conditions import Clean, ConditionSpec
from datasets.problems import Problem, ProblemKey, make_problem
from datasets.registry import DataSetSpec
from methods.core.registry import MethodSpec

PROBLEMS_PER_TASK = 20
"""Maximum problems of a task, or one batch if that is more."""
PROBLEMS_PER_BATCH = 120
"""Maximum problems a worker takes at a time, unless one task is more."""
BATCHES_PER_WORKER = 8
"""Minimum task batches per worker, if there are enough problems: some take much longer than others."""


@dataclass(frozen=True)
class ProblemGroup:
    """Problems of one data set, condition and point count.

    Attributes:
        dataset, condition, points: what the problems are made of.
        requested: points the user requested.
        domain: data that learned methods are set up for, such as `modelnet40/first20`.
        keys: of the problems.
        skip: the reason why there are no problems, if there are none.
        remarks: remarks of the data set.
        methods: methods that are run on the problems.
        kind: kind of the data, by the data set or `--kind`.
    """

    dataset: DataSetSpec
    condition: ConditionSpec
    points: int
    requested: int
    domain: str
    keys: tuple[ProblemKey, ...]
    skip: str = ""
    remarks: tuple[str, ...] = ()
    methods: tuple[MethodSpec, ...] = ()
    kind: DataKind = DataKind.OBJECTS

    @property
    def name(self) -> str:
        """`dataset/condition/points`."""
        return f"{self.dataset}/{self.condition}/{self.points}"

    @property
    def columns(self) -> tuple[str, str, int]:
        """Key of the group in tables: data set, condition, points."""
        return self.dataset.text, self.condition.text, self.points

    @property
    def is_real(self) -> bool:
        """Whether the problems are real pairs with their own poses."""
        return self.condition.value.real

    def problem(self, key: ProblemKey) -> Problem:
        """Generate a problem of the group."""
        return make_problem(self.dataset.open(), key)


@dataclass(frozen=True)
class Task:
    """Problems of one group for one method, with the seeds of one repeat, `batch` pairs per call.

    `group` has no keys: a task is sent to a worker and back. `new` tells whether any of its problems was not stored
    when the task was made; the worker then returns what is stored of them, so that problems are generated only there.
    """

    setup: MethodSetup
    group: ProblemGroup
    keys: tuple[ProblemKey, ...]
    limits: Limits
    repeat: int = 0
    batch: int = 1
    new: bool = False


@dataclass(frozen=True)
class Shard:
    """One of `count` parts of a run, numbered from 1: every `count`-th call of each method, over problems and repeats."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard of a text such as 3/20.

        Raises:
            InputError: the text is something else.
        """
        number, slash, count = text.partition("/")
        if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise InputError(f"--shard {text}: give the number of the shard and how many there are, such as 3/20")
        return cls(int(number), int(count))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def has(self, index: int, repeat: int) -> bool:
        """Return whether the call on a problem, by its index in the group, is in this shard."""
        return (index + repeat) % self.count == self.number - 1


WHOLE = Shard(1, 1)
"""The shard that is the run itself."""


def make_groups(config: RunConfig) -> list[ProblemGroup]:
    """Return the problem groups of a run: data sets x their conditions x point counts, then those of its extra grids.

    A fixed point set provides at most half its points for a condition with independent samples; groups that become equal
    are merged, with the methods of all of them.
    """
    groups: dict[str, ProblemGroup] = {}
    for grid in (ExtraGrid(config.methods, config.datasets, config.conditions, config.points), *config.more):
        grid_config = config if grid.problems is None else replace(config, problems=min(grid.problems, config.problems))
        for dataset in grid.datasets:
            for condition in conditions_for(grid.conditions, dataset):
                for points in grid.points:
                    group = make_group(grid_config, dataset, condition, points)
                    methods = groups[group.name].methods if group.name in groups else ()
                    groups[group.name] = replace(group, methods=tuple(dict.fromkeys([*methods, *grid.methods])))
    return list(groups.values())


def conditions_for(conditions: Iterable[ConditionSpec], dataset: DataSetSpec) -> list[ConditionSpec]:
    """Return the conditions that fit a data set of objects, or of real pairs."""
    return [condition for condition in conditions if condition.value.real == dataset.is_pairs]


def make_group(config: RunConfig, dataset: DataSetSpec, condition: ConditionSpec, requested: int) -> ProblemGroup:
    """Return one group, with the points that the data set can provide, and at most as many real pairs as there are."""
    source = dataset.open()
    kind = config.kind or source.kind
    if isinstance(source, PairSet):
        few = len(source) < config.problems
        pairs = range(min(len(source), config.problems))
        real = tuple(ProblemKey(dataset.text, condition.text, requested, i, config.seed, sampler="none") for i in pairs)
        remark = (f"{dataset} has {counted(len(source), 'pair')}, and each is used once",) if few else ()
        domain, remarks = source.domain, (*source.remarks, *remark)
        return ProblemGroup(dataset, condition, requested, requested, domain, real, remarks=remarks, kind=kind)
    skip, points = "", requested
    fixed, too_small = source.points_for(requested, condition.value.needed(requested))
    try:
        points = condition.value.points_available(requested, fixed)
    except NotEnoughPoints as reason:
        skip = "; ".join(filter(None, (str(reason), too_small)))
    bounds = (config.angles[0], config.angles[-1])
    keys = tuple(
        ProblemKey(dataset.text, condition.text, points, i, config.seed, sampler=config.sampler, angles=bounds)
        for i in range(config.problems)
    )
    domain = domain_of(source, condition.value)
    remarks = (*source.remarks, *filter(None, [too_small]))
    return ProblemGroup(dataset, condition, points, requested, domain, keys, skip, remarks, kind=kind)


def domain_of(dataset: DataSet | PairSet, condition: Clean) -> str:
    """Return the data that a condition's problems come from, such as `modelnet40` or `modelnet40/first20`."""
    if isinstance(dataset, PairSet) or not condition.unseen_half:
        return dataset.domain
    return f"{dataset.domain}/first{len(dataset.categories) // 2}"


def method_setup(config: RunConfig, method: MethodSpec, group: ProblemGroup) -> MethodSetup:
    """Return how a method's process is started for a group."""
    device = method.device_on(config.device)
    return MethodSetup(method, group.domain, device, config.threads, config.seed, group.kind)


def make_tasks(
    config: RunConfig,
    groups: Iterable[ProblemGroup],
    done: set[tuple[str, str, int]],
    stored: Container[str],
    shard: Shard = WHOLE,
) -> list[Task]:
    """Return the tasks that remain, method by method. Random methods solve each problem once per repeat.

    Args:
        config: of the run.
        groups: of problems.
        done: (method, problem, repeat) of the outcomes that exist.
        stored: ids of the problems that are stored.
        shard: part of the run that is done here.
    """
    groups, tasks = list(groups), list[Task]()
    for method in config.every_method:
        repeats, batch = repeats_and_batch(config, method)
        size = max(PROBLEMS_PER_TASK // batch, 1) * batch
        for group in (g for g in groups if method in g.methods):
            setup, without_keys = method_setup(config, method, group), replace(group, keys=())
            for repeat in range(repeats):
                mine = [k for k in group.keys[: config.limit(method)] if shard.has(k.index, repeat)]
                keys = [k for k in mine if (method.text, k.id, repeat) not in done]
                for start in range(0, len(keys), size):
                    own = tuple(keys[start : start + size])
                    new = any(key.id not in stored for key in own)
                    tasks.append(Task(setup, without_keys, own, config.call_limits, repeat, batch, new))
    return tasks


def batch_tasks(tasks: Iterable[Task], workers: int) -> list[list[Task]]:
    """Group tasks into batches for workers: those of one method process together, which takes up to 2 s to start."""
    tasks = list(tasks)
    size = min(sum(len(task.keys) for task in tasks) // (BATCHES_PER_WORKER * workers), PROBLEMS_PER_BATCH)
    batches: list[list[Task]] = []
    problems = 0
    for task in tasks:
        problems += len(task.keys)
        if batches and batches[-1][0].setup == task.setup and problems <= size:
            batches[-1].append(task)
        else:
            batches.append([task])
            problems = len(task.keys)
    return batches


def repeats_and_batch(config: RunConfig, method: MethodSpec) -> tuple[int, int]:
    """Return how often a method solves each problem, and how many pairs it gets per call."""
    return (config.repeats if method.random else 1), (config.batch if method.solves_batches else 1)
