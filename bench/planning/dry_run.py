"""`--dry-run`: list the problems and methods of a run, and estimate its time from earlier runs."""

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
from common.text import counted, join_names
from methods.core.registry import MethodSpec

MAX_RUNS = 10
"""Maximum earlier runs to read, the newest first."""


@dataclass(frozen=True)
class Sample:
    """Mean time of a call in an earlier run.

    Attributes:
        run: folder of the run.
        other_processor: whether the run took place on another processor.
        method, dataset, condition, points: group of the calls; data set and condition are empty in the timing phase.
        ms: mean time in ms.
    """

    run: Path
    other_processor: bool
    method: str
    dataset: str
    condition: str
    points: int
    ms: float

    def time_s(self, points: int) -> float:
        """Return the seconds of a call with another number of points, in proportion."""
        return self.ms / 1e3 * points / self.points


@dataclass(frozen=True)
class RecordedTimes:
    """Samples of earlier runs, the newest first."""

    samples: tuple[Sample, ...]

    def nearest(self, method: str, dataset: str, condition: str, points: int) -> Sample | None:
        """Return the sample nearest in condition, then in points, then in data set; None if the method has none."""

        def distance(s: Sample) -> tuple[bool, float, bool]:
            return s.condition != condition, abs(math.log(s.points / points)), s.dataset != dataset

        return min((s for s in self.samples if s.method == method), key=distance, default=None)


def recorded_times(results: Path, config: RunConfig, processor: str) -> RecordedTimes:
    """Return the times of the newest runs in a folder with the same device and number of threads.

    Args:
        results: folder of runs.
        config: of the planned run.
        processor: name of this machine's processor; samples of another one are marked.
    """
    files = sorted(results.glob("*/summary.csv"), key=lambda file: file.stat().st_mtime, reverse=True)
    return RecordedTimes(
        tuple(sample for file in files[:MAX_RUNS] for sample in _samples(file.parent, config, processor))
    )


def _samples(run: Path, config: RunConfig, processor: str) -> Iterator[Sample]:
    """Yield the samples of a run's accuracy phase, then of its timing phase; none if the run is incomplete."""
    try:
        facts = json.loads((run / "run.json").read_text(encoding="utf-8"))
        setup = facts["config"]["device"], facts["config"]["threads"], facts["config"].get("gpu", {})
        other_processor = facts["environment"]["cpu"] != processor
        rows = [*_csv_rows(run / "summary.csv"), *_csv_rows(run / "timing.csv")]
    except (OSError, ValueError, KeyError, TypeError):
        return
    for r in rows if setup == (config.device, config.threads, config.gpu) else []:
        all_angles = float(r.get("angle_low", 0)) == 0 and float(r.get("angle_high", 180)) == 180
        if all_angles and r["time_ms_mean"]:
            group = r.get("dataset", ""), r.get("condition", ""), int(r["points"])
            yield Sample(run, other_processor, r["method"], *group, float(r["time_ms_mean"]))


