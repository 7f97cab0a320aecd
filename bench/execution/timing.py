"""Timing: one method process works at a time, methods interleaved round by round, after all have warmed up together."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

import numpy as np

from bench.execution import pool_worker
from bench.execution.context import RunContext
from bench.execution.progress import ProgressBar
from bench.isolation import interrupt
from bench.isolation.process import MethodProcess, MethodSetup
from bench.planning.config import RunConfig
from bench.planning.tasks import ProblemGroup, conditions_for, make_group, method_setup
from bench.storage.database import ResultsDatabase
from bench.storage.outcome import Outcome
from common.keys import rng
from datasets.conditions import condition
from datasets.problems import Problem, ProblemKey
from methods.core import registry

BATCH_SIZE = 32
"""Pairs of a call that measures throughput."""


@dataclass(frozen=True)
class TimedCall:
    """One timed call: a pair, or several at once for the throughput, which is another number (phase `batch`)."""

    method: str
    number: int
    cell: ProblemGroup
    keys: tuple[ProblemKey, ...]

    @property
    def phase(self) -> str:
        """The phase it is recorded under."""
        return "timing" if len(self.keys) == 1 else "batch"


class TimingPhase:
    """The timing phase of a run. Round r takes its angle from bin r; every method gets the same problem in a round."""

    def __init__(self, record: ResultsDatabase, config: RunConfig, usable: set[MethodSetup], place: RunContext) -> None:
        self.record, self.config, self.place = record, config, place
        self.cells = self._make_cells()
        settings = {m: method_setup(config, m, self.cells[0], place.plugins) for m in config.methods}
        self.children = {m: MethodProcess(s, config.call_limits) for m, s in settings.items() if s in usable}
        self.methods = {m: registry.build(m, place.plugins) for m in self.children}
        self.spent: defaultdict[tuple[str, str], float] = defaultdict(float)
        self.ended = threading.Event()
        self.drawing = threading.Lock()  # data sets are read by one thread at a time
        self.warm: set[tuple[str, int, str]] = set()
        self.warm_up_s: defaultdict[tuple[str, str], float] = defaultdict(float)

    def run(self) -> None:
        """Time what is not yet in the record."""
        done = {phase: self.record.done(phase) for phase in ("timing", "batch")}
        todo = [t for t in self._turns() if (t.method, t.keys[-1].id, t.number) not in done[t.phase]]
        looks = {0, len(todo) // 2, len(todo) - 1}
        sentinel: list[float] = []
        starters = ThreadPoolExecutor(self.place.jobs)
        try:
            # None starts while another is timed. Linux ends a process with the thread that started it: those stay.
            firsts = self._firsts(todo)
            with (
                interrupt.on_interrupt(lambda: None),
                ProgressBar(self.place.console, "warming up", len(firsts)) as meter,
            ):
                begun = {starters.submit(self._start, turns): method for method, turns in firsts.items()}
                for one in as_completed(begun):  # all of them, stopped or not, before the processes are closed
                    meter.step(1, begun[one])
            for one in begun:
                one.result()
            with ProgressBar(self.place.console, "timing", len(todo)) as meter:
                for number, turn in enumerate(todo):
                    sentinel += [sentinel_ms()] if number in looks else []
                    kind = registry.kind_of(self.methods[turn.method])
                    self.record.add_outcomes(self._time(turn), kind, turn.cell.columns)
                    meter.step(1, f"{turn.method} at {turn.cell.points} points")
        finally:
            self.ended.set()
            starters.shutdown(cancel_futures=True)
            for child in self.children.values():
                child.close()
        if sentinel:
            self.record.put("sentinel_ms", sentinel)
            self.record.put("warm_up_s", (self.record.get("warm_up_s") or 0.0) + sum(self.warm_up_s.values()))

    def _make_cells(self) -> list[ProblemGroup]:
        """The run's first data set and its second condition (noisy, by default), at every point count."""
        name = self.config.datasets[0]
        dataset = pool_worker.open_dataset(name, self.place.data, self.place.plugins)
        text = conditions_for(self.config.conditions, dataset)[:2][-1]
        cells = (make_group(self.config, dataset, name, text, n) for n in self.config.timing_points)
        return list({c.name: c for c in cells}.values())

    def _turns(self) -> Iterator[TimedCall]:
        """Round by round, every method at every size: first one pair at a time, then batches, by those that take them."""
        rounds = range(self.config.timing_rounds)
        for number in rounds:
            for cell in self.cells:
                key = self._key(cell, number)
                yield from (TimedCall(method, number, cell, (key,)) for method in self.children)
        batched = [m for m, made in self.methods.items() if registry.is_batched(made)]
        for number in rounds:
            for cell in self.cells:
                keys = self._batch(cell)
                yield from (TimedCall(method, number, cell, keys) for method in batched if len(keys) > 1)

    def _key(self, cell: ProblemGroup, number: int) -> ProblemKey:
        """The problem of a round, posed by an angle of the round's bin; real pairs are posed as they are."""
        if condition(cell.condition).real:
            return cell.keys[number % len(cell.keys)]
        c = self.config
        bins = list(zip(c.angles, c.angles[1:], strict=False))
        return ProblemKey(*cell.columns, number, c.seed, "test", c.sampler, bins[number % len(bins)])

    def _batch(self, cell: ProblemGroup) -> tuple[ProblemKey, ...]:
        """The pairs of a batch, the same in every round, of angles of all bins; real pairs as many as there are."""
        if condition(cell.condition).real:
            return cell.keys[:BATCH_SIZE]
        c = self.config
        bounds = (c.angles[0], c.angles[-1])
        return tuple(ProblemKey(*cell.columns, i, c.seed, "test", c.sampler, bounds) for i in range(BATCH_SIZE))

    def _firsts(self, turns: list[TimedCall]) -> dict[str, list[TimedCall]]:
        """For every method its first turn of each kind and size, which are what has to be warmed up."""
        firsts: defaultdict[str, dict[tuple[str, int], TimedCall]] = defaultdict(dict)
        for turn in turns:
            if not turn.cell.skip:
                firsts[turn.method].setdefault((turn.phase, turn.cell.points), turn)
        return {method: list(some.values()) for method, some in firsts.items()}

    def _start(self, turns: list[TimedCall]) -> None:
        """Start a method's process and warm it up, while others do; no longer than it may be timed."""
        with contextlib.suppress(interrupt.Interrupted):
            for turn in turns:
                if not self._is_spent(self.warm_up_s, turn):
                    self._warm_up(turn, self._drawn(turn))

    def _warm_up(self, turn: TimedCall, problems: list[Problem]) -> None:
        """A call that is not recorded; a method's first at a size takes longer. Starting the process does not count."""
        self.children[turn.method].start()
        start = time.monotonic()
        pool_worker.solve_problems(self.children[turn.method], problems, turn.phase, turn.number)
        self.warm_up_s[turn.method, turn.phase] += time.monotonic() - start
        self.warm.add((turn.method, turn.cell.points, turn.phase))

    def _is_spent(self, spent: Mapping[tuple[str, str], float], turn: TimedCall) -> bool:
        return spent[turn.method, turn.phase] > self.config.timing_budget_s

    def _drawn(self, turn: TimedCall) -> list[Problem]:
        """The problems of a turn.

        Raises:
            Stopped: nobody waits for them any more.
        """
        drawn = []
        for key in turn.keys:
            with self.drawing:
                if interrupt.requested() or self.ended.is_set():
                    raise interrupt.Interrupted
                drawn.append(pool_worker.generate_problem(key, self.place.data, self.place.plugins))
        return drawn

    def _time(self, turn: TimedCall) -> list[Outcome]:
        """A timed call, or the reason why there is none."""
        is_warm = (turn.method, turn.cell.points, turn.phase) in self.warm
        reason = turn.cell.skip
        if self._is_spent(self.spent, turn) or (not is_warm and self._is_spent(self.warm_up_s, turn)):
            reason = f"the timing budget of {self.config.timing_budget_s:g} s a method is spent"
        if reason:
            of = turn.method, turn.phase, turn.number
            return [Outcome(of[0], k.id, "skipped", *of[1:], k.seed, message=reason) for k in turn.keys]
        problems = self._drawn(turn)
        self.record.add_problems(problems)
        if not is_warm:
            self._warm_up(turn, problems)
        start = time.monotonic()
        outcomes = pool_worker.solve_problems(self.children[turn.method], problems, turn.phase, turn.number)
        self.spent[turn.method, turn.phase] += time.monotonic() - start
        return outcomes


def sentinel_ms() -> float:
    """Median time in ms of the same work on one thread, whatever is benchmarked: tells whether the machine kept its pace."""
    work = rng("sentinel").random(100_000)
    times = []
    for _ in range(7):
        start = time.perf_counter()
        np.sort(work)
        times.append(1e3 * (time.perf_counter() - start))
    return float(np.median(times))
