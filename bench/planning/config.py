"""Configuration of a run: a preset, overridden by flags. Runs with equal configurations give equal results."""

from __future__ import annotations

import argparse
import dataclasses
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.isolation.protocol import Limits
from bench.planning.catalog import Catalog
from common import devices, specs
from common.errors import InputError, unknown
from common.keys import check_seed, digest
from common.kinds import DataKind, data_kind
from common.text import join_names
from datasets.conditions import REAL, ConditionSpec
from datasets.poses import SAMPLERS
from datasets.registry import DataSetSpec
from methods.core.registry import MethodSpec

PRESETS = Path(__file__).parent / "presets"
RECALL_THRESHOLD = 0.2
MAX_COUNT = 10_000_000
"""Maximum of everything that is counted, such as problems and points, and of limits in seconds and GB."""
MAX_JOBS = 1024
"""Maximum number of worker processes."""
ORACLE = "oracle"
"""Name of the control whose poses are the ground truth. It is no method: the run itself stores its outcomes."""


@dataclass(frozen=True)
class ExtraGrid:
    """Additional problem groups for some methods only, such as ablations over conditions or point counts.

    `problems` is the maximum number of problems of each group, None for that of the run.
    """

    methods: tuple[MethodSpec, ...]
    datasets: tuple[DataSetSpec, ...]
    conditions: tuple[ConditionSpec, ...]
    points: tuple[int, ...]
    problems: int | None = None


