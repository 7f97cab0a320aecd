"""`--dry-run`: what a run would do, how many problems that is, and about how long it takes by the last run's timings."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.config import RunConfig
from bench.plan import Cell, repeats_and_batch
from methods import registry


@dataclass(frozen=True)
class Known:
    """Median time in ms of a call, by method and number of points, and the file that says so; empty if there is none."""

    times: dict[tuple[str, int], float]
    file: Path | None

    def time_s(self, method: str, points: int) -> float:
        """About the seconds of a call: the time at the nearest number of points, in proportion; NaN if not known."""
        have = [n for m, n in self.times if m == method]
        if not have:
            return math.nan
        nearest = min(have, key=lambda n: abs(math.log(max(n, 1) / max(points, 1))))
        return self.times[method, nearest] / 1e3 * points / nearest


def last_timings(results: Path) -> Known:
    """The timings of the newest run that has any (`timing.csv`, else the times of its `trials.csv`)."""
    files = [f for name in ("timing.csv", "trials.csv") for f in results.glob(f"*/{name}")]
    for file in sorted(files, key=lambda f: (f.stat().st_mtime, f.name == "timing.csv"), reverse=True):
        if times := _times(file):
            return Known(times, file)
    return Known({}, None)


def _times(file: Path) -> dict[tuple[str, int], float]:
    """Medians of the column of times; rows without a time, and of other devices' bins alike, count as they are."""
    found: dict[tuple[str, int], list[float]] = {}
    with file.open(newline="") as handle:
        for row in csv.DictReader(handle):
            text = row.get("time_ms_median") or row.get("time_ms") or ""
            if text and not math.isnan(value := float(text)):
                found.setdefault((row["method"], int(row["points"])), []).append(value)
    return {key: sorted(values)[len(values) // 2] for key, values in found.items()}


def plan(config: RunConfig, cells: list[Cell], jobs: int, known: Known, plugins: Path | None) -> list[str]:
    """What the run would do, in lines."""
    live = [c for c in cells if not c.skip]
    lines = [f"problems  {sum(len(c.keys) for c in live)} in {len(live)} cells"]
    lines += [f"  {c.name:40} {f'skipped: {c.skip}' if c.skip else len(c.keys)}" for c in cells]
    rows = [method_row(config, m, live, known, plugins) for m in config.every_method]
    lines += [f"methods   {len(rows)}, calls {sum(r.calls for r in rows)}"]
    lines += [f"  {r.method:40} {r.calls:6} calls  {r.told}" for r in rows]
    timed = config.timing_rounds * len(config.timing_points)
    lines.append(f"timing    {timed} calls of each method, {config.timing_budget_s:g} s a method at most")
    lines.append(f"time      {estimate(config, rows, jobs, known)}")
    return lines


@dataclass(frozen=True)
class Row:
    """A method of the plan: its calls, their seconds (NaN if not known), and why there are none."""

    method: str
    calls: int
    seconds: float
    reason: str

    @property
    def told(self) -> str:
        """What is printed beside the calls."""
        if self.reason:
            return f"skipped: {self.reason}"
        return "time not known" if math.isnan(self.seconds) else f"about {told_time(self.seconds)}"


def method_row(config: RunConfig, method: str, cells: Iterable[Cell], known: Known, plugins: Path | None) -> Row:
    """The calls of a method and their time on one process."""
    reason = registry.unavailable(method, plugins) or ""
    repeats, _ = repeats_and_batch(config, method, plugins)
    sizes = [(c.points, repeats * len(c.keys[: config.limit(method)])) for c in cells if method in c.methods]
    calls = 0 if reason else sum(n for _, n in sizes)
    return Row(method, calls, sum(n * known.time_s(method, points) for points, n in sizes), reason)


def estimate(config: RunConfig, rows: list[Row], jobs: int, known: Known) -> str:
    """About how long it all takes, in words."""
    if known.file is None:
        return "not known: there is no earlier run in results/ to tell; try --problems 2 first"
    asked = [r for r in rows if not r.reason]
    told = [r.seconds for r in asked if not math.isnan(r.seconds)]
    each = [r.seconds / max(r.calls, 1) for r in asked if not math.isnan(r.seconds)]
    timed = sum(min(config.timing_budget_s, s * config.timing_rounds * len(config.timing_points)) for s in each)
    unknown = [r.method for r in asked if math.isnan(r.seconds)]
    more = f", and what {', '.join(unknown)} take, which it has not timed" if unknown else ""
    total = sum(told) / max(jobs, 1) + timed
    return f"about {told_time(total)} with {jobs} jobs, by {known.file}{more}; starting, drawing and the report come on top"


def told_time(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