def _csv_rows(file: Path) -> list[dict[str, Any]]:
    with file.open(newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


def plan(config: RunConfig, groups: list[ProblemGroup], jobs: int, times: RecordedTimes) -> list[str]:
    """Return the lines that describe a run."""
    live = [g for g in groups if not g.skip]
    lines = [f"problems  {sum(len(g.keys) for g in live)} in {counted(len(live), 'group')}"]
    lines += [f"  {g.name:40} {f'skipped: {g.skip}' if g.skip else len(g.keys)}" for g in groups]
    rows = [plan_row(config, m, live, times) for m in config.every_method]
    lines += [f"methods   {len(rows)}, calls {sum(r.calls for r in rows)}"]
    lines += [f"  {r.method.text:40} {r.calls:6} calls  {r.outlook}" for r in rows]
    timed = config.timing_rounds * len(config.timing_points)
    lines.append(
        f"timing    {counted(timed, 'call')} per method after a warm-up, at most {config.timing_budget_s:g} s per method"
    )
    lines.append(f"time      {estimate_times(config, rows, jobs, times)}")
    return lines


@dataclass(frozen=True)
class PlanRow:
    """Plan of a method.

    Attributes:
        method: the method.
        calls: number of its calls in the accuracy phase.
        seconds: their total time; NaN if not known.
        reason: why the method is skipped, if it is.
        basis: samples from which the time is estimated.
        exact: whether the samples are of the same data sets and conditions.
    """

    method: MethodSpec
    calls: int
    seconds: float
    reason: str
    basis: tuple[Sample, ...] = ()
    exact: bool = True

    @property
    def outlook(self) -> str:
        """Estimated time, or the reason why the method is skipped."""
        if self.reason:
            return f"skipped: {self.reason}"
        return "time not known" if math.isnan(self.seconds) else f"about {format_time(self.seconds)}"


def plan_row(config: RunConfig, method: MethodSpec, groups: Iterable[ProblemGroup], times: RecordedTimes) -> PlanRow:
    """Count the calls of a method and estimate their time on one process; a call takes at most the time-out."""
    if reason := method.unavailable():
        return PlanRow(method, 0, math.nan, reason)
    repeats, _ = repeats_and_batch(config, method)
    calls = {g: repeats * len(g.keys[: config.limit(method)]) for g in groups if method in g.methods}
    samples = {g: s for g in calls if (s := times.nearest(method.text, *g.columns))}
    seconds = sum(calls[g] * min(config.timeout, s.time_s(g.points)) for g, s in samples.items())
    exact = all((s.dataset, s.condition) == g.columns[:2] for g, s in samples.items())
    if len(samples) < len(calls):
        seconds = math.nan
    return PlanRow(method, sum(calls.values()), seconds, "", tuple(samples.values()), exact)


def timing_s(config: RunConfig, method: MethodSpec, jobs: int, times: RecordedTimes) -> float:
    """Estimate the seconds of a method's timing phase and its share of the warm-up, each within the budget."""
    samples = [(n, times.nearest(method.text, "", "", n)) for n in config.timing_points]
    one_round = sum(min(config.timeout, s.time_s(n)) for n, s in samples if s)
    rounds, budget = config.timing_rounds, config.timing_budget_s
    return min(budget, rounds * one_round) + bool(rounds) * min(budget, one_round) / max(jobs, 1)


def estimate_times(config: RunConfig, rows: list[PlanRow], jobs: int, times: RecordedTimes) -> str:
    """Return the estimated time of a run and the runs that the estimate is based on."""
    known_rows = [r for r in rows if not r.reason and not math.isnan(r.seconds)]
    if not known_rows:
        return "not known: no run in results/ has this device, these threads and these methods; try --problems 2 first"
    total = sum(r.seconds for r in known_rows) / max(jobs, 1)
    total += sum(timing_s(config, r.method, jobs, times) for r in known_rows if r.method in config.methods)
    unknown = [r.method.text for r in rows if not r.reason and math.isnan(r.seconds)]
    missing = f", without {join_names(unknown)}, of which no time is known" if unknown else ""
    by = f"by {_basis(known_rows)}{missing}"
    return f"about {format_time(total)} with {jobs} jobs, {by}; starting processes, generating problems and the report add to it"


def _basis(rows: list[PlanRow]) -> str:
    """Name the runs that an estimate is based on, and how they differ from this one."""
    samples = [sample for row in rows for sample in row.basis]
    differences = ["of other data sets or conditions"] * (not all(row.exact for row in rows))
    differences += ["of another processor"] * any(sample.other_processor for sample in samples)
    runs = join_names([str(run) for run in dict.fromkeys(sample.run for sample in samples)])
    return f"{runs} (in part {', '.join(differences)}: a rough estimate)" if differences else runs


def format_time(seconds: float) -> str:
    """Format seconds as seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
