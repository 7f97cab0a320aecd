"""What a run is: a preset, overridden by flags. Two runs with equal configurations give equal results."""

from __future__ import annotations

import argparse
import dataclasses
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.isolation.process import Limits
from common import specs
from common.errors import InputError, unknown
from common.keys import digest
from datasets import registry as data_sets
from datasets.conditions import REAL, condition
from datasets.poses import SAMPLERS
from methods.core import registry, tuned

PRESETS = Path(__file__).parent / "presets"
RECALL_THRESHOLD = 0.2
ORACLE = "oracle"
"""The truth itself as an answer. No method can give it, since the truth reaches none; the run records it."""


@dataclass(frozen=True)
class ExtraGrid:
    """Cells beside a run's own, for methods of their own, such as ablations and point counts that only some are asked."""

    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    conditions: tuple[str, ...]
    points: tuple[int, ...]


@dataclass(frozen=True)
class RunConfig:
    """Everything the results depend on. Angles in degrees, times in seconds, memory in GB.

    `angles` are the edges of the bins of rotation magnitude; the first and the last bound the sampler.
    `oracle`: whether the truth itself is listed as a control of the scoring.
    `limits`: method to the share of a cell's problems it gets. `timing_*`: the phase in which methods are timed alone.
    `repeats`: how often a random method solves each problem. `batch`: pairs that a method which takes batches gets at once.
    `tuned`: the parameters of methods that are asked for by the name of tuned settings, which may be found anew.
    `more`: cells beside those of `methods` x `datasets` x `conditions` x `points`.
    """

    methods: tuple[str, ...]
    oracle: bool
    datasets: tuple[str, ...]
    conditions: tuple[str, ...]
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
    tuned: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check(self.problems >= 1, "--problems", "be at least 1")
        for name in ("threads", "repeats", "batch"):
            self._check(getattr(self, name) >= 1, f"--{name}", "be at least 1")
        self._check(self.timeout > 0, "--timeout", "be above 0 seconds")
        self._check(self.memory_limit_gb > 0, "--memory-limit", "be above 0 GB")
        self._check(all(n >= 1 for n in self.points), "--points", "be at least 1")
        rising = all(a < b for a, b in zip(self.angles, self.angles[1:], strict=False))
        inside = len(self.angles) >= 2 and self.angles[0] >= 0 and self.angles[-1] <= 180
        self._check(rising and inside, "--angles", "rise within 0 to 180 degrees, two edges at least")
        if self.sampler not in SAMPLERS:
            raise unknown("sampler", self.sampler, SAMPLERS)
        for text in self.conditions:
            condition(text)

    @staticmethod
    def _check(good: bool, flag: str, must: str) -> None:
        if not good:
            raise InputError(f"{flag}: must {must}")

    @property
    def hash(self) -> str:
        """SHA-256 of the configuration; a record belongs to one.

        What came later counts only where it is used, so that the records of earlier versions can be continued.
        """
        said = dataclasses.asdict(self)
        unused = [name for name in ("repeats", "batch", "more", "tuned") if said[name] in (1, (), {})]
        return digest(json.dumps({k: v for k, v in said.items() if k not in unused}, sort_keys=True))

    @property
    def every_method(self) -> tuple[str, ...]:
        """The run's methods, then those that only some cells have."""
        return tuple(dict.fromkeys([*self.methods, *(m for more in self.more for m in more.methods)]))

    @property
    def call_limits(self) -> Limits:
        """What one call of a method may take."""
        return Limits(self.timeout, self.memory_limit_gb)

    def limit(self, method: str) -> int:
        """How many problems of a cell a method gets."""
        first = specs.parse(specs.split_outside(method, "+")[0]).name
        return max(1, round(self.problems * self.limits.get(method, self.limits.get(first, 1.0))))


def preset_names() -> list[str]:
    """The presets that come with the bench."""
    return sorted(p.stem for p in PRESETS.glob("*.toml"))


def load_preset(name: str) -> dict[str, Any]:
    """The content of a preset."""
    if name not in preset_names():
        raise unknown("preset", name, preset_names())
    return tomllib.loads((PRESETS / f"{name}.toml").read_text())


def from_flags(flags: argparse.Namespace) -> RunConfig:
    """The configuration of a run from its flags; what was not given comes from the preset.

    Raises:
        InputError: a name that does not exist, or a value out of range.
    """
    preset = load_preset(flags.preset)
    said = flags.overrides
    preset |= {"limits": said.get("limits", preset["limits"]), "timing": preset["timing"] | said.get("timing", {})}
    narrowed = flags.datasets or flags.conditions or flags.points or "all" not in specs.split_list(flags.methods)
    more = said.get("more", [] if narrowed else preset.get("more", []))
    fixed = "points" in said.get("timing", {})
    points = _numbers(flags.points, int, "--points") or preset["points"]
    asked = specs.split_list(flags.methods)
    datasets = tuple(specs.split_list(flags.datasets or preset["datasets"]))
    if flags.skip_bad:
        datasets = tuple(data_sets.leaving_out(text, flags.plugins) for text in datasets)
    made = RunConfig(
        methods=_methods(asked, flags.plugins, preset),
        oracle=ORACLE in asked or "all" in asked,
        datasets=datasets,
        conditions=_conditions(flags.conditions, preset["conditions"], datasets, flags.plugins),
        points=tuple(points),
        angles=_angles(flags, preset),
        sampler=flags.sampler or preset["sampler"],
        problems=preset["problems"] if flags.problems is None else flags.problems,
        seed=flags.seed,
        threads=flags.threads,
        device=flags.device,
        timeout=preset["timeout"] if flags.timeout is None else _whole(flags.timeout),
        memory_limit_gb=preset["memory_limit_gb"] if flags.memory_limit is None else _whole(flags.memory_limit),
        limits=preset["limits"],
        timing_points=tuple(points if flags.points and not fixed else preset["timing"]["points"]),
        timing_rounds=preset["timing"]["rounds"] if flags.timing_rounds is None else flags.timing_rounds,
        timing_budget_s=preset["timing"]["budget_s"],
        repeats=flags.repeats,
        batch=flags.batch,
        more=tuple(_extra_grid(table, flags.plugins) for table in more),
    )
    built = {m: registry.build(m, flags.plugins) for m in made.every_method if tuned.uses_tuned(m)}
    return dataclasses.replace(made, tuned={m: registry.parameters_of(method) for m, method in built.items()})


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """What differs between two configurations as JSON has them, such as `problems: 10 → 20`; of long lists what one lacks.

    A setting that the first, of an earlier version, does not know is left out.
    """
    return [line for name in here if name in there for line in _changes(name, there[name], here[name])]


