"""Solve a sample of a run's problems again, and compare the poses with the stored ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.evaluation.loader import POSE_COLUMNS, RunData
from bench.isolation.process import MethodProcess
from bench.isolation.protocol import Limits, MethodSetup, Reply
from bench.planning.tasks import domain_of
from bench.report.replay import ProblemReplay
from bench.storage.environment import environment
from bench.storage.outcome import Status
from bench.storage.pose import pose_fault, translation_fault
from common.devices import CPU, identity, is_gpu, resolve
from common.errors import InputError
from common.kinds import DataKind
from datasets.conditions import condition
from datasets.problems import Problem, call_seed
from methods.core.registry import MethodSpec

if TYPE_CHECKING:
    import pandas as pd

TOLERANCE = 1e-6
"""Largest difference of an element of a pose that counts as equal: libraries may add in another order."""
REPEATABLE = (Status.OK, Status.NO_SOLUTION, Status.INVALID)
"""Endings of a call that do not depend on the machine's speed or memory."""


@dataclass
class SolvedAgain:
    """Comparison of a sample of outcomes with their repetition.

    Attributes:
        faults: outcomes that differ, on a machine like that of the run.
        reasons: methods with outcomes that were not solved again or cannot be judged, and why; "" for all methods.
        solved, equal, candidates: outcomes solved again, those of them that are equal, and all that could be solved.
    """

    faults: list[str] = field(default_factory=list)
    reasons: list[tuple[str, str]] = field(default_factory=list)
    solved: int = 0
    equal: int = 0
    candidates: int = 0

    @property
    def summary(self) -> str:
        """One line about the comparison."""
        return f"{self.equal} of {self.solved} outcomes are equal, of {self.candidates} that could be solved again"


