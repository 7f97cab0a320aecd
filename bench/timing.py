"""Timing: one method process works at a time, methods interleaved round by round, after a warm-up."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from bench import solve
from bench.child import Child, Setting
from bench.config import RunConfig
from bench.outcome import Outcome
from bench.place import Place
from bench.plan import Cell, conditions_for, make_cell, setting
from bench.progress import Meter
from bench.store import Record
from common.keys import rng
from datasets.conditions import condition
from datasets.problems import ProblemKey
from methods import registry

DRIFT = 0.05


class Stopwatch:
    """The timing phase of a run. Round r takes its angle from bin r; every method gets the same problem in a round."""

    def __init__(self, record: Record, config: RunConfig, usable: set[Setting], place: Place) -> None:
        self.record, self.config, self.place = record, config, place
        self.cells = self._make_cells()
        settings = {m: setting(config, m, self.cells[0], place.plugins) for m in config.methods}
        self.children = {m: Child(s, config.call_limits) for m, s in settings.items() if s in usable}
        self.kinds = {m: registry.kind_of(registry.build(m, place.plugins)) for m in self.children}
        self.spent = dict.fromkeys(self.children, 0.0)
        self.warm: set[tuple[str, int]] = set()

    def run(self) -> None:
        """Time what is not yet in the record."""
        done = self.record.done("timing")
        todo = [
            (number, cell, key, method)
            for number, cell, key in self._rounds()
            for method in self.children
            if (method, key.id, number) not in done
        ]
        looks = {0, len(todo) // 2, len(todo) - 1}
        sentinel: list[float] = []
        try:
            with Meter(self.place.console, "timing", len(todo)) as meter:
                for turn, (number, cell, key, method) in enumerate(todo):
                    sentinel += [sentinel_ms()] if turn in looks else []
                    row = self._time(method, number, cell, key)
                    self.record.add_outcomes([row], self.kinds[method], cell.columns)
                    meter.step(1, f"{method} at {cell.points} points")
        finally:
            for child in self.children.values():
                child.close()
        if sentinel:
            self.record.put("sentinel_ms", sentinel)

    def _make_cells(self) -> list[Cell]:
        """The run's first data set and its second condition (noisy, by default), at every point count."""
        name = self.config.datasets[0]
        dataset = solve.dataset_of(name, self.place.data, self.place.plugins)
        text = conditions_for(self.config, dataset)[:2][-1]
        cells = (make_cell(self.config, dataset, name, text, n) for n in self.config.timing_points)
        return list({c.name: c for c in cells}.values())

    def _rounds(self) -> Iterator[tuple[int, Cell, ProblemKey]]:
        c = self.config
        bins = list(zip(c.angles, c.angles[1:], strict=False))
        for number in range(c.timing_rounds):
            for cell in self.cells:
                which = bins[number % len(bins)]
                posed = ProblemKey(*cell.columns, number, c.seed, "test", c.sampler, which)
                real = condition(cell.condition).real  # whose poses are as they are
                yield number, cell, cell.keys[number % len(cell.keys)] if real else posed

    def _time(self, method: str, number: int, cell: Cell, key: ProblemKey) -> Outcome:
        """One timed call, or the reason why there is none. The first call at a size is a warm-up and not recorded."""
        reason = cell.skip
        if self.spent[method] > self.config.timing_budget_s:
            reason = f"the timing budget of {self.config.timing_budget_s:g} s a method is spent"
        if reason:
            return Outcome(method, key.id, "skipped", "timing", number, key.seed, message=reason)
        problem = solve.draw(key, self.place.data, self.place.plugins)
        self.record.add_problems([problem])
        start = time.monotonic()
        if (method, cell.points) not in self.warm:
            self.warm.add((method, cell.points))
            solve.ask(self.children[method], problem, "timing", number)
        outcome = solve.ask(self.children[method], problem, "timing", number)
        self.spent[method] += time.monotonic() - start
        return outcome


def sentinel_ms() -> float:
    """Median time in ms of the same work on one thread, whatever is benchmarked: tells whether the machine kept its pace."""
    work = rng("sentinel").random(100_000)
    times = []
    for _ in range(7):
        start = time.perf_counter()
        np.sort(work)
        times.append(1e3 * (time.perf_counter() - start))
    return float(np.median(times))


def drift_note(sentinel: list[float] | None) -> list[str]:
    """A warning if the sentinel's times differ by more than 5 %: then so may the methods', for no reason of theirs."""
    if not sentinel or max(sentinel) <= (1 + DRIFT) * min(sentinel):
        return []
    shown = ", ".join(f"{ms:.2f}" for ms in sentinel)
    share = max(sentinel) / min(sentinel) - 1
    return [
        f"the machine's pace changed by {share:.0%} while timing (the same work took {shown} ms): read times with care"
    ]
