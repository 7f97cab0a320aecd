"""Timing phase: one method process works at a time, methods interleaved round by round, after all have warmed up together."""

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
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import MethodSetup
from bench.planning.config import RunConfig
from bench.planning.tasks import ProblemGroup, conditions_for, make_group, method_setup
from bench.storage.database import ResultsDatabase
from bench.storage.outcome import Outcome, Phase, Status
from common.devices import is_gpu
from common.keys import rng
from datasets.problems import Problem, ProblemKey
from methods.core.registry import MethodSpec

BATCH_SIZE = 32
"""Pairs of a call that measures throughput."""


@dataclass(frozen=True)
class TimedCall:
    """A timed call: one pair for the latency, or several at once for the throughput, which is another number."""

    method: MethodSpec
    round: int
    group: ProblemGroup
    keys: tuple[ProblemKey, ...]

    @property
    def phase(self) -> Phase:
        """The phase it is stored under."""
        return Phase.TIMING if len(self.keys) == 1 else Phase.BATCH


class TimingPhase:
    """The timing phase of a run. Round r takes its angle from bin r; every method gets the same problem in a round."""

    def __init__(
        self, database: ResultsDatabase, config: RunConfig, usable: set[MethodSetup], context: RunContext
    ) -> None:
        self.database, self.config, self.context = database, config, context
        self.groups = self._make_groups()
        setups = {method: method_setup(config, method, self.groups[0]) for method in config.methods}
        self.processes = {m: MethodProcess(s, config.call_limits) for m, s in setups.items() if s in usable}
        self.spent_s: defaultdict[tuple[MethodSpec, Phase], float] = defaultdict(float)
        self.warm_up_s: defaultdict[tuple[MethodSpec, Phase], float] = defaultdict(float)
        self.warm: set[tuple[MethodSpec, int, Phase]] = set()
        self.ended = threading.Event()
        self.generator_lock = threading.Lock()  # data sets are read by one thread at a time

    def run(self) -> None:
        """Time what is not yet in the database."""
        done = {phase: self.database.finished_keys(phase) for phase in (Phase.TIMING, Phase.BATCH)}
        calls = [c for c in self._calls() if (c.method.text, c.keys[-1].id, c.round) not in done[c.phase]]
        starters = ThreadPoolExecutor(self.context.jobs)
        try:
            self._start_all(calls, starters)
            sentinel = self._time_all(calls)
        finally:
            self.ended.set()
            starters.shutdown(cancel_futures=True)
            for process in self.processes.values():
                process.close()
        if sentinel:
            self.database.put("sentinel_ms", sentinel)
            seconds = (self.database.get("warm_up_s") or 0.0) + sum(self.warm_up_s.values())
            self.database.put("warm_up_s", seconds)

    def _start_all(self, calls: list[TimedCall], starters: ThreadPoolExecutor) -> None:
        """Start and warm up all methods. None starts while another is timed.

        Linux ends a process with the thread that started it, so the threads of `starters` must outlive the phase.
        """
        first_calls = self._first_calls(calls)
        bar = ProgressBar(self.context.console, "warming up", len(first_calls))
        with interrupt.on_interrupt(lambda: None), bar:
            futures = {starters.submit(self._start, calls): method for method, calls in first_calls.items()}
            for future in as_completed(futures):  # all of them, interrupted or not, before the processes are closed
                bar.advance(1, futures[future].text)
        for future in futures:
            future.result()

    def _time_all(self, calls: list[TimedCall]) -> list[float]:
        """Make and store the timed calls; return the times (ms) of the sentinel at the start, middle and end."""
        sentinel: list[float] = []
        with ProgressBar(self.context.console, "timing", len(calls)) as bar:
            for number, call in enumerate(calls):
                if number in (0, len(calls) // 2, len(calls) - 1):
                    sentinel.append(sentinel_ms())
                self.database.add_outcomes(self._time(call), call.method.kind, call.group.columns)
                bar.advance(1, f"{call.method} at {call.group.points} points")
        return sentinel

    def _make_groups(self) -> list[ProblemGroup]:
        """Return the run's first data set with its second condition (noisy, by default), at every point count."""
        dataset = self.config.datasets[0]
        condition = conditions_for(self.config.conditions, dataset)[:2][-1]
        groups = (make_group(self.config, dataset, condition, points) for points in self.config.timing_points)
        return list({group.name: group for group in groups}.values())

    def _calls(self) -> Iterator[TimedCall]:
        """Yield round by round every method at every size: first one pair at a time, then batches where supported."""
        rounds = range(self.config.timing_rounds)
        for number in rounds:
            for group in self.groups:
                key = self._key(group, number)
                yield from (TimedCall(method, number, group, (key,)) for method in self.processes)
        batched = [method for method in self.processes if method.solves_batches]
        for number in rounds:
            for group in self.groups:
                keys = self._batch(group)
                yield from (TimedCall(method, number, group, keys) for method in batched if len(keys) > 1)

    def _key(self, group: ProblemGroup, number: int) -> ProblemKey:
        """Return the problem of a round, with an angle of the round's bin; real pairs keep their poses."""
        if group.is_real:
            return group.keys[number % len(group.keys)]
        config = self.config
        bins = list(zip(config.angles, config.angles[1:], strict=False))
        return ProblemKey(*group.columns, number, config.seed, "test", config.sampler, bins[number % len(bins)])

    def _batch(self, group: ProblemGroup) -> tuple[ProblemKey, ...]:
        """Return the problems of a batch, the same in every round, with angles of all bins; at most all real pairs."""
        if group.is_real:
            return group.keys[:BATCH_SIZE]
        config = self.config
        bounds = (config.angles[0], config.angles[-1])
        return tuple(
            ProblemKey(*group.columns, i, config.seed, "test", config.sampler, bounds) for i in range(BATCH_SIZE)
        )

    def _first_calls(self, calls: list[TimedCall]) -> dict[MethodSpec, list[TimedCall]]:
        """Return every method's first call of each phase and size, which need a warm-up."""
        first: defaultdict[MethodSpec, dict[tuple[Phase, int], TimedCall]] = defaultdict(dict)
        for call in calls:
            if not call.group.skip:
                first[call.method].setdefault((call.phase, call.group.points), call)
        return {method: list(by_size.values()) for method, by_size in first.items()}

    def _start(self, calls: list[TimedCall]) -> None:
        """Start a method's process and warm it up within its budget, while others do the same."""
        with contextlib.suppress(interrupt.Interrupted):
            for call in calls:
                if not self._is_spent(self.warm_up_s, call):
                    self._warm_up(call, self._problems(call))

    def _warm_up(self, call: TimedCall, problems: list[Problem]) -> None:
        """Make a call that is not stored: the first at a size takes longer. Starting the process does not count."""
        self.processes[call.method].start()
        start = time.monotonic()
        pool_worker.solve_problems(self.processes[call.method], problems, call.phase, call.round)
        self.warm_up_s[call.method, call.phase] += time.monotonic() - start
        self.warm.add((call.method, call.group.points, call.phase))

    def _is_spent(self, seconds: Mapping[tuple[MethodSpec, Phase], float], call: TimedCall) -> bool:
        return seconds[call.method, call.phase] > self.config.timing_budget_s

    def _problems(self, call: TimedCall) -> list[Problem]:
        """Generate the problems of a call.

        Raises:
            Interrupted: they are no longer needed.
        """
        problems = []
        for key in call.keys:
            with self.generator_lock:
                if interrupt.requested() or self.ended.is_set():
                    raise interrupt.Interrupted
                problems.append(call.group.problem(key))
        return problems

    def _time(self, call: TimedCall) -> list[Outcome]:
        """Make a timed call and return its outcomes, or skipped ones with the reason."""
        is_warm = (call.method, call.group.points, call.phase) in self.warm
        reason = call.group.skip
        if self._is_spent(self.spent_s, call) or (not is_warm and self._is_spent(self.warm_up_s, call)):
            reason = f"the timing budget of {self.config.timing_budget_s:g} s a method is spent"
        if reason:
            place = Status.SKIPPED, call.phase, call.round
            return [Outcome(call.method.text, key.id, *place, key.seed, message=reason) for key in call.keys]
        problems = self._problems(call)
        self.database.add_problems(problems)
        if not is_warm:
            self._warm_up(call, problems)
        process = self.processes[call.method]
        start = time.monotonic()
        if is_gpu(process.setup.device):  # its clocks fall while other methods are timed; a call before raises them
            pool_worker.solve_problems(process, problems, call.phase, call.round)
        outcomes = pool_worker.solve_problems(process, problems, call.phase, call.round)
        self.spent_s[call.method, call.phase] += time.monotonic() - start
        return outcomes


def sentinel_ms() -> float:
    """Return the median time in ms of fixed work on one thread, which shows whether the machine kept its speed."""
    work = rng("sentinel").random(100_000)
    times = []
    for _ in range(7):
        start = time.perf_counter()
        np.sort(work)
        times.append(1e3 * (time.perf_counter() - start))
    return float(np.median(times))