@dataclass
class SolveAgain:
    """Solve outcomes of a run again, each method for an equal share of a time budget.

    Args:
        loaded: content of the run's database.
        replay: generates the problems.
        code: hashes of the source files by method, as stored when the run began.
        budget_s: total time in seconds.
        seed: of the choice of outcomes; None for an unpredictable one.
    """

    loaded: RunData
    replay: ProblemReplay
    code: dict[str, Any]
    budget_s: float
    seed: int | None

    def result(self) -> SolvedAgain:
        """Solve a sample of every method that is as it was in the run."""
        result = SolvedAgain()
        if self.budget_s <= 0:
            result.reasons.append(("", "no time was given for it"))
            return result
        methods = [str(m) for m in self.loaded.run["methods"]]
        rows = self._repeatable()
        for number, name in enumerate(methods):
            own = rows[rows["method"] == name]
            spec, reason = self._method(name) if len(own) else (None, "no outcome is independent of time and memory")
            if spec is None:
                result.reasons += [(name, reason)] if name not in self.loaded.run["unavailable"] else []
                continue
            result.candidates += len(own)
            before = result.solved
            self._solve(spec, own, self.budget_s / len(methods), number, result)
            if result.solved == before:
                result.reasons.append((name, "data missing"))
        return result

    def _repeatable(self) -> pd.DataFrame:
        """Return the outcomes of the accuracy phase that depend on nothing but clouds and seed."""
        table = self.loaded.outcomes
        kept = (table["phase"] == "accuracy") & table["status"].isin(REPEATABLE) & (table["batch"] == 1)
        return table[kept.to_numpy()].astype({"method": str, "problem": str, "status": str})

    def _method(self, name: str) -> tuple[MethodSpec | None, str]:
        """Return a method that is available here, or None and the reason."""
        try:
            spec = self.replay.catalog.methods.spec(name)
        except InputError as error:
            return None, str(error)
        return (None, reason) if (reason := spec.unavailable()) else (spec, "")

    def _solve(self, spec: MethodSpec, rows: pd.DataFrame, budget_s: float, number: int, result: SolvedAgain) -> None:
        """Solve outcomes of a method in random order until its time is used up, but at least one."""
        order = np.random.default_rng(None if self.seed is None else [self.seed, number]).permutation(len(rows))
        config, begin = self.loaded.run["config"], time.monotonic()
        limits = Limits(config["timeout"], config["memory_limit_gb"])
        process: MethodProcess | None = None
        try:
            for row in order:
                stored = rows.iloc[int(row)]
                problem = self.replay.problem(stored["problem"])
                if problem is None:
                    continue
                setup = self._setup(spec, problem)
                process = process or MethodProcess(setup, limits)
                if process.setup != setup or process.process is None:
                    ready = process.set_up(setup)
                    result.faults += self._weight_faults(setup, ready)
                    begin = max(begin, time.monotonic() - budget_s)  # the time of a setup does not count alone
                reply = process.register(
                    problem.source, problem.target, call_seed(problem, spec.text, int(stored["repeat"]))
                )
                self._compare(spec, stored, problem, reply, result)
                if time.monotonic() - begin > budget_s:
                    return
        finally:
            if process is not None:
                process.close()

    def _setup(self, spec: MethodSpec, problem: Problem) -> MethodSetup:
        """Return how the run set a method up for a problem."""
        config, key = self.loaded.run["config"], problem.key
        dataset = self.replay.opened(key.dataset)
        domain = domain_of(dataset, condition(key.condition))
        kind = DataKind(config.get("kind") or dataset.kind)
        device = self._device() if is_gpu(spec.device_on(config["device"])) else CPU
        return MethodSetup(spec, domain, device, config["threads"], key.seed, kind)

    def _device(self) -> str:
        """Return the device of the run if it can be used here, else the CPU."""
        try:
            return resolve(self.loaded.run["config"]["device"])
        except InputError:
            return CPU

    def _weight_faults(self, setup: MethodSetup, ready: Reply) -> Iterator[str]:
        """Yield a fault if the weights that a method loads here are others than those of the run."""
        setups = self.loaded.run.get("setup", {})
        claimed = setups.get(f"{setup.method} on {setup.domain}", {})
        for name in ready.notes.keys() | claimed.keys() if setups else ():
            if name.split()[-1] == "sha256" and claimed.get(name) != ready.notes.get(name):
                loaded, other = (str(facts.get(name, "none"))[:12] for facts in (ready.notes, claimed))
                yield f"{setup.method}: its weights have the SHA-256 {loaded} here, the run claims {other}"

    def _compare(
        self, spec: MethodSpec, stored: pd.Series[Any], problem: Problem, reply: Reply, result: SolvedAgain
    ) -> None:
        """Compare an outcome with its repetition."""
        result.solved += 1
        status, pose = pose_of(reply, problem)
        old: NDArray[np.float64] = stored[POSE_COLUMNS].to_numpy(dtype=np.float64).reshape(4, 4)
        equal = status == stored["status"] and (pose is None or bool(np.abs(pose - old).max() <= TOLERANCE))
        result.equal += equal
        if equal:
            return
        ending = "another pose" if status == stored["status"] else f"{status}, not {stored['status']}"
        line = f"{spec} on {stored['problem']}: gives {ending}"
        if why := self._other_conditions(spec):
            result.reasons.append((spec.text, f"{line}, {why}"))
        else:
            result.faults.append(line)

    def _other_conditions(self, spec: MethodSpec) -> str:
        """Return why a method may give another pose here than in the run; empty if it may not."""
        here, there = environment(), self.loaded.run["environment"]
        if self.code.get(spec.text) != spec.source_hashes():
            return "with another version of its code"
        names = [name for name in ("cpu", "packages") if here[name] != there.get(name)]
        on_gpu = is_gpu(spec.device_on(self.loaded.run["config"]["device"]))
        names += ["gpu"] * (on_gpu and identity(self._device()) != there.get("gpu"))
        return f"with another {' and other '.join(names)}" if names else ""


def pose_of(reply: Reply, problem: Problem) -> tuple[Status, NDArray[np.float64] | None]:
    """Return status and pose (4, 4) of the reply to a call with one problem, `invalid` as in a run (`bench.storage.pose`)."""
    if reply.status != Status.OK or len(reply.pairs) != 1:
        return reply.status, None
    pair = reply.pairs[0]
    if pair.status != Status.OK:
        return pair.status, None
    if pose_fault(pair.pose) or translation_fault(pair.pose, problem.source, problem.target):
        return Status.INVALID, None
    return Status.OK, np.asarray(pair.pose, dtype=np.float64)
