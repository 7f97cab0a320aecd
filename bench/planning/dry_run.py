"""`--dry-run`: what a run would do, how many problems that is, and about how long it takes by what earlier runs measured."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.planning.config import RunConfig
from bench.planning.tasks import ProblemGroup, repeats_and_batch
from bench.storage.environment import processor
from methods.core.registry import MethodSpec

RUNS = 10
"""Earlier runs that are asked, the newest first."""
NAMED = 3
"""Of runs and methods, how many are named in the estimate."""


@dataclass(frozen=True)
class Sample:
    """Mean time in ms of a call of a method in one place of a run; no data set and condition if it was timed alone."""

    run: Path
    elsewhere: bool
    method: str
    dataset: str
    condition: str
    points: int
    ms: float

    def time_s(self, points: int) -> float:
        """Seconds of a call at another number of points, in proportion."""
        return self.ms / 1e3 * points / self.points


@dataclass(frozen=True)
class Known:
    """What earlier runs tell of times, the newest first."""

    samples: tuple[Sample, ...]

    def nearest(self, method: str, dataset: str, condition: str, points: int) -> Sample | None:
        """The sample of the same condition, then of the nearest number of points, then of the same data set; None if none."""

        def distance(s: Sample) -> tuple[bool, float, bool]:
            return s.condition != condition, abs(math.log(s.points / points)), s.dataset != dataset

        return min((s for s in self.samples if s.method == method), key=distance, default=None)


def recorded_times(results: Path, config: RunConfig) -> Known:
    """The times of the newest runs in a folder that had the same device and number of threads."""
    files = sorted(results.glob("*/summary.csv"), key=lambda file: file.stat().st_mtime, reverse=True)
    return Known(tuple(sample for file in files[:RUNS] for sample in _samples(file.parent, config)))


def _samples(run: Path, config: RunConfig) -> Iterator[Sample]:
    """Those of the accuracy problems, then those timed alone; nothing of a run that is not whole."""
    try:
        said = json.loads((run / "run.json").read_text(encoding="utf-8"))
        there = said["config"]["device"], said["config"]["threads"]
        elsewhere = said["environment"]["cpu"] != processor()
        rows = [*_rows(run / "summary.csv"), *_rows(run / "timing.csv")]
    except (OSError, ValueError, KeyError, TypeError):
        return
    for r in rows if there == (config.device, config.threads) else []:
        whole = float(r.get("angle_low", 0)) == 0 and float(r.get("angle_high", 180)) == 180
        if whole and r["time_ms_mean"]:
            place = r.get("dataset", ""), r.get("condition", ""), int(r["points"])
            yield Sample(run, elsewhere, r["method"], *place, float(r["time_ms_mean"]))


def _rows(file: Path) -> list[dict[str, Any]]:
    with file.open(newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


def plan(config: RunConfig, groups: list[ProblemGroup], jobs: int, times: Known) -> list[str]:
    """What the run would do, in lines."""
    live = [c for c in groups if not c.skip]
    lines = [f"problems  {sum(len(c.keys) for c in live)} in {len(live)} groups"]
    lines += [f"  {c.name:40} {f'skipped: {c.skip}' if c.skip else len(c.keys)}" for c in groups]
    rows = [method_row(config, m, live, times) for m in config.every_method]
    lines += [f"methods   {len(rows)}, calls {sum(r.calls for r in rows)}"]
    lines += [f"  {r.method.text:40} {r.calls:6} calls  {r.told}" for r in rows]
    timed = config.timing_rounds * len(config.timing_points)
    lines.append(
        f"timing    {timed} calls of each method, {config.timing_budget_s:g} s a method at most, after a warm-up"
    )
    lines.append(f"time      {estimate(config, rows, jobs, times)}")
    return lines


@dataclass(frozen=True)
class Row:
    """A method of the plan: its calls, their seconds (NaN if not known) and what tells of them, and why there are none.

    `exact`: whether what tells of them is of the same data sets and conditions.
    """

    method: MethodSpec
    calls: int
    seconds: float
    reason: str
    basis: tuple[Sample, ...] = ()
    exact: bool = True

    @property
    def told(self) -> str:
        """What is printed beside the calls."""
        if self.reason:
            return f"skipped: {self.reason}"
        return "time not known" if math.isnan(self.seconds) else f"about {format_time(self.seconds)}"


def method_row(config: RunConfig, method: MethodSpec, groups: Iterable[ProblemGroup], times: Known) -> Row:
    """The calls of a method and their time on one process; no call takes longer than it may."""
    if reason := method.unavailable():
        return Row(method, 0, math.nan, reason)
    repeats, _ = repeats_and_batch(config, method)
    asked = {c: repeats * len(c.keys[: config.limit(method)]) for c in groups if method in c.methods}
    found = {c: s for c in asked if (s := times.nearest(method.text, *c.columns))}
    seconds = sum(asked[c] * min(config.timeout, s.time_s(c.points)) for c, s in found.items())
    exact = all((s.dataset, s.condition) == c.columns[:2] for c, s in found.items())
    known_all = len(found) == len(asked)
    return Row(method, sum(asked.values()), seconds if known_all else math.nan, "", tuple(found.values()), exact)


def timing_s(config: RunConfig, method: MethodSpec, jobs: int, times: Known) -> float:
    """About the seconds that a method is timed alone, and its share of warming up beside others, each within the budget."""
    found = [(n, times.nearest(method.text, "", "", n)) for n in config.timing_points]
    once = sum(min(config.timeout, s.time_s(n)) for n, s in found if s)
    rounds, budget = config.timing_rounds, config.timing_budget_s
    return min(budget, rounds * once) + bool(rounds) * min(budget, once) / max(jobs, 1)


def estimate(config: RunConfig, rows: list[Row], jobs: int, times: Known) -> str:
    """About how long it all takes, and by what that is known, in words."""
    known_rows = [r for r in rows if not r.reason and not math.isnan(r.seconds)]
    if not known_rows:
        return "not known: no run in results/ with this device and these threads tells; try --problems 2 first"
    total = sum(r.seconds for r in known_rows) / max(jobs, 1)
    total += sum(timing_s(config, r.method, jobs, times) for r in known_rows if r.method in config.methods)
    unknown = [r.method.text for r in rows if not r.reason and math.isnan(r.seconds)]
    more = f", and what {_named(unknown)} take, of which no time is known" if unknown else ""
    basis = _basis(known_rows)
    return (
        f"about {format_time(total)} with {jobs} jobs, by {basis}{more}; starting, drawing and the report come on top"
    )


def _basis(rows: list[Row]) -> str:
    """The runs that tell, and in what they are not like this one."""
    samples = [sample for row in rows for sample in row.basis]
    unlike = ["of other data sets or conditions"] * (not all(row.exact for row in rows))
    unlike += ["of another processor"] * any(sample.elsewhere for sample in samples)
    runs = _named([str(run) for run in dict.fromkeys(sample.run for sample in samples)])
    return f"{runs} (in part {', '.join(unlike)}: a guess)" if unlike else runs


def _named(names: list[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def format_time(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