@dataclass(frozen=True)
class RunConfig:
    """Everything the results depend on. Angles in degrees, times in seconds, memory in GB.

    Attributes:
        methods, datasets, conditions, points: the grid of problem groups.
        oracle: whether the ground truth is evaluated as a control of the scoring.
        angles: bin edges of the rotation angle; the first and the last bound the sampler.
        sampler: sampler of rotations.
        problems: problems per condition.
        seed, threads, device: of every method.
        timeout, memory_limit_gb: limits of a call.
        limits: method to the share of the problems of a group that it gets.
        timing_points, timing_rounds, timing_budget_s: point counts, rounds and time per method of the timing phase.
        repeats: how often a random method solves each problem.
        batch: pairs per call of methods that support batches.
        more: grids in addition to `methods` x `datasets` x `conditions` x `points`.
        kind: kind of the data for which methods choose their settings; None for that of each data set.
        tuned: parameters of the methods with tuned settings: a settings file may change under the same name.
        gpu: name, driver and CUDA version of the device if it is a GPU: outcomes of two GPUs are not mixed.
    """

    methods: tuple[MethodSpec, ...]
    oracle: bool
    datasets: tuple[DataSetSpec, ...]
    conditions: tuple[ConditionSpec, ...]
    points: tuple[int, ...]
    angles: tuple[float, ...]
    sampler: str
    problems: int
    seed: int
    threads: int
    device: str
    timeout: float
    memory_limit_gb: float
    limits: Mapping[str, float]
    timing_points: tuple[int, ...]
    timing_rounds: int
    timing_budget_s: float
    repeats: int = 1
    batch: int = 1
    more: tuple[ExtraGrid, ...] = ()
    kind: DataKind | None = None
    tuned: Mapping[str, Any] = field(default_factory=dict)
    gpu: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("problems", "threads", "repeats", "batch"):
            self._check(1 <= getattr(self, name) <= MAX_COUNT, f"--{name}", f"be 1 to {MAX_COUNT}")
        check_seed(self.seed)
        self._check(0 < self.timeout <= MAX_COUNT, "--timeout", f"be above 0 and at most {MAX_COUNT} seconds")
        self._check(0 < self.memory_limit_gb <= MAX_COUNT, "--memory-limit", f"be above 0 and at most {MAX_COUNT} GB")
        self._check(all(1 <= n <= MAX_COUNT for n in self.points), "--points", f"be 1 to {MAX_COUNT}")
        self._check(0 <= self.timing_rounds <= MAX_COUNT, "--timing-rounds", f"be 0 to {MAX_COUNT}")
        rising = all(a < b for a, b in zip(self.angles, self.angles[1:], strict=False))
        inside = len(self.angles) >= 2 and self.angles[0] >= 0 and self.angles[-1] <= 180
        self._check(rising and inside, "--angles", "rise within 0 to 180 degrees, two edges at least")
        if self.sampler not in SAMPLERS:
            raise unknown("sampler", self.sampler, SAMPLERS)

    @staticmethod
    def _check(valid: bool, flag: str, rule: str) -> None:
        if not valid:
            raise InputError(f"{flag}: must {rule}")

    @property
    def hash(self) -> str:
        """SHA-256 of the configuration, which identifies the results database that a run may continue.

        Fields added by later versions count only if they are used, so that runs of earlier versions can be continued.
        """
        return configuration_hash(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the configuration as plain JSON values: methods, data sets and conditions as their text."""
        return {f.name: _to_json(getattr(self, f.name)) for f in dataclasses.fields(self)}

    @property
    def every_method(self) -> tuple[MethodSpec, ...]:
        """Methods of the run, then those of extra grids only."""
        return tuple(dict.fromkeys([*self.methods, *(m for more in self.more for m in more.methods)]))

    @property
    def call_limits(self) -> Limits:
        """Limits of one call of a method."""
        return Limits(self.timeout, self.memory_limit_gb)

    def limit(self, method: MethodSpec) -> int:
        """Return how many problems of a group a method gets."""
        share = self.limits.get(method.text, self.limits.get(method.first_name, 1.0))
        return max(1, round(self.problems * share))


def configuration_hash(values: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a configuration given as JSON values, see `RunConfig.hash`; what else `run.json` adds is left out."""
    added = ("repeats", "batch", "more", "kind", "tuned", "gpu")
    unused = {name for name in added if values.get(name) in (1, [], None, {})}
    left_out = unused | {"threshold", "angle_bins"}
    return digest(json.dumps({k: v for k, v in values.items() if k not in left_out}, sort_keys=True))


def _to_json(value: Any) -> Any:
    if isinstance(value, MethodSpec | DataSetSpec | ConditionSpec):
        return value.text
    if isinstance(value, tuple):
        return [_to_json(entry) for entry in value]
    if isinstance(value, ExtraGrid):
        fields = {f.name: _to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {name: entry for name, entry in fields.items() if name != "problems" or entry is not None}
    return value


def preset_names() -> list[str]:
    """Return the names of the presets that come with the benchmark."""
    return sorted(p.stem for p in PRESETS.glob("*.toml"))


def load_preset(name: str) -> dict[str, Any]:
    """Return the content of a preset."""
    if name not in preset_names():
        raise unknown("preset", name, preset_names())
    return tomllib.loads((PRESETS / f"{name}.toml").read_text())


def default_domain() -> str:
    """Return the data set of the main job, which learned methods are set up for by default."""
    return str(load_preset("quick")["datasets"][0])


def from_flags(flags: argparse.Namespace, catalog: Catalog) -> RunConfig:
    """Return the configuration of a run from its flags; values that were not given come from the preset.

    Raises:
        InputError: a name does not exist, or a value is out of range.
    """
    preset, overrides = load_preset(flags.preset), flags.overrides
    preset["limits"] = overrides.get("limits", preset["limits"])
    preset["timing"] |= overrides.get("timing", {})
    names = specs.split_list(flags.methods)
    narrowed = flags.datasets or flags.conditions or flags.points or "all" not in names
    more = overrides.get("more", [] if narrowed else preset.get("more", []))
    points = _numbers(flags.points, int, "--points") or preset["points"]
    time_at_points = flags.points and "points" not in overrides.get("timing", {})
    datasets = tuple(catalog.data.spec(text) for text in specs.split_list(flags.datasets or preset["datasets"]))
    if not datasets:
        raise InputError("--datasets: is empty; give names of data sets")
    if flags.skip_bad:
        datasets = tuple(dataset.skipping_bad() for dataset in datasets)
    config = RunConfig(
        methods=_methods(names, catalog, preset),
        oracle=ORACLE in names or "all" in names,
        datasets=datasets,
        conditions=_conditions(flags.conditions, preset["conditions"], datasets),
        points=tuple(points),
        angles=_angles(flags, preset),
        sampler=flags.sampler or preset["sampler"],
        problems=preset["problems"] if flags.problems is None else flags.problems,
        seed=flags.seed,
        threads=flags.threads,
        device=flags.device,
        timeout=preset["timeout"] if flags.timeout is None else _int_if_whole(flags.timeout),
        memory_limit_gb=preset["memory_limit_gb"] if flags.memory_limit is None else _int_if_whole(flags.memory_limit),
        limits=preset["limits"],
        timing_points=tuple(points if time_at_points else preset["timing"]["points"]),
        timing_rounds=preset["timing"]["rounds"] if flags.timing_rounds is None else flags.timing_rounds,
        timing_budget_s=preset["timing"]["budget_s"],
        repeats=flags.repeats,
        batch=flags.batch,
        more=tuple(_extra_grid(table, catalog) for table in more),
        kind=data_kind(flags.kind) if flags.kind else None,
        gpu=devices.identity(flags.device),
    )
    tuned = {method.text: method.parameters for method in config.every_method if method.uses_tuned}
    return dataclasses.replace(config, tuned=tuned)


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """List the differences of two configurations, such as `problems: 10 → 20`.

    Args:
        there: configuration of the other run as JSON values; fields that it lacks, of later versions, are left out.
        here: configuration of this run as JSON values.
    """
    return [line for name in here if name in there for line in _differences(name, there[name], here[name])]


def _differences(name: str, there: Any, here: Any) -> list[str]:
    if there == here:
        return []
    if isinstance(there, dict) and isinstance(here, dict):
        keys = dict.fromkeys([*there, *here])
        return [line for key in keys for line in _differences(f"{name}.{key}", there.get(key), here.get(key))]
    if isinstance(there, list) and isinstance(here, list) and max(len(there), len(here)) > MAX_SHOWN:
        gone, new = [v for v in there if v not in here], [v for v in here if v not in there]
        return [f"{name}: {_format_value(gone)} → {_format_value(new)}, the others in both"]
    return [f"{name}: {_format_value(there)} → {_format_value(here)}"]


MAX_SHOWN = 6
"""Maximum list entries shown in a difference; of longer lists only the changed entries are."""


def _format_value(value: Any) -> str:
    """Format a value for a message: at most `MAX_SHOWN` entries of a list, and – for a missing value."""
    if isinstance(value, list):
        return join_names([_format_value(entry) for entry in value], MAX_SHOWN, " ") or "none"
    return "–" if value is None else str(value)


def _extra_grid(table: Mapping[str, Any], catalog: Catalog) -> ExtraGrid:
    """Return an extra grid from its table.

    Raises:
        InputError: a name does not exist.
    """
    return ExtraGrid(
        tuple(catalog.methods.spec(text) for text in table["methods"]),
        tuple(catalog.data.spec(text) for text in table["datasets"]),
        tuple(ConditionSpec.parse(text) for text in table["conditions"]),
        tuple(table["points"]),
        table.get("problems"),
    )


def problems_config(flags: argparse.Namespace, catalog: Catalog) -> RunConfig:
    """Return a configuration without methods and timing, from the flags that select problems."""
    rest = {
        "methods": [],
        "threads": 1,
        "device": devices.CPU,
        "timeout": None,
        "memory_limit": None,
        "timing_rounds": 0,
    }
    rest |= {"kind": None}
    return from_flags(argparse.Namespace(**vars(flags) | rest | {"repeats": 1, "batch": 1}), catalog)


def _conditions(
    given: list[str] | None, preset: list[str], datasets: tuple[DataSetSpec, ...]
) -> tuple[ConditionSpec, ...]:
    """Return the given conditions; by default the preset's for data sets of objects, and `real` for pairs.

    Raises:
        InputError: a given condition fits no data set, or a data set no condition.
    """
    pairs = {dataset.text: dataset.is_pairs for dataset in datasets}
    if not given:
        kinds = set(pairs.values())
        return tuple(c for c in map(ConditionSpec.parse, dict.fromkeys([*preset, REAL])) if c.value.real in kinds)
    chosen = tuple(ConditionSpec.parse(text) for text in specs.split_list(given))
    if not chosen:
        raise InputError("--conditions: is empty; give names of conditions")
    for text, real in ((c.text, c.value.real) for c in chosen):
        if real not in pairs.values():
            objects_only = f"is for objects; real pairs have one condition, {REAL}"
            reason = "needs a data set of real pairs" if real else objects_only
            raise InputError(f"--conditions {text}: {reason}; leave it out, or change --datasets {' '.join(pairs)}")
    for text, real in pairs.items():
        if all(c.value.real != real for c in chosen):
            reason = f"real pairs have one condition, {REAL}" if real else f"{REAL} is for real pairs, not for objects"
            raise InputError(f"--datasets {text}: {reason}; change --conditions {' '.join(map(str, chosen))}")
    return chosen


def _methods(texts: list[str], catalog: Catalog, preset: Mapping[str, Any]) -> tuple[MethodSpec, ...]:
    """Resolve the methods of `--methods`; `all` means those of the registry and the chains of the preset."""
    names: list[str] = []
    for text in texts:
        in_all = [name for name, entry in catalog.methods.entries.items() if entry.facts.in_all]
        names += [*in_all, *preset["chains"]] if text == "all" else [text]
    return tuple(catalog.methods.spec(name) for name in dict.fromkeys(names) if name != ORACLE)


def _angles(flags: argparse.Namespace, preset: Mapping[str, Any]) -> tuple[float, ...]:
    if flags.angles and flags.max_angle is not None:
        raise InputError("--angles and --max-angle: give one of them")
    edges = tuple(_numbers(flags.angles, float, "--angles") or preset["angles"])
    if flags.max_angle is not None:
        edges = (*(e for e in edges if e < flags.max_angle), flags.max_angle)
    return tuple(float(e) for e in edges)


def _int_if_whole(value: float) -> float:
    """Return whole numbers as int, so that 20 and 20.0 give the same hash."""
    return int(value) if value.is_integer() else value


def _numbers(values: list[str] | None, kind: type, flag: str) -> list[Any]:
    numbers = []
    for text in specs.split_list(values or []):
        try:
            numbers.append(kind(text))
        except ValueError:
            name = "whole number" if kind is int else "number"
            raise InputError(f"{flag}: {text!a} is not a {name}; give one or several") from None
    return numbers