def _changes(name: str, there: Any, here: Any) -> list[str]:
    if there == here:
        return []
    if isinstance(there, dict) and isinstance(here, dict):
        keys = dict.fromkeys([*there, *here])
        return [line for key in keys for line in _changes(f"{name}.{key}", there.get(key), here.get(key))]
    if isinstance(there, list) and isinstance(here, list) and max(len(there), len(here)) > MAX_SHOWN:
        gone, new = [v for v in there if v not in here], [v for v in here if v not in there]
        return [f"{name}: {_format_value(gone)} → {_format_value(new)}, the others in both"]
    return [f"{name}: {_format_value(there)} → {_format_value(here)}"]


MAX_SHOWN = 6
"""Entries of a list that are told one by one."""


def _format_value(value: Any) -> str:
    """A value in a message: words of a list, the first ones of a long one, and – where there is none."""
    if not isinstance(value, list):
        return "–" if value is None else str(value)
    more = f" and {len(value) - MAX_SHOWN} more" if len(value) > MAX_SHOWN else ""
    return " ".join(map(_format_value, value[:MAX_SHOWN])) + more or "none"


def _extra_grid(table: Mapping[str, Any], plugins: Path | None) -> ExtraGrid:
    """Further cells from their table, whose names must exist."""
    made = ExtraGrid(*(tuple(table[f.name]) for f in dataclasses.fields(ExtraGrid)))
    for name in made.methods:
        registry.build(name, plugins)
    for text in made.conditions:
        condition(text)
    return made


def problems_config(flags: argparse.Namespace) -> RunConfig:
    """The configuration of what problems there are, from the flags of those alone: no method, no timing."""
    rest = {"methods": [], "threads": 1, "device": "cpu", "timeout": None, "memory_limit": None, "timing_rounds": 0}
    return from_flags(argparse.Namespace(**vars(flags) | rest | {"repeats": 1, "batch": 1}))


def _conditions(
    given: list[str] | None, preset: list[str], datasets: tuple[str, ...], plugins: Path | None
) -> tuple[str, ...]:
    """Those given, each of which must be for one of the data sets; else the preset's for objects, and `real` for pairs."""
    pairs = {text: data_sets.is_pairs(text, plugins) for text in datasets}
    if not given:
        objects = [text for text in preset if not condition(text).real]
        return (*(objects if not all(pairs.values()) else ()), *((REAL,) if any(pairs.values()) else ()))
    chosen = specs.split_list(given)
    kinds = {text: condition(text).real for text in chosen}
    for text, real in kinds.items():
        if real not in pairs.values():
            what = "needs a data set of real pairs" if real else f"poses objects; real pairs have one condition, {REAL}"
            raise InputError(f"--conditions {text}: {what}; leave it out, or change --datasets {' '.join(datasets)}")
    for text, real in pairs.items():
        if real not in kinds.values():
            what = f"real pairs have one condition, {REAL}" if real else f"{REAL} is for real pairs, not for objects"
            raise InputError(f"--datasets {text}: {what}; change --conditions {' '.join(chosen)}")
    return tuple(chosen)


def _methods(asked: list[str], plugins: Path | None, preset: Mapping[str, Any]) -> tuple[str, ...]:
    names: list[str] = []
    for text in asked:
        everyday = [name for name, offer in registry.available(plugins).items() if offer.cls.in_all]
        names += [*everyday, *preset["chains"]] if text == "all" else [text]
    names = [n for n in dict.fromkeys(names) if n != ORACLE]
    for name in names:
        registry.build(name, plugins)
    return tuple(names)


def _angles(flags: argparse.Namespace, preset: Mapping[str, Any]) -> tuple[float, ...]:
    if flags.angles and flags.max_angle is not None:
        raise InputError("--angles and --max-angle: give one of them")
    edges = tuple(_numbers(flags.angles, float, "--angles") or preset["angles"])
    if flags.max_angle is not None:
        edges = (*(e for e in edges if e < flags.max_angle), flags.max_angle)
    return tuple(float(e) for e in edges)


def _whole(value: float) -> float:
    """The same number, an int if it is whole: so that 20, 20.0 and a preset's 20 are one configuration."""
    return int(value) if value.is_integer() else value


def _numbers(values: list[str] | None, kind: type, flag: str) -> list[Any]:
    try:
        return [kind(v) for v in specs.split_list(values or [])]
    except ValueError as error:
        raise InputError(f"{flag}: {error}") from None
